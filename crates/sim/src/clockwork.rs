//! The engine that a plan's model asks for.

use base::Time;
use fabric::{LinkStats, QueueLevel, Share};
use lab::plan::{Event, Model, Plan};
use outcome::FlowResult;
use record::{FlowSample, Histogram, Transfer};

use crate::{Result, Simulation, fluid};

/// A plan on the virtual clock, by packets or by rates.
pub(crate) enum Clockwork {
    Packets(Box<Simulation>),
    Rates(Box<fluid::Simulation>),
}

/// Calls a method of whichever engine there is.
macro_rules! engine {
    ($self:ident, $engine:ident => $call:expr) => {
        match $self {
            Clockwork::Packets($engine) => $call,
            Clockwork::Rates($engine) => $call,
        }
    };
}

impl Clockwork {
    pub(crate) fn try_new(plan: &Plan) -> Result<Self> {
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

    pub(crate) fn link_counters(&mut self) -> Vec<(LinkStats, QueueLevel)> {
        engine!(self, engine => engine.link_counters())
    }

    pub(crate) fn queue_delays(&mut self) -> Vec<Histogram> {
        engine!(self, engine => engine.queue_delays())
    }

    pub(crate) fn sample(&mut self, sink: &mut dyn FnMut(FlowSample)) {
        engine!(self, engine => engine.sample(sink));
    }

    /// The shares of the flows of the collapsed model; none in others.
    pub(crate) fn shares(&self) -> Vec<Share> {
        match self {
            Self::Packets(engine) => engine.shares(),
            Self::Rates(_) => Vec::new(),
        }
    }

    pub(crate) fn transfers(&mut self, sink: &mut dyn FnMut(Transfer)) {
        engine!(self, engine => engine.transfers().for_each(sink));
    }

    pub(crate) fn happened(&mut self, sink: &mut dyn FnMut(Event)) {
        engine!(self, engine => engine.happened().for_each(sink));
    }

    pub(crate) fn stop(&mut self) {
        engine!(self, engine => engine.stop());
    }

    pub(crate) fn results(self) -> Vec<FlowResult> {
        engine!(self, engine => engine.results())
    }
}
