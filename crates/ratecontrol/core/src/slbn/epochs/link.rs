//! The two triples of a link, and a packet's visit.

use base::{Bandwidth, Span, Time};

use super::super::packet::MAX_HOPS;
use super::packet::Packet;
use crate::{Fate, Outbox, Result, State, Towards, Visit, bounds};

/// SLBN's sums over a link's sessions. Sums wrap, so that each added value can be removed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Triple {
    /// BF: total rate of the sessions that other links limit.
    pub(super) others: i64,
    /// NR: number of the sessions that this link limits.
    pub(super) limited: i64,
    /// N: number of all sessions.
    pub(super) sessions: i64,
}

impl Triple {
    pub(super) fn add(&mut self, other: Self) {
        self.others = self.others.wrapping_add(other.others);
        self.limited = self.limited.wrapping_add(other.limited);
        self.sessions = self.sessions.wrapping_add(other.sessions);
    }

    fn take(&mut self, other: Self) {
        self.others = self.others.wrapping_sub(other.others);
        self.limited = self.limited.wrapping_sub(other.limited);
        self.sessions = self.sessions.wrapping_sub(other.sessions);
    }

    /// Contribution of a session: with its rate if it is limited elsewhere, or limited here.
    pub(super) fn of(session: Option<u64>) -> Self {
        Self {
            others: session.unwrap_or(0) as i64,
            limited: i64::from(session.is_none()),
            sessions: 1,
        }
    }

    /// shBW for one more session, which is considered limited here; 0 to `capacity`, for any values
    /// of the sums.
    fn share(&self, capacity: u64) -> u64 {
        let sessions = self.sessions.max(0) as u64 + 1;
        let limited = (self.limited.max(0) as u64 + 1).min(sessions);
        let left = capacity.saturating_sub(self.others.max(0) as u64);
        (left / limited).max(capacity / sessions)
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    capacity: u64,
    epoch: Span,
    pub(super) in_force: Triple,
    pub(super) counted: Triple,
    /// The current epoch's number, modulo [`Packet::NUMBERS`].
    number: u8,
    /// End of the current epoch; `None` before the first visit.
    ends: Option<Time>,
}

/// The triples that contain a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nowhere,
    InForce,
    Both,
}

impl Link {
    pub(super) fn try_new(capacity: Bandwidth, epoch: Span) -> Result<Self> {
        Ok(Self {
            capacity: bounds::capacity(capacity)?,
            epoch,
            in_force: Triple::default(),
            counted: Triple::default(),
            number: 0,
            ends: None,
        })
    }

    /// (BF, NR, N) in force; may be negative after lost packets.
    pub fn integers(&self) -> (i64, i64, i64) {
        (self.in_force.others, self.in_force.limited, self.in_force.sessions)
    }

    /// Ends the epoch if it is over; resets the state if the link has just started, or no packet
    /// arrived for a whole epoch. `stamp` is that of the visiting packet.
    fn turn(&mut self, now: Time, stamp: Option<u8>) {
        match self.ends {
            Some(ends) if now < ends => {}
            Some(ends) if now < ends + self.epoch => {
                self.in_force = std::mem::take(&mut self.counted);
                self.number = (self.number + 1) % Packet::NUMBERS;
                self.ends = Some(ends + self.epoch);
            }
            _ => {
                self.in_force = Triple::default();
                self.counted = Triple::default();
                // Stamps of the previous, this and the next epoch then mean "nowhere".
                self.number = (stamp.unwrap_or(self.number) + 3) % Packet::NUMBERS;
                self.ends = Some(now + self.epoch);
            }
        }
    }

    fn knows(&self, stamp: Option<u8>) -> Known {
        match stamp.map(|stamp| (self.number + Packet::NUMBERS - stamp) % Packet::NUMBERS) {
            Some(0) => Known::Both,
            Some(1) => Known::InForce,
            _ => Known::Nowhere,
        }
    }

    /// Updates bw and B by the offer of the link. A session that is `new` here, downstream, keeps
    /// bw like SLBN's Join: until it returns, links behind this one then also count it as limited
    /// by them, instead of as one that uses nothing.
    fn offer(&self, hop: u8, new: bool, packet: &mut Packet) {
        let share = self.in_force.share(self.capacity);
        let limited = packet.limit == hop || packet.rate > share;
        if limited {
            if !new {
                packet.rate = share;
            }
            packet.limit = hop;
        }
        packet.set_limited_at(hop, limited);
    }
}

impl crate::Link<Packet> for Link {
    fn visit(
        &mut self,
        now: Time,
        visit: Visit,
        packet: &mut Packet,
        _out: &mut Outbox<Packet>,
    ) -> Fate {
        let hop = visit.hop;
        debug_assert!(hop < MAX_HOPS, "sources refuse longer paths");
        let upstream = visit.towards == Towards::Source;
        let stamp = packet.stamp(hop);
        self.turn(now, stamp);
        let known = self.knows(stamp);
        let elsewhere = |packet: &Packet, rate: u64| (!packet.is_limited_at(hop)).then_some(rate);
        let old = Triple::of(elsewhere(packet, if upstream { packet.last } else { packet.older }));
        if known != Known::Nowhere {
            self.in_force.take(old);
        }
        if known == Known::Both {
            self.counted.take(old);
        }
        if packet.leaves {
            packet.set_stamp(hop, None);
            return Fate::Forward;
        }
        self.offer(hop, known == Known::Nowhere && !upstream, packet);
        let new = Triple::of(elsewhere(packet, packet.last));
        self.in_force.add(new);
        if upstream || known == Known::Both {
            self.counted.add(new);
            packet.set_stamp(hop, Some(self.number));
        } else {
            packet.set_stamp(hop, Some((self.number + Packet::NUMBERS - 1) % Packet::NUMBERS));
        }
        Fate::Forward
    }

    fn set_capacity(
        &mut self,
        _now: Time,
        capacity: Bandwidth,
        _out: &mut Outbox<Packet>,
    ) -> Result<()> {
        self.capacity = bounds::capacity(capacity)?;
        Ok(())
    }

    /// Six integers, and the epoch's number and end.
    fn state(&self) -> State {
        let bytes = 2 * size_of::<Triple>() + size_of::<u8>() + size_of::<Time>();
        State { numbers: 8, bytes: bytes as u64 }
    }
}
