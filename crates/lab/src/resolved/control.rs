//! `[control]` and `[[sessions]]`, written out.

use super::{Pair, list, node_name, quantity, table, text};
use crate::plan::{Control, Plan, Population, Session};

/// The keys and values of `[control]`; the seed is the lab's.
pub(super) fn control(plan: &Plan, control: &Control) -> Vec<Pair> {
    let access = control.access.iter().map(|node| text(node_name(plan, *node)));
    vec![
        ("protocol", text(control.protocol.name())),
        ("share", quantity(control.settings.share)),
        ("packet", quantity(control.settings.packet)),
        ("pause", quantity(control.settings.pause)),
        ("loss", quantity(control.loss)),
        ("access", list(access)),
    ]
}

/// A population with its sessions one by one: their hosts are nodes of the file.
pub(super) fn population(plan: &Plan, population: &Population) -> Vec<Pair> {
    let each = population.sessions.iter().map(|session| self::session(plan, session));
    vec![
        ("name", text(&population.name)),
        ("packet", quantity(population.packet)),
        ("each", format!("[\n  {},\n]", each.collect::<Vec<_>>().join(",\n  "))),
    ]
}

fn session(plan: &Plan, session: &Session) -> String {
    let mut pairs = vec![
        ("from", text(node_name(plan, session.from))),
        ("to", text(node_name(plan, session.to))),
        ("start", quantity(session.start)),
    ];
    pairs.extend(session.leave.map(|leave| ("leave", quantity(leave))));
    pairs.extend(session.size.map(|size| ("size", quantity(size))));
    pairs.extend(session.demand.map(|demand| ("demand", quantity(demand))));
    table(&pairs)
}
