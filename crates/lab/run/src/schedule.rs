//! The schedule of a lab's events.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use base::{Direction, LinkId, NodeId, Time};
use fabric::{Fabric, Forwarding, LinkConfig, NodeKind};
use lab::Diagnostics;
use lab::live::{LiveChanges, compile_changes};
use lab::plan::{Action, Event, Plan, Routing};
use lab::routes::Routes;

/// A change of the network at a set time.
#[derive(Debug)]
pub struct Change {
    /// Logical time at which it takes effect, to the nanosecond.
    pub at: Time,
    /// The position of its event in the plan; changes of a running lab have the next positions.
    pub event: usize,
    pub kind: ChangeKind,
}

#[derive(Debug)]
pub enum ChangeKind {
    /// Sets the properties of one direction of a link.
    Configure(LinkId, Direction, Box<LinkConfig>),
    /// Takes links down or brings them up, and updates the routes.
    LinkState {
        links: Vec<LinkId>,
        /// Whether the links come up.
        up: bool,
        /// The new routes; `None` keeps the old ones.
        forwarding: Option<Arc<Routes>>,
    },
}

impl Change {
    /// Applies the change at its time, before packets that arrive at that time. If the fabric has
    /// already passed that time, applies it at the next nanosecond. Returns the time of the change.
    pub fn apply<B: Clone + 'static>(self, fabric: &mut Fabric<B>) -> Time {
        let at = self.at.max(fabric.earliest_change());
        fabric.advance_before(at);
        match self.kind {
            ChangeKind::Configure(link, direction, config) => {
                // The lab compiler validated it; a change that the fabric rejects has no effect.
                let _ = fabric.configure(at, link, direction, *config);
            }
            ChangeKind::LinkState { links, up, forwarding } => {
                for link in links {
                    let _ = fabric.set_up(at, link, up);
                }
                if let Some(forwarding) = forwarding {
                    fabric.set_forwarding(Box::new(forwarding));
                }
            }
        }
        at
    }
}

/// The plan's network with its mirror sessions, ready to run.
///
/// # Errors
/// If the fabric rejects the network.
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

/// The events of a lab that have not taken effect yet.
#[derive(Debug)]
pub struct Schedule {
    plan: Arc<Plan>,
    /// Number of changes made while the lab runs.
    live_changes: usize,
    /// Properties of links after the last returned change: those of the plan, and those with live
    /// changes. Links without changes are omitted.
    planned: Configs,
    actual: Configs,
    /// Time of the last returned change.
    last_change: Time,
    /// Positions in the plan of network changes not yet returned.
    network: VecDeque<usize>,
    /// Events not yet due, of all kinds.
    due: VecDeque<Event>,
    /// Whether each link is up after the last returned change.
    link_up: Vec<bool>,
    /// Whether each node is up after the last returned change.
    node_up: Vec<bool>,
}

/// Properties of directions of links.
type Configs = BTreeMap<LinkId, [LinkConfig; 2]>;

impl Schedule {
    pub fn new(plan: Arc<Plan>) -> Self {
        let events = plan.events.iter().enumerate();
        let network = events.filter(|(_, event)| is_network(&event.action)).map(|(at, _)| at);
        Self {
            live_changes: 0,
            planned: Configs::new(),
            actual: Configs::new(),
            last_change: Time::ZERO,
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
            changes.extend(self.planned_change(event));
        }
        changes
    }

    /// The time of the next network change that has not been returned.
    pub fn next_change(&self) -> Option<Time> {
        self.network.front().map(|event| self.plan.events[*event].at)
    }

    /// Removes and returns the next network change, even if it is not due.
    pub fn pop_change(&mut self) -> Option<Change> {
        let event = self.network.pop_front()?;
        self.planned_change(event)
    }

    /// Compiles and applies changes of a lab that runs, as [`Self::compile`] and [`Self::apply`].
    ///
    /// # Errors
    /// If a field or a value is invalid; nothing changes.
    pub fn set(
        &mut self,
        now: Time,
        fields: &[(String, String)],
        base_dir: &Path,
    ) -> Result<(Vec<Change>, LiveChanges), Diagnostics> {
        let found = self.compile(now, fields, base_dir)?;
        Ok((self.apply(&found), found))
    }

