//! The encoded form of counters: numbers that serialize compactly.

use base::{Bandwidth, Bytes, IfaceId, Ratio, Span, Time};
use bundler::sendbox::{self, Cause, State, Status, Transition};
use fabric::{LinkStats, QueueLevel, Share};
use serde::{Deserialize, Serialize};

/// Counters of a link direction since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Twice the link's number in the plan, and one more for `Down`.
    pub position: u32,
    offered: [u64; 2],
    sent: [u64; 2],
    delivered: [u64; 2],
    drops: [u64; fabric::DropReason::ALL.len()],
    changed: [u64; 4],
    /// Packets and bytes now, their peaks, and the maximum queueing delay in nanoseconds.
    level: [u64; 5],
}

impl LinkRow {
    pub fn new(position: u32, stats: &LinkStats, level: &QueueLevel) -> Self {
        Self {
            position,
            offered: [stats.offered_packets, stats.offered_bytes],
            sent: [stats.sent_packets, stats.sent_bytes],
            delivered: [stats.delivered_packets, stats.delivered_bytes],
            drops: stats.drops,
            changed: [stats.marked, stats.duplicated, stats.corrupted, stats.reordered],
            level: [
                level.packets,
                level.bytes,
                level.peak_packets,
                level.peak_bytes,
                level.peak_delay.as_nanos(),
            ],
        }
    }

    pub fn stats(&self) -> LinkStats {
        LinkStats {
            offered_packets: self.offered[0],
            offered_bytes: self.offered[1],
            sent_packets: self.sent[0],
            sent_bytes: self.sent[1],
            delivered_packets: self.delivered[0],
            delivered_bytes: self.delivered[1],
            drops: self.drops,
            marked: self.changed[0],
            duplicated: self.changed[1],
            corrupted: self.changed[2],
            reordered: self.changed[3],
        }
    }

    pub fn level(&self) -> QueueLevel {
        QueueLevel {
            packets: self.level[0],
            bytes: self.level[1],
            peak_packets: self.level[2],
            peak_bytes: self.level[3],
            peak_delay: Span::from_nanos(self.level[4]),
        }
    }

    /// Whether all values are small enough for sums over all shards.
    pub(super) fn is_valid(&self) -> bool {
        let numbers = [&self.offered, &self.sent, &self.delivered].into_iter().flatten();
        let numbers = numbers.chain(&self.drops).chain(&self.changed).chain(&self.level);
        numbers.into_iter().all(|number| *number <= MAX_COUNTER)
    }
}

/// Above any counter or time (in ns) of a run: 64 PiB, or two years.
pub(super) const MAX_COUNTER: u64 = 1 << 56;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareRow {
    from: IfaceId,
    to: IfaceId,
    flow: u32,
    stream: bool,
    share: Option<Bandwidth>,
    most: Option<Bandwidth>,
    since: Time,
    sent: u64,
}

impl From<Share> for ShareRow {
    fn from(share: Share) -> Self {
        let Share { from, to, flow, stream, share, most, since, sent } = share;
        Self { from, to, flow, stream, share, most, since, sent }
    }
}

impl From<ShareRow> for Share {
    fn from(row: ShareRow) -> Self {
        let ShareRow { from, to, flow, stream, share, most, since, sent } = row;
        Self { from, to, flow, stream, share, most, since, sent }
    }
}

impl ShareRow {
    /// Whether it fits a plan with this number of interfaces.
    pub(super) fn is_valid(&self, ifaces: usize) -> bool {
        self.from.index() < ifaces && self.to.index() < ifaces && self.sent <= MAX_COUNTER
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BundleRow {
    /// The bundle's position in the plan.
    pub bundle: u32,
    /// Position in [`State::ALL`].
    state: u8,
    since: Time,
    /// `rate`, `proposed`, `send_rate`, `receive_rate`, `capacity`.
    rates: [Option<Bandwidth>; 5],
    /// `rtt`, `min_rtt`, `queueing`.
    times: [Option<Span>; 3],
    loss: Option<Ratio>,
    out_of_order: Option<Ratio>,
    backlog: Bytes,
    backlog_packets: u64,
    sojourn: Span,
    period: u32,
    counters: [u64; 14],
}

fn position(state: State) -> u8 {
    State::ALL.iter().position(|known| *known == state).unwrap_or(0) as u8
}

impl BundleRow {
    pub fn new(bundle: u32, status: &Status) -> Self {
        let c = &status.counters;
        Self {
            bundle,
            state: position(status.state),
            since: status.since,
            rates: [
                status.rate,
                status.proposed,
                status.send_rate,
                status.receive_rate,
                status.capacity,
            ],
            times: [status.rtt, status.min_rtt, status.queueing],
            loss: status.loss,
            out_of_order: status.out_of_order,
            backlog: status.backlog,
            backlog_packets: status.backlog_packets,
            sojourn: status.sojourn,
            period: status.period,
            counters: [
                c.arrived_packets,
                c.arrived_bytes,
                c.sent_packets,
                c.sent_bytes,
                c.dropped_packets,
                c.marked_packets,
                c.epochs,
                c.acks,
                c.late_acks,
                c.unmatched_acks,
                c.rejected_messages,
                c.messages,
                c.peer_restarts,
                c.rebases,
            ],
        }
    }

    /// The status, without the number of state changes; `None` if the state is invalid.
    pub fn status(&self) -> Option<Status> {
        let [rate, proposed, send_rate, receive_rate, capacity] = self.rates;
        let [rtt, min_rtt, queueing] = self.times;
        let c = &self.counters;
        Some(Status {
            state: *State::ALL.get(usize::from(self.state))?,
            since: self.since,
            rate,
            proposed,
            rtt,
            min_rtt,
            queueing,
            send_rate,
            receive_rate,
            capacity,
            loss: self.loss,
            out_of_order: self.out_of_order,
            backlog: self.backlog,
            backlog_packets: self.backlog_packets,
            sojourn: self.sojourn,
            period: self.period,
            counters: sendbox::Counters {
                arrived_packets: c[0],
                arrived_bytes: c[1],
                sent_packets: c[2],
                sent_bytes: c[3],
                dropped_packets: c[4],
                marked_packets: c[5],
                epochs: c[6],
                acks: c[7],
                late_acks: c[8],
                unmatched_acks: c[9],
                rejected_messages: c[10],
                messages: c[11],
                peer_restarts: c[12],
                rebases: c[13],
                transitions: 0,
            },
        })
    }

    pub(super) fn is_valid(&self) -> bool {
        let numbers = self.counters.iter().all(|number| *number <= MAX_COUNTER);
        let waits = [self.sojourn.as_nanos(), self.backlog.count(), self.backlog_packets];
        numbers && waits.iter().all(|number| *number <= MAX_COUNTER) && self.status().is_some()
    }
}

/// A state change of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRow {
    /// The bundle's position in the plan.
    pub bundle: u32,
    at: Time,
    /// Positions in [`State::ALL`].
    from: u8,
    to: u8,
    /// Position in [`Cause::ALL`].
    cause: u8,
}

impl ChangeRow {
    pub fn new(bundle: u32, change: &Transition) -> Self {
        let cause = change.cause as u8;
        Self { bundle, at: change.at, from: position(change.from), to: position(change.to), cause }
    }

    /// The change; `None` if a state or cause is invalid.
    pub fn transition(&self) -> Option<Transition> {
        Some(Transition {
            at: self.at,
            from: *State::ALL.get(usize::from(self.from))?,
            to: *State::ALL.get(usize::from(self.to))?,
            cause: *Cause::ALL.get(usize::from(self.cause))?,
        })
    }
}
