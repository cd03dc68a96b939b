//! Cobb and Gouda's protocol: constant state at the links, rounds of a fixed length.
//!
//! **Source.** J. A. Cobb, M. G. Gouda, "Stabilization of max-min fair networks without per-flow
//! state", SSS 2008, LNCS 5340; journal form in Theoretical Computer Science, 2011. What is public
//! of it is the abstract (constant state a router, self-stabilizing, flows that want a constant
//! rate beside those that take the max-min fair share) and what the SLBN paper says of it (§I: no
//! per-session information at links, a constant *T* that must be greater than the round trip of
//! the protocol's packets; §IV: it follows a similar approach as SLBN). The machines here are a
//! reconstruction from that; each choice that the sources leave open is a *reading* below.
//!
//! **Problem.** A link that remembers no session must know how many sessions it limits and what
//! the others take. It counts anew in each round of length *T*: every session's packet passes it
//! once a round and says which link limits the session, and at which rate.
//!
//! **Messages.** There is one, [`Packet`]:
//! | way | carries | at a link | at the end |
//! |---|---|---|---|
//! | to the destination | last round's rate and limiting link; this round's least offer and its link | lowers the offer | bounces |
//! | to the source | the same, final | counts the session: limited here, or limited elsewhere at its rate | the source takes the offer as its rate |
//!
//! A link offers from what it counted in the *last* round: with capacity C, N sessions, NR of them
//! limited here and the others taking BF together, a session limited here is offered (C − BF)/NR,
//! one limited elsewhere at rate r is offered (C − (BF − r))/(NR + 1), a new one (C − BF)/(NR + 1);
//! nobody is offered less than C/N.
//!
//! **When it fails.** A packet that comes back after its round has ended finds links that count the
//! next one already and is not counted; they believe to have fewer sessions than they have, offer
//! too much, queues grow, and more packets are late: the errors of several hundred percent that the
//! SLBN paper reports. Sessions that join within one round don't know of one another either: each
//! is offered what one more session could have.
//!
//! **With empty queues** 978 of 1,000 random networks (2 to 30 links, 2 to 100 sessions over up to
//! 8 of them) settle, after 7 rounds in the median, 18 in 99 of 100 cases and 59 at most. In the
//! others all sessions answer the same totals at once, and rates go round in a cycle for ever; the
//! SLBN paper, too, found scenarios without convergence. Where a tenth of the sessions is replaced
//! in each round, a fifth of the rates is off by 18 % or more, either way.
//!
//! **Leaving and faults.** There is no Leave: who sends nothing is not counted in the next round.
//! Likewise lost packets, dead sources and any wrong number in a link are forgotten after two
//! rounds.
//!
//! | paper | here |
//! |---|---|
//! | the flow's source: one packet each *T* | `cobb_gouda/source.rs` |
//! | the router's process for a link: totals of a round, offer | `cobb_gouda/link.rs` |
//! | the message | `cobb_gouda/packet.rs` |
//! | the flow's destination | `cobb_gouda/destination.rs` |
//! | flows that request a constant amount | demands: a session limited by its own demand names no link |
//!
//! Readings:
//! - *Rounds are the same everywhere*: round k begins at time k·T, all sources send then, and
//!   packets carry k. Rounds of each link's own would miscount whenever jitter moves a packet over
//!   their border; this is the form in which *T* above every round trip is exactly what is needed.
//! - *The way back counts*: only then is known which link limits the session.
//! - *C/N as a lower bound*, as in SLBN: without it a link whose sessions are all limited elsewhere
//!   by stale numbers offers nothing for a round.
//!
//! Deviations from the other protocols' common settings are marked in the code.

mod destination;
mod link;
mod packet;
mod source;
#[cfg(test)]
mod tests;

use base::{Bandwidth, Span, Time};

pub use destination::Destination;
pub use link::Link;
pub use packet::Packet;
pub use source::Source;

use crate::{Error, RateController, Result, SessionId, Settings, bounds};

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobbGouda {
    round: Span,
}

impl CobbGouda {
    /// *T*, the length of a round, unless another is given. It must exceed every packet's round
    /// trip. Transit-stub networks as in the SLBN paper's experiments (1–10 ms a link, fewest hops,
    /// three seeds each, empty queues) have round trips of 101 ms on average and 250 ms at most
    /// with 1,100 routers, of 128 ms and 292 ms with 11,000. A longer round tolerates longer queues
    /// and converges as much more slowly.
    pub const ROUND: Span = Span::from_millis(300);

    /// The protocol with rounds of another length; 0 counts as 1 ns.
    #[must_use]
    pub fn with_round(round: Span) -> Self {
        Self { round: Span::from_nanos(round.as_nanos().max(1)) }
    }
}

/// The number of the round at a time.
fn round_at(now: Time, round: Span) -> u32 {
    u32::try_from(now.as_nanos() / round.as_nanos()).unwrap_or(u32::MAX)
}

impl RateController for CobbGouda {
    type Packet = Packet;
    type Source = Source;
    type Link = Link;
    type Destination = Destination;

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

    fn destination(&self, session: SessionId, hops: u8) -> Destination {
        Destination::new(session, hops)
    }
}
