//! The phases of a run over several agents, as the command that runs it sees them.
//!
//! ```text
//! reserve ─→ prepare ─→ start ─→ run ─→ stop ─→ fetch ─→ over
//!    └───────────┴─────────┴── refused, failed or too late: everything is dropped
//! ```
//! Until the lab has started, one member that cannot go on ends it for all, and nothing is left.
//! After that there are always results: of the members that are still there.
//!
//! Every step has a deadline, so that a member that hangs cannot hold up the others.

use std::net::SocketAddr;

use base::{Span, Time};

use crate::AgentId;
use crate::control::{HEAD_START, OnLoss, Order, Phase, Refusal, Report, Reserved};

/// How long an agent may take to keep room for a piece.
pub const RESERVE: Span = Span::from_secs(10);
/// How long a piece may take to be built: a namespace each for thousands of hosts take a while.
pub const PREPARE: Span = Span::from_secs(120);
/// How long an agent may take to acknowledge an order.
pub const ACKNOWLEDGE: Span = Span::from_secs(5);
/// A piece that ends so close to the lab's end has come to it: clocks differ.
const CLOSE: Span = Span::from_secs(1);
/// How long results may stand still on their way.
pub const FETCH: Span = Span::from_secs(60);

/// What a run is, as far as its phases are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The agents' processes, by [`AgentId`].
    pub instances: Vec<u64>,
    /// How long the lab lasts at most.
    pub duration: Span,
    /// How long its pieces may take to end after that.
    pub grace: Span,
    /// Keep it up until then.
    pub stay: bool,
    /// Once all pieces stand, it begins only when it is [let](Coordinator::begin).
    pub waits: bool,
    /// What follows the loss of a member.
    pub on_loss: OnLoss,
}

/// What the coordinator asks of its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Ask a member to keep room.
    Reserve(AgentId),
    /// Ask a member to build its piece.
    Prepare(AgentId),
    /// Tell a member when lab time zero is, by member 0's clock; `None` asks member 0.
    Start {
        /// Whom.
        agent: AgentId,
        /// When.
        origin_ns: Option<u64>,
    },
    /// Order a member to do something.
    Order {
        /// Whom.
        agent: AgentId,
        /// What.
        order: Order,
    },
    /// All pieces stand, and wait to be let begin.
    Stands,
    /// Fetch a member's results.
    Fetch(AgentId),
    /// The lab has begun.
    Begun,
    /// There is no more to do.
    Over(Ending),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The lab never began; nothing is left of it.
    Failed {
        /// Who could not go on; `None`: the user.
        agent: Option<AgentId>,
        /// Why.
        refusal: Refusal,
    },
    /// The lab ran.
    Ran {
        /// Results of these members have been fetched.
        fetched: Vec<AgentId>,
        /// These members still have their results, and are to be told to drop them once the run is
        /// stored: until then nobody else has.
        keep: Vec<AgentId>,
        /// What happened to members.
        outages: Vec<Outage>,
        /// The user ended it.
        interrupted: bool,
    },
}

/// A member was gone, or its piece was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Which.
    pub agent: AgentId,
    /// Since when, as the coordinator noticed it, in lab time.
    pub from: Span,
    /// Until when; `None`: until the end.
    pub until: Option<Span>,
    /// In words.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Reserving,
    Preparing,
    /// All pieces stand.
    Waiting,
    /// Member 0 is choosing lab time zero.
    Choosing,
    Starting,
    Running,
    Stopping,
    Fetching,
    Over,
}

#[derive(Clone, Debug, Default)]
struct Member {
    reserved: Option<Reserved>,
    acknowledged: bool,
    phase: Option<Phase>,
    idle: bool,
    sequence: u64,
    alive: bool,
    /// Its piece is gone for good.
    dead: bool,
    fetching: bool,
    fetched: bool,
}

impl Member {
    /// Whether there is anything to expect of it.
    fn is_there(&self) -> bool {
        self.alive && !self.dead
    }
}

/// Leads a run through its phases.
#[derive(Debug)]
pub struct Coordinator {
    terms: Terms,
    step: Step,
    deadline: Time,
    members: Vec<Member>,
    outages: Vec<Outage>,
    /// Lab time zero, by the own clock.
    begins: Option<Time>,
    interrupted: bool,
    outputs: std::collections::VecDeque<Output>,
}

