//! Cobb and Gouda's protocol: constant state at the links, rounds of a fixed length.
//!
//! **Source.** J. A. Cobb, M. G. Gouda, "Stabilization of max-min fair networks without per-flow
//! state", SSS 2008, LNCS 5340; journal form in Theoretical Computer Science, 2011. Only the
//! abstract is public (constant state per router, self-stabilizing, flows with a constant rate
//! beside those that take the max-min fair share), and the description in the SLBN paper (§I: no
//! per-session information at links, a constant *T* that must be greater than the round trip of the
//! protocol's packets; §IV: it follows a similar approach as SLBN). The state machines here are a
//! reconstruction from that; each choice that the sources leave open is a *reading* below.
//!
//! **Problem.** A link without per-session state must know how many sessions it limits and the
//! total rate of the others. It counts anew in each round of length *T*: every session's packet
//! passes it once per round and contains the link that limits the session, and the rate.
//!
//! **Messages.** There is one, [`Packet`]:
//! | direction | fields | at a link | at the end |
//! |---|---|---|---|
//! | to the destination | last round's rate and limiting link; this round's least offer and its
//! link | lowers the offer | returned |
//! | to the source | the same, final | counts the session: limited here, or limited elsewhere at
//! its rate | the source takes the offer as its rate |
//!
//! A link computes offers from its counts in the *last* round. With capacity C, N sessions, NR of
//! them limited here and a total rate BF of the others, the offer is (C − BF)/NR to a session
//! limited here, (C − (BF − r))/(NR + 1) to one limited elsewhere at rate r, and (C − BF)/(NR + 1)
//! to a new one; no offer is less than C/N.
//!
//! **When it fails.** A packet that returns after its round has ended arrives at links that already
//! count the next one, and is not counted. The links then count fewer sessions than they have and
//! offer too much, queues grow, and more packets are late: this causes the errors of several
//! hundred percent that the SLBN paper reports. Sessions that join within one round do not count
//! each other either: the offer to each is that for one more session.
//!
//! **With empty queues** 978 of 1,000 random networks (2 to 30 links, 2 to 100 sessions over up to
//! 8 of them) become stable, after 7 rounds in the median, 18 in 99 of 100 cases and 59 at most. In
//! the others all sessions react to the same totals at once, and rates oscillate forever; the SLBN
//! paper, too, found scenarios without convergence. If a tenth of the sessions is replaced in each
//! round, a fifth of the rates has an error of at least ±18 %.
//!
//! **Leaving and faults.** Without a Leave, a silent session is not counted in the next round.
//! Likewise the effects of lost packets, failed sources and any wrong number in a link end
//! after two rounds.
//!
//! | paper | here |
//! |---|---|
//! | the flow's source: one packet each *T* | [`Source`] |
//! | the router's process for a link: totals of a round, offer | [`Link`] |
//! | the message | [`Packet`] |
//! | the flow's destination | [`RateController::answer`] |
//! | flows that request a constant amount | demands: a session limited by its own demand names no link |
//!
//! Readings:
//! - *Rounds are the same everywhere*: round k begins at time k·T, all sources send then, and
//!   packets contain k. If each link had its own rounds, it would miscount whenever jitter moves a
//!   packet across their border; with common rounds, a *T* above every round trip is exactly
//!   sufficient.
//! - *Upstream packets are counted*: only they contain the link that limits the session.
//! - *C/N as a lower bound*, as in SLBN: without it a link whose sessions are all limited
//!   elsewhere by outdated numbers offers nothing for a round.
//!
//! Deviations from the other protocols' common settings are marked in the code.

#[cfg(test)]
mod tests;

use base::{Bandwidth, Span, Time};

use crate::{
    Error, Fate, Outbox, RateController, Result, SessionId, Settings, State, Towards, Visit, bounds,
};

