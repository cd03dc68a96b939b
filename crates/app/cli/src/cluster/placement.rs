//! `cluster plan` and `cluster manifest`: labs on clusters, without running them.

mod table;

use cluster_live::manifest::{self, Nodes};
use cluster_live::{coordinate, machines};
use lab::plan::Plan;
use placement::{Machine, Placement, Terms, place};

use super::{connect, failure};
use crate::args::cluster::placement as args;
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

/// Prints a Kubernetes manifest of a cluster and a lab.
pub(crate) fn manifest(args: &args::Manifest, terminal: &Terminal) -> Verdict {
    let lab = files::load_elsewhere(&args.changes, terminal)?;
    let [plan] = &lab.plans[..] else {
        return Err(Failure::usage(format!("this lab is a sweep of {} runs", lab.plans.len()))
            .help("a Kubernetes job runs one of them: choose it with --set"));
    };
    let nodes =
        args.agents.map_or_else(|| Nodes::Labelled(args.node_selector.clone()), Nodes::Count);
    let manifest = manifest::Manifest {
        name: args.prefix.clone(),
        namespace: args.namespace.clone(),
        image: args.image.clone(),
        nodes,
        agent_secret: args.agent_secret.clone(),
        coordinator_secret: args.coordinator_secret.clone(),
        apparmor: !args.no_apparmor,
        host_network: args.host_network,
        cpu: args.cpu.map(|cpu| cpu.to_string()),
        memory: args.memory.clone(),
        results: args.results.clone(),
        lab: lab::resolved(plan),
        arguments: args.arguments.clone(),
    };
    terminal.document(manifest.yaml().map_err(|e| failure(&e))?.trim_end())?;
    Ok(Exit::Ok)
}
