//! The lab's events: those that change the network go to the data path ahead of their time.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{LinkId, NodeId, Span, Time};
use lab::plan::{Action, Event, Plan, Routing};
use lab::routes::Routes;

use crate::datapath::{Change, What};

/// How far ahead changes are handed over: long enough that computing routes is never late.
const AHEAD: Span = Span::from_millis(1_500);

/// Events that are still to come.
pub(super) struct Schedule {
    plan: Arc<Plan>,
    /// Not yet handed to the data path.
    network: VecDeque<Event>,
    /// Not yet due, network or not.
    due: VecDeque<Event>,
    /// Links in service, as of the last change handed over.
    link_up: Vec<bool>,
    /// Nodes in service, likewise.
    node_up: Vec<bool>,
}

impl Schedule {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let network = plan.events.iter().filter(|event| is_network(&event.action)).cloned();
        Self {
            network: network.collect(),
            due: plan.events.iter().cloned().collect(),
            link_up: plan.links.iter().map(|link| link.up).collect(),
            node_up: vec![true; plan.nodes.len()],
            plan,
        }
    }

    /// Changes of the network that come soon.
    pub(super) fn changes(&mut self, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        while self.network.front().is_some_and(|event| event.at <= now + AHEAD) {
            let Some(event) = self.network.pop_front() else { break };
            changes.extend(self.change(event));
        }
        changes
    }

    /// Events whose time has come.
    pub(super) fn due(&mut self, now: Time) -> Vec<Event> {
        let ready = self.due.iter().take_while(|event| event.at <= now).count();
        self.due.drain(..ready).collect()
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|event| event.at)
    }

    fn change(&mut self, event: Event) -> Option<Change> {
        let at = event.at;
        let (links, up) = match event.action {
            Action::Set { link, direction, config } => {
                return Some(Change { at, what: What::Configure(link, direction, config) });
            }
            Action::LinkDown(link) => (vec![link], false),
            Action::LinkUp(link) => (vec![link], true),
            Action::NodeDown(node) => {
                self.node_up[node.index()] = false;
                (self.links_of(node), false)
            }
            Action::NodeUp(node) => {
                self.node_up[node.index()] = true;
                (self.links_of(node), true)
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
            let routes = Routes::compute(&self.plan, &in_service);
            Box::new(routes) as Box<dyn fabric::Forwarding + Send>
        });
        Some(Change { at, what: What::Service { links, up, forwarding } })
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
    use crate::sample;

    fn event(millis: u64, action: Action) -> Event {
        Event { at: Time::ZERO + Span::from_millis(millis), action, text: String::new() }
    }

    #[test]
    fn network_changes_go_ahead_and_all_events_come_due_in_time() {
        let mut plan = sample::star(3);
        plan.events = vec![
            event(100, Action::LinkDown(LinkId(1))),
            event(2_000, Action::LinkUp(LinkId(1))),
            event(2_100, Action::NodeDown(NodeId(0))),
        ];
        let mut schedule = Schedule::new(Arc::new(plan));
        let first = schedule.changes(Time::ZERO);
        assert_eq!(first.len(), 1, "only what comes within the lead time");
        assert!(matches!(&first[0].what, What::Service { links, up: false, forwarding: Some(_) }
            if links == &[LinkId(1)]));
        assert!(schedule.due(Time::ZERO).is_empty());
        let later = schedule.changes(Time::ZERO + Span::from_secs(2));
        assert_eq!(later.len(), 2);
        assert!(
            matches!(&later[1].what, What::Service { links, up: false, .. } if links.len() == 3)
        );
        assert_eq!(schedule.due(Time::ZERO + Span::from_secs(2)).len(), 2);
        assert_eq!(schedule.next(), Some(Time::ZERO + Span::from_millis(2_100)));
    }
}
