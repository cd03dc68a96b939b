//! What a flow has counted so far, and the samples that are cut from it.

use base::{FlowId, Histogram, Span, Time};
use lab::plan::Traffic;
use record::{FlowSample, SubflowSample, Transfer};

use crate::flow::{Course, Datagrams, FlowResult, Half, Transfers};
use crate::multipath::{Silence, Subflow, Subflows};

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
    /// TCP's smoothed round-trip time when it was last observed.
    pub srtt: Option<Span>,
    /// TCP's congestion window when it was last observed, in bytes.
    pub window_bytes: Option<u64>,
    latency: Split,
    /// What only some kinds of traffic have, and what is there only once there was a sample: labs
    /// have many flows, and most are idle.
    paced: Option<Box<Paced>>,
    completed: Option<Box<Completed>>,
    sampled: Option<Box<Sampled>>,
    silence: Option<Box<Silence>>,
    subflows: Option<Box<Subflows>>,
}

/// Datagrams, and the time that they took.
#[derive(Debug, Default)]
struct Paced {
    /// Of the present run, as far as observed, and of runs that have ended.
    datagrams: [Datagrams; 2],
    delay: Split,
}

/// Transfers that were delivered whole.
#[derive(Debug, Default)]
struct Completed {
    count: u64,
    slowdown: Lazy,
}

/// What samples and ends of runs add up.
#[derive(Debug, Default)]
struct Sampled {
    /// Segments sent again and timeouts in runs that have ended.
    past_retransmits: u64,
    past_timeouts: u64,
    /// Smoothed round-trip times, in nanoseconds, one a sample.
    rtt: Lazy,
    /// Goodput of whole intervals, in bit/s.
    goodput: Lazy,
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

    fn cut(&mut self) -> Option<base::Distribution> {
        match &mut self.interval {
            Lazy::Empty => None,
            Lazy::Same { value, times } => {
                let mut interval = Histogram::new();
                interval.record_many(*value, u64::from(*times));
                self.all.record_many(*value, *times);
                self.interval = Lazy::Empty;
                interval.distribution()
            }
            Lazy::Many(interval) => {
                let distribution = interval.distribution()?;
                self.all.get().merge(interval);
                interval.clear();
                Some(distribution)
            }
        }
    }
}

/// A histogram that takes no room while all values are equal: labs have many flows, and each has
/// few values in few of its histograms.
#[derive(Debug, Default)]
enum Lazy {
    #[default]
    Empty,
    Same {
        value: u64,
        times: u32,
    },
    Many(Box<Histogram>),
}

impl Lazy {
    fn get(&mut self) -> &mut Histogram {
        if !matches!(self, Self::Many(_)) {
            let full = self.take();
            *self = Self::Many(Box::new(full));
        }
        match self {
            Self::Many(full) => full,
            _ => unreachable!("it was just made so"),
        }
    }

    fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    fn record_many(&mut self, value: u64, more: u32) {
        match self {
            Self::Empty => *self = Self::Same { value, times: more },
            Self::Same { value: same, times } if *same == value && *times < u32::MAX - more => {
                *times += more;
            }
            _ => self.get().record_many(value, u64::from(more)),
        }
    }

    fn take(&mut self) -> Histogram {
        match std::mem::take(self) {
            Self::Empty => Histogram::new(),
            Self::Same { value, times } => {
                let mut full = Histogram::new();
                full.record_many(value, u64::from(times));
                full
            }
            Self::Many(full) => *full,
        }
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
        self.paced.get_or_insert_default().delay.record(nanos);
    }

    /// A response came this long after its request.
    pub fn record_latency(&mut self, nanos: u64) {
        self.latency.record(nanos);
    }

    /// A transfer was delivered whole.
    pub fn transfer(&mut self, transfer: &Transfer) {
        let Some(completion) = transfer.completion else { return };
        self.latency.record(completion.as_nanos());
        let completed = self.completed.get_or_insert_default();
        completed.count += 1;
        if let Some(slowdown) = transfer.slowdown_milli() {
            completed.slowdown.record(slowdown);
        }
    }

