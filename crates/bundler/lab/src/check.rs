//! Checks labs with bundles.

use base::IfaceId;
use bundler::encapsulation;
use lab::plan::{Marking, Model, Plan, Routing};
use lab::routes::Routes;

use crate::Error;

/// Checks that the drivers can host the gateways of a plan.
pub(crate) fn plan(plan: &Plan) -> Result<(), Error> {
    let Some(first) = plan.bundles.first() else { return Ok(()) };
    if plan.model != Model::Hop {
        return Err(Error::Model { bundle: first.name.clone() });
    }
    if plan.routing == Routing::None {
        return Err(Error::Routing { bundle: first.name.clone() });
    }
    mtus(plan)
}

/// Checks that packets at the sendboxes of encapsulated bundles fit their paths.
fn mtus(plan: &Plan) -> Result<(), Error> {
    let encapsulated = |bundle: &&lab::plan::Bundle| bundle.marking == Marking::Encapsulation;
    let mut bundles = plan.bundles.iter().filter(encapsulated).peekable();
    if bundles.peek().is_none() {
        return Ok(());
    }
    let mtu = |iface: IfaceId| {
        let link = &plan.links[iface.index() / 2];
        let mtu = link.directions[iface.index() % 2].mtu.count();
        if mtu == 0 { u64::MAX } else { mtu }
    };
    // Links that are initially down may come up.
    let routes = Routes::compute(plan, &vec![true; plan.links.len()]);
    for bundle in bundles {
        let (from, to) = (&plan.nodes[bundle.from.index()], &plan.nodes[bundle.to.index()]);
        let mut paths =
            to.ifaces.iter().filter_map(|to| routes.path(bundle.from, *to, |_, ways| ways[0]));
        let Some(hops) = paths.next() else { continue };
        let path = hops.iter().map(|hop| mtu(*hop)).min().unwrap_or(u64::MAX);
        let overhead = u64::from(encapsulation::ADDED_BYTES);
        let room = path.saturating_sub(overhead);
        let leads_there = |iface: &IfaceId| {
            to.ifaces.iter().any(|to| routes.next(bundle.from, *to).contains(iface))
        };
        let mut inbound = from.ifaces.iter().filter(|iface| !leads_there(iface));
        if let Some(iface) = inbound.find(|iface| mtu(IfaceId(iface.0 ^ 1)) > room) {
            return Err(Error::Mtu {
                bundle: bundle.name.clone(),
                link: plan.links[iface.index() / 2].name.clone(),
                mtu: mtu(IfaceId(iface.0 ^ 1)),
                path,
                overhead,
                room,
            });
        }
    }
    Ok(())
}
