//! Bundles.

use base::Span;

use super::link::QUEUE_KINDS;
use super::{LONGEST_DELAY, Section, Shape, Variant, optional, required};

/// `[[bundle]]`
pub(crate) const BUNDLE: Section = Section {
    noun: "a bundle",
    doc: "Traffic from one site to another that a sendbox paces, so that it waits there and not \
          in the network: packets that pass the sendbox and, on every shortest path from there to \
          their destination, the receivebox. The boxes find the rate by themselves. Each \
          direction is a bundle of its own.",
    fields: &[
        required("from", Shape::Text, "Its sendbox."),
        required("to", Shape::Text, "Its receivebox."),
        optional("name", Shape::Text, "FROM-TO", "Unique among bundles."),
        optional(
            "scheduler",
            Shape::Either(&[Shape::Text, Shape::Variant(&QUEUE_KINDS)]),
            "sfq",
            "In which order packets leave the sendbox: a queue as `queue` of a link has it, but \
             no policer. Without a `limit` it holds what the path carries in two round trips, and \
             no less than 200 ms' worth or 200 packets; a bundle has no `bdp`. Without `flows` \
             there are 65,536 queues.",
        ),
        optional(
            "control",
            Shape::Either(&[Shape::Text, Shape::Variant(&CONTROL_KINDS)]),
            "copa",
            "The law that sets the rate: `\"copa\"`, `\"basic-delay\"`, `\"bbr\"`, or `{ kind = \"constant\", rate = \"90 Mbit/s\" }`.",
        ),
        optional(
            "marking",
            Shape::Word(&["header", "encapsulation"]),
            "header",
            "How both boxes recognise a packet: by a hash of its headers, or by a header that the \
             sendbox puts around it.",
        ),
        optional(
            "mode",
            Shape::Word(&["observe", "dry-run", "enforce"]),
            "enforce",
            "`observe` measures; `dry-run` computes the rate as well; `enforce` paces.",
        ),
        optional("floor", Shape::Rate, "1 Mbit/s", "The rate is never below."),
        optional("ceiling", Shape::Rate, "no limit", "The rate is never above."),
        optional(
            "weight",
            Shape::Whole(1, 1000),
            "1",
            "Its share beside other bundles at the same bottleneck, all with `copa`.",
        ),
        optional(
            "elasticity",
            Shape::Flag,
            "true",
            "Look for cross traffic that gives way to others, and compete with it.",
        ),
        optional(
            "multipath",
            Shape::Flag,
            "true",
            "Look for paths of unequal delay, and step aside.",
        ),
        optional(
            "feedback",
            Shape::Table(&FEEDBACK),
            "{}",
            "What happens to the boxes' messages alone, both ways.",
        ),
    ],
};

const FEEDBACK: Section = Section {
    noun: "feedback",
    doc: "Beside what happens to all packets on the links.",
    fields: &[
        optional("loss", Shape::Share, "0 %", "Messages lost, independently."),
        optional(
            "jitter",
            Shape::Time(Span::ZERO, LONGEST_DELAY),
            "0 s",
            "Each message is late by up to this, drawn uniformly; they overtake each other.",
        ),
    ],
};

/// Laws that set a bundle's rate.
pub(crate) const CONTROL_KINDS: Variant = Variant {
    key: "kind",
    doc: "A law that sets a bundle's rate.",
    shared: &[],
    kinds: &[
        ("copa", &Section { noun: "copa", doc: "Copa, as for a bundle.", fields: &[] }),
        (
            "basic-delay",
            &Section { noun: "basic-delay", doc: "The delay law of Nimbus.", fields: &[] },
        ),
        ("bbr", &Section { noun: "bbr", doc: "BBR, for comparison.", fields: &[] }),
        (
            "constant",
            &Section {
                noun: "constant control",
                doc: "A rate that somebody has chosen.",
                fields: &[required("rate", Shape::Rate, "The rate, such as `\"90 Mbit/s\"`.")],
            },
        ),
    ],
};
