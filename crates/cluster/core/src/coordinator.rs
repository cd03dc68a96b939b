//! The phases of a run over several agents: the state machine of the coordinator.
//!
//! ```text
//! reserve ─→ prepare ─→ start ─→ run ─→ stop ─→ fetch ─→ end
//!    └───────────┴─────────┴── refused, failed or timed out: all shards are dropped
//! ```
//! Before the lab has started, the failure of one agent ends the run, and no results are kept.
//! After that a run always has results, namely those of the agents that are still available.
//!
//! Every step has a deadline, so that a hanging agent does not block the others.

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::{Span, Time};

use crate::AgentId;
use crate::control::{Awaited, HEAD_START, OnLoss, Order, Phase, Refusal, Report, Reserved};

/// Max time for an agent to reserve resources.
pub const RESERVE_TIMEOUT: Span = Span::from_secs(10);

/// Max time to build a shard, which needs a namespace for each of up to thousands of hosts.
pub const PREPARE_TIMEOUT: Span = Span::from_secs(120);

/// Max time for an agent to acknowledge the start.
pub const START_TIMEOUT: Span = Span::from_secs(5);

/// A shard that ends at most this long before the end of the lab counts as complete: clocks differ.
const END_TOLERANCE: Span = Span::from_secs(1);

/// Max time without progress while results are fetched.
pub const FETCH_TIMEOUT: Span = Span::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The agents' instances, by [`AgentId`].
    pub instances: Vec<u64>,
    /// Max duration of the lab.
    pub duration: Span,
    /// Max time for the shards to end after that.
    pub grace: Span,
    /// Keep the lab up until its duration has passed.
    pub stay: bool,
    /// Do not start the lab before [`Coordinator::begin`] is called.
    pub waits_for_begin: bool,
    /// The reaction to the loss of an agent.
    pub on_loss: OnLoss,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Ask an agent to reserve resources.
    Reserve(AgentId),
    /// Ask an agent to build its shard.
    Prepare(AgentId),
    /// Send an agent lab time zero by agent 0's clock; `None` asks agent 0 to choose it.
    Start {
        agent: AgentId,
        origin_ns: Option<u64>,
    },
    Order {
        agent: AgentId,
        order: Order,
    },
    /// All shards are ready, and the lab waits for [`Coordinator::begin`].
    Ready,
    Fetch(AgentId),
    /// The lab has started on all agents.
    Started,
    Ended(Ending),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The lab did not start. The agents have dropped it.
    Failed {
        /// The agent that failed; `None` if the user interrupted the run.
        agent: Option<AgentId>,
        refusal: Refusal,
    },
    Ran {
        /// The agents whose results have been fetched.
        fetched: Vec<AgentId>,
        /// The agents that still have their results. They must be ordered to drop them, but only
        /// once the run is stored.
        keep: Vec<AgentId>,
        outages: Vec<Outage>,
        interrupted: bool,
    },
}

/// A time in which an agent or its shard was not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub agent: AgentId,
    /// Lab time at which the coordinator noticed it.
    pub from: Span,
    /// `None`: until the end of the lab.
    pub until: Option<Span>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Reserving,
    Preparing,
    /// All shards are ready.
    Waiting,
    /// Agent 0 is choosing lab time zero.
    Choosing,
    Starting,
    Running,
    Stopping,
    Fetching,
    Ended,
}

#[derive(Clone, Debug, Default)]
struct Agent {
    reserved: Option<Reserved>,
    acknowledged: bool,
    phase: Option<Phase>,
    awaited: Option<Awaited>,
    idle: bool,
    sequence: u64,
    alive: bool,
    /// Its shard ended before the lab did, and cannot return.
    shard_lost: bool,
    fetching: bool,
    fetched: bool,
}

impl Agent {
    /// Whether its shard can still be controlled.
    fn is_available(&self) -> bool {
        self.alive && !self.shard_lost
    }