    /// Segments sent again over all runs of the flow.
    pub fn retransmits(&self) -> u64 {
        self.sampled.as_ref().map_or(0, |sampled| sampled.past_retransmits) + self.retransmits
    }

    /// Enters the datagrams of the present run, as far as observed.
    pub fn observe_datagrams(&mut self, datagrams: Datagrams) {
        self.paced.get_or_insert_default().datagrams[0] = datagrams;
    }

    /// Enters the round-trip time that was last observed as one of the flow's.
    pub fn record_rtt(&mut self) {
        if let Some(srtt) = self.srtt {
            self.sampled.get_or_insert_default().rtt.record(srtt.as_nanos());
        }
    }

    /// From now on the receiver waits for bytes; the longest wait is the flow's gap.
    pub fn begin_waiting(&mut self, now: Time) {
        self.silence.get_or_insert_default().begin(now);
    }

    /// Bytes have come to the receiver, or all that there were to come have.
    pub fn heard(&mut self, now: Time) {
        if let Some(silence) = &mut self.silence {
            silence.heard(now);
        }
    }

    /// The receiver waits no more.
    pub fn end_waiting(&mut self, now: Time) {
        if let Some(silence) = &mut self.silence {
            silence.end(now);
        }
    }

    /// Enters what is known of one of a multipath flow's subflows.
    pub fn observe_subflow(&mut self, subflow: Subflow) {
        self.subflows.get_or_insert_default().observe(subflow);
    }

    /// Enters the bytes that were sent again over another subflow since the present run began.
    pub fn observe_reinjected(&mut self, bytes: u64) {
        self.subflows.get_or_insert_default().observe_reinjected(bytes);
    }

    /// Enters how many bytes wait, or have waited since this was last told, at a multipath
    /// receiver for earlier ones.
    pub fn observe_reorder(&mut self, bytes: u64) {
        self.subflows.get_or_insert_default().observe_reorder(bytes);
    }

    /// Enters how many bytes a multipath receiver keeps now that its application has not read.
    pub fn observe_buffered(&mut self, bytes: u64) {
        self.subflows.get_or_insert_default().observe_buffered(bytes);
    }

    /// The samples of a multipath flow's subflows for the interval that ends at `at`.
    pub fn cut_subflows(&mut self, at: Time, interval: Span, flow: FlowId) -> Vec<SubflowSample> {
        self.subflows.as_mut().map_or_else(Vec::new, |all| all.cut(at, interval, flow))
    }

    /// Datagrams over all runs of the flow.
    pub fn datagrams(&self) -> Datagrams {
        let of = |paced: &Paced| paced.datagrams;
        let [mut sum, past] = self.paced.as_deref().map(of).unwrap_or_default();
        sum += past;
        sum
    }

    /// The flow's present run is over; another may follow.
    pub fn close_run(&mut self) {
        let sampled = self.sampled.get_or_insert_default();
        sampled.past_retransmits += std::mem::take(&mut self.retransmits);
        sampled.past_timeouts += self.timeouts.as_mut().map_or(0, std::mem::take);
        if let Some(paced) = &mut self.paced {
            let [now, past] = &mut paced.datagrams;
            *past += std::mem::take(now);
        }
        if let Some(subflows) = &mut self.subflows {
            subflows.close_run();
        }
        self.srtt = None;
        self.window_bytes = None;
    }

