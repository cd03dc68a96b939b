//! Messages and delay of the agreement on rates, on the virtual clock.

use lab::plan::Plan;
use placement::agreement_cost::{DEFAULT_DURATION, LAN, Load, Scene, cost, delays};
use serde_json::{Value, json};
use sharing::{SharingPolicy, Window};

use crate::args::measure::{Agreement, Sharing};
use crate::terminal::Terminal;
use crate::{Failure, files, set};

const SEED: u64 = 1;

pub(crate) fn measure_agreement(args: &Agreement, terminal: &Terminal) -> Result<Value, Failure> {
    let lab = files::load(&args.changes, terminal)?;
    let plan: &Plan = set::only_plan(&lab, "measure")?;
    let sharing = match args.sharing {
        Sharing::RttMaxMin => sharing::Sharing::RttMaxMin,
        Sharing::Slbn => sharing::Sharing::Slbn,
    };
    let policy = SharingPolicy { sharing, window: Window::Off };
    let scene = Scene::new(plan);
    let load = Load {
        agents: args.agents.get(),
        flows: args.flows,
        changes: if args.delays { 0 } else { args.flow_changes },
        time: DEFAULT_DURATION,
        seed: SEED,
        measures_shares: false,
    };
    if args.delays {
        let found = delays(&scene, policy, LAN, &load, args.flow_changes as usize);
        let nanos: Vec<u64> = found.iter().map(|delay| delay.as_nanos()).collect();
        return Ok(json!({ "delays_ns": nanos }));
    }
    let (messages, bytes) = cost(&scene, policy, LAN, &load).per_agent(&load);
    Ok(json!({ "messages_per_s": messages, "bytes_per_s": bytes }))
}