    /// Why its shard is not ready, by its last report.
    fn why_not_ready(&self) -> String {
        match (self.phase, self.awaited) {
            (_, Some(awaited)) => awaited.to_string(),
            (None, _) => "no report of it was received".to_owned(),
            (Some(phase), None) => format!("it is {phase:?} by its last report").to_lowercase(),
        }
    }

    fn is_finished(&self) -> bool {
        self.phase == Some(Phase::Finished)
    }
}

#[derive(Debug)]
pub struct Coordinator {
    terms: Terms,
    step: Step,
    deadline: Time,
    agents: Vec<Agent>,
    outages: Vec<Outage>,
    /// Lab time zero by the local clock.
    origin: Option<Time>,
    interrupted: bool,
    outputs: VecDeque<Output>,
}

impl Coordinator {
    /// A run on at least one agent. All agents are assumed to be alive.
    pub fn new(now: Time, terms: Terms) -> Self {
        let agent = Agent { alive: true, ..Agent::default() };
        let agents = vec![agent; terms.instances.len()];
        let mut coordinator = Self {
            terms,
            step: Step::Reserving,
            deadline: now + RESERVE_TIMEOUT,
            agents,
            outages: Vec::new(),
            origin: None,
            interrupted: false,
            outputs: VecDeque::new(),
        };
        coordinator.outputs.extend(coordinator.ids().map(Output::Reserve));
        coordinator
    }

    fn ids(&self) -> impl Iterator<Item = AgentId> + use<> {
        (0..self.agents.len()).map(AgentId::at)
    }

    /// The next action for the driver.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The time of the next [`Self::on_wake`]; `None` if nothing is due.
    pub fn next_wake(&self) -> Option<Time> {
        (!matches!(self.step, Step::Waiting | Step::Ended)).then_some(self.deadline)
    }

    /// Lab time, once the lab has started.
    fn lab_time(&self, now: Time) -> Option<Span> {
        self.origin.map(|origin| now.since(origin))
    }

    /// The addresses of the agents' trunks, once all agents have reserved resources, and the max
    /// datagram that all of them can send.
    pub fn trunks(&self) -> Option<(Vec<SocketAddr>, u32)> {
        let reserved: Option<Vec<Reserved>> = self.agents.iter().map(|a| a.reserved).collect();
        let reserved = reserved?;
        let datagram = reserved.iter().map(|reserved| reserved.datagram).min()?;
        Some((reserved.iter().map(|reserved| reserved.trunk).collect(), datagram))
    }

    pub fn reserved(&mut self, now: Time, agent: AgentId, reserved: Reserved) {
        let Some(entry) = self.agents.get_mut(agent.index()) else { return };
        entry.reserved = Some(reserved);
        if self.step == Step::Reserving && self.agents.iter().all(|a| a.reserved.is_some()) {
            self.enter(Step::Preparing, now + PREPARE_TIMEOUT);
            self.outputs.extend(self.ids().map(Output::Prepare));
        }
    }

    /// An agent has rejected a request.
    pub fn refused(&mut self, now: Time, agent: AgentId, refusal: Refusal) {
        match self.step {
            step if step < Step::Running => self.abort(Some(agent), refusal),
            Step::Running | Step::Stopping => self.lose_shard(now, agent, &refusal.text),
            // Its results may still be available.
            _ => {}
        }
    }

    /// Starts the lab if all shards are ready.
    pub fn begin(&mut self, now: Time) {
        if self.step == Step::Waiting {
            self.enter(Step::Choosing, now + START_TIMEOUT);
            self.outputs.push_back(Output::Start { agent: AgentId(0), origin_ns: None });
        }
    }

