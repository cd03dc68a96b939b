//! Writes `[control]` and `[[sessions]]`.

use base::Time;

use super::flow::sizes;
use super::{Pair, list, node_name, quantity, table, text};
use crate::fields::{CONTROL, EACH, SESSIONS};
use crate::plan::{Control, Drawing, Plan, Population, Session};

/// The keys and values of `[control]`; the seed is the lab's.
pub(super) fn control(plan: &Plan, control: &Control) -> Vec<Pair> {
    let access = control.access.iter().map(|node| text(node_name(plan, *node)));
    vec![
        CONTROL.protocol.pair(control.protocol),
        CONTROL.share.pair(control.settings.share),
        CONTROL.packet.pair(control.settings.packet),
        CONTROL.pause.pair(control.settings.pause),
        CONTROL.loss.pair(control.loss),
        ("access", list(access)),
    ]
}

/// For each node, whether a session generator has generated it.
pub(super) fn brought(plan: &Plan) -> Vec<bool> {
    let mut brought = vec![false; plan.nodes.len()];
    let drawn = plan.sessions.iter().filter(|population| population.drawing.is_some());
    for session in drawn.flat_map(|population| &population.sessions) {
        brought[session.from.index()] = true;
        brought[session.to.index()] = true;
    }
    brought
}

/// A session generator: its rules, or its listed sessions.
pub(super) fn population(plan: &Plan, population: &Population) -> Vec<Pair> {
    let mut pairs = vec![("name", text(&population.name)), SESSIONS.packet.pair(population.packet)];
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
        SESSIONS.count.pair(drawing.count),
        ("routers", list(routers)),
        SESSIONS.hosts.pair(drawing.hosts),
        SESSIONS.host_rate.pair(drawing.host_rate),
        SESSIONS.host_delay.pair(drawing.host_delay),
        ("start", moments(drawing.start)),
    ];
    if let Some(leave) = drawing.leave {
        pairs.push(("leave", moments(leave)));
        pairs.push(SESSIONS.leave_count.pair(drawing.leave_count));
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
    pairs.extend(session.size.map(|size| EACH.size.pair(size)));
    pairs.extend(session.demand.map(|demand| EACH.demand.pair(demand)));
    table(&pairs)
}
