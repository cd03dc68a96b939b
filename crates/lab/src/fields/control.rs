//! Explicit rate control: its protocol, and populations of sessions.

use base::{Bytes, Span};

use super::elements::NAMES;
use super::flow::DRAWN;
use super::{LONGEST, LONGEST_DELAY, SOME_DATA, Section, Shape, TIME, optional, required};

/// As `ratecontrol::Protocol` names them.
pub(crate) const PROTOCOLS: &[&str] = &[
    "slbn",
    "slbn-letter",
    "slbn-epochs",
    "bfyz",
    "erica",
    "cobb-gouda",
    "rcp",
    "piqi-rcp",
    "b-neck",
];
const PACKET: Shape = Shape::Data(Bytes::new(1), Bytes::new(9000));
const MOMENTS: Shape = Shape::Either(&[TIME, Shape::Pair(&[TIME, TIME])]);
const RATES: Shape = Shape::Either(&[Shape::Rate, Shape::Pair(&[Shape::Rate, Shape::Rate])]);
/// As many as places.
const COUNT: Shape = Shape::Whole(1, 10_000_000);

/// `[control]`
pub(crate) const CONTROL: Section = Section {
    noun: "`[control]`",
    doc: "Explicit rate control: the network tells sessions their max-min fair rates. It is for \
          the virtual clock (`netarium sim`), and all controlled traffic of a lab has the same \
          protocol. Without this section the defaults hold, and flows name the protocol.",
    fields: &[
        optional(
            "protocol",
            Shape::Word(PROTOCOLS),
            "the flows', or slbn",
            "`slbn` is the form that converges, `slbn-letter` the paper's, `slbn-epochs` the one \
             that survives lost packets and dead sources.",
        ),
        optional(
            "share",
            Shape::Share,
            "1 %",
            "Of a session's rate, for its control packets; above 0 %, at most 50 %.",
        ),
        optional("packet", PACKET, "64 B", "A control packet on the wire."),
        optional(
            "pause",
            Shape::Share,
            "10 %",
            "The longest random pause between two cycles of a session, as a share of the last \
             cycle's time. Without pauses sessions of equal round trips can oscillate in lockstep.",
        ),
        optional("loss", Shape::Share, "0 %", "Of control packets, on each link they cross."),
        optional(
            "access",
            NAMES,
            "[]",
            "Routers, by name or pattern, that turn plain flows passing from their hosts into \
             sessions.",
        ),
    ],
};

/// `[[sessions]]`
pub(crate) const SESSIONS: Section = Section {
    noun: "a population of sessions",
    doc: "Many rate-controlled sessions that are measured together, each from a host to another: \
          `count` of them drawn at random, or `each` one listed. Drawn sessions bring their hosts: \
          every router has places for them, a source's place is drawn among those that are no \
          source's yet (of any population), a destination's among all. A place that is used \
          becomes a host `ROUTER-pNUMBER`, with one link. What a population draws depends on the \
          lab's seed, its own keys and its name, never on its position in the file; only the \
          places of sources are shared, and go to populations in the order of their names.",
    fields: &[
        required("name", Shape::Text, "Unique among populations."),
        optional("count", COUNT, "", "How many sessions are drawn."),
        optional("routers", NAMES, "", "Routers that hosts hang on, by name or pattern."),
        optional("hosts", Shape::Whole(1, 1_000_000), "200", "Places at each of these routers."),
        optional("host_rate", Shape::Rate, "100 Mbit/s", "Of hosts' links."),
        optional(
            "host_delay",
            Shape::Time(Span::ZERO, LONGEST_DELAY),
            "1 us",
            "Of hosts' links, whose queues are unlimited.",
        ),
        optional(
            "start",
            MOMENTS,
            "0 s",
            "When sessions join: all at once, or uniformly between two times.",
        ),
        optional(
            "leave",
            MOMENTS,
            "never",
            "When sessions leave, finished or not. Not before any could start.",
        ),
        optional("leave_count", COUNT, "all", "So many leave, drawn at random."),
        optional(
            "size",
            DRAWN,
            "no end",
            "Data on the wire of a session, which leaves when it is sent.",
        ),
        optional(
            "demand",
            RATES,
            "no limit",
            "The most that a session can use: all the same, or uniformly between two rates.",
        ),
        optional(
            "packet",
            PACKET,
            "1500 B and `overhead`",
            "A data packet on the wire; by default as large as a controlled flow's.",
        ),
        optional(
            "each",
            Shape::List(&Shape::Table(&EACH)),
            "",
            "The sessions one by one, between nodes that the lab has; takes the place of all other \
             keys but `name` and `packet`.",
        ),
    ],
};

const EACH: Section = Section {
    noun: "a session",
    doc: "One session.",
    fields: &[
        required("from", Shape::Text, "The node that sends."),
        required("to", Shape::Text, "The node that receives."),
        optional("start", TIME, "0 s", "When it joins."),
        optional("leave", Shape::Time(Span::ZERO, LONGEST), "never", "When it leaves."),
        optional("size", SOME_DATA, "no end", "Data on the wire."),
        optional("demand", Shape::Rate, "no limit", "The most that it can use."),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_can_be_named() {
        let names: Vec<&str> = ratecontrol::Protocol::ALL.iter().map(|p| p.name()).collect();
        assert_eq!(names, PROTOCOLS);
    }
}