    /// Agent 0 has chosen lab time zero, or another agent has acknowledged it.
    pub fn started(&mut self, now: Time, agent: AgentId, origin_ns: u64) {
        match self.step {
            Step::Choosing if agent.index() == 0 => {
                self.enter(Step::Starting, now + START_TIMEOUT);
                self.origin = Some(now + HEAD_START);
                self.agents[0].acknowledged = true;
                let others = self.ids().skip(1);
                let origin_ns = Some(origin_ns);
                self.outputs.extend(others.map(|agent| Output::Start { agent, origin_ns }));
            }
            Step::Starting => {
                let Some(entry) = self.agents.get_mut(agent.index()) else { return };
                entry.acknowledged = true;
            }
            _ => return,
        }
        if self.agents.iter().all(|agent| agent.acknowledged) {
            self.enter(Step::Running, now + HEAD_START + self.terms.duration + self.terms.grace);
            self.outputs.push_back(Output::Started);
        }
    }

    /// A report on a shard was received.
    pub fn report(&mut self, now: Time, report: &Report) {
        let index = report.agent.index();
        let Some(agent) = self.agents.get_mut(index) else { return };
        if report.instance != self.terms.instances[index] || report.sequence <= agent.sequence {
            return;
        }
        agent.sequence = report.sequence;
        agent.phase = Some(report.phase);
        agent.awaited = report.awaited;
        agent.idle = report.progress.as_ref().is_some_and(|progress| progress.idle);
        if report.phase == Phase::Failed {
            let refusal = report.failure.clone().unwrap_or_else(|| Refusal {
                text: "its shard of the lab failed and reported no reason".to_owned(),
                code: 70,
            });
            self.refused(now, report.agent, refusal);
        }
        if let (Phase::Finished, Step::Running, Some(why)) =
            (report.phase, self.step, &report.failure)
        {
            match report.lost {
                Some(other) => self.lost_by_peer(now, other, &why.text),
                None => self.ended_early(now, report.agent, &why.text),
            }
        }
        self.advance(now);
    }

    /// Enters the next step if all available agents are ready for it.
    fn advance(&mut self, now: Time) {
        let all = |has: fn(&Agent) -> bool| {
            self.agents.iter().filter(|agent| agent.is_available()).all(has)
        };
        match self.step {
            Step::Preparing if all(|agent| agent.phase == Some(Phase::Ready)) => {
                // The wait for the user or for other labs has no limit.
                self.enter(Step::Waiting, Time::MAX);
                if self.terms.waits_for_begin {
                    self.outputs.push_back(Output::Ready);
                } else {
                    self.begin(now);
                }
            }
            Step::Running | Step::Stopping if all(Agent::is_finished) => self.fetch(now),
            Step::Running => {
                let idle = !self.terms.stay && all(|agent| agent.idle || agent.is_finished());
                let ended = self.agents.iter().any(|a| a.is_available() && a.is_finished());
                let early = self
                    .lab_time(now)
                    .is_some_and(|time| time + END_TOLERANCE < self.terms.duration);
                // A shard ends with the lab's duration, or because it lost an agent.
                if idle || (ended && early) {
                    self.stop(now);
                }
            }
            _ => {}
        }
    }

    /// Handles the loss of an agent.
    pub fn lost(&mut self, now: Time, agent: AgentId) {
        let Some(entry) = self.agents.get_mut(agent.index()) else { return };
        if !entry.alive {
            return;
        }
        entry.alive = false;
        let text = "no heartbeat received".to_owned();
        match self.step {
            step if step < Step::Running => {
                self.abort(Some(agent), Refusal { text, code: 4 });
            }
            Step::Ended => {}
            _ => {
                self.record_outage(now, agent, &text);
                self.after_loss(now);
            }
        }
    }

    /// The same process of a lost agent is alive again.
    pub fn regained(&mut self, now: Time, agent: AgentId) {
        let Some(entry) = self.agents.get_mut(agent.index()) else { return };
        if entry.shard_lost || entry.alive {
            return;
        }
        entry.alive = true;
        let lab_time = self.lab_time(now);
        let open = self.outages.iter_mut().find(|o| o.agent == agent && o.until.is_none());
        if let Some(outage) = open {
            outage.until = lab_time;
        }
        if self.step == Step::Stopping {
            self.outputs.push_back(Output::Order { agent, order: Order::Stop });
        }
        if self.step == Step::Fetching && !self.agents[agent.index()].fetched {
            self.agents[agent.index()].fetching = true;
            self.outputs.push_back(Output::Fetch(agent));
        }
    }