    /// The sample of the interval that ends at `at`.
    pub fn cut(&mut self, at: Time, interval: Span, flow: FlowId, traffic: &Traffic) -> FlowSample {
        let (retransmits, lost) = (self.retransmits(), self.datagrams().lost);
        let completed = self.completed.as_ref().map_or(0, |completed| completed.count);
        let mut sample = FlowSample::empty(at, interval, flow);
        let reported = &mut self.sampled.get_or_insert_default().reported;
        sample.sent_bytes = self.sent - reported.sent;
        sample.received_bytes = self.received - reported.received;
        let delay = self.paced.as_mut().and_then(|paced| paced.delay.cut());
        let latency = self.latency.cut();
        let again = Some(retransmits - reported.retransmits);
        match traffic {
            Traffic::Bulk { .. } => sample.retransmits = again,
            Traffic::Paced { .. } | Traffic::Controlled { .. } => {
                // What was missing may still turn up: then this interval lost fewer than none.
                sample.lost = Some(lost.saturating_sub(reported.lost));
                sample.delay = delay;
            }
            Traffic::Transfers { .. } | Traffic::Requests { .. } => {
                sample.retransmits = again;
                sample.responses = Some(completed - reported.completed);
                sample.latency = latency;
            }
            Traffic::Rpc { .. } => {
                sample.retransmits = again;
                sample.responses = Some(self.responses - reported.responses);
                sample.latency = latency;
            }
            Traffic::Queries { .. } => {
                sample.lost = Some(lost.saturating_sub(reported.lost));
                sample.responses = Some(self.responses - reported.responses);
                sample.latency = latency;
            }
        }
        sample.gap = self.silence.as_mut().map(|silence| silence.cut(at));
        if let Some(subflows) = &mut self.subflows {
            (sample.reinjected_bytes, sample.reorder_bytes) = subflows.cut_counts();
        }
        sample.rtt = self.srtt;
        sample.cwnd_bytes = self.window_bytes;
        *reported = Reported {
            sent: self.sent,
            received: self.received,
            responses: self.responses,
            completed,
            retransmits,
            lost: lost.max(reported.lost),
        };
        self.record_rtt();
        sample
    }

    /// The goodput of an interval in which the flow ran from beginning to end.
    pub fn record_goodput(&mut self, sample: &FlowSample) {
        let nanos = u128::from(sample.interval.as_nanos().max(1));
        let rate = u128::from(sample.received_bytes) * 8_000_000_000 / nanos;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.sampled.get_or_insert_default().goodput.record(rate);
    }

    /// What the flow achieved, once it has ended.
    pub fn into_result(
        mut self,
        id: FlowId,
        name: String,
        traffic: &Traffic,
        course: Course,
    ) -> FlowResult {
        self.latency.cut();
        let (tcp, udp, rpc, many) = match traffic {
            Traffic::Bulk { .. } => (true, false, false, false),
            Traffic::Transfers { .. } | Traffic::Requests { .. } => (true, false, false, true),
            Traffic::Paced { .. } | Traffic::Controlled { .. } => (false, true, false, false),
            Traffic::Rpc { .. } => (true, false, true, false),
            Traffic::Queries { .. } => (false, true, true, false),
        };
        let (retransmits, datagrams) = (self.retransmits(), self.datagrams());
        let mut latency = self.latency.all.take();
        let mut paced = self.paced.take().unwrap_or_default();
        paced.delay.cut();
        let mut completed = self.completed.take().unwrap_or_default();
        let mut sampled = self.sampled.take().unwrap_or_default();
        let transfers = many.then(|| Transfers {
            started: self.transfers_started.max(completed.count),
            completed: completed.count,
            completion: std::mem::take(&mut latency),
            slowdown: completed.slowdown.take(),
        });
        FlowResult {
            id,
            half: Half::Whole,
            name,
            outcome: course.outcome,
            started: course.started,
            ended: course.ended,
            active: course.active,
            completion: course.completion,
            sent_bytes: self.sent,
            received_bytes: self.received,
            retransmits: tcp.then_some(retransmits),
            timeouts: self.timeouts.map(|now| now + sampled.past_timeouts),
            datagrams: udp.then_some(datagrams),
            responses: rpc.then_some(self.responses),
            transfers,
            gap: self.silence.map(|silence| silence.longest()),
            reinjected: self.subflows.as_ref().and_then(|all| all.reinjected()),
            reorder: self.subflows.as_ref().and_then(|all| all.reorder()),
            buffered: self.subflows.as_ref().and_then(|all| all.buffered()),
            paths: self.subflows.map_or_else(Vec::new, |all| all.into_results()),
            rtt: sampled.rtt.take(),
            delay: paced.delay.all.take(),
            latency,
            goodput: sampled.goodput.take(),
            edges: Vec::new(),
        }
    }
}
