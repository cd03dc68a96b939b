//! One flow in one direction: where it goes and what it asks for.

use base::{Bandwidth, Bytes, IfaceId, Span, Time};
use sharing::FlowName;

use super::path::Way;
use crate::config::QueueLimit;
use crate::stats::LinkStats;

/// What a datagram flow has sent in this time is what it asks for (`SplayNet` §3.3); what every
/// flow asks for is looked at so often.
pub(super) const PERIOD: Span = Span::from_millis(50);

/// A stream that sends nothing for so long is over, unless it ends before.
pub(super) const IDLE: Span = Span::from_secs(1);

/// A stream that takes less than its share is given this much more than it was seen to send, so
/// that it can be told from one that fills its share.
const HEADROOM: f64 = 1.1;

/// A demand is announced again when it has changed by this share of it.
const NOTABLE: f64 = 0.02;

/// Packets that wait in the bucket of a stream which so far took less than its share: it wants
/// more.
const BURST: usize = 3;

/// Full packets that fit into a bucket's queue however small the share.
const LEAST_QUEUE: u64 = 10;

/// What tells tunnels apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The first interface that sends.
    pub(super) from: IfaceId,
    pub(super) to: Option<IfaceId>,
    pub(super) hash: u32,
    pub(super) reach: Reach,
}

/// How far packets get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    /// As far as the way leads.
    Whole,
    /// To the router of this number, where their TTL ends.
    Router(u8),
    /// To the router in front of the first link with an MTU so small, in bytes.
    Mtu(u32),
}

/// A flow in one direction. Its packets cross the link at the same position.
pub(super) struct Tunnel {
    pub(super) key: Key,
    pub(super) way: Way,
    /// The position in `way` of the hop at which what it drops is counted.
    pub(super) narrowest: usize,
    /// The lowest rate on the way.
    pub(super) capacity: Option<Bandwidth>,
    pub(super) round_trip: Span,
    /// How long a full queue takes to drain.
    pub(super) queue_time: Span,
    /// Wire bytes of the largest packet.
    pub(super) full_packet: u32,
    pub(super) stream: bool,
    /// Whether it takes what it gets, as TCP that has something to send; otherwise it takes what
    /// it was seen to send.
    pub(super) elastic: bool,
    /// Its name while it takes part in the sharing.
    pub(super) name: Option<FlowName>,
    /// What it has announced to take at most.
    pub(super) most: Option<Bandwidth>,
    /// It has sent its last.
    pub(super) closing: bool,
    /// When it was made.
    pub(super) made: Time,
    /// When it last sent.
    pub(super) last: Time,
    /// Wire bytes that it had sent at the beginning of the period.
    pub(super) offered: u64,
    /// Wire bytes of the last two periods.
    pub(super) measured: [u64; 2],
    /// What of its link's counters the links of its way have already counted.
    pub(super) counted: LinkStats,
    /// Interfaces on the way, beyond the first, at which packets are seen, and whether sent there.
    pub(super) watched: Box<[(IfaceId, bool)]>,
    /// Whether it is one at all: positions are used again.
    pub(super) alive: bool,
}

impl Tunnel {
    /// Its link and all that depends on it are still to be fitted.
    pub(super) fn new(key: Key, way: Way, stream: bool, now: Time) -> Self {
        Self {
            key,
            way,
            narrowest: 0,
            capacity: None,
            round_trip: Span::ZERO,
            queue_time: Span::ZERO,
            full_packet: 0,
            stream,
            elastic: false,
            name: None,
            most: None,
            closing: false,
            made: now,
            last: now,
            offered: 0,
            measured: [0; 2],
            counted: LinkStats::default(),
            watched: Box::default(),
            alive: true,
        }
    }

    /// The interface that its packets come to at last.
    pub(super) fn far(&self) -> IfaceId {
        let last = self.way.hops[self.way.hops.len() - 1];
        IfaceId::at(last.index() ^ 1)
    }

    /// Ends a period in which the flow has offered `offered` wire bytes since it was made.
    pub(super) fn measure(&mut self, offered: u64) {
        self.measured = [offered - self.offered, self.measured[0]];
        self.offered = offered;
    }

    /// Whether two periods have passed without a packet.
    pub(super) fn is_silent(&self) -> bool {
        self.measured == [0, 0]
    }

    /// Whether it sent about all that it was allowed to in the last period.
    pub(super) fn fills(&self, rate: Option<Bandwidth>) -> bool {
        let most = rate.map_or(f64::INFINITY, |rate| rate.bits_per_sec() as f64);
        self.measured[0] as f64 * 8.0 * HEADROOM >= most * PERIOD.as_secs_f64()
    }

    /// What it takes at most, by what it sent in the last two periods.
    pub(super) fn demand(&self) -> Bandwidth {
        let bytes = self.measured[0].max(self.measured[1]);
        let bits = bytes as f64 * 8.0 / PERIOD.as_secs_f64();
        let bits = if self.elastic { bits * HEADROOM } else { bits };
        Bandwidth::from_bits_per_sec(bits as u64)
    }

    /// Whether `most` differs enough from what was last announced.
    pub(super) fn is_news(&self, most: Option<Bandwidth>) -> bool {
        match (self.most, most) {
            (Some(old), Some(new)) => {
                let (old, new) = (old.bits_per_sec() as f64, new.bits_per_sec() as f64);
                (old - new).abs() > NOTABLE * old.max(new)
            }
            (old, new) => old != new,
        }
    }

    /// Whether so much waits that the flow wants more than it has announced.
    pub(super) fn wants_more(&self, backlog: usize) -> bool {
        self.elastic && self.most.is_some() && backlog >= BURST
    }

    /// The bucket's queue at this rate.
    pub(super) fn queue(&self, rate: Bandwidth) -> QueueLimit {
        let least = Bytes::new(u64::from(self.full_packet) * LEAST_QUEUE);
        QueueLimit::Bytes(rate.bytes_in(self.queue_time.max(self.round_trip)).max(least))
    }
}
