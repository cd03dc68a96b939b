//! BFYZ: distributed max-min fairness with a record per session at each link.
//!
//! **Problem.** Y. Bartal, M. Farach-Colton, S. Yooseph and L. Zhang, "Fast, Fair and Frugal
//! Bandwidth Allocation in ATM Networks", Algorithmica 33(3), 2002. Sessions should reach their
//! max-min fair rates in as many round trips as with the fastest algorithms, while a link does
//! constant work per resource-management cell and needs constant space per session: "frugal".
//! (Earlier algorithms, such as that of Charny, Clark and Jain, 1995, iterate over all sessions of
//! the link for each cell.)
//!
//! **State.** A link of capacity C stores for each of its N sessions either the rate to which
//! another constraint limits it (the session is *saturated*), or that this link limits it. With S
//! the sum of the saturated sessions' rates and U the number of the others, its offer to a session,
//! which itself counts as one of the others, is
//!
//! ```text
//! offer = max((C − S) / U, C / N)
//! ```
//!
//! | packet | downstream | upstream |
//! |---|---|---|
//! | `Join` | adds the session as limited here; lowers the rate to the offer | becomes `Ack` |
//! | `Probe` | lowers the rate to the offer | becomes `Ack` |
//! | `Ack` | – | lowers the rate to the offer; below it, the session is saturated at that rate |
//! | `Leave` | removes the session | – |
//!
//! Cycles follow each other during the lifetime of the session, spaced so that they take their
//! share of its rate ([`crate::Pace`]); they correct all outdated state.
//!
//! **Section map.** The text of the paper was not available; this follows its abstract and the
//! descriptions in papers that compare with it.
//!
//! | paper | here |
//! |---|---|
//! | resource-management cells, a constant fraction of what a source sends | [`BfyzSource`] |
//! | O(1) computation for a cell, O(1) space for a session; the fair share of the rest | [`BfyzLink`] |
//! | cells returned by the destination | [`RateController::answer`] |
//! | fields of a cell | [`BfyzPacket`] |
//! | minimum cell rates (its second half) | none: the interface has no minimum rates |
//!
//! **Deviations**, each marked in the code: only returned cells change records; a session that gets
//! exactly its offer stays limited; no offer is below C/N; rates are whole bit/s.

#[cfg(test)]
mod tests;

use base::{Bandwidth, Time};

use crate::session_table::SessionTable;
use crate::{
    Fate, Link, Outbox, Pace, RateController, Result, SessionId, Settings, Source, State, Towards,
    Visit, bounds,
};

/// Type of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First cycle, downstream.
    Join,
    /// Later cycle, downstream.
    Probe,
    /// Either cycle, upstream.
    Ack,
    /// The session has ended.
    Leave,
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfyzPacket {
    /// Type of the cell.
    pub kind: Kind,
    /// Downstream the minimum of the demand and the offers so far, upstream the session's rate, in
    /// bit/s.
    pub rate: u64,
}

/// The protocol as a [`RateController`].
#[derive(Clone, Copy, Debug)]
pub struct Bfyz {
    pace: Pace,
}

impl RateController for Bfyz {
    type Packet = BfyzPacket;
    type Source = BfyzSource;
    type Link = BfyzLink;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace() })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<BfyzSource> {
        bounds::hops(hops)?;
        Ok(BfyzSource::new(session, self.pace))
    }

    fn link(&self, capacity: Bandwidth) -> Result<BfyzLink> {
        BfyzLink::try_new(capacity)
    }

    /// Returns `Join` and `Probe` as `Ack`; a `Leave` ends here.
    fn answer(packet: BfyzPacket) -> Option<BfyzPacket> {
        matches!(packet.kind, Kind::Join | Kind::Probe)
            .then_some(BfyzPacket { kind: Kind::Ack, ..packet })
    }
}

/// Phase of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The session has not joined, or has left.
    Absent,
    /// A cell is in flight.
    Cycle,
    /// The next cell waits for its time.
    Pause,
}

/// A session's source.
#[derive(Clone, Copy, Debug)]
pub struct BfyzSource {
    session: SessionId,
    pace: Pace,
    phase: Phase,
    /// Demand of the session in bit/s.
    demand: u64,
    rate: Option<Bandwidth>,
    /// Time at which the last cell was sent.
    sent: Time,
    cycles: u64,
}

impl BfyzSource {
    fn new(session: SessionId, pace: Pace) -> Self {
        Self {
            session,
            pace,
            phase: Phase::Absent,
            demand: 0,
            rate: None,
            sent: Time::ZERO,
            cycles: 0,
        }
    }

    fn send(&mut self, now: Time, kind: Kind, out: &mut Outbox<BfyzPacket>) {
        self.phase = Phase::Cycle;
        self.sent = now;
        let packet = BfyzPacket { kind, rate: self.demand };
        out.send(self.session, 0, Towards::Destination, packet);
    }
}

impl Source<BfyzPacket> for BfyzSource {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<BfyzPacket>) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        self.send(now, Kind::Join, out);
        Ok(())
    }

    fn change(
        &mut self,
        _now: Time,
        demand: Bandwidth,
        _out: &mut Outbox<BfyzPacket>,
    ) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        Ok(())
    }

    fn leave(&mut self, now: Time, out: &mut Outbox<BfyzPacket>) {
        if self.phase == Phase::Absent {
            return;
        }
        // A cell in flight reaches links that no longer have the session.
        self.send(now, Kind::Leave, out);
        self.phase = Phase::Absent;
        self.rate = None;
        out.gone = true;
    }

    fn receive(&mut self, now: Time, packet: BfyzPacket, out: &mut Outbox<BfyzPacket>) {
        if self.phase != Phase::Cycle || packet.kind != Kind::Ack {
            return;
        }
        let rate = Bandwidth::from_bits_per_sec(packet.rate.min(self.demand));
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            out.rate = Some(rate);
        }
        self.cycles += 1;
        let due = (self.sent + self.pace.gap(rate)).max(now);
        let next = due + self.pace.pause(self.session.0, self.cycles, now.since(self.sent));
        if next <= now {
            self.send(now, Kind::Probe, out);
        } else {
            self.phase = Phase::Pause;
            out.wake = Some(next);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<BfyzPacket>) {
        if self.phase == Phase::Pause {
            self.send(now, Kind::Probe, out);
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }
}