/// A packet of a session, sent once per round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Rate of the session in the last round, in bit/s.
    last: u64,
    /// The least offer so far in bit/s; at first the demand.
    rate: u64,
    /// The round in which it was sent.
    round: u32,
    /// Index in the path of the link that limited the session in the last round.
    last_limit: u8,
    /// The same for `rate`.
    limit: u8,
    /// Whether all links of the path counted the last round's packet.
    known: bool,
    /// Whether it was sent at the start of its round. Packets of sessions that join within a round
    /// request a rate but are not counted: they could miss the end of the round.
    counts: bool,
}

impl Packet {
    /// Value instead of a link: the session's own demand limits it.
    const SOURCE: u8 = u8::MAX;
}

/// The protocol as a [`RateController`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobbGouda {
    round: Span,
}

impl CobbGouda {
    /// *T*, the default length of a round. It must exceed every packet's round trip. Transit-stub
    /// networks as in the SLBN paper's experiments (1–10 ms per link, fewest hops, three seeds
    /// each, empty queues) have round trips of 101 ms on average and at most 250 ms with 1,100
    /// routers, and of 128 ms and 292 ms with 11,000. A longer round tolerates longer queues and
    /// converges proportionally more slowly.
    pub const ROUND: Span = Span::from_millis(300);

    /// The protocol with another length of rounds; 0 counts as 1 ns.
    #[must_use]
    pub fn with_round(round: Span) -> Self {
        Self { round: Span::from_nanos(round.as_nanos().max(1)) }
    }
}

/// The number of the round at `now`.
fn round_at(now: Time, round: Span) -> u32 {
    u32::try_from(now.as_nanos() / round.as_nanos()).unwrap_or(u32::MAX)
}

impl RateController for CobbGouda {
    type Packet = Packet;
    type Source = Source;
    type Link = Link;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        //= deviation: neither the share for control packets nor the pause applies. A session that
        // sends less than one packet a round is not counted, one that pauses comes late.
        Ok(Self::with_round(Self::ROUND))
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Source> {
        if hops == 0 || hops == Packet::SOURCE {
            let most = usize::from(Packet::SOURCE) - 1;
            return Err(Error::Path { hops: usize::from(hops), most });
        }
        Ok(Source::new(session, self.round))
    }

    fn link(&self, capacity: Bandwidth) -> Result<Link> {
        Ok(Link::new(bounds::capacity(capacity)?, self.round))
    }
}

/// Source of a session.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    session: SessionId,
    /// *T*.
    round: Span,
    demand: u64,
    /// Rate in the latest answer.
    rate: u64,
    limit: u8,
    answered: Option<u32>,
    /// The last round in which all links counted this session.
    counted: Option<u32>,
    active: bool,
}

impl Source {
    fn new(session: SessionId, round: Span) -> Self {
        Self {
            session,
            round,
            demand: 0,
            rate: 0,
            limit: Packet::SOURCE,
            answered: None,
            counted: None,
            active: false,
        }
    }

    fn send(&self, now: Time, out: &mut Outbox<Packet>) {
        let round = round_at(now, self.round);
        let counts = now.as_nanos().is_multiple_of(self.round.as_nanos());
        let known = counts && self.counted.is_some_and(|last| last.checked_add(1) == Some(round));
        let packet = Packet {
            last: self.rate,
            rate: self.demand,
            round,
            last_limit: self.limit,
            limit: Packet::SOURCE,
            known,
            counts,
        };
        out.send(self.session, 0, Towards::Destination, packet);
        let begins = (u64::from(round) + 1).saturating_mul(self.round.as_nanos());
        out.wake = Some(Time::from_nanos(begins));
    }

    /// Reports the session's rate if it has changed.
    fn tell(&self, before: Option<Bandwidth>, out: &mut Outbox<Packet>) {
        let rate = self.assigned();
        if rate != before {
            out.rate = rate;
        }
    }

    /// A session never gets more than its demand, even if the links have counted wrongly.
    fn assigned(&self) -> Option<Bandwidth> {
        self.answered.map(|_| Bandwidth::from_bits_per_sec(self.rate.min(self.demand)))
    }
}

