//! The router link: detects which sessions it restricts, and when that is certain.

use base::{Bandwidth, Time};

use super::rate_order::RateOrder;
use super::{BNeckPacket, Limiter, Verdict};
use crate::session_table::SessionTable;
use crate::{Fate, Link, Outbox, Result, SessionId, State, Towards, Visit, bounds};

/// μ of a session at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    WaitingProbe,
    WaitingResponse,
}

/// State of a session at a link.
#[derive(Clone, Copy, Debug)]
struct SessionState {
    /// λ in bit/s, of idle sessions and of those in F.
    rate: u64,
    /// Index of the link in the session's path.
    hop: u8,
    phase: Phase,
    /// The session is in F, otherwise in R.
    free: bool,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct BNeckLink {
    /// C, bit/s.
    capacity: u64,
    sessions: SessionTable<SessionState>,
    /// F. Each rate is below the share, so their sum is at most C.
    free: RateOrder,
    /// Sum of the rates of F in bit/s.
    taken: u64,
    /// Idle sessions of R; no rate is above the share.
    idle: RateOrder,
}

impl BNeckLink {
    pub(super) fn try_new(capacity: Bandwidth) -> Result<Self> {
        Ok(Self {
            capacity: bounds::capacity(capacity)?,
            sessions: SessionTable::default(),
            free: RateOrder::default(),
            taken: 0,
            idle: RateOrder::default(),
        })
    }

    /// Whether there are no sessions.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.len() + self.free.len() + self.idle.len() == 0 && self.taken == 0
    }

    /// |R|.
    fn restricted(&self) -> usize {
        self.sessions.len() - self.free.len()
    }

    /// B in bit/s; infinite if no session is restricted.
    fn share(&self) -> u64 {
        match self.restricted() as u64 {
            0 => u64::MAX,
            //= deviation: rounded down to whole bit/s.
            restricted => self.capacity.saturating_sub(self.taken) / restricted,
        }
    }

    /// Whether it is the bottleneck of all of R.
    fn is_bottleneck(&self) -> bool {
        let restricted = self.restricted();
        restricted > 0
            && self.idle.len() == restricted
            && self.idle.least() == Some(self.share())
            && self.idle.last().is_some_and(|last| last.0 == self.share())
    }

    fn leave_free(&mut self, session: u32, rate: u64) {
        if self.free.remove(rate, session) {
            self.taken -= rate;
        }
    }

    /// Requests another probe of an idle session of R.
    fn wake(&mut self, session: u32, rate: u64, out: &mut Outbox<BNeckPacket>) {
        self.idle.remove(rate, session);
        if let Some(standing) = self.sessions.get_mut(session) {
            standing.phase = Phase::WaitingProbe;
            out.send(SessionId(session), standing.hop, Towards::Source, BNeckPacket::Update);
        }
    }

    /// Requests probes of sessions in R whose rate is the share, which is about to grow.
    fn wake_at(&mut self, share: u64, out: &mut Outbox<BNeckPacket>) {
        while let Some((rate, session)) = self.idle.last()
            && rate >= share
        {
            self.wake(session, rate, out);
        }
    }

    /// `ProcessNewRestricted`: the share may have shrunk. A session of F whose rate is not below it
    /// moves to R, and a session of R with a higher rate must probe again.
    fn shrink(&mut self, out: &mut Outbox<BNeckPacket>) {
        while let Some((rate, session)) = self.free.last() {
            let overfull = self.restricted() == 0 && self.taken > self.capacity;
            if rate < self.share() && !overfull {
                break;
            }
            self.leave_free(session, rate);
            if let Some(standing) = self.sessions.get_mut(session) {
                standing.free = false;
                if standing.phase == Phase::Idle {
                    self.idle.insert(rate, session);
                }
            }
        }
        let share = self.share();
        while let Some((rate, session)) = self.idle.last()
            && rate > share
        {
            self.wake(session, rate, out);
        }
    }

    /// `Join` and `Probe`: the session is restricted until the response.
    fn probe(
        &mut self,
        visit: Visit,
        rate: &mut u64,
        limiter: &mut Limiter,
        out: &mut Outbox<BNeckPacket>,
    ) {
        let session = visit.session.0;
        let new =
            SessionState { rate: 0, hop: visit.hop, phase: Phase::WaitingResponse, free: false };
        if let Some(old) = self.sessions.insert(session, new) {
            if old.free {
                self.leave_free(session, old.rate);
            } else if old.phase == Phase::Idle {
                self.idle.remove(old.rate, session);
            }
        }
        self.shrink(out);
        let share = self.share();
        if *rate > share {
            *rate = share;
            *limiter = Limiter::Link(visit.hop);
        }
    }

