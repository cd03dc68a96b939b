//! Counters of a flow, and the samples made from them.

use base::{Bytes, FlowId, Histogram, Span, Time};
use lab::plan::{Tolerance, Traffic};
use workload::{Completion, Report};

use super::adjusted::Adjuster;
use super::multipath::{GapMeter, Subflow, Subflows};
use super::path::Ideal;
use crate::flow::{Datagrams, FlowEnds, FlowLifetime, FlowResult, Transfers};
use crate::waits::HostWaits;
use crate::{FlowSample, SubflowSample, Transfer};

/// Counters of one flow. Counters that do not apply to its kind of traffic stay empty.
#[derive(Debug, Default)]
pub struct FlowCounters {
    /// Payload bytes that the sender passed to its transport.
    pub sent: u64,
    /// Received payload bytes.
    pub received: u64,
    pub responses: u64,
    /// Retransmitted segments in the current run at the last observation.
    pub retransmits: u64,
    /// Retransmission timeouts in the current run, if the transport reports them.
    pub timeouts: Option<u64>,
    /// Started transfers; `transfer` counts completed ones.
    pub transfers_started: u64,
    /// TCP's smoothed round-trip time when it was last observed.
    pub srtt: Option<Span>,
    /// TCP's congestion window when it was last observed, in bytes.
    pub window_bytes: Option<u64>,
    latency: IntervalHistogram,
    // Allocated on first use: labs have many flows, and most of them are idle.
    paced: Option<Box<DatagramCounters>>,
    completed: Option<Box<CompletedTransfers>>,
    sampled: Option<Box<SampleSums>>,
    gap: Option<Box<GapMeter>>,
    subflows: Option<Box<Subflows>>,
    adjuster: Option<Adjuster>,
}

#[derive(Debug, Default)]
struct DatagramCounters {
    /// Counts of the current run at the last observation, and of earlier runs.
    datagrams: [Datagrams; 2],
    delay: IntervalHistogram,
}

#[derive(Debug, Default)]
struct CompletedTransfers {
    count: u64,
    slowdown: LazyHistogram,
}

/// Sums over samples and runs.
#[derive(Debug, Default)]
struct SampleSums {
    /// Retransmitted segments and timeouts in earlier runs.
    past_retransmits: u64,
    past_timeouts: u64,
    /// Smoothed round-trip time at each sample, in nanoseconds.
    rtt: LazyHistogram,
    /// Goodput of whole intervals, in bit/s.
    goodput: LazyHistogram,
    reported: ReportedTotals,
}

/// A histogram of the whole run and one of the current interval.
#[derive(Debug, Default)]
struct IntervalHistogram {
    all: LazyHistogram,
    interval: LazyHistogram,
}

impl IntervalHistogram {
    fn record(&mut self, value: u64) {
        self.interval.record(value);
    }

    fn cut(&mut self) -> Option<base::Distribution> {
        match &mut self.interval {
            LazyHistogram::Empty => None,
            LazyHistogram::Same { value, times } => {
                let mut interval = Histogram::new();
                interval.record_many(*value, u64::from(*times));
                self.all.record_many(*value, *times);
                self.interval = LazyHistogram::Empty;
                interval.distribution()
            }
            LazyHistogram::Many(interval) => {
                let distribution = interval.distribution()?;
                self.all.get().merge(interval);
                interval.clear();
                Some(distribution)
            }
        }
    }
}

/// A histogram that allocates memory only for two different values: labs have many flows, and most
/// of their histograms have few values.
#[derive(Debug, Default)]
enum LazyHistogram {
    #[default]
    Empty,
    Same {
        value: u64,
        times: u32,
    },
    Many(Box<Histogram>),
}

