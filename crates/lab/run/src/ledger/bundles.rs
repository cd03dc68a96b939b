//! Turns statuses of bundles into samples, and retains the data for summaries and expectations.

use std::collections::BTreeMap;

use crate::record::{BundleSummary, BundleTransition};
use crate::{BundleCounts, BundleSample, Level, RecorderHandle};
use base::{Span, Time};
use bundler::sendbox::{Counters, State, Status, Transition};
use lab::expect::Subject;
use lab::plan::{self, Action, BoxAction, BundleControl, BundleState, Plan};

mod measure;
#[cfg(test)]
mod tests;

/// Maximum number of state changes per bundle that are retained and logged, so that a flapping
/// bundle cannot fill the record.
const MAX_STATE_CHANGES: usize = 10_000;

/// Turns statuses of bundles into samples.
#[derive(Debug)]
pub struct BundleLedger {
    recorder: RecorderHandle,
    at: Time,
    bundles: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    /// Times at which the sendbox's process stops, ascending.
    stops: Vec<Time>,
    last: Counters,
    state: BundleState,
    changes: Vec<Change>,
    /// Number of all changes, including those not retained.
    change_count: u64,
    /// Whether an expectation names it. Samples of other bundles are not retained.
    named: bool,
    samples: Vec<BundleSample>,
    sums: Sums,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    at: Time,
    to: BundleState,
    why: &'static str,
}

/// Sums for the summary.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    rate: TimeWeightedMean,
    queueing: TimeWeightedMean,
    backlog: TimeWeightedMean,
    waiting: TimeWeightedMean,
    backlog_max: u64,
    min_rtt: Option<Span>,
    counts: BundleCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct TimeWeightedMean {
    sum: f64,
    weight: f64,
}

impl TimeWeightedMean {
    fn add(&mut self, value: f64, weight: Span) {
        self.sum += value * weight.as_nanos() as f64;
        self.weight += weight.as_nanos() as f64;
    }

