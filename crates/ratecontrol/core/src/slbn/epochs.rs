//! SLBN whose links count in epochs: losses and failures affect a link only for a limited time.
//!
//! **Problem.** In SLBN a session's state is in its one packet, and links have only sums. If a
//! packet is lost, links that it had visited have changed their sums and the others have not, no
//! link can detect which, and the sums stay wrong forever. A source that fails without Leave stays
//! counted forever too, and the sums of a link that restarts lack all sessions. The paper leaves
//! this to "classical techniques".
//!
//! **Idea.** A sum that is regularly discarded cannot be wrong for long. Each link divides its
//! time into epochs of *T* and keeps two triples (BF, NR, N): the one *in force*, from which it
//! computes shares, and the one *being counted*. When an epoch ends, the counted triple becomes
//! the one in force, and the count restarts at zero. A session is counted once per epoch; a silent
//! session is not counted.
//!
//! **Fields.** In addition to SLBN's (bw″, bw′, bw, B, b), a packet contains:
//! - for each hop a *stamp* of three bits: nothing, or the number (modulo 7) of the epoch of that
//!   link whose count contains the session. Each link has its own epochs: no clocks are compared.
//! - `sent`, the time at which its source sent it, which is returned: it gives the round trip, and
//!   is the sequence number by which returns of abandoned cycles are recognised.
//!
//! **Rules at a link**, in its epoch *k*:
//! 1. The stamp determines which triples contain the session: *k*: both; *k* − 1: the one in force;
//!    nothing or another value: neither. The old contribution is removed from these.
//! 2. The share, B, b and bw follow from the triple in force as in SLBN.
//! 3. The new contribution is added where the old one was. If it was nowhere (the session joins, or
//!    was silent for more than an epoch), it is added to the triple in force, and the stamp becomes
//!    *k* − 1.
//! 4. Upstream, it is also added to the count, and the stamp becomes *k*. Only upstream packets are
//!    counted, because a counted contribution is wrong if the packet is lost on the rest of its
//!    path and the cycle must be repeated, and upstream the rest is short. With a loss of *l* per
//!    crossing, hop *i* counts a session 1/(1 − *l*)^*i* times on average; downstream the exponent
//!    would be the path to the destination and back.
//! 5. Leave removes the contribution, and is not repeated if it is lost: the epochs remove it then.
//! 6. A link that had no packets for an epoch, or has just started, drops its state and takes a
//!    number three ahead of the first stamp that it receives, so that earlier stamps mean
//!    "neither".
//!
//! A Join is not required: it is the packet without stamps. Downstream, a link for which the
//! session is new marks it but does not lower bw, like SLBN's Join: if bw were lowered, all links
//! behind the bottleneck would record the session as using nothing for a cycle, and offer others
//! the rate that it is about to use. Two thousand sessions that join within 500 ms would
//! permanently overload some links by half, because the queues make cycles longer than epochs. All
//! sums wrap and are clamped when they are read (BF ≥ 0, 1 ≤ NR ≤ N): adding and removing stay
//! inverse to each other in any order, nothing overflows, and shares are between 0 and the capacity
//! even while sums are wrong.
//!
//! **Rules at a source.** A cycle that has not returned after the retransmission timeout is
//! repeated from the state of the last returned packet. The timeout is computed from the smoothed
//! round trip and its deviation as in TCP, but it is at least twice the round trip, and *T*/10 more
//! than it, because growing queues are no losses; it is doubled each time, up to *T*/2 unless round
//! trips are longer. Returns of earlier attempts only improve the measurement, and lower the rate
//! if theirs is lower. Cycles start at least every *T*/2, even if the share for control packets
//! would allow fewer (64 B at 1 %: below 102 kbit/s), because each link must be visited upstream in
//! each epoch. After 4 *T* without a return the source restarts with a Join, because its stamps
//! would soon be ambiguous. It sends at its last rate until it gets another.
//!
//! **Temporary errors and their duration.** After the last lost packet, failed source or restarted
//! link:
//! - *Lost on the path*: visited links replaced the old contribution by the new one; the repetition
//!   removes the old one again. The triple in force is wrong until the end of the epoch, and so is
//!   the count, which makes the triple in force wrong until the end of the next one.
//! - *Counted twice* (lost after the first upstream visit in an epoch): wrong for one epoch more.
//! - *Late, not lost*: both attempts visit; the same as above.
//! - *Silent for an epoch*: removed at its end; the next visit finds an old stamp, rule 3.
//! - *Silent for long*: a stamp is ambiguous after six epochs; the source drops it after four. A
//!   packet that travels longer is not counted in one epoch and counted in the next.
//! - *Failed*: counted last in epoch *k*, removed from the triple in force at the first visit after
//!   the end of *k* + 1: at most 2 *T* and a gap between visits.
//! - *Restarted link*: rule 6; within a cycle all sessions have joined again. If the first packet
//!   is a Join (no stamp), sessions may be considered as counted, and are counted in the next
//!   epoch.
//!
//! **Convergence.** Let packets of abandoned cycles be gone at a link in epoch *k*, and no packet
//! be lost from then on. Every live session visits the link upstream in epoch *k* + 1. Whatever its
//! stamp is, after the first such visit it is *k* + 1 and the count contains its contribution once;
//! each later visit replaces it exactly. So at the start of *k* + 2 the triple in force is the sum
//! over the live sessions, and stays so: by rules 1 and 3 it is SLBN's from then on, bit for bit.
//! That is at most 3 *T* after the last event.
//!
//! **Costs.** Six integers per link instead of three, the epoch's number and its end; three bits
//! per hop and 8 bytes in packets; a cycle every *T*/2 from slow sessions. While packets are being
//! lost, double counts make rates on average too low rather than too high. With 400 sessions on
//! paths of up to six links, of which 20 leave and 20 others join per second for 10 s, the mean
//! error was 2 % at a loss of 1 % and 10 % at 5 %; that of plain SLBN 22 % and 52 %, growing with
//! time. `labs/slbn/loss.toml` has losses in a larger network.
//!
//! **Epoch.** [`Epochs::EPOCH`] is 1 s: longer than two cycles while round trips (including queues)
//! are below 0.4 s, as on terrestrial networks, and sufficient for several repetitions. Too short
//! an epoch, as with several satellite links, loses sessions from the count (links are overbooked);
//! a longer one only delays the repair.

mod link;
mod packet;
mod source;

#[cfg(test)]
mod tests;

use base::{Bandwidth, Span};

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
    /// Length of an epoch: more than twice the longest cycle, which is its round trip
    /// including all queues.
    pub const EPOCH: Span = Span::from_secs(1);
}

impl RateController for Epochs {
    type Packet = Packet;
    type Source = Source;
    type Link = Link;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace() })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Source> {
        super::packet::check_hops(hops)?;
        Ok(Source::new(session, self.pace, Self::EPOCH))
    }

    fn link(&self, capacity: Bandwidth) -> Result<Link> {
        Link::try_new(capacity, Self::EPOCH)
    }

    /// Returns probes and drops Leaves.
    fn answer(packet: Packet) -> Option<Packet> {
        (!packet.leaves).then_some(packet)
    }
}
