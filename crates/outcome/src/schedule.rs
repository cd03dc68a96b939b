//! The lab's events: what changes the network, and when.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Direction, LinkId, NodeId, Time};
use fabric::{Fabric, Forwarding, LinkConfig, NodeKind};
use lab::plan::{Action, Event, Plan, Routing};
use lab::routes::Routes;

/// A change of the network at a set time.
#[derive(Debug)]
pub struct Change {
    /// When it takes effect, to the nanosecond of logical time.
    pub at: Time,
    /// The position of its event in the plan.
    pub event: usize,
    /// What changes.
    pub what: What,
}

/// What changes.
#[derive(Debug)]
pub enum What {
    /// One direction of a link has these properties from now on.
    Configure(LinkId, Direction, Box<LinkConfig>),
    /// Links go out of service or come back, and routes with them.
    Service {
        /// The links.
        links: Vec<LinkId>,
        /// Whether they come back.
        up: bool,
        /// Routes from now on; `None`: as before.
        forwarding: Option<Box<Routes>>,
    },
}

impl Change {
    /// Makes the change at its time, before packets arrive at that time, see [`base::Rank`]. If the
    /// fabric is past that, at the next nanosecond. Returns the time at which it was made.
    pub fn apply<B: Clone + 'static>(self, fabric: &mut Fabric<B>) -> Time {
        let at = self.at.max(fabric.earliest_change());
        fabric.advance_before(at);
        match self.what {
            What::Configure(link, direction, config) => {
                // The lab checked it; what the fabric refuses anyway stays as it was.
                let _ = fabric.configure(at, link, direction, *config);
            }
            What::Service { links, up, forwarding } => {
                for link in links {
                    let _ = fabric.set_up(at, link, up);
                }
                if let Some(forwarding) = forwarding {
                    fabric.set_forwarding(forwarding);
                }
            }
        }
        at
    }
}

/// The plan's network with its mirror sessions, ready to run.
///
/// # Errors
/// If the fabric refuses the network.
pub fn fabric<B: Clone + 'static>(
    plan: &Plan,
    forwarding: Box<dyn Forwarding + Send>,
) -> Result<Fabric<B>, fabric::Error> {
    let mut network = plan.network();
    for end in plan.bundles.iter().flat_map(|bundle| [bundle.from, bundle.to]) {
        network.nodes[end.index()] = NodeKind::Middlebox;
    }
    let mut fabric = Fabric::try_new(&network, forwarding, plan.seed)?;
    for (mirror, id) in plan.mirrors.iter().zip(plan.mirror_ids()) {
        for direction in Direction::BOTH {
            if mirror.directions[direction.index()] {
                fabric.mirror(id, mirror.link, direction);
            }
        }
    }
    Ok(fabric)
}

/// Events that are still to come.
#[derive(Debug)]
pub struct Schedule {
    plan: Arc<Plan>,
    /// Changes of the network that have not been handed out, by position in the plan.
    network: VecDeque<usize>,
    /// Not yet due, network or not.
    due: VecDeque<Event>,
    /// Links in service, as of the last change handed out.
    link_up: Vec<bool>,
    /// Nodes in service, likewise.
    node_up: Vec<bool>,
}

impl Schedule {
    /// All events of the plan.
    pub fn new(plan: Arc<Plan>) -> Self {
        let events = plan.events.iter().enumerate();
        let network = events.filter(|(_, event)| is_network(&event.action)).map(|(at, _)| at);
        Self {
            network: network.collect(),
            due: plan.events.iter().cloned().collect(),
            link_up: plan.links.iter().map(|link| link.up).collect(),
            node_up: vec![true; plan.nodes.len()],
            plan,
        }
    }

    /// Changes of the network up to and including `until`.
    pub fn changes(&mut self, until: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        while self.next_change().is_some_and(|at| at <= until) {
            let Some(event) = self.network.pop_front() else { break };
            changes.extend(self.change(event));
        }
        changes
    }