    fn value(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

impl BundleLedger {
    /// A ledger whose samples go to `recorder`.
    pub fn new(plan: &Plan, recorder: RecorderHandle) -> Self {
        let entry = |(index, bundle): (usize, &plan::Bundle)| {
            let stop = Action::Box(bundle.from, BoxAction::Stop);
            let stops = plan.events.iter().filter(|event| event.action == stop);
            let subject = Subject::Bundle(index);
            Entry {
                name: bundle.name.clone(),
                stops: stops.map(|event| event.at).collect(),
                last: Counters::default(),
                state: BundleState::Learning,
                changes: Vec::new(),
                change_count: 0,
                named: plan.expectations.iter().any(|e| e.metric.subject == subject),
                samples: Vec::new(),
                sums: Sums::default(),
            }
        };
        let bundles = plan.bundles.iter().enumerate().map(entry).collect();
        Self { recorder, at: Time::ZERO, bundles }
    }

    /// Enters a state change of the bundle at this position of the plan.
    pub fn transition(&mut self, bundle: usize, transition: &Transition) {
        let Some(entry) = self.bundles.get_mut(bundle) else { return };
        let change = Change {
            at: transition.at,
            to: bundle_state(transition.to),
            why: transition.cause.as_str(),
        };
        entry.change(&self.recorder, change);
    }

    /// Enters the statuses of all bundles at `at`, in the plan's order; `None` while a
    /// sendbox is stopped.
    pub fn enter(&mut self, at: Time, statuses: impl IntoIterator<Item = Option<Status>>) {
        let interval = at.since(self.at);
        for (index, status) in statuses.into_iter().enumerate().take(self.bundles.len()) {
            let entry = &mut self.bundles[index];
            // The start or stop of the process is not reported as a transition.
            let state = status.as_ref().map_or(BundleState::Stopped, |s| bundle_state(s.state));
            if entry.state != state {
                let since = match &status {
                    Some(status) => status.since.min(at),
                    None => entry.stops.iter().rfind(|stop| **stop <= at).copied().unwrap_or(at),
                };
                let why = if status.is_some() {
                    "the sendbox has started"
                } else {
                    "the sendbox has stopped"
                };
                entry.change(&self.recorder, Change { at: since, to: state, why });
            }
            if !interval.is_positive() {
                continue;
            }
            let bundle = index as u32;
            let mut sample = BundleSample::empty(at, interval, bundle, state.as_str());
            if let Some(status) = &status {
                fill(&mut sample, status);
                sample.counts = entry.count(&status.counters);
            } else {
                entry.last = Counters::default();
            }
            entry.sums.add(&sample);
            if entry.named {
                entry.samples.push(sample);
            }
            self.recorder.bundle(sample);
        }
        self.at = at;
    }

    /// The samples of a bundle named by an expectation.
    pub(crate) fn samples(&self, bundle: usize) -> &[BundleSample] {
        self.bundles.get(bundle).map_or(&[], |entry| &entry.samples)
    }

    /// The number of state changes of a bundle within a window.
    pub(crate) fn transitions(&self, bundle: usize, (from, to): (Time, Time)) -> Option<u64> {
        let entry = self.bundles.get(bundle)?;
        let within = |change: &&Change| from <= change.at && change.at < to;
        let retained = entry.changes.iter().filter(within).count() as u64;
        // Changes beyond the maximum are counted at the time of the last one.
        let last = entry.changes.last().is_some_and(|last| from <= last.at && last.at < to);
        let beyond = entry.change_count - entry.changes.len() as u64;
        Some(retained + if last { beyond } else { 0 })
    }

    /// The share of a window during which a bundle was in a state.
    pub(crate) fn share(
        &self,
        bundle: usize,
        state: BundleState,
        (from, to): (Time, Time),
    ) -> Option<f64> {
        let entry = self.bundles.get(bundle)?;
        let whole = to.since(from);
        if !whole.is_positive() {
            return None;
        }
        let mut sum = Span::ZERO;
        let mut add = |current: BundleState, start: Time, end: Time| {
            let (start, end) = (start.max(from), end.min(to));
            if current == state && end > start {
                sum = sum.saturating_add(end.since(start));
            }
        };
        let (mut current, mut since) = (BundleState::Learning, Time::ZERO);
        for change in &entry.changes {
            add(current, since, change.at);
            (current, since) = (change.to, change.at);
        }
        add(current, since, to);
        Some(sum.as_secs_f64() / whole.as_secs_f64())
    }

    /// The summaries of all bundles at the end.
    pub(crate) fn summaries(&self, plan: &Plan, ended: Time) -> Vec<BundleSummary> {
        let bundles = plan.bundles.iter().zip(&self.bundles).enumerate();
        bundles
            .map(|(index, (bundle, entry))| self.summary(plan, ended, index, bundle, entry))
            .collect()
    }

    fn summary(
        &self,
        plan: &Plan,
        ended: Time,
        index: usize,
        bundle: &plan::Bundle,
        entry: &Entry,
    ) -> BundleSummary {
        let name = |node: base::NodeId| plan.nodes[node.index()].name.clone();
        let share = |state: BundleState| {
            let share = self.share(index, state, (Time::ZERO, ended))?;
            (share > 0.0).then(|| (state.as_str().to_owned(), share))
        };
        let time: BTreeMap<String, f64> = BundleState::ALL.into_iter().filter_map(share).collect();
        let transition = |change: &Change| BundleTransition {
            at_s: change.at.as_secs_f64(),
            to: change.to.as_str().to_owned(),
            why: change.why.to_owned(),
        };
        let (sums, counts) = (&entry.sums, &entry.sums.counts);
        let seconds = ended.as_secs_f64().max(1e-9);
        BundleSummary {
            name: entry.name.clone(),
            from: name(bundle.from),
            to: name(bundle.to),
            control: control(bundle.control),
            scheduler: bundle.scheduler.discipline.name().to_owned(),
            mode: bundle.mode.as_str().to_owned(),
            time,
            transitions: entry.changes.iter().map(transition).collect(),
            rate_bit_per_s: sums.rate.value(),
            throughput_bit_per_s: counts.sent_bytes as f64 * 8.0 / seconds,
            queueing_mean_ns: sums.queueing.value(),
            min_rtt_ns: sums.min_rtt.map(Span::as_nanos),
            backlog_mean_bytes: sums.backlog.value().unwrap_or(0.0),
            backlog_max_bytes: sums.backlog_max,
            waiting_mean_ns: sums.waiting.value().unwrap_or(0.0),
            arrived_packets: counts.arrived_packets,
            sent_packets: counts.sent_packets,
            sent_bytes: counts.sent_bytes,
            dropped_packets: counts.dropped_packets,
            acks: counts.acks,
            late_acks: counts.late_acks,
            unmatched_acks: counts.unmatched_acks,
            rejected_messages: counts.rejected_messages,
        }
    }
}

impl Entry {
    fn change(&mut self, recorder: &RecorderHandle, change: Change) {
        self.change_count += 1;
        if self.changes.len() < MAX_STATE_CHANGES {
            let text = format!("{} to {}: {}", self.state.as_str(), change.to.as_str(), change.why);
            recorder.log(change.at, Level::Info, &self.name, &text);
            // Times must not decrease.
            let at = self.changes.last().map_or(change.at, |last| change.at.max(last.at));
            self.changes.push(Change { at, ..change });
        }
        self.state = change.to;
    }

    /// The counts since the last call. A new process counts from 0.
    fn count(&mut self, now: &Counters) -> BundleCounts {
        let is_new_process = now.arrived_packets < self.last.arrived_packets
            || now.sent_packets < self.last.sent_packets
            || now.messages < self.last.messages;
        let last = if is_new_process { Counters::default() } else { self.last };
        self.last = *now;
        BundleCounts {
            arrived_packets: now.arrived_packets - last.arrived_packets,
            arrived_bytes: now.arrived_bytes.saturating_sub(last.arrived_bytes),
            sent_packets: now.sent_packets - last.sent_packets,
            sent_bytes: now.sent_bytes.saturating_sub(last.sent_bytes),
            dropped_packets: now.dropped_packets.saturating_sub(last.dropped_packets),
            marked_packets: now.marked_packets.saturating_sub(last.marked_packets),
            acks: now.acks.saturating_sub(last.acks),
            late_acks: now.late_acks.saturating_sub(last.late_acks),
            unmatched_acks: now.unmatched_acks.saturating_sub(last.unmatched_acks),
            rejected_messages: now.rejected_messages.saturating_sub(last.rejected_messages),
            messages: now.messages - last.messages,
        }
    }
}

impl Sums {
    fn add(&mut self, sample: &BundleSample) {
        let weight = sample.interval;
        if let Some(rate) = sample.rate {
            self.rate.add(rate.bits_per_sec() as f64, weight);
        }
        if let Some(queueing) = sample.queueing {
            self.queueing.add(queueing.as_nanos() as f64, weight);
        }
        self.backlog.add(sample.backlog.count() as f64, weight);
        self.waiting.add(sample.waiting.as_nanos() as f64, weight);
        self.backlog_max = self.backlog_max.max(sample.backlog.count());
        self.min_rtt = sample.min_rtt.or(self.min_rtt);
        let (sum, more) = (&mut self.counts, &sample.counts);
        sum.arrived_packets += more.arrived_packets;
        sum.arrived_bytes += more.arrived_bytes;
        sum.sent_packets += more.sent_packets;
        sum.sent_bytes += more.sent_bytes;
        sum.dropped_packets += more.dropped_packets;
        sum.marked_packets += more.marked_packets;
        sum.acks += more.acks;
        sum.late_acks += more.late_acks;
        sum.unmatched_acks += more.unmatched_acks;
        sum.rejected_messages += more.rejected_messages;
        sum.messages += more.messages;
    }
}

fn fill(sample: &mut BundleSample, status: &Status) {
    sample.rate = status.rate;
    sample.proposed = status.proposed;
    sample.send_rate = status.send_rate;
    sample.receive_rate = status.receive_rate;
    sample.rtt = status.rtt;
    sample.min_rtt = status.min_rtt;
    sample.queueing = status.queueing;
    sample.capacity = status.capacity;
    sample.loss = status.loss;
    sample.out_of_order = status.out_of_order;
    sample.backlog = status.backlog;
    sample.backlog_packets = status.backlog_packets;
    sample.waiting = status.sojourn;
    sample.period = status.period;
}

const fn bundle_state(state: State) -> BundleState {
    match state {
        State::Learning => BundleState::Learning,
        State::Delay => BundleState::Delay,
        State::PassThrough => BundleState::PassThrough,
        State::Disabled(_) => BundleState::Disabled,
        State::FailOpen => BundleState::FailOpen,
    }
}

fn control(control: BundleControl) -> String {
    match control {
        BundleControl::Copa => "copa".to_owned(),
        BundleControl::BasicDelay => "basic-delay".to_owned(),
        BundleControl::Bbr => "bbr".to_owned(),
        BundleControl::Constant(rate) => rate.to_string(),
    }
}