    /// An agent was restarted, and its shard is lost.
    pub fn replaced(&mut self, now: Time, agent: AgentId) {
        match self.step {
            step if step < Step::Running => {
                let text = "the agent was restarted".to_owned();
                self.abort(Some(agent), Refusal { text, code: 4 });
            }
            _ => self.lose_shard(now, agent, "the agent was restarted and lost its shard"),
        }
    }

    /// Records that an agent's results have been fetched, or cannot be fetched.
    pub fn fetched(&mut self, now: Time, agent: AgentId, result: Result<(), String>) {
        let Some(entry) = self.agents.get_mut(agent.index()) else { return };
        entry.fetching = false;
        entry.fetched = result.is_ok();
        match result {
            // The agent takes no further part in the run.
            Ok(()) if entry.shard_lost => {
                self.outputs.push_back(Output::Order { agent, order: Order::Drop });
            }
            Ok(()) => {}
            Err(text) => self.record_outage(now, agent, &text),
        }
        self.end_if_all_fetched();
    }

    /// A part of some results was received, which extends the deadline.
    pub fn fetching(&mut self, now: Time) {
        if self.step == Step::Fetching {
            self.deadline = now + FETCH_TIMEOUT;
        }
    }

    /// The user interrupts the run. A second interrupt does not wait for results.
    pub fn interrupt(&mut self, now: Time) {
        match self.step {
            Step::Ended => {}
            Step::Running if !self.interrupted => {
                self.interrupted = true;
                self.stop(now);
            }
            Step::Stopping | Step::Fetching if !self.interrupted => self.interrupted = true,
            Step::Stopping | Step::Fetching | Step::Running => self.end(),
            _ => {
                let text = "interrupted before the lab started".to_owned();
                self.interrupted = true;
                self.abort(None, Refusal { text, code: 130 });
            }
        }
    }

    /// Handles a deadline that has passed.
    pub fn on_wake(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        match self.step {
            Step::Reserving => {
                self.abort_late("did not answer within 10 s", |agent| agent.reserved.is_some());
            }
            Step::Preparing => {
                let is_ready = |agent: &Agent| agent.phase == Some(Phase::Ready);
                let late = self.agents.iter().find(|agent| !is_ready(agent));
                let why = late.map_or_else(String::new, Agent::why_not_ready);
                let text = format!("did not build its shard within 120 s: {why}");
                self.abort_late(&text, is_ready);
            }
            Step::Choosing | Step::Starting => {
                self.abort_late("did not acknowledge the start within 5 s", |agent| {
                    agent.acknowledged
                });
            }
            Step::Running => self.stop(now),
            Step::Stopping => {
                for agent in self.ids() {
                    let entry = &self.agents[agent.index()];
                    if entry.is_available() && !entry.is_finished() {
                        self.record_outage(now, agent, "its shard did not end in time");
                        self.agents[agent.index()].shard_lost = true;
                        self.outputs.push_back(Output::Order { agent, order: Order::Drop });
                    }
                }
                self.fetch(now);
            }
            Step::Fetching => {
                for agent in self.ids() {
                    if self.agents[agent.index()].fetching {
                        self.record_outage(
                            now,
                            agent,
                            "sent no further part of its results within \
                                                        60 s",
                        );
                        self.agents[agent.index()].fetching = false;
                    }
                }
                self.end_if_all_fetched();
            }
            Step::Waiting | Step::Ended => {}
        }
    }

    /// Ends a run in which an agent has not done something in time.
    fn abort_late(&mut self, text: &str, is_done: fn(&Agent) -> bool) {
        let late = self.ids().find(|agent| !is_done(&self.agents[agent.index()]));
        self.abort(late, Refusal { text: text.to_owned(), code: 4 });
    }

    fn enter(&mut self, step: Step, deadline: Time) {
        self.step = step;
        self.deadline = deadline;
    }

