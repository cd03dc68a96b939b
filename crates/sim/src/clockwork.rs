//! The engine that a plan's model asks for.

use base::{Histogram, Time};
use fabric::Share;
use lab::plan::{Event, Model, Plan};
use outcome::{BundleLedger, FlowResult, LinkLedger};
use record::run::RateControl;
use record::{ControlSample, FlowSample, SessionRow, SubflowSample, Transfer};

use crate::{Result, Simulation, fluid, sessions};

/// A plan on the virtual clock: by packets, by rates, or as sessions under rate control.
pub(crate) enum Clockwork {
    Packets(Box<Simulation>),
    Rates(Box<fluid::Simulation>),
    Sessions(sessions::Simulation),
}

/// Calls a method of whichever engine there is.
macro_rules! engine {
    ($self:ident, $engine:ident => $call:expr) => {
        match $self {
            Clockwork::Packets($engine) => $call,
            Clockwork::Rates($engine) => $call,
            Clockwork::Sessions($engine) => $call,
        }
    };
}

impl Clockwork {
    pub(crate) fn try_new(plan: &Plan) -> Result<Self> {
        if sessions::all_controlled(plan) {
            return Ok(Self::Sessions(sessions::Simulation::try_new(plan)?));
        }
        match plan.model {
            Model::Hop | Model::Collapsed(_) => {
                Ok(Self::Packets(Box::new(Simulation::try_new(plan)?)))
            }
            Model::Fluid => Ok(Self::Rates(Box::new(fluid::Simulation::try_new(plan)?))),
        }
    }

    pub(crate) fn now(&self) -> Time {
        engine!(self, engine => engine.now())
    }

    pub(crate) fn is_done(&self) -> bool {
        engine!(self, engine => engine.is_done())
    }

    pub(crate) fn advance_at_most(&mut self, until: Time, turns: u64) -> bool {
        engine!(self, engine => engine.advance_at_most(until, turns))
    }

    pub(crate) fn events(&self) -> u64 {
        engine!(self, engine => engine.events())
    }

    pub(crate) fn packet_hops(&self) -> u64 {
        engine!(self, engine => engine.packet_hops())
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        engine!(self, engine => engine.trace_hash())
    }

    pub(crate) fn memory(&self) -> u64 {
        engine!(self, engine => engine.memory())
    }

    /// Enters the counters of links as of now. Peaks begin anew.
    pub(crate) fn enter_links(&mut self, ledger: &mut LinkLedger) {
        let now = self.now();
        match self {
            Self::Packets(engine) => ledger.enter(now, engine.link_counters()),
            Self::Rates(engine) => ledger.enter(now, engine.link_counters()),
            Self::Sessions(engine) => {
                let mut levels = Vec::new();
                engine.levels(ledger.told(), |at, stats, level| levels.push((at, stats, level)));
                ledger.enter_some(now, levels);
            }
        }
    }

    /// Enters how bundles do as of now, and their changes of state since the last call.
    pub(crate) fn enter_bundles(&mut self, ledger: &mut BundleLedger) {
        let now = self.now();
        if let Self::Packets(engine) = self {
            for change in engine.bundle_changes() {
                ledger.transition(change.bundle, &change.transition);
            }
            ledger.enter(now, engine.bundles());
        }
    }

    pub(crate) fn take_queue_delays(&mut self) -> Vec<Histogram> {
        match self {
            Self::Packets(engine) => engine.take_queue_delays(),
            Self::Rates(engine) => engine.take_queue_delays(),
            Self::Sessions(_) => Vec::new(),
        }
    }

    /// How rate control did since the last call, as of the last [`Self::enter_links`].
    pub(crate) fn judge(&mut self) -> Option<ControlSample> {
        match self {
            Self::Sessions(engine) => engine.judge(),
            Self::Packets(_) | Self::Rates(_) => None,
        }
    }

    /// What rate control came to, with a row for each session and the names that they refer to.
    pub(crate) fn control(&self) -> Option<(RateControl, Vec<String>, Vec<SessionRow>)> {
        match self {
            Self::Sessions(engine) => {
                let (names, rows) = engine.sessions();
                Some((engine.summary(), names, rows))
            }
            Self::Packets(_) | Self::Rates(_) => None,
        }
    }

    /// What a reader of the results should know.
    pub(crate) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let engine = match self {
            Self::Packets(engine) => return engine.warnings(),
            Self::Rates(_) => return Vec::new(),
            Self::Sessions(engine) => engine,
        };
        let warn = |(link, by): (base::LinkId, base::Bytes)| {
            let name = &plan.links[link.index()].name;
            format!(
                "queues are unlimited under rate control: that of link `{name}` was longer than \
                 the lab's limit by {by}"
            )
        };
        engine.exceeded().map(warn).into_iter().collect()
    }

    pub(crate) fn sample(&mut self, sink: &mut dyn FnMut(FlowSample)) {
        engine!(self, engine => engine.sample(sink));
    }

    /// The shares of the flows of the collapsed model; none in others.
    pub(crate) fn shares(&self) -> Vec<Share> {
        match self {
            Self::Packets(engine) => engine.shares(),
            Self::Rates(_) | Self::Sessions(_) => Vec::new(),
        }
    }

    /// Samples of subflows, after those of their flows.
    pub(crate) fn subflows(&mut self, sink: &mut dyn FnMut(SubflowSample)) {
        if let Self::Packets(engine) = self {
            engine.subflows().for_each(sink);
        }
    }

    pub(crate) fn transfers(&mut self, sink: &mut dyn FnMut(Transfer)) {
        match self {
            Self::Packets(engine) => engine.transfers().for_each(sink),
            Self::Rates(engine) => engine.transfers().for_each(sink),
            Self::Sessions(_) => {}
        }
    }

    pub(crate) fn happened(&mut self, sink: &mut dyn FnMut(Event)) {
        match self {
            Self::Packets(engine) => engine.happened().for_each(sink),
            Self::Rates(engine) => engine.happened().for_each(sink),
            Self::Sessions(engine) => engine.happened(sink),
        }
    }

    pub(crate) fn stop(&mut self) {
        engine!(self, engine => engine.stop());
    }

    pub(crate) fn results(self) -> Vec<FlowResult> {
        engine!(self, engine => engine.results())
    }
}