    /// Compiles changes of links and programs of a lab that runs. They take effect at `now`, or
    /// together with the last change returned, if that is later. The caller has taken all changes
    /// up to `now`.
    ///
    /// # Errors
    /// If a field or a value is wrong.
    pub fn compile(
        &self,
        now: Time,
        fields: &[(String, String)],
        base_dir: &Path,
    ) -> Result<LiveChanges, Diagnostics> {
        let at = now.max(self.last_change);
        let current = |link| match self.actual.get(&link) {
            Some(config) => config.clone(),
            None => config_of(&self.planned, &self.plan, link),
        };
        compile_changes(&self.plan, &current, at, fields, base_dir)
    }

    /// The changes of the network among changes that have just been compiled.
    pub fn apply(&mut self, found: &LiveChanges) -> Vec<Change> {
        let mut changes = Vec::new();
        let events = found.changes.iter().map(|change| &change.event);
        for event in events.filter(|event| is_network(&event.action)) {
            let position = self.plan.events.len() + self.live_changes;
            self.live_changes += 1;
            changes.extend(self.change(position, event, Origin::Live));
        }
        changes
    }

    /// Removes and returns the events due by `now`.
    pub fn due(&mut self, now: Time) -> Vec<Event> {
        let count = self.due.iter().take_while(|event| event.at <= now).count();
        self.due.drain(..count).collect()
    }

    pub fn next(&self) -> Option<Time> {
        self.due.front().map(|event| event.at)
    }

    fn planned_change(&mut self, position: usize) -> Option<Change> {
        let plan = Arc::clone(&self.plan);
        self.change(position, &plan.events[position], Origin::Plan)
    }

