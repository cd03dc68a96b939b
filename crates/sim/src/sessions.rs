//! Labs whose traffic is all rate-controlled: very many sessions, each at the rate that the
//! network assigns.
//!
//! ```text
//! members (populations, flows), joins and leaves       cast.rs, play.rs
//!        → sources, links, destinations                driver.rs, crate `ratecontrol`
//!        → control packets and data over FIFO links    crate `fabric`, module `fifo`
//! fair rates of the moment, and errors                 oracle.rs, crate `sharing`
//! ```
//!
//! - Links have a rate, a delay and a queue without limit; where a queue grew beyond the lab's
//!   limit, the run says so. Control packets share links with data and can be lost at each, as the
//!   lab says; data is lost only where a link fails.
//! - A session sends data from its first assigned rate on, at what control packets leave of the
//!   rate. It leaves when all is sent, and is complete when all has arrived; what a failing link
//!   lost is not sent again.
//! - When links fail or return, sessions take the new shortest paths at once and join there as
//!   others. What the old path's links hold of a session goes with its Leave, as far as that gets.
//!   Links of protocols without soft state would keep the rest for ever, as the packet that knows
//!   what to take back may be lost. With these all links forget all and everybody joins again, as
//!   in the packet engine; sessions whose path has not changed send at their old rate meanwhile.
//! - Protocols that look at traffic have all links measured at the same moments.
//!
//! A session takes a few hundred bytes: its source's machine, its path, its state as a sender, and
//! a control packet under way. Links that no session crosses have no machine.

mod cast;
mod driver;
mod levels;
mod meter;
mod oracle;
mod play;
#[cfg(test)]
mod tests;
mod trace;
mod wires;

use base::{Bytes, FlowId, LinkId, Time};
use fabric::{LinkStats, QueueLevel};
use lab::plan::{Control, Event, Flow, Plan};
use outcome::FlowResult;
use ratecontrol::{RateController, Visitor};
use record::FlowSample;
use record::control::{ControlSample, SessionRow};
use record::run::RateControl;

use crate::canonical::Canonical;
use crate::{Error, Result, engine};

pub(crate) use wires::all_controlled;

/// What a run needs of an engine, whatever the protocol.
trait Engine {
    fn now(&self) -> Time;
    fn is_done(&self) -> bool;
    fn advance_at_most(&mut self, until: Time, turns: u64) -> bool;
    fn events(&self) -> u64;
    fn packet_hops(&self) -> u64;
    fn trace_hash(&self) -> u64;
    fn memory(&self) -> u64;
    fn levels(&mut self, told: &[bool], sink: &mut dyn FnMut(usize, LinkStats, QueueLevel));
    fn sample(&mut self, sink: &mut dyn FnMut(FlowSample));
    fn judge(&mut self) -> Option<ControlSample>;
    fn happened(&mut self, sink: &mut dyn FnMut(Event));
    fn stop(&mut self);
    fn summary(&self) -> RateControl;
    fn sessions(&self) -> (Vec<String>, Vec<SessionRow>);
    fn exceeded(&self) -> Option<(LinkId, Bytes)>;
    fn results(&mut self) -> Vec<FlowResult>;
}

/// What an engine is made from.
struct Cue {
    /// In canonical order, without flows.
    plan: Plan,
    /// The flows, by name.
    flows: Vec<Flow>,
    /// Their numbers, and those of links, in the original plan.
    flow_ids: Vec<FlowId>,
    link_ids: Vec<LinkId>,
    control: Control,
}

impl Visitor for Cue {
    type Output = Result<Box<dyn Engine>>;

    fn visit<R: RateController>(self) -> Self::Output {
        Ok(Box::new(play::Play::<R>::try_new(self)?))
    }
}

/// A plan of rate-controlled sessions on the virtual clock, in memory.
///
/// Events come in a total order: by time, then by [`base::Rank`], then as they were scheduled;
/// nodes, links, populations and flows take part in the order of their names, so that the order in
/// the lab file changes nothing.
pub struct Simulation(Box<dyn Engine>);

impl Simulation {
    /// Builds the network and its sessions; nothing has been sent yet.
    ///
    /// # Errors
    /// If the plan has other traffic or other links than this takes, or a session no path.
    pub fn try_new(plan: &Plan) -> Result<Self> {
        engine::refuse_wall_clock(plan)?;
        let refuse = |why: &str| Err(Error::Sessions { why: why.to_owned() });
        if !all_controlled(plan) {
            return refuse("some of the lab's traffic is not rate-controlled");
        }
        let Some(control) = plan.control.clone() else {
            return refuse("the lab has no `[control]`");
        };
        let Canonical { plan, specs, links, flows } = Canonical::new(plan);
        let cue = Cue { plan, flows: specs, flow_ids: flows, link_ids: links, control };
        cue.control.protocol.run(cue).map(Self)
    }

    /// How far it is.
    pub fn now(&self) -> Time {
        self.0.now()
    }

    /// Whether all sessions have come to their end: nothing more is worth waiting for.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Runs up to and including `until`, or to the moment at which it is done.
    pub fn advance(&mut self, until: Time) {
        self.advance_at_most(until, u64::MAX);
    }

    /// As [`Self::advance`], but for so many events at most; tells whether it got there.
    pub fn advance_at_most(&mut self, until: Time, turns: u64) -> bool {
        self.0.advance_at_most(until, turns)
    }

    /// Events so far, and links that data crossed.
    pub fn events(&self) -> u64 {
        self.0.events()
    }

    /// Links that packets have crossed, summed over all.
    pub fn packet_hops(&self) -> u64 {
        self.0.packet_hops()
    }

    /// A hash over joins, leaves, assigned rates and completions.
    pub fn trace_hash(&self) -> u64 {
        self.0.trace_hash()
    }

    /// Bytes that links, sessions and pending events take.
    pub fn memory(&self) -> u64 {
        self.0.memory()
    }

    /// Reads the counters of links; those of directed links that are `told` go to `sink`, as
    /// numbered in the given plan. Peaks begin anew.
    pub fn levels(&mut self, told: &[bool], mut sink: impl FnMut(usize, LinkStats, QueueLevel)) {
        self.0.levels(told, &mut sink);
    }

    /// Cuts the flows' samples of the interval that ends now.
    pub fn sample(&mut self, mut sink: impl FnMut(FlowSample)) {
        self.0.sample(&mut sink);
    }

    /// Cuts the sample of all sessions of the interval that ends now, with queues and bytes as of
    /// the last [`Self::levels`]. `None` where no time has passed.
    pub fn judge(&mut self) -> Option<ControlSample> {
        self.0.judge()
    }

    /// Takes the events of the lab that took place since the last call.
    pub fn happened(&mut self, mut sink: impl FnMut(Event)) {
        self.0.happened(&mut sink);
    }

    /// Ends the flows that still run. Samples may be taken once more.
    pub fn stop(&mut self) {
        self.0.stop();
    }

    /// What rate control came to so far.
    pub fn summary(&self) -> RateControl {
        self.0.summary()
    }

    /// A row for each session, and the names of the populations and flows that they belong to.
    pub fn sessions(&self) -> (Vec<String>, Vec<SessionRow>) {
        self.0.sessions()
    }

    /// The link whose queue exceeded the lab's limit by the most, and by how much.
    pub fn exceeded(&self) -> Option<(LinkId, Bytes)> {
        self.0.exceeded()
    }

    /// What each flow achieved, in the order of the plan.
    pub fn results(mut self) -> Vec<FlowResult> {
        self.0.results()
    }
}