impl crate::Source<Packet> for Source {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        self.active = true;
        self.send(now, out);
        Ok(())
    }

    fn change(&mut self, _: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        let before = self.assigned();
        // A lower demand takes effect at once, a higher one in the next round.
        self.demand = bounds::demand(demand)?;
        self.tell(before, out);
        Ok(())
    }

    fn leave(&mut self, _: Time, out: &mut Outbox<Packet>) {
        self.active = false;
        out.gone = true;
    }

    fn receive(&mut self, now: Time, packet: Packet, out: &mut Outbox<Packet>) {
        let overtaken = self.answered.is_some_and(|newest| packet.round < newest);
        if !self.active || overtaken {
            return;
        }
        let before = self.assigned();
        self.rate = packet.rate;
        self.limit = packet.limit;
        self.answered = Some(packet.round);
        self.tell(before, out);
        if packet.counts && round_at(now, self.round) == packet.round {
            self.counted = Some(packet.round);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<Packet>) {
        if self.active {
            self.send(now, out);
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.assigned()
    }
}

/// Counts of a link in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    /// Total rate of the sessions limited elsewhere, in bit/s.
    elsewhere: u64,
    /// Sessions limited here.
    here: u64,
    sessions: u64,
}

impl Totals {
    fn count(&mut self, rate: u64, here: bool) {
        // A sum of rates that reaches 2⁶⁴ is above any capacity, where links offer the equal share
        // in any case; numbers of sessions reach it only by memory faults.
        self.sessions = self.sessions.saturating_add(1);
        if here {
            self.here = self.here.saturating_add(1);
        } else {
            self.elsewhere = self.elsewhere.saturating_add(rate);
        }
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    capacity: u64,
    /// *T*.
    period: Span,
    /// The round that is being counted.
    round: u32,
    /// Counts of that round so far.
    counting: Totals,
    /// Counts of the previous round.
    counted: Totals,
}

impl Link {
    fn new(capacity: u64, period: Span) -> Self {
        Self { capacity, period, round: 0, counting: Totals::default(), counted: Totals::default() }
    }

    /// Starts the packet's round if it is a new one.
    fn advance(&mut self, now: Time, round: u32) {
        // A round that has not begun is a memory fault.
        let faulty = self.round > round_at(now, self.period);
        if !faulty && round <= self.round {
            return;
        }
        let follows = !faulty && round - self.round == 1;
        self.counted = if follows { self.counting } else { Totals::default() };
        self.counting = Totals::default();
        self.round = round;
    }

    /// The offer to the session of the packet.
    fn offer(&self, packet: &Packet, hop: u8) -> u64 {
        let Totals { elsewhere, here, sessions } = self.counted;
        let one_more = here.saturating_add(1);
        let (elsewhere, here, sessions) = match (packet.known, packet.last_limit == hop) {
            (true, true) => (elsewhere, here, sessions),
            (true, false) => (elsewhere.saturating_sub(packet.last), one_more, sessions),
            (false, _) => (elsewhere, one_more, sessions.saturating_add(1)),
        };
        let left = self.capacity.saturating_sub(elsewhere) / here.max(1);
        left.max(self.capacity / sessions.max(1))
    }
}

impl crate::Link<Packet> for Link {
    fn visit(
        &mut self,
        now: Time,
        visit: Visit,
        packet: &mut Packet,
        _: &mut Outbox<Packet>,
    ) -> Fate {
        self.advance(now, packet.round);
        match visit.towards {
            Towards::Destination => {
                let offer = self.offer(packet, visit.hop);
                if offer < packet.rate {
                    packet.rate = offer;
                    packet.limit = visit.hop;
                }
            }
            Towards::Source if packet.counts && packet.round == self.round => {
                self.counting.count(packet.rate, packet.limit == visit.hop);
            }
            // The packet is too late.
            Towards::Source => {}
        }
        Fate::Forward
    }

    fn set_capacity(&mut self, _: Time, capacity: Bandwidth, _: &mut Outbox<Packet>) -> Result<()> {
        self.capacity = bounds::capacity(capacity)?;
        Ok(())
    }

    fn state(&self) -> State {
        // Three totals, each for two rounds, and the number of the round.
        let bytes = 2 * size_of::<Totals>() + size_of::<u32>();
        State { numbers: 7, bytes: bytes as u64 }
    }
}
