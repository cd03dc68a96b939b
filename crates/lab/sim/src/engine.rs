//! The interface between a run and its simulation engine.

use base::{Histogram, Time};
use fabric::{LinkStats, QueueLevel, Share};
use lab::Diagnostics;
use lab::live::LiveChanges;
use lab::plan::{Event, Plan};
use run::record::RateControl;
use run::{BundleLedger, FlowResult, RecorderHandle};
use run::{ControlSample, FlowSample, SessionRow, SubflowSample, Transfer};
use timeline::{Components, Moment, Rank};

/// A plan on the virtual clock, in memory: as packets, as rates, or as rate-controlled sessions.
///
/// Links, flows and bundles have the order of the plan.
pub trait Engine: Components {
    fn now(&self) -> Time;

    /// Whether all finite flows have ended and no lab event is left.
    fn is_done(&self) -> bool;

    /// Whether packets cross the network endlessly at the present time, as no part of their path
    /// takes any time. The engine does not advance then.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Whether it has packets and connections, for captures and TCP events.
    fn has_packets(&self) -> bool {
        false
    }

    /// Writes the captures and TCP events of the original plan from now on.
    fn record(&mut self, _plan: &Plan, _recorder: &RecorderHandle) {}

    /// Advances the clock to `until`; all events up to it have been handled.
    fn reach(&mut self, until: Time);

    /// Runs up to and including `until`, but not to the samples of that time, or until it is done;
    /// for at most `steps` steps of the timeline, and while it is not stuck. Returns whether it
    /// reached either end.
    fn advance_at_most(&mut self, until: Time, steps: u64) -> bool {
        let there = self.handle_at_most(until, steps);
        if there && !self.is_done() {
            self.reach(until);
        }
        there
    }

    /// As [`Self::advance_at_most`], but the clock stays at the last event.
    fn handle_at_most(&mut self, until: Time, steps: u64) -> bool {
        let end = Moment::new(until, Rank::Sample);
        for _ in 0..steps {
            if self.is_stuck() {
                return false;
            }
            if self.is_done() {
                return true;
            }
            if !self.step(end) {
                return true;
            }
        }
        false
    }

    /// As [`Self::advance_at_most`], for any number of steps.
    fn advance(&mut self, until: Time) {
        self.advance_at_most(until, u64::MAX);
    }

    /// Number of events: arrivals, timers, lab events.
    fn events(&self) -> u64;

    /// Number of link crossings, summed over all packets.
    fn packet_hops(&self) -> u64;

    /// A hash over all events and their times.
    fn trace_hash(&self) -> u64;

    /// Memory in bytes of the simulation's state.
    fn memory(&self) -> u64;

    /// Counters of directed links at the present time, by position (up and down of link 0, up and
    /// down of link 1, …). Links that are not `reported` may be omitted. Resets peak values.
    fn link_counters(&mut self, reported: &[bool]) -> Vec<(usize, LinkStats, QueueLevel)>;

    /// Adds the present status of bundles, and their state changes since the last call.
    fn enter_bundles(&mut self, _ledger: &mut BundleLedger) {}

    /// Takes the queueing delays of each directed link.
    fn take_queue_delays(&mut self) -> Vec<Histogram> {
        Vec::new()
    }

    /// The shares of flows in the collapsed model; empty in other engines.
    fn shares(&self) -> Vec<Share> {
        Vec::new()
    }

    /// Takes the flows' samples of the interval that ends now.
    fn sample(&mut self, sink: &mut dyn FnMut(FlowSample));

    /// Takes the subflow samples that belong to the last call of [`Self::sample`].
    fn subflows(&mut self) -> Vec<SubflowSample> {
        Vec::new()
    }

    /// Takes the transfers completed since the last call.
    fn transfers(&mut self) -> Vec<Transfer> {
        Vec::new()
    }

    /// Whether [`Self::set`] is possible.
    fn can_set(&self) -> bool {
        false
    }

    /// Changes links at a time after all handled events, as an event of the lab at that time.
    /// Paths of files are relative to the current folder.
    ///
    /// # Errors
    /// If a field or a value is wrong; nothing changes.
    fn set(
        &mut self,
        _at: Time,
        _fields: &[(String, String)],
    ) -> std::result::Result<Option<LiveChanges>, Diagnostics> {
        Ok(None)
    }

    /// Takes the lab events since the last call.
    fn happened(&mut self) -> Vec<Event>;

    /// Takes the sample of all rate-controlled sessions for the interval that ends now, with
    /// queues and bytes as of the last [`Self::link_counters`]. `None` if no time has passed, and
    /// in other engines.
    fn judge(&mut self) -> Option<ControlSample> {
        None
    }

    /// Results of rate control: the summary, group names, and a row for each session that
    /// refers to them.
    fn control(&self) -> Option<(RateControl, Vec<String>, Vec<SessionRow>)> {
        None
    }

    /// Warnings for the results of `plan`.
    fn warnings(&self, _plan: &Plan) -> Vec<String> {
        Vec::new()
    }

    /// Stops all running flows. Samples and transfers may be taken once more.
    fn stop(&mut self);

    /// The result of each flow; called once, after everything else.
    fn results(&mut self) -> Vec<FlowResult>;
}