    /// `Response`: accepts the rate, or requests another probe.
    fn respond(
        &mut self,
        visit: Visit,
        verdict: &mut Verdict,
        rate: u64,
        limiter: Limiter,
        out: &mut Outbox<BNeckPacket>,
    ) -> Fate {
        let share = self.share();
        let Some(standing) = self.sessions.get_mut(visit.session.0) else {
            return Fate::Absorb;
        };
        let here = limiter == Limiter::Link(visit.hop);
        let agreed = if here { rate == share } else { rate <= share };
        if *verdict == Verdict::Update || !agreed {
            *verdict = Verdict::Update;
            standing.phase = Phase::WaitingProbe;
            return Fate::Forward;
        }
        standing.phase = Phase::Idle;
        standing.rate = rate;
        self.idle.insert(rate, visit.session.0);
        if self.is_bottleneck() {
            *verdict = Verdict::Bottleneck;
            // All of R is idle.
            for session in self.idle.sessions().filter(|idle| *idle != visit.session.0) {
                if let Some(other) = self.sessions.get(session) {
                    let to = SessionId(session);
                    out.send(to, other.hop, Towards::Source, BNeckPacket::Bottleneck);
                }
            }
        }
        Fate::Forward
    }

    /// `Update`: travels on to the source, unless the source is about to probe anyway.
    fn update(&mut self, session: u32) -> Fate {
        let Some(standing) = self.sessions.get_mut(session) else {
            return Fate::Absorb;
        };
        if standing.phase != Phase::Idle {
            return Fate::Absorb;
        }
        standing.phase = Phase::WaitingProbe;
        if !standing.free {
            self.idle.remove(standing.rate, session);
        }
        Fate::Forward
    }

    /// `SetBottleneck`: the rate is final; if it is below the share, the rest is
    /// available to others.
    fn set_bottleneck(
        &mut self,
        session: u32,
        confirmed: &mut bool,
        out: &mut Outbox<BNeckPacket>,
    ) -> Fate {
        let share = self.share();
        let Some(standing) = self.sessions.get(session).copied() else {
            return Fate::Absorb;
        };
        if standing.phase != Phase::Idle {
            return Fate::Absorb;
        }
        if standing.free {
            //= deviation: a bottleneck confirms only sessions of R, not those of F.
            return Fate::Forward;
        }
        if standing.rate < share {
            //= deviation: rounded down, the share may stay equal. The sessions with that rate must
            //= probe again nevertheless: only then does the link detect that it has become a
            //= bottleneck.
            self.wake_at(share, out);
            self.idle.remove(standing.rate, session);
            self.free.insert(standing.rate, session);
            self.taken += standing.rate;
            if let Some(standing) = self.sessions.get_mut(session) {
                standing.free = true;
            }
        } else if self.is_bottleneck() {
            *confirmed = true;
        }
        Fate::Forward
    }

    fn leave(&mut self, session: u32, out: &mut Outbox<BNeckPacket>) {
        let share = self.share();
        let Some(standing) = self.sessions.remove(session) else {
            return;
        };
        if standing.free {
            self.leave_free(session, standing.rate);
        } else if standing.phase == Phase::Idle {
            self.idle.remove(standing.rate, session);
        }
        self.wake_at(share, out);
    }
}

impl Link<BNeckPacket> for BNeckLink {
    fn visit(
        &mut self,
        _now: Time,
        visit: Visit,
        packet: &mut BNeckPacket,
        out: &mut Outbox<BNeckPacket>,
    ) -> Fate {
        let session = visit.session.0;
        match (visit.towards, packet) {
            (Towards::Destination, BNeckPacket::Join { rate, limiter }) => {
                self.probe(visit, rate, limiter, out);
                Fate::Forward
            }
            (Towards::Destination, BNeckPacket::Probe { rate, limiter }) => {
                // Only a `Join` adds a session.
                if self.sessions.get(session).is_none() {
                    return Fate::Absorb;
                }
                self.probe(visit, rate, limiter, out);
                Fate::Forward
            }
            (Towards::Destination, BNeckPacket::SetBottleneck { confirmed }) => {
                self.set_bottleneck(session, confirmed, out)
            }
            (Towards::Destination, BNeckPacket::Leave) => {
                self.leave(session, out);
                Fate::Forward
            }
            (Towards::Source, BNeckPacket::Response { verdict, rate, limiter }) => {
                self.respond(visit, verdict, *rate, *limiter, out)
            }
            (Towards::Source, BNeckPacket::Update) => self.update(session),
            (Towards::Source, BNeckPacket::Bottleneck) => {
                match self.sessions.get(session).map(|standing| standing.phase) {
                    Some(Phase::Idle) => Fate::Forward,
                    _ => Fate::Absorb,
                }
            }
            _ => Fate::Absorb,
        }
    }

    fn set_capacity(
        &mut self,
        _now: Time,
        capacity: Bandwidth,
        out: &mut Outbox<BNeckPacket>,
    ) -> Result<()> {
        //= deviation: capacities can change; a decrease acts like a join, an increase like a leave.
        let new = bounds::capacity(capacity)?;
        if new > self.capacity {
            let share = self.share();
            self.wake_at(share, out);
        }
        self.capacity = new;
        self.shrink(out);
        Ok(())
    }

    fn state(&self) -> State {
        let sessions = self.sessions.len() as u64;
        let ordered = (self.free.len() + self.idle.len()) as u64;
        let tables = size_of_val(&self.sessions) + size_of_val(&self.free) * 2;
        let allocated = self.sessions.bytes() + self.free.bytes() + self.idle.bytes();
        State {
            // The sum; number, λ, μ with its set, and hop of a session; its rate and number again
            // in the ordered sets.
            numbers: 1 + 4 * sessions + 2 * ordered,
            bytes: 8 + (tables + allocated) as u64,
        }
    }
}
