//! `[control]` and `[[sessions]]`, written out.

use base::Time;

use super::flow::sizes;
use super::{Pair, list, node_name, quantity, table, text};
use crate::plan::{Control, Drawing, Plan, Population, Session};

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

/// The nodes that drawn populations bring.
pub(super) fn brought(plan: &Plan) -> Vec<bool> {
    let mut brought = vec![false; plan.nodes.len()];
    let drawn = plan.sessions.iter().filter(|population| population.drawing.is_some());
    for session in drawn.flat_map(|population| &population.sessions) {
        brought[session.from.index()] = true;
        brought[session.to.index()] = true;
    }
    brought
}

/// A population: what it is drawn by, or its sessions one by one.
pub(super) fn population(plan: &Plan, population: &Population) -> Vec<Pair> {
    let mut pairs = vec![("name", text(&population.name)), ("packet", quantity(population.packet))];
    if let Some(drawing) = &population.drawing {
        pairs.extend(self::drawing(plan, drawing));
    } else {
        let each = population.sessions.iter().map(|session| self::session(plan, session));
        let each = each.collect::<Vec<_>>().join(",\n  ");
        pairs.push(("each", format!("[\n  {each},\n]")));
    }
    pairs
}

fn drawing(plan: &Plan, drawing: &Drawing) -> Vec<Pair> {
    let routers = drawing.routers.iter().map(|node| text(node_name(plan, *node)));
    let moments = |(first, last): (Time, Time)| list([quantity(first), quantity(last)]);
    let mut pairs = vec![
        ("count", drawing.count.to_string()),
        ("routers", list(routers)),
        ("hosts", drawing.hosts.to_string()),
        ("host_rate", quantity(drawing.host_rate)),
        ("host_delay", quantity(drawing.host_delay)),
        ("start", moments(drawing.start)),
    ];
    if let Some(leave) = drawing.leave {
        pairs.push(("leave", moments(leave)));
        pairs.push(("leave_count", drawing.leave_count.to_string()));
    }
    pairs.extend(drawing.size.as_ref().map(|size| ("size", sizes(size))));
    pairs.extend(
        drawing.demand.map(|(least, most)| ("demand", list([quantity(least), quantity(most)]))),
    );
    pairs
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
