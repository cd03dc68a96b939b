//! What a flow has counted so far, and the samples that are cut from it.

use base::{FlowId, Span, Time};
use lab::plan::{Flow, Traffic};
use record::{FlowSample, Histogram, Transfer};

use crate::flow::{Course, Datagrams, FlowResult, Transfers};

/// Counters of one flow. Those of a kind of traffic that the flow is not stay empty.
#[derive(Debug, Default)]
pub struct Tally {
    /// Payload bytes that the sender handed to its transport.
    pub sent: u64,
    /// Payload bytes that arrived.
    pub received: u64,
    /// Responses that arrived.
    pub responses: u64,
    /// Segments sent again in the present run of the flow, as far as observed.
    pub retransmits: u64,
    /// Retransmission timeouts in the present run, where the transport tells them.
    pub timeouts: Option<u64>,
    /// Transfers that began; [`Self::transfer`] counts those that complete.
    pub transfers_started: u64,
    /// The same of runs that have ended.
    past_retransmits: u64,
    past_timeouts: u64,
    /// Datagrams of the present run, as far as observed, and of runs that have ended.
    datagrams: Option<Box<[Datagrams; 2]>>,
    /// TCP's smoothed round-trip time when it was last observed.
    pub srtt: Option<Span>,
    /// TCP's congestion window when it was last observed, in bytes.
    pub window_bytes: Option<u64>,
    /// Smoothed round-trip times, in nanoseconds, one a sample.
    rtt: Lazy,
    /// Goodput of whole intervals, in bit/s.
    goodput: Lazy,
    completed: u64,
    slowdown: Lazy,
    delay: Split,
    latency: Split,
    reported: Reported,
}

/// A histogram of everything and one of the present interval.
#[derive(Debug, Default)]
struct Split {
    all: Lazy,
    interval: Lazy,
}

impl Split {
    fn record(&mut self, value: u64) {
        self.interval.record(value);
    }

    fn cut(&mut self) -> Option<record::Distribution> {
        let interval = self.interval.0.as_mut().filter(|interval| interval.count() > 0)?;
        let distribution = interval.distribution();
        self.all.get().merge(interval);
        interval.clear();
        distribution
    }
}

/// A histogram that takes no room before its first value: labs have many flows, and each has few
/// of them.
#[derive(Debug, Default)]
struct Lazy(Option<Box<Histogram>>);

impl Lazy {
    fn get(&mut self) -> &mut Histogram {
        self.0.get_or_insert_default()
    }

    fn record(&mut self, value: u64) {
        self.get().record(value);
    }

    fn take(&mut self) -> Histogram {
        self.0.take().map_or_else(Histogram::new, |histogram| *histogram)
    }
}

/// What earlier samples have told.
#[derive(Debug, Default)]
struct Reported {
    sent: u64,
    received: u64,
    responses: u64,
    completed: u64,
    retransmits: u64,
    lost: u64,
}

impl Tally {
    /// A datagram took this long.
    pub fn record_delay(&mut self, nanos: u64) {
        self.delay.record(nanos);
    }

    /// A response came this long after its request.
    pub fn record_latency(&mut self, nanos: u64) {
        self.latency.record(nanos);
    }

    /// A transfer was delivered whole.
    pub fn transfer(&mut self, transfer: &Transfer) {
        let Some(completion) = transfer.completion else { return };
        self.completed += 1;
        self.latency.record(completion.as_nanos());
        if let Some(slowdown) = transfer.slowdown_milli() {
            self.slowdown.record(slowdown);
        }
    }

    /// Segments sent again over all runs of the flow.
    pub fn retransmits(&self) -> u64 {
        self.past_retransmits + self.retransmits
    }

    /// Enters the datagrams of the present run, as far as observed.
    pub fn observe_datagrams(&mut self, datagrams: Datagrams) {
        self.datagrams.get_or_insert_default()[0] = datagrams;
    }

    /// Enters the round-trip time that was last observed as one of the flow's.
    pub fn record_rtt(&mut self) {
        if let Some(srtt) = self.srtt {
            self.rtt.record(srtt.as_nanos());
        }
    }

    /// Datagrams over all runs of the flow.
    pub fn datagrams(&self) -> Datagrams {
        let [mut sum, past] = self.datagrams.as_deref().copied().unwrap_or_default();
        sum += past;
        sum
    }

    /// The flow's present run is over; another may follow.
    pub fn close_run(&mut self) {
        self.past_retransmits += std::mem::take(&mut self.retransmits);
        self.past_timeouts += self.timeouts.as_mut().map_or(0, std::mem::take);
        if let Some([now, past]) = self.datagrams.as_deref_mut() {
            *past += std::mem::take(now);
        }
        self.srtt = None;
        self.window_bytes = None;
    }

    /// The sample of the interval that ends at `at`.
    pub fn cut(&mut self, at: Time, interval: Span, flow: FlowId, traffic: &Traffic) -> FlowSample {
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
            Traffic::Transfers { .. } => {
                sample.retransmits = again;
                sample.responses = Some(self.completed - self.reported.completed);
                sample.latency = latency;
            }
            Traffic::Rpc { .. } => {
                sample.retransmits = again;
                sample.responses = Some(self.responses - self.reported.responses);
                sample.latency = latency;
            }
        }
        sample.rtt = self.srtt;
        sample.cwnd_bytes = self.window_bytes;
        self.record_rtt();
        self.reported = Reported {
            sent: self.sent,
            received: self.received,
            responses: self.responses,
            completed: self.completed,
            retransmits,
            lost: lost.max(self.reported.lost),
        };
        sample
    }

    /// The goodput of an interval in which the flow ran from beginning to end.
    pub fn record_goodput(&mut self, sample: &FlowSample) {
        let nanos = u128::from(sample.interval.as_nanos().max(1));
        let rate = u128::from(sample.received_bytes) * 8_000_000_000 / nanos;
        self.goodput.record(u64::try_from(rate).unwrap_or(u64::MAX));
    }

    /// What the flow achieved, once it has ended.
    pub fn into_result(mut self, id: FlowId, flow: &Flow, course: Course) -> FlowResult {
        self.delay.cut();
        self.latency.cut();
        let (tcp, udp, rpc, many) = match &flow.traffic {
            Traffic::Bulk { .. } => (true, false, false, false),
            Traffic::Transfers { .. } => (true, false, false, true),
            Traffic::Paced { .. } => (false, true, false, false),
            Traffic::Rpc { .. } => (true, false, true, false),
        };
        let (retransmits, datagrams) = (self.retransmits(), self.datagrams());
        let mut latency = self.latency.all.take();
        let transfers = many.then(|| Transfers {
            started: self.transfers_started.max(self.completed),
            completed: self.completed,
            completion: std::mem::take(&mut latency),
            slowdown: self.slowdown.take(),
        });
        FlowResult {
            id,
            name: flow.name.clone(),
            outcome: course.outcome,
            started: course.started,
            ended: course.ended,
            active: course.active,
            completion: course.completion,
            sent_bytes: self.sent,
            received_bytes: self.received,
            retransmits: tcp.then_some(retransmits),
            timeouts: self.timeouts.map(|now| now + self.past_timeouts),
            datagrams: udp.then_some(datagrams),
            responses: rpc.then_some(self.responses),
            transfers,
            rtt: self.rtt.take(),
            delay: self.delay.all.take(),
            latency,
            goodput: self.goodput.take(),
        }
    }
}
