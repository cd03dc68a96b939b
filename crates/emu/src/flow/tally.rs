//! What a flow has counted so far, and the samples that are cut from it.

use base::{FlowId, Span, Time};
use lab::plan::Traffic;
use record::{FlowSample, Histogram};

use super::result::Datagrams;

/// Counters of one flow. Those of a kind of traffic that the flow is not stay empty.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) responses: u64,
    /// Retransmissions and datagrams of the present run of the flow, as far as observed.
    pub(super) retransmits: u64,
    pub(super) datagrams: Datagrams,
    /// The same of runs that have ended.
    past_retransmits: u64,
    past_datagrams: Datagrams,
    /// TCP's state when it was last observed.
    pub(super) srtt: Option<Span>,
    pub(super) window_bytes: Option<u64>,
    pub(super) rtt: Histogram,
    pub(super) goodput: Histogram,
    delay: Split,
    latency: Split,
    reported: Reported,
}

/// A histogram of everything and one of the present interval.
#[derive(Debug, Default)]
struct Split {
    all: Histogram,
    interval: Histogram,
}

impl Split {
    fn record(&mut self, value: u64) {
        self.interval.record(value);
    }

    fn cut(&mut self) -> Option<record::Distribution> {
        let distribution = self.interval.distribution();
        self.all.merge(&self.interval);
        self.interval.clear();
        distribution
    }
}

/// What earlier samples have told.
#[derive(Debug, Default)]
struct Reported {
    sent: u64,
    received: u64,
    responses: u64,
    retransmits: u64,
    lost: u64,
}

impl Tally {
    pub(super) fn record_delay(&mut self, nanos: u64) {
        self.delay.record(nanos);
    }

    pub(super) fn record_latency(&mut self, nanos: u64) {
        self.latency.record(nanos);
    }

    pub(super) fn retransmits(&self) -> u64 {
        self.past_retransmits + self.retransmits
    }

    pub(super) fn datagrams(&self) -> Datagrams {
        let mut sum = self.past_datagrams;
        sum += self.datagrams;
        sum
    }

    /// The flow's present run is over; another may follow.
    pub(super) fn close_run(&mut self) {
        self.past_retransmits += std::mem::take(&mut self.retransmits);
        self.past_datagrams += std::mem::take(&mut self.datagrams);
        self.srtt = None;
        self.window_bytes = None;
    }

    /// The sample of the interval that ends at `at`.
    pub(super) fn cut(
        &mut self,
        at: Time,
        interval: Span,
        flow: FlowId,
        traffic: &Traffic,
    ) -> FlowSample {
        let (retransmits, lost) = (self.retransmits(), self.datagrams().lost);
        let mut sample = FlowSample::empty(at, interval, flow);
        sample.sent_bytes = self.sent - self.reported.sent;
        sample.received_bytes = self.received - self.reported.received;
        let delay = self.delay.cut();
        let latency = self.latency.cut();
        let again = Some(retransmits - self.reported.retransmits);
        match traffic {
            Traffic::Bulk { .. } => sample.retransmits = again,
            Traffic::Paced { .. } => {
                // What was missing may still turn up: then this interval lost fewer than none.
                sample.lost = Some(lost.saturating_sub(self.reported.lost));
                sample.delay = delay;
            }
            Traffic::Rpc { .. } => {
                sample.retransmits = again;
                sample.responses = Some(self.responses - self.reported.responses);
                sample.latency = latency;
            }
        }
        sample.rtt = self.srtt;
        sample.cwnd_bytes = self.window_bytes;
        if let Some(srtt) = self.srtt {
            self.rtt.record(srtt.as_nanos());
        }
        self.reported = Reported {
            sent: self.sent,
            received: self.received,
            responses: self.responses,
            retransmits,
            lost: lost.max(self.reported.lost),
        };
        sample
    }

    /// All delays and latencies; empties them.
    pub(super) fn take_distributions(&mut self) -> (Histogram, Histogram) {
        self.delay.cut();
        self.latency.cut();
        (std::mem::take(&mut self.delay.all), std::mem::take(&mut self.latency.all))
    }
}
