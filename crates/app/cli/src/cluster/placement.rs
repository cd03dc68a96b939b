//! `cluster plan`: labs on clusters, without running them.

mod table;

use cluster_live::{coordinate, machines};
use lab::plan::Plan;
use placement::{Machine, Placement, Terms, place};

use super::{connect, failure};
use crate::args::cluster as args;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files};
use run::Exit;

/// Places a plan: returns the machines, the terms and the placement.
type Place = Box<dyn Fn(&Plan) -> Result<(Vec<Machine>, Terms, Placement), Failure>>;

/// Shows the placement of a lab without running it.
pub(crate) fn plan(args: &args::Plan, terminal: &Terminal) -> Verdict {
    let lab = files::load(&args.changes, terminal)?;
    let placed: Place = if let Some(file) = &args.offline {
        let machines = machines::of_file(file).map_err(|e| failure(&e))?;
        let terms = Terms { physical: args.between, overcommit: args.overcommit };
        Box::new(move |plan| {
            let placement = place(plan, &machines, &terms)
                .map_err(|refusal| Failure::caused(Exit::Usage, &refusal))?;
            Ok((machines.clone(), terms, placement))
        })
    } else {
        let (connection, overcommit) = (connect(&args.target)?, args.overcommit);
        Box::new(move |plan| {
            coordinate::place(&connection, plan, overcommit).map_err(|e| failure(&e))
        })
    };
    for plan in &lab.plans {
        let (machines, terms, placement) = placed(plan)?;
        if terminal.json {
            let mut value = placement::json(plan, &machines, &terms, &placement);
            value["schema"] = "netarium.placement/1".into();
            terminal.object(&value)?;
        } else {
            for (path, value) in &plan.sweep {
                terminal.data(format!("{path} = {value}"))?;
            }
            terminal.data(table::table(plan, &machines, &terms, &placement))?;
        }
    }
    Ok(Exit::Ok)
}
