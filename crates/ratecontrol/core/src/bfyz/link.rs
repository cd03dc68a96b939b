//! The router link: keeps a record of each session and offers the fair share of the rest.

use base::{Bandwidth, Time};

use super::{BfyzPacket, Kind};
use crate::session_table::SessionTable;
use crate::{Fate, Link, Outbox, Result, State, Towards, Visit, bounds};

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
    pub(super) fn try_new(capacity: Bandwidth) -> Result<Self> {
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