impl LazyHistogram {
    fn get(&mut self) -> &mut Histogram {
        if !matches!(self, Self::Many(_)) {
            let full = self.take();
            *self = Self::Many(Box::new(full));
        }
        match self {
            Self::Many(full) => full,
            _ => unreachable!("assigned above"),
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

/// Totals at the last sample.
#[derive(Debug, Default)]
struct ReportedTotals {
    sent: u64,
    received: u64,
    responses: u64,
    completed: u64,
    retransmits: u64,
    lost: u64,
}

impl FlowCounters {
    /// Counters of a flow on a host with these waits.
    pub fn on_host(waits: HostWaits, tolerance: Tolerance, traffic: &Traffic) -> Self {
        let adjuster = Some(Adjuster::new(waits, tolerance, traffic));
        Self { adjuster, ..Self::default() }
    }

    /// Records the one-way delay of a datagram, which arrived now.
    pub fn record_delay(&mut self, nanos: u64) {
        if let Some(adjuster) = &mut self.adjuster {
            adjuster.delay(nanos);
        }
        self.paced.get_or_insert_default().delay.record(nanos);
    }

    /// Records the time from a request to its response, which arrived now.
    pub fn record_latency(&mut self, nanos: u64) {
        if let Some(adjuster) = &mut self.adjuster {
            adjuster.latency(nanos);
        }
        self.latency.record(nanos);
    }

    /// Counts a transfer if it completed.
    pub(crate) fn transfer(&mut self, transfer: &Transfer) {
        let Some(completion) = transfer.completion else { return };
        self.record_latency(completion.as_nanos());
        let completed = self.completed.get_or_insert_default();
        completed.count += 1;
        if let Some(slowdown) = transfer.slowdown_milli() {
            completed.slowdown.record(slowdown);
        }
    }

    /// Counts a report of a flow's state machine. Returns the transfer if one has ended.
    pub fn report(
        &mut self,
        flow: FlowId,
        ideal: Option<&Ideal>,
        report: Report,
    ) -> Option<Transfer> {
        let (ended, ideal) = match report {
            Report::Started => {
                self.transfers_started += 1;
                return None;
            }
            Report::Response(latency) => {
                self.responses += 1;
                self.record_latency(latency.as_nanos());
                return None;
            }
            Report::Transfer(ended) => {
                (ended, ideal.map(|ideal| ideal.completion(Bytes::new(ended.size))))
            }
            Report::Request(ended) => {
                self.responses += u64::from(ended.duration.is_some());
                (ended, ideal.map(|ideal| ideal.answer(Bytes::new(ended.size))))
            }
        };
        let Completion { start, size, duration: completion, retransmits } = ended;
        let transfer =
            Transfer { flow, start, size: Bytes::new(size), completion, ideal, retransmits };
        self.transfer(&transfer);
        Some(transfer)
    }

    /// Retransmitted segments over all runs of the flow.
    pub fn retransmits(&self) -> u64 {
        self.sampled.as_ref().map_or(0, |sampled| sampled.past_retransmits) + self.retransmits
    }

    /// Sets the datagram counts of the current run.
    pub fn observe_datagrams(&mut self, datagrams: Datagrams) {
        self.paced.get_or_insert_default().datagrams[0] = datagrams;
    }

    /// Records the last observed round-trip time.
    pub fn record_rtt(&mut self) {
        if let Some(srtt) = self.srtt {
            if let Some(adjuster) = &mut self.adjuster {
                adjuster.rtt(srtt.as_nanos());
            }
            self.sampled.get_or_insert_default().rtt.record(srtt.as_nanos());
        }
    }

    /// Starts the measurement of the longest time without received bytes, the flow's gap.
    pub fn start_gap_measurement(&mut self, now: Time) {
        self.gap.get_or_insert_default().begin(now);
    }

    /// Records that the receiver has received bytes, or the end of the stream.
    pub fn on_bytes_received(&mut self, now: Time) {
        if let Some(gap) = &mut self.gap {
            gap.on_bytes_received(now);
        }
    }

    pub fn stop_gap_measurement(&mut self, now: Time) {
        if let Some(gap) = &mut self.gap {
            gap.end(now);
        }
    }

    /// Sets the last observed state of a subflow of a multipath flow.
    pub fn observe_subflow(&mut self, subflow: Subflow) {
        self.subflows.get_or_insert_default().observe(subflow);
    }

    /// Sets the bytes reinjected on another subflow since the start of the current run.
    pub fn observe_reinjected(&mut self, bytes: u64) {
        self.subflows.get_or_insert_default().observe_reinjected(bytes);
    }

    /// Enters the maximum of bytes out of order at a multipath receiver since the last call.
    pub fn observe_reorder(&mut self, bytes: u64) {
        self.subflows.get_or_insert_default().observe_reorder(bytes);
    }

    /// Enters the number of unread bytes at a multipath receiver.
    pub fn observe_buffered(&mut self, bytes: u64) {
        self.subflows.get_or_insert_default().observe_buffered(bytes);
    }

    /// The samples of a multipath flow's subflows for the interval that ends at `at`.
    pub fn cut_subflows(&mut self, at: Time, interval: Span, flow: FlowId) -> Vec<SubflowSample> {
        self.subflows.as_mut().map_or_else(Vec::new, |all| all.cut(at, interval, flow))
    }

    /// Datagrams over all runs of the flow.
    pub fn datagrams(&self) -> Datagrams {
        let of = |paced: &DatagramCounters| paced.datagrams;
        let [mut sum, past] = self.paced.as_deref().map(of).unwrap_or_default();
        sum += past;
        sum
    }

    /// Ends the current run of the flow; another run may follow.
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
        let retransmits_since = Some(retransmits - reported.retransmits);
        match traffic {
            Traffic::Bulk { .. } => sample.retransmits = retransmits_since,
            Traffic::Paced { .. } | Traffic::Controlled { .. } => {
                // A datagram counted as lost may still arrive: the loss of an interval
                // is never negative.
                sample.lost = Some(lost.saturating_sub(reported.lost));
                sample.delay = delay;
            }
            Traffic::Transfers { .. } | Traffic::Requests { .. } => {
                sample.retransmits = retransmits_since;
                sample.responses = Some(completed - reported.completed);
                sample.latency = latency;
            }
            Traffic::Rpc { .. } => {
                sample.retransmits = retransmits_since;
                sample.responses = Some(self.responses - reported.responses);
                sample.latency = latency;
            }
            Traffic::Queries { .. } => {
                sample.lost = Some(lost.saturating_sub(reported.lost));
                sample.responses = Some(self.responses - reported.responses);
                sample.latency = latency;
            }
        }
        sample.gap = self.gap.as_mut().map(|gap| gap.cut(at));
        if let Some(subflows) = &mut self.subflows {
            (sample.reinjected_bytes, sample.reorder_bytes) = subflows.cut_counts();
        }
        let adjuster = self.adjuster.as_ref();
        sample.wait_max = adjuster.and_then(|adjuster| adjuster.longest_wait(interval));
        sample.rtt = self.srtt;
        sample.cwnd_bytes = self.window_bytes;
        *reported = ReportedTotals {
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

    /// Records the goodput of an interval during all of which the flow ran.
    pub fn record_goodput(&mut self, sample: &FlowSample) {
        let nanos = u128::from(sample.interval.as_nanos().max(1));
        let rate = u128::from(sample.received_bytes) * 8_000_000_000 / nanos;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.sampled.get_or_insert_default().goodput.record(rate);
    }

    /// The result of a flow that has ended.
    pub fn into_result(
        mut self,
        id: FlowId,
        name: String,
        traffic: &Traffic,
        lifetime: FlowLifetime,
    ) -> FlowResult {
        self.latency.cut();
        let (is_tcp, is_udp, is_rpc, has_transfers) = match traffic {
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
        let transfers = has_transfers.then(|| Transfers {
            started: self.transfers_started.max(completed.count),
            completed: completed.count,
            completion: std::mem::take(&mut latency),
            slowdown: completed.slowdown.take(),
        });
        FlowResult {
            id,
            ends: FlowEnds::Both,
            name,
            outcome: lifetime.outcome,
            started: lifetime.started,
            ended: lifetime.ended,
            active: lifetime.active,
            completion: lifetime.completion,
            sent_bytes: self.sent,
            received_bytes: self.received,
            retransmits: is_tcp.then_some(retransmits),
            timeouts: self.timeouts.map(|now| now + sampled.past_timeouts),
            datagrams: is_udp.then_some(datagrams),
            responses: is_rpc.then_some(self.responses),
            transfers,
            gap: self.gap.map(|gap| gap.longest()),
            reinjected: self.subflows.as_ref().and_then(|all| all.reinjected()),
            reorder: self.subflows.as_ref().and_then(|all| all.reorder()),
            buffered: self.subflows.as_ref().and_then(|all| all.buffered()),
            paths: self.subflows.map_or_else(Vec::new, |all| all.into_results()),
            rtt: sampled.rtt.take(),
            delay: paced.delay.all.take(),
            latency,
            adjusted: self.adjuster.map(Adjuster::into_delays),
            goodput: sampled.goodput.take(),
            edges: Vec::new(),
        }
    }
}