    fn change(&mut self, position: usize, event: &Event, origin: Origin) -> Option<Change> {
        let at = event.at;
        self.last_change = at;
        let (links, up) = match &event.action {
            Action::Set { link, direction, config } => {
                let config = self.configure(*link, *direction, config, origin);
                let kind = ChangeKind::Configure(*link, *direction, Box::new(config));
                return Some(Change { at, event: position, kind });
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
        let is_in_service = |link: &LinkId| {
            let ends = self.plan.links[link.index()].ends;
            !up || ends.iter().all(|end| self.node_up[end.index()])
        };
        let links = links.into_iter().filter(is_in_service).collect();
        let forwarding = (self.plan.routing != Routing::None).then(|| {
            let in_service: Vec<bool> = self
                .plan
                .links
                .iter()
                .zip(&self.link_up)
                .map(|(link, up)| *up && link.ends.iter().all(|end| self.node_up[end.index()]))
                .collect();
            Arc::new(Routes::compute(&self.plan, &in_service))
        });
        Some(Change { at, event: position, kind: ChangeKind::LinkState { links, up, forwarding } })
    }

    /// The properties of a link after an event that sets them to `config`. An event of the plan
    /// keeps live changes of the properties that it does not change.
    fn configure(
        &mut self,
        link: LinkId,
        direction: Direction,
        config: &LinkConfig,
        origin: Origin,
    ) -> LinkConfig {
        let side = direction.index();
        if origin == Origin::Live {
            let planned = || config_of(&self.planned, &self.plan, link);
            let actual = self.actual.entry(link).or_insert_with(planned);
            actual[side].clone_from(config);
            return config.clone();
        }
        let first = || self.plan.links[link.index()].directions.clone();
        let planned = self.planned.entry(link).or_insert_with(first);
        let before = std::mem::replace(&mut planned[side], config.clone());
        match self.actual.get_mut(&link) {
            Some(actual) => {
                update(&mut actual[side], &before, config);
                actual[side].clone()
            }
            None => config.clone(),
        }
    }

    fn links_of(&self, node: NodeId) -> Vec<LinkId> {
        let ifaces = &self.plan.nodes[node.index()].ifaces;
        ifaces.iter().map(|iface| self.plan.ifaces[iface.index()].link).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Plan,
    Live,
}

fn config_of(configs: &Configs, plan: &Plan, link: LinkId) -> [LinkConfig; 2] {
    let first = || plan.links[link.index()].directions.clone();
    configs.get(&link).cloned().unwrap_or_else(first)
}

/// Sets the properties that differ between `before` and `after`.
fn update(config: &mut LinkConfig, before: &LinkConfig, after: &LinkConfig) {
    macro_rules! update {
        ($($field:ident)+) => {
            $(if before.$field != after.$field {
                config.$field.clone_from(&after.$field);
            })+
        };
    }
    update!(rate delay jitter loss reorder duplicate corrupt queue mtu);
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
    fn returns_network_changes_in_advance_and_events_when_due() {
        let mut plan = crate::tests::star();
        plan.events = vec![
            event(100, Action::LinkDown(LinkId(1))),
            event(2_000, Action::LinkUp(LinkId(1))),
            event(2_100, Action::NodeDown(NodeId(0))),
        ];
        let mut schedule = Schedule::new(Arc::new(plan));
        assert_eq!(schedule.next_change(), Some(at(100)));
        let first = schedule.changes(at(1_500));
        assert_eq!(first.len(), 1, "only the change before 1.5 s");
        assert!(
            matches!(&first[0].kind, ChangeKind::LinkState { links, up: false, forwarding: Some(_) }
            if links == &[LinkId(1)])
        );
        assert!(schedule.due(Time::ZERO).is_empty());
        let later = schedule.changes(at(3_500));
        assert_eq!(later.iter().map(|change| change.event).collect::<Vec<_>>(), [1, 2]);
        assert!(matches!(&later[1].kind, ChangeKind::LinkState { links, up: false, .. }
                if links.len() == 3));
        assert_eq!(schedule.due(at(2_000)).len(), 2);
        assert_eq!(schedule.next(), Some(at(2_100)));
    }

    #[test]
    fn planned_event_preserves_live_changes() {
        use fabric::Loss;
        let mut plan = crate::tests::star();
        let mut slow = plan.links[1].directions[0].clone();
        slow.delay = Span::from_millis(80);
        let (link, direction) = (LinkId(1), Direction::BOTH[0]);
        let set = Action::Set { link, direction, config: Box::new(slow) };
        plan.events = vec![event(2_000, set), event(9_000, Action::LinkDown(link))];
        let name = plan.links[1].name.clone();
        let loss = [(format!("link.{name}.loss"), "5 %".to_owned())];
        let mut schedule = Schedule::new(Arc::new(plan));
        let config = |change: &Change| match &change.kind {
            ChangeKind::Configure(_, _, config) => (**config).clone(),
            ChangeKind::LinkState { .. } => panic!("{change:?}"),
        };
        let (first, found) = schedule.set(at(500), &loss, Path::new("")).unwrap();
        assert_eq!(found.changes.len(), 2, "both directions");
        assert_eq!(
            first.iter().map(|c| (c.at, c.event)).collect::<Vec<_>>(),
            [(at(500), 2), (at(500), 3)]
        );
        assert!(schedule.set(at(600), &loss, Path::new("")).unwrap().0.is_empty());
        let planned = config(&schedule.changes(at(3_000))[0]);
        assert_eq!(planned.delay, Span::from_millis(80));
        assert_eq!(planned.loss, Loss::Bernoulli("5 %".parse().unwrap()));
        // The plan's change at 2 s was returned in advance, so this change cannot be earlier.
        let delay = [(format!("link.{name}.up.delay"), "1 ms".to_owned())];
        let (second, _) = schedule.set(at(1_500), &delay, Path::new("")).unwrap();
        assert_eq!((second[0].at, second[0].event), (at(2_000), 4));
        assert_eq!(config(&second[0]).loss, planned.loss);
        let wrong = [(format!("link.{name}.los"), "5 %".to_owned())];
        assert!(schedule.set(at(1_500), &wrong, Path::new("")).is_err());
    }
}
