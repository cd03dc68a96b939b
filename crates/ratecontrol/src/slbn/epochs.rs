//! SLBN whose links count anew in epochs: no loss, death or failure misleads a link for long.
//!
//! **Problem.** In SLBN a session's state travels in its one packet, and its links hold only sums.
//! A packet that is lost takes along what its session has contributed to each of them: links
//! that it had visited have moved, the others have not, nobody knows which, and the sums are
//! wrong for ever. A source that dies without Leave stays counted for ever too, and a link that
//! restarts begins with sums that lack everybody. The paper leaves this to "classical techniques".
//!
//! **Idea.** A sum that is thrown away regularly can't be wrong for long. Each link cuts its time
//! into epochs of *T* and keeps two triples (BF, NR, N): the one *in force*, of which it tells
//! shares, and the one *being counted*. When an epoch ends, the counted triple comes into force
//! and the count starts at zero. A session is counted once an epoch; whoever is not heard of is not
//! counted.
//!
//! **Fields.** A packet carries, beside SLBN's (bw″, bw′, bw, B, b):
//! - for each hop a *stamp* of three bits: nothing, or the number (modulo 7) of the epoch of that
//!   link whose count contains the session. Epochs are each link's own: no clocks are compared.
//! - `sent`, the time at which its source sent it, which comes back: the round trip to measure, and
//!   the sequence number by which returns of abandoned cycles are known.
//!
//! **Rules at a link**, in its epoch *k*:
//! 1. The stamp tells which triples contain the session: *k*: both; *k* − 1: that in force;
//!    nothing or anything else: neither. Its old contribution is taken out of these.
//! 2. The share, B, b and bw follow from the triple in force as in SLBN.
//! 3. The new contribution is put back where the old one was. If it was nowhere (the session
//!    joins, or was silent for more than an epoch), it is put in force, and the stamp becomes
//!    *k* − 1.
//! 4. Upstream, it is put into the count as well and the stamp becomes *k*. Counting only upstream
//!    is deliberate: what has been counted is wasted if the packet is lost on the rest of its way
//!    and the cycle must be repeated, and upstream the rest is short. At a loss of *l* a crossing,
//!    hop *i* counts a session 1/(1 − *l*)^*i* times on average; downstream the exponent would
//!    be the way to the destination and back.
//! 5. Leave takes the contribution out and is not repeated if it is lost: the epochs do the rest.
//! 6. A link that heard nothing for an epoch, or has just started, forgets all and takes a number
//!    three ahead of the first stamp that it sees, so that stamps from before mean "neither".
//!
//! So there is no Join: it is the packet without stamps. On its way to the destination a link that
//! it is new to marks it but leaves bw, as SLBN's Join does: were bw lowered, all links behind the
//! bottleneck would have the session down for using nothing for a cycle, and offer others what it
//! is about to use. Two thousand sessions that join within half a second would overload some
//! links by half, for good: the queues make cycles longer than epochs. All sums wrap
//! and are clamped where they are read (BF ≥ 0, 1 ≤ NR ≤ N): adding and taking out stay inverse to
//! each other whatever the order, nothing overflows, and shares are within 0 and the capacity even
//! while sums are nonsense.
//!
//! **Rules at a source.** A cycle that has not returned after the retransmission time (smoothed
//! round trip and its deviation as for TCP, but at least twice the round trip, and *T*/10 more than
//! it: queues that are just filling are no losses; doubled each time, at most *T*/2 unless round
//! trips are longer) is repeated from the state of the last packet that returned; returns of
//! earlier attempts only improve the measurement, and lower the rate if theirs is lower. Cycles
//! start at least every *T*/2, even where the share for control packets would allow fewer (64 B at
//! 1 %: below 102 kbit/s), as each link must be visited upstream in each epoch. After 4 *T* without
//! a return the source starts as if it joined: its stamps would soon be ambiguous. It sends at its
//! last rate until it gets another.
//!
//! **What goes wrong meanwhile, and for how long.** Take the last lost packet, dead source or
//! restarted link.
//! - *Lost half way*: visited links took out the old contribution and put in the new one; the
//!   repetition takes out the old one again. The triple in force errs to the end of the epoch, the
//!   count likewise, and so the triple in force errs to the end of the next one.
//! - *Counted twice* (lost after the first upstream visit in an epoch): errs for one epoch more.
//! - *Late, not lost*: both attempts visit; the same as above.
//! - *Silent for an epoch*: taken out at its end; the next visit finds the stamp old, rule 3.
//! - *Silent for long*: a stamp is ambiguous after six epochs; the source drops it after four.
//!   Should a packet be under way for so long, it is missed in one epoch and counted in the next.
//! - *Dead*: counted last in epoch *k*, gone from the triple in force at the first visit after the
//!   end of *k* + 1: at most 2 *T* and a gap between visits.
//! - *Restarted link*: rule 6; within a cycle all have joined again. If the first packet is a Join
//!   (no stamp), sessions may be taken for counted and are counted in the next epoch.
//!
//! **Why it converges.** Let packets of abandoned cycles be gone at a link in epoch *k*, and
//! nothing be lost from there on. Every live session visits the link upstream in epoch *k* + 1.
//! Whatever its stamp is, after the first such visit it is *k* + 1 and the count contains its
//! contribution once; each later visit replaces it exactly. So at the start of *k* + 2 the triple
//! in force is the sum over the live sessions, and stays so: by rules 1 and 3 it is SLBN's from
//! there on, bit for bit. That is at most 3 *T* after the last event.
//!
//! **Costs.** Six integers a link instead of three, the epoch's number and its end; three bits a
//! hop and 8 bytes in packets; a cycle every *T*/2 from slow sessions. While packets are being
//! lost, double counts make rates too low on the whole rather than too high. In the example
//! `control_loss` (paths of up to six links, ten seconds of churn) the mean error is 2 % at a loss
//! of 1 % and 10 % at 5 %; plain SLBN errs by 22 % and 52 %, and more the longer it goes on.
//!
//! **Beside reliable channels** ([`crate::reliable`]). These keep the error below 0.5 % at the same
//! losses, for twice the crossings and buffers at every node, but neither reclaim dead sources nor
//! survive a restart. Both together do all: 0.4 % and 1.3 %. Where losses are rare, epochs alone
//! are enough.
//!
//! **Epoch.** [`Epochs::EPOCH`] is 1 s: longer than two cycles where round trips (queues included)
//! stay below 0.4 s, as they do on terrestrial networks, and room for several repetitions. Too
//! short an epoch, as it is over several satellites, loses sessions from the count (links are
//! overbooked); a longer one only delays the repair.

mod destination;
mod link;
mod packet;
mod source;

#[cfg(test)]
mod tests;

use base::{Bandwidth, Span};

pub use destination::Destination;
pub use link::Link;
pub use packet::Packet;
pub use source::Source;

use crate::{Pace, RateController, Result, SessionId, Settings};

/// SLBN with links that count anew in epochs.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    pace: Pace,
}

impl Epochs {
    /// How long links count: more than twice the longest cycle, its round trip with all queues
    /// included.
    pub const EPOCH: Span = Span::from_secs(1);
}

impl RateController for Epochs {
    type Packet = Packet;
    type Source = Source;
    type Link = Link;
    type Destination = Destination;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace() })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Source> {
        super::check_hops(hops)?;
        Ok(Source::new(session, self.pace, Self::EPOCH))
    }

    fn link(&self, capacity: Bandwidth) -> Result<Link> {
        Link::try_new(capacity, Self::EPOCH)
    }

    fn destination(&self, session: SessionId, hops: u8) -> Destination {
        Destination::new(session, hops)
    }
}
