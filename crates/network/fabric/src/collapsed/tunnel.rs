//! One flow in one direction: its route and its demand.

use base::{Bandwidth, Bytes, IfaceId, Span, Time};
use sharing::FlowName;

use super::path::{Key, Route};
use crate::config::QueueLimit;
use crate::stats::LinkStats;

/// Interval of demand measurements: the demand of a datagram flow is the amount that it has sent
/// in the last interval (`SplayNet` §3.3).
pub(super) const PERIOD: Span = Span::from_millis(50);

/// Idle time after which a stream counts as ended.
pub(super) const IDLE: Span = Span::from_secs(1);

/// The demand of a stream that uses less than its share is its observed rate times this factor, to
/// distinguish it from a stream that fills its share.
const HEADROOM: f64 = 1.1;

/// Relative change of a demand from which on it is announced again.
const NOTABLE: f64 = 0.02;

/// Number of queued packets that shows that a stream which used less than its share needs more.
const BURST: usize = 3;

/// Minimum queue in full packets, for small shares too.
const MIN_QUEUE_PACKETS: u64 = 10;

/// A flow in one direction. Its packets cross the link at the same index.
pub(super) struct Tunnel {
    pub(super) key: Key,
    pub(super) route: Route,
    /// Index in `route` of the hop that counts its drops.
    pub(super) narrowest: usize,
    /// The lowest rate on the route.
    pub(super) capacity: Option<Bandwidth>,
    pub(super) round_trip: Span,
    /// Drain time of a full queue.
    pub(super) queue_time: Span,
    /// Wire bytes of the largest packet.
    pub(super) full_packet: u32,
    pub(super) stream: bool,
    /// Whether its demand is unlimited, as for TCP with data to send; otherwise its demand
    /// is its observed rate.
    pub(super) elastic: bool,
    /// Its name while it is part of the sharing problem.
    pub(super) name: Option<FlowName>,
    /// The announced maximum rate.
    pub(super) most: Option<Bandwidth>,
    /// Whether it has sent its last packet.
    pub(super) closing: bool,
    /// Time of its creation.
    pub(super) made: Time,
    /// Time of its last packet.
    pub(super) last: Time,
    /// Wire bytes that it had sent at the start of the period.
    pub(super) offered: u64,
    /// Wire bytes of each of the last two periods.
    pub(super) measured: [u64; 2],
    /// The counters of its link that the links of its route have already counted.
    pub(super) counted: LinkStats,
    /// Watched interfaces on the route after the first, and whether the packets leave there.
    pub(super) watched: Box<[(IfaceId, bool)]>,
    /// Whether it exists: indices are reused.
    pub(super) alive: bool,
}

impl Tunnel {
    /// A new tunnel; the caller sets up its link and the fields that depend on the route.
    pub(super) fn new(key: Key, route: Route, stream: bool, now: Time) -> Self {
        Self {
            key,
            route,
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

    /// The interface at the end of its route.
    pub(super) fn far(&self) -> IfaceId {
        let last = self.route.hops[self.route.hops.len() - 1];
        IfaceId::at(last.index() ^ 1)
    }

    /// Ends a period; the flow has offered `offered` wire bytes since its creation.
    pub(super) fn measure(&mut self, offered: u64) {
        self.measured = [offered - self.offered, self.measured[0]];
        self.offered = offered;
    }

    /// Whether it has sent nothing for two periods.
    pub(super) fn is_silent(&self) -> bool {
        self.measured == [0, 0]
    }

    /// Whether it used nearly all of its rate in the last period.
    pub(super) fn fills(&self, rate: Option<Bandwidth>) -> bool {
        let most = rate.map_or(f64::INFINITY, |rate| rate.bits_per_sec() as f64);
        self.measured[0] as f64 * 8.0 * HEADROOM >= most * PERIOD.as_secs_f64()
    }

    /// Its demand, from the data sent in the last two periods.
    pub(super) fn demand(&self) -> Bandwidth {
        let bytes = self.measured[0].max(self.measured[1]);
        let bits = bytes as f64 * 8.0 / PERIOD.as_secs_f64();
        let bits = if self.elastic { bits * HEADROOM } else { bits };
        Bandwidth::from_bits_per_sec(bits as u64)
    }

    /// Whether `most` differs enough from the last announced value.
    pub(super) fn is_news(&self, most: Option<Bandwidth>) -> bool {
        match (self.most, most) {
            (Some(old), Some(new)) => {
                let (old, new) = (old.bits_per_sec() as f64, new.bits_per_sec() as f64);
                (old - new).abs() > NOTABLE * old.max(new)
            }
            (old, new) => old != new,
        }
    }

    /// Whether its backlog shows that it needs more than it has announced.
    pub(super) fn wants_more(&self, backlog: usize) -> bool {
        self.elastic && self.most.is_some() && backlog >= BURST
    }

    /// The queue limit of its link at this rate.
    pub(super) fn queue(&self, rate: Bandwidth) -> QueueLimit {
        let least = Bytes::new(u64::from(self.full_packet) * MIN_QUEUE_PACKETS);
        QueueLimit::Bytes(rate.bytes_in(self.queue_time.max(self.round_trip)).max(least))
    }
}