impl Coordinator {
    /// A run with one member at least. All members are taken to be alive.
    pub fn new(now: Time, terms: Terms) -> Self {
        let member = Member { alive: true, ..Member::default() };
        let members = vec![member; terms.instances.len()];
        let mut coordinator = Self {
            terms,
            step: Step::Reserving,
            deadline: now + RESERVE,
            members,
            outages: Vec::new(),
            begins: None,
            interrupted: false,
            outputs: std::collections::VecDeque::new(),
        };
        for agent in coordinator.agents() {
            coordinator.outputs.push_back(Output::Reserve(agent));
        }
        coordinator
    }

    fn agents(&self) -> impl Iterator<Item = AgentId> + use<> {
        (0..self.members.len()).map(AgentId::at)
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::look`] is to be called at the latest.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Lab time, once it has begun.
    pub fn lab_time(&self, now: Time) -> Option<Span> {
        self.begins.map(|begins| now.since(begins))
    }

    /// The members' trunks, once all have one, and the largest datagram that all take.
    pub fn trunks(&self) -> Option<(Vec<SocketAddr>, u32)> {
        let reserved: Option<Vec<Reserved>> = self.members.iter().map(|m| m.reserved).collect();
        let reserved = reserved?;
        let datagram = reserved.iter().map(|reserved| reserved.datagram).min()?;
        Some((reserved.iter().map(|reserved| reserved.trunk).collect(), datagram))
    }

    /// A member keeps room.
    pub fn reserved(&mut self, now: Time, agent: AgentId, reserved: Reserved) {
        let Some(member) = self.members.get_mut(agent.index()) else { return };
        member.reserved = Some(reserved);
        if self.step == Step::Reserving && self.members.iter().all(|m| m.reserved.is_some()) {
            self.enter(Step::Preparing, now + PREPARE);
            self.outputs.extend(self.agents().map(Output::Prepare));
        }
    }

    /// A member does not do what it was asked.
    pub fn refused(&mut self, now: Time, agent: AgentId, refusal: Refusal) {
        match self.step {
            step if step < Step::Running => self.give_up(Some(agent), refusal),
            Step::Running | Step::Stopping => self.mourn(now, agent, &refusal.text),
            // It may still have its results.
            _ => {}
        }
    }

    /// All pieces stand and the lab may begin.
    pub fn begin(&mut self, now: Time) {
        if self.step == Step::Waiting {
            self.enter(Step::Choosing, now + ACKNOWLEDGE);
            self.outputs.push_back(Output::Start { agent: AgentId(0), origin_ns: None });
        }
    }

    /// Member 0 has chosen lab time zero, or a member knows it.
    pub fn started(&mut self, now: Time, agent: AgentId, origin_ns: u64) {
        match self.step {
            Step::Choosing if agent.index() == 0 => {
                self.enter(Step::Starting, now + ACKNOWLEDGE);
                self.begins = Some(now + HEAD_START);
                self.members[0].acknowledged = true;
                let others = self.agents().skip(1);
                let origin_ns = Some(origin_ns);
                self.outputs.extend(others.map(|agent| Output::Start { agent, origin_ns }));
            }
            Step::Starting => {
                let Some(member) = self.members.get_mut(agent.index()) else { return };
                member.acknowledged = true;
            }
            _ => return,
        }
        if self.members.iter().all(|member| member.acknowledged) {
            self.enter(Step::Running, now + HEAD_START + self.terms.duration + self.terms.grace);
            self.outputs.push_back(Output::Begun);
        }
    }

    /// A member says how its piece is.
    pub fn report(&mut self, now: Time, report: &Report) {
        let index = report.agent.index();
        let Some(member) = self.members.get_mut(index) else { return };
        if report.instance != self.terms.instances[index] || report.sequence <= member.sequence {
            return;
        }
        member.sequence = report.sequence;
        member.phase = Some(report.phase);
        member.idle = report.progress.as_ref().is_some_and(|progress| progress.idle);
        if report.phase == Phase::Failed {
            let refusal = report.failure.clone().unwrap_or_else(|| Refusal {
                text: "its piece of the lab died".to_owned(),
                code: 70,
            });
            self.refused(now, report.agent, refusal);
        }
        if let (Phase::Finished, Step::Running, Some(why)) =
            (report.phase, self.step, &report.failure)
        {
            match report.lost {
                Some(other) => self.missed(now, other, &why.text),
                None => self.left(now, report.agent, &why.text),
            }
        }
        self.go_on(now);
    }

    /// Goes on to the next step where all members are ready for it.
    fn go_on(&mut self, now: Time) {
        let all = |has: &dyn Fn(&Member) -> bool| {
            self.members.iter().filter(|member| member.is_there()).all(has)
        };
        let finished = |member: &Member| member.phase == Some(Phase::Finished);
        match self.step {
            Step::Preparing if all(&|member| member.phase == Some(Phase::Ready)) => {
                // Whoever lets it begin may take as long as other labs need.
                self.enter(Step::Waiting, Time::MAX);
                if self.terms.waits {
                    self.outputs.push_back(Output::Stands);
                } else {
                    self.begin(now);
                }
            }
            Step::Running | Step::Stopping if all(&finished) => self.fetch(now),
            Step::Running => {
                let idle = !self.terms.stay && all(&|m| m.idle || finished(m));
                let ended = self.members.iter().any(|m| m.is_there() && finished(m));
                let early =
                    self.lab_time(now).is_some_and(|time| time + CLOSE < self.terms.duration);
                // A piece ends by itself with the lab's duration, or because it lost a member.
                if idle || (ended && early) {
                    self.stop(now);
                }
            }
            _ => {}
        }
    }

    /// A member is not heard any more.
    pub fn lost(&mut self, now: Time, agent: AgentId) {
        let Some(member) = self.members.get_mut(agent.index()) else { return };
        if !member.alive {
            return;
        }
        member.alive = false;
        let text = "it is not heard any more".to_owned();
        match self.step {
            step if step < Step::Running => {
                self.give_up(Some(agent), Refusal { text, code: 4 });
            }
            Step::Over => {}
            _ => {
                self.note(now, agent, &text);
                self.after_loss(now);
            }
        }
    }

    /// A member is heard again, by the same process.
    pub fn regained(&mut self, now: Time, agent: AgentId) {
        let Some(member) = self.members.get_mut(agent.index()) else { return };
        if member.dead || member.alive {
            return;
        }
        member.alive = true;
        let lab_time = self.lab_time(now);
        let open = self.outages.iter_mut().find(|o| o.agent == agent && o.until.is_none());
        if let Some(outage) = open {
            outage.until = lab_time;
        }
        if self.step == Step::Stopping {
            self.outputs.push_back(Output::Order { agent, order: Order::Stop });
        }
        if self.step == Step::Fetching && !self.members[agent.index()].fetched {
            self.members[agent.index()].fetching = true;
            self.outputs.push_back(Output::Fetch(agent));
        }
    }

    /// Another process has a member's name: its piece is gone.
    pub fn replaced(&mut self, now: Time, agent: AgentId) {
        match self.step {
            step if step < Step::Running => {
                let text = "it was started anew".to_owned();
                self.give_up(Some(agent), Refusal { text, code: 4 });
            }
            _ => self.mourn(now, agent, "it was started anew, without the lab"),
        }
    }

    /// A member's results are here, or cannot be had.
    pub fn fetched(&mut self, now: Time, agent: AgentId, result: Result<(), String>) {
        let Some(member) = self.members.get_mut(agent.index()) else { return };
        member.fetching = false;
        member.fetched = result.is_ok();
        // Who has left the lab waits for nothing else.
        let leaves = member.dead;
        match result {
            Ok(()) if leaves => {
                self.outputs.push_back(Output::Order { agent, order: Order::Drop });
            }
            Ok(()) => {}
            Err(text) => self.note(now, agent, &text),
        }
        self.finish();
    }

    /// Results are on their way: they are given more time.
    pub fn fetching(&mut self, now: Time) {
        if self.step == Step::Fetching {
            self.deadline = now + FETCH;
        }
    }

    /// The user wants it to end. Whoever asks twice does not wait for results.
    pub fn interrupt(&mut self, now: Time) {
        match self.step {
            Step::Over => {}
            Step::Running if !self.interrupted => {
                self.interrupted = true;
                self.stop(now);
            }
            Step::Stopping | Step::Fetching if !self.interrupted => self.interrupted = true,
            Step::Stopping | Step::Fetching | Step::Running => self.over(),
            _ => {
                let text = "interrupted before it began".to_owned();
                self.interrupted = true;
                self.give_up(None, Refusal { text, code: 130 });
            }
        }
    }

    /// Time has passed.
    pub fn look(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        match self.step {
            Step::Reserving => self.too_late("does not answer", |m| m.reserved.is_some()),
            Step::Preparing => {
                self.too_late("did not build its piece in time", |m| m.phase == Some(Phase::Ready));
            }
            Step::Choosing | Step::Starting => {
                self.too_late("does not answer the order to start", |m| m.acknowledged);
            }
            Step::Running => self.stop(now),
            Step::Stopping => {
                for agent in self.agents() {
                    let member = &self.members[agent.index()];
                    if member.is_there() && member.phase != Some(Phase::Finished) {
                        self.note(now, agent, "its piece did not end in time");
                        self.members[agent.index()].dead = true;
                        self.outputs.push_back(Output::Order { agent, order: Order::Drop });
                    }
                }
                self.fetch(now);
            }
            Step::Fetching => {
                for agent in self.agents() {
                    if self.members[agent.index()].fetching {
                        self.note(now, agent, "its results stand still on their way");
                        self.members[agent.index()].fetching = false;
                    }
                }
                self.finish();
            }
            Step::Waiting | Step::Over => {}
        }
    }

    fn too_late(&mut self, text: &str, has: fn(&Member) -> bool) {
        let late = self.agents().find(|agent| !has(&self.members[agent.index()]));
        self.give_up(late, Refusal { text: text.to_owned(), code: 4 });
    }

    fn enter(&mut self, step: Step, deadline: Time) {
        self.step = step;
        self.deadline = deadline;
    }

    /// Ends a run that has not begun.
    fn give_up(&mut self, agent: Option<AgentId>, refusal: Refusal) {
        self.outputs.clear();
        self.drop_all();
        self.step = Step::Over;
        self.outputs.push_back(Output::Over(Ending::Failed { agent, refusal }));
    }

    fn drop_all(&mut self) {
        let all = self.agents().map(|agent| Output::Order { agent, order: Order::Drop });
        self.outputs.extend(all);
    }

    /// A member's piece is gone while the lab runs.
    fn mourn(&mut self, now: Time, agent: AgentId, text: &str) {
        let Some(member) = self.members.get_mut(agent.index()) else { return };
        if member.dead {
            return;
        }
        member.dead = true;
        self.note(now, agent, text);
        self.after_loss(now);
    }

    /// A member has ended its piece by itself, before the lab is over.
    fn left(&mut self, now: Time, agent: AgentId, text: &str) {
        let member = &mut self.members[agent.index()];
        if member.dead || member.fetching {
            return;
        }
        if self.terms.on_loss == OnLoss::Continue {
            // What it has is fetched at once, for its agent may be about to end.
            member.dead = true;
            member.fetching = true;
            self.outputs.push_back(Output::Fetch(agent));
        }
        self.note(now, agent, text);
        self.after_loss(now);
    }

    /// A member has ended its piece because it lost another, of which nothing is known here yet.
    fn missed(&mut self, now: Time, other: AgentId, text: &str) {
        if other.index() < self.members.len() {
            self.note(now, other, text);
            self.after_loss(now);
        }
    }

    fn after_loss(&mut self, now: Time) {
        let nobody = !self.members.iter().any(Member::is_there);
        match self.step {
            Step::Running if self.terms.on_loss == OnLoss::Stop || nobody => self.stop(now),
            Step::Fetching => {
                for member in &mut self.members {
                    member.fetching &= member.is_there();
                }
                self.finish();
            }
            _ => {}
        }
        self.go_on(now);
    }

    fn note(&mut self, now: Time, agent: AgentId, text: &str) {
        // Who dies and is started anew is lost in two ways, once.
        if self.outages.iter().any(|o| o.agent == agent && o.until.is_none()) {
            return;
        }
        let from = self.lab_time(now).unwrap_or_default();
        self.outages.push(Outage { agent, from, until: None, why: text.to_owned() });
    }

    fn stop(&mut self, now: Time) {
        self.enter(Step::Stopping, now + self.terms.grace);
        for agent in self.agents() {
            let member = &self.members[agent.index()];
            if member.is_there() && member.phase != Some(Phase::Finished) {
                self.outputs.push_back(Output::Order { agent, order: Order::Stop });
            }
        }
        if !self.members.iter().any(Member::is_there) {
            self.fetch(now);
        }
    }

    fn fetch(&mut self, now: Time) {
        if self.step >= Step::Fetching {
            return;
        }
        self.enter(Step::Fetching, now + FETCH);
        for agent in self.agents() {
            let member = &mut self.members[agent.index()];
            if member.is_there() {
                member.fetching = true;
                self.outputs.push_back(Output::Fetch(agent));
            }
        }
        self.finish();
    }

    fn finish(&mut self) {
        if self.step == Step::Fetching && !self.members.iter().any(|member| member.fetching) {
            self.over();
        }
    }

    fn over(&mut self) {
        self.step = Step::Over;
        let those = |are: fn(&Member) -> bool| {
            self.agents().filter(|agent| are(&self.members[agent.index()])).collect()
        };
        let fetched = those(|member| member.fetched);
        let keep = those(|member| member.alive && !(member.dead && member.fetched));
        let (outages, interrupted) = (std::mem::take(&mut self.outages), self.interrupted);
        self.outputs.push_back(Output::Over(Ending::Ran { fetched, keep, outages, interrupted }));
    }
}

#[cfg(test)]
mod tests;