/// Record of a session, in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record(u64);

impl Record {
    /// Rates are at most 2⁵⁶.
    const LIMITED_HERE: u64 = 1 << 63;

    /// Another constraint limits the session to this rate.
    const fn saturated(rate: u64) -> Self {
        Self(rate)
    }

    /// This link limits the session; its last offer was this rate.
    const fn limited_here(offer: u64) -> Self {
        Self(offer | Self::LIMITED_HERE)
    }

    const fn is_limited_here(self) -> bool {
        self.0 & Self::LIMITED_HERE != 0
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct BfyzLink {
    /// C, bit/s.
    capacity: u64,
    records: SessionTable<Record>,
    /// S in bit/s: up to 2³² rates of up to 2⁵⁶ while records are outdated.
    saturated: u128,
    /// Number of sessions in S.
    saturated_count: u64,
}

impl BfyzLink {
    fn try_new(capacity: Bandwidth) -> Result<Self> {
        Ok(Self {
            capacity: bounds::capacity(capacity)?,
            records: SessionTable::default(),
            saturated: 0,
            saturated_count: 0,
        })
    }

    /// The offer to a session with this record: the share if it were limited here.
    fn offer(&self, record: Record) -> u64 {
        let sessions = self.records.len() as u64;
        let (mut sum, mut count) = (self.saturated, self.saturated_count);
        if !record.is_limited_here() {
            sum -= u128::from(record.0);
            count -= 1;
        }
        let rest = u128::from(self.capacity).saturating_sub(sum) as u64;
        // The session itself is counted in U and N.
        //= deviation: never below C/N, which every session may have regardless of the others:
        //= outdated records would starve new sessions. Rounded down to whole bit/s.
        (rest / (sessions - count)).max(self.capacity / sessions)
    }

    fn forget(&mut self, record: Record) {
        if !record.is_limited_here() {
            self.saturated -= u128::from(record.0);
            self.saturated_count -= 1;
        }
    }

    fn count(&mut self, record: Record) {
        if !record.is_limited_here() {
            self.saturated += u128::from(record.0);
            self.saturated_count += 1;
        }
    }

    /// Downstream: lowers the rate to the offer.
    fn probe(&mut self, session: u32, packet: &mut BfyzPacket) -> Fate {
        let Some(record) = self.records.get(session).copied() else {
            return Fate::Absorb;
        };
        let offer = self.offer(record);
        packet.rate = packet.rate.min(offer);
        //= deviation: the record changes when the cell returns, not now, so that no session is
        //= offered a rate that another still uses.
        if record.is_limited_here()
            && let Some(kept) = self.records.get_mut(session)
        {
            *kept = Record::limited_here(offer);
        }
        Fate::Forward
    }

    /// Upstream: lowers the rate to the current offer, and records the session's rate.
    fn ack(&mut self, session: u32, packet: &mut BfyzPacket) -> Fate {
        let Some(record) = self.records.get(session).copied() else {
            return Fate::Absorb;
        };
        let offer = self.offer(record);
        packet.rate = packet.rate.min(offer);
        let rate = packet.rate;
        //= deviation: a session that returns with exactly its offer stays limited here even if the
        //= offer has grown since; otherwise the others would get the growth for one cycle.
        let new = if rate >= offer || record == Record::limited_here(rate) {
            Record::limited_here(rate)
        } else {
            Record::saturated(rate)
        };
        if new != record {
            self.forget(record);
            self.count(new);
            if let Some(kept) = self.records.get_mut(session) {
                *kept = new;
            }
        }
        Fate::Forward
    }
}

impl Link<BfyzPacket> for BfyzLink {
    fn visit(
        &mut self,
        _now: Time,
        visit: Visit,
        packet: &mut BfyzPacket,
        _out: &mut Outbox<BfyzPacket>,
    ) -> Fate {
        let session = visit.session.0;
        match (visit.towards, packet.kind) {
            (Towards::Destination, Kind::Join) => {
                if let Some(old) = self.records.insert(session, Record::limited_here(0)) {
                    self.forget(old);
                }
                self.probe(session, packet)
            }
            (Towards::Destination, Kind::Probe) => self.probe(session, packet),
            (Towards::Destination, Kind::Leave) => {
                if let Some(record) = self.records.remove(session) {
                    self.forget(record);
                }
                Fate::Forward
            }
            (Towards::Source, Kind::Ack) => self.ack(session, packet),
            _ => Fate::Absorb,
        }
    }

    fn set_capacity(
        &mut self,
        _now: Time,
        capacity: Bandwidth,
        _out: &mut Outbox<BfyzPacket>,
    ) -> Result<()> {
        // The next cell of each session gets the new offer.
        self.capacity = bounds::capacity(capacity)?;
        Ok(())
    }

    fn state(&self) -> State {
        // The sum, its count, and number and record of each session.
        State {
            numbers: 2 + 2 * self.records.len() as u64,
            bytes: 16 + 8 + (size_of_val(&self.records) + self.records.bytes()) as u64,
        }
    }
}
