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
//! | the flow's source: one packet each *T* | `cobb_gouda/source.rs` |
//! | the router's process for a link: totals of a round, offer | `cobb_gouda/link.rs` |
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

mod link;
mod source;
#[cfg(test)]
mod tests;

use base::{Bandwidth, Span, Time};

pub use link::Link;
pub use source::Source;

use crate::{Error, RateController, Result, SessionId, Settings, bounds};

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