    /// Ends a run whose lab has not started.
    fn abort(&mut self, agent: Option<AgentId>, refusal: Refusal) {
        self.outputs.clear();
        let drops = self.ids().map(|agent| Output::Order { agent, order: Order::Drop });
        self.outputs.extend(drops);
        self.step = Step::Ended;
        self.outputs.push_back(Output::Ended(Ending::Failed { agent, refusal }));
    }

    /// Handles the loss of a shard while the lab runs.
    fn lose_shard(&mut self, now: Time, agent: AgentId, text: &str) {
        let Some(entry) = self.agents.get_mut(agent.index()) else { return };
        if entry.shard_lost {
            return;
        }
        entry.shard_lost = true;
        self.record_outage(now, agent, text);
        self.after_loss(now);
    }

    /// An agent has ended its shard before the end of the lab.
    fn ended_early(&mut self, now: Time, agent: AgentId, text: &str) {
        let entry = &mut self.agents[agent.index()];
        if entry.shard_lost || entry.fetching {
            return;
        }
        if self.terms.on_loss == OnLoss::Continue {
            // Its results are fetched now because the agent may be about to exit.
            entry.shard_lost = true;
            entry.fetching = true;
            self.outputs.push_back(Output::Fetch(agent));
        }
        self.record_outage(now, agent, text);
        self.after_loss(now);
    }

    /// An agent has ended its shard because it lost `other`, which is still alive here.
    fn lost_by_peer(&mut self, now: Time, other: AgentId, text: &str) {
        if other.index() < self.agents.len() {
            self.record_outage(now, other, text);
            self.after_loss(now);
        }
    }

    fn after_loss(&mut self, now: Time) {
        let none_left = !self.agents.iter().any(Agent::is_available);
        match self.step {
            Step::Running if self.terms.on_loss == OnLoss::Stop || none_left => self.stop(now),
            Step::Fetching => {
                for agent in &mut self.agents {
                    agent.fetching &= agent.is_available();
                }
                self.end_if_all_fetched();
            }
            _ => {}
        }
        self.advance(now);
    }

    fn record_outage(&mut self, now: Time, agent: AgentId, text: &str) {
        // A restarted agent is first lost and then replaced: that is one outage.
        if self.outages.iter().any(|o| o.agent == agent && o.until.is_none()) {
            return;
        }
        let from = self.lab_time(now).unwrap_or_default();
        self.outages.push(Outage { agent, from, until: None, why: text.to_owned() });
    }

    fn stop(&mut self, now: Time) {
        self.enter(Step::Stopping, now + self.terms.grace);
        for agent in self.ids() {
            let entry = &self.agents[agent.index()];
            if entry.is_available() && !entry.is_finished() {
                self.outputs.push_back(Output::Order { agent, order: Order::Stop });
            }
        }
        if !self.agents.iter().any(Agent::is_available) {
            self.fetch(now);
        }
    }

    fn fetch(&mut self, now: Time) {
        if self.step >= Step::Fetching {
            return;
        }
        self.enter(Step::Fetching, now + FETCH_TIMEOUT);
        for agent in self.ids() {
            let entry = &mut self.agents[agent.index()];
            if entry.is_available() {
                entry.fetching = true;
                self.outputs.push_back(Output::Fetch(agent));
            }
        }
        self.end_if_all_fetched();
    }

    fn end_if_all_fetched(&mut self) {
        if self.step == Step::Fetching && !self.agents.iter().any(|agent| agent.fetching) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.step = Step::Ended;
        let select = |has: fn(&Agent) -> bool| {
            self.ids().filter(|agent| has(&self.agents[agent.index()])).collect()
        };
        let fetched = select(|agent| agent.fetched);
        let keep = select(|agent| agent.alive && !(agent.shard_lost && agent.fetched));
        let (outages, interrupted) = (std::mem::take(&mut self.outages), self.interrupted);
        self.outputs.push_back(Output::Ended(Ending::Ran { fetched, keep, outages, interrupted }));
    }
}

#[cfg(test)]
mod tests;
