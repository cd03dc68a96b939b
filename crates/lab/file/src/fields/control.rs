//! Explicit rate control: its protocol, and session generators.

use base::{Bandwidth, Bytes, Ratio, Span};
use ratecontrol::Protocol;

use super::elements::NAMES;
use super::flow::DRAWN;
use super::{MAX_DELAY, MAX_TIME, POSITIVE_DATA, Raw, Shape, TIME};

const PACKET: Shape = Shape::Data(Bytes::new(1), Bytes::new(9000));
const MOMENTS: Shape = Shape::Either(&[TIME, Shape::Pair(&[TIME, TIME])]);
const RATES: Shape = Shape::Either(&[Shape::Rate, Shape::Pair(&[Shape::Rate, Shape::Rate])]);
/// The number of places has the same limit.
const COUNT: Shape = Shape::Whole(1, 10_000_000);

section! {
    /// `[control]`
    pub(crate) CONTROL: Control = "`[control]`",
    "Explicit rate control: the network assigns max-min fair rates to sessions. It is for the \
     virtual clock (`netarium sim`), and all controlled traffic of a lab has the same protocol. \
     Without this section the defaults hold, and flows name the protocol.";
    protocol: Option<Protocol>, Word(Protocol::NAMES), Unset("the flows', or slbn"),
        "`slbn` is the convergent form, `slbn-letter` the form in the paper, `slbn-epochs` \
         tolerates lost packets and failed sources.";
    share: Ratio, Share, Default("1 %"),
        "Share of a session's rate for its control packets; above 0 %, at most 50 %.";
    packet: Bytes, PACKET, Default("64 B"), "Wire size of a control packet.";
    pause: Ratio, Share, Default("10 %"),
        "Maximum random pause between two cycles of a session, as a share of the last cycle's \
         time. Without pauses, sessions with equal RTTs can oscillate synchronously.";
    loss: Ratio, Share, Default("0 %"), "Loss probability of control packets on each link.";
    access: Raw, NAMES, Default("[]"),
        "Routers, by name or pattern, that turn plain flows passing from their hosts into \
         sessions.";
}

section! {
    /// `[[sessions]]`
    pub(crate) SESSIONS: Sessions = "a session generator",
    "Many rate-controlled sessions that are measured together, each from a host to another: \
     `count` of them drawn at random, or `each` one listed. Random sessions create their hosts: \
     every router has places for them. The place of a source is drawn from those that no source \
     uses (of any generator), the place of a destination from all. A used place becomes a host \
     `ROUTER-pNUMBER`, with one link. The random numbers of a generator depend on the lab's seed, \
     its own keys and its name, never on its position in the file; only the places of sources are \
     shared, and are assigned to generators in the order of their names.";
    name: Option<String>, Text, Required, "Unique among session generators.";
    count: Option<u32>, COUNT, Unset(""), "Number of generated sessions.";
    routers: Option<Raw>, NAMES, Unset(""),
        "Routers to which hosts are attached, by name or pattern.";
    hosts: u32, Whole(1, 1_000_000), Default("200"), "Host addresses at each of these routers.";
    host_rate: Bandwidth, Rate, Default("100 Mbit/s"), "Rate of hosts' links.";
    host_delay: Span, Time(Span::ZERO, MAX_DELAY), Default("1 us"),
        "Delay of hosts' links, whose queues are unlimited.";
    start: Raw, MOMENTS, Default("0 s"),
        "When sessions join: all at one time, or uniformly between two times.";
    leave: Option<Raw>, MOMENTS, Unset("never"),
        "When sessions leave, finished or not; not before the last start.";
    leave_count: Option<u32>, COUNT, Unset("all"),
        "Number of sessions that leave, chosen at random.";
    size: Option<Raw>, DRAWN, Unset("no end"),
        "Wire bytes of a session, which leaves after sending them.";
    demand: Option<Raw>, RATES, Unset("no limit"),
        "Maximum rate of a session: one value for all, or uniform between two rates.";
    packet: Option<Bytes>, PACKET, Unset("1500 B and `overhead`"),
        "Wire size of a data packet; by default that of a controlled flow.";
    each: Option<Raw>, List(&Table(EACH.section)), Unset(""),
        "A list of sessions between nodes of the lab; replaces all other keys except `name` and \
         `packet`.";
}

section! {
    pub(crate) EACH: Each = "a session", "One session.";
    from: Option<String>, Text, Required, "The node that sends.";
    to: Option<String>, Text, Required, "The node that receives.";
    start: Span, TIME, Default("0 s"), "When it joins.";
    leave: Option<Span>, Time(Span::ZERO, MAX_TIME), Unset("never"), "When it leaves.";
    size: Option<Bytes>, POSITIVE_DATA, Unset("no end"), "Wire bytes.";
    demand: Option<Bandwidth>, Rate, Unset("no limit"), "Maximum rate.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_control_has_the_defaults_of_its_protocols() {
        let usual = ratecontrol::Settings::default();
        assert_eq!(CONTROL.share.default(), usual.share);
        assert_eq!(CONTROL.packet.default(), usual.packet);
        assert_eq!(CONTROL.pause.default(), usual.pause);
    }
}