    /// When the network next changes, as far as not handed out.
    pub fn next_change(&self) -> Option<Time> {
        self.network.front().map(|event| self.plan.events[*event].at)
    }

    /// The next change of the network, whenever it is.
    pub fn take_change(&mut self) -> Option<Change> {
        let event = self.network.pop_front()?;
        self.change(event)
    }

    /// Events whose time has come.
    pub fn due(&mut self, now: Time) -> Vec<Event> {
        let ready = self.due.iter().take_while(|event| event.at <= now).count();
        self.due.drain(..ready).collect()
    }

    /// When the next event is due.
    pub fn next(&self) -> Option<Time> {
        self.due.front().map(|event| event.at)
    }

    fn change(&mut self, position: usize) -> Option<Change> {
        let event = &self.plan.events[position];
        let at = event.at;
        let (links, up) = match &event.action {
            Action::Set { link, direction, config } => {
                let what = What::Configure(*link, *direction, config.clone());
                return Some(Change { at, event: position, what });
            }
            Action::LinkDown(link) => (vec![*link], false),
            Action::LinkUp(link) => (vec![*link], true),
            Action::NodeDown(node) => {
                self.node_up[node.index()] = false;
                (self.links_of(*node), false)
            }
            Action::NodeUp(node) => {
                self.node_up[node.index()] = true;
                (self.links_of(*node), true)
            }
            _ => return None,
        };
        for link in &links {
            self.link_up[link.index()] = up;
        }
        let serves = |link: &LinkId| {
            let ends = self.plan.links[link.index()].ends;
            !up || ends.iter().all(|end| self.node_up[end.index()])
        };
        let links = links.into_iter().filter(serves).collect();
        let forwarding = (self.plan.routing != Routing::None).then(|| {
            let in_service: Vec<bool> = self
                .plan
                .links
                .iter()
                .zip(&self.link_up)
                .map(|(link, up)| *up && link.ends.iter().all(|end| self.node_up[end.index()]))
                .collect();
            Box::new(Routes::compute(&self.plan, &in_service))
        });
        Some(Change { at, event: position, what: What::Service { links, up, forwarding } })
    }

    fn links_of(&self, node: NodeId) -> Vec<LinkId> {
        let ifaces = &self.plan.nodes[node.index()].ifaces;
        ifaces.iter().map(|iface| self.plan.ifaces[iface.index()].link).collect()
    }
}

fn is_network(action: &Action) -> bool {
    matches!(
        action,
        Action::Set { .. }
            | Action::LinkDown(_)
            | Action::LinkUp(_)
            | Action::NodeDown(_)
            | Action::NodeUp(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Span;

    fn event(millis: u64, action: Action) -> Event {
        Event { at: at(millis), action, text: String::new() }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn network_changes_go_ahead_and_all_events_come_due_in_time() {
        let mut plan = crate::tests::star();
        plan.events = vec![
            event(100, Action::LinkDown(LinkId(1))),
            event(2_000, Action::LinkUp(LinkId(1))),
            event(2_100, Action::NodeDown(NodeId(0))),
        ];
        let mut schedule = Schedule::new(Arc::new(plan));
        assert_eq!(schedule.next_change(), Some(at(100)));
        let first = schedule.changes(at(1_500));
        assert_eq!(first.len(), 1, "only what comes before the moment");
        assert!(matches!(&first[0].what, What::Service { links, up: false, forwarding: Some(_) }
            if links == &[LinkId(1)]));
        assert!(schedule.due(Time::ZERO).is_empty());
        let later = schedule.changes(at(3_500));
        assert_eq!(later.iter().map(|change| change.event).collect::<Vec<_>>(), [1, 2]);
        assert!(
            matches!(&later[1].what, What::Service { links, up: false, .. } if links.len() == 3)
        );
        assert_eq!(schedule.due(at(2_000)).len(), 2);
        assert_eq!(schedule.next(), Some(at(2_100)));
    }
}
