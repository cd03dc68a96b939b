//! Bundles.

use base::{Bandwidth, Ratio, Span};

use super::link::QUEUE_KINDS;
use super::{Fields, MAX_DELAY, Raw, Section, Variant, Words};
use crate::plan::{Marking, Mode};

words! {
    Marking { ("header" Self::Header) ("encapsulation" Self::Encapsulation) }
    Mode { ("observe" Self::Observe) ("dry-run" Self::DryRun) ("enforce" Self::Enforce) }
}

section! {
    /// `[[bundle]]`
    pub BUNDLE: Bundle = "a bundle",
    "Traffic from one site to another that a sendbox paces, so that it queues there and not in the \
     network: packets that pass the sendbox and, on every shortest path from there to their \
     destination, the receivebox. The gateways find the rate automatically. Each direction is a \
     separate bundle.";
    from: Option<String>, Text, Required, "Its sendbox.";
    to: Option<String>, Text, Required, "Its receivebox.";
    name: Option<String>, Text, Unset("FROM-TO"), "Unique among bundles.";
    scheduler: Raw, Either(&[Text, Variant(&QUEUE_KINDS)]), Default("fq"),
        "The scheduler of the sendbox: a queue like `queue` of a link, but no \
         policer. Without a `limit` it holds what the path carries in two round trips, and no \
         less than 200 ms' worth or 200 packets; a bundle has no `bdp`. Without `flows` there are \
         65,536 queues.";
    control: Raw, Either(&[Text, Variant(&CONTROL_KINDS)]), Default("copa"),
        "The congestion controller: `\"copa\"`, `\"basic-delay\"`, `\"bbr\"`, or `{ kind = \
         \"constant\", rate = \"90 Mbit/s\" }`.";
    marking: Marking, Word(Marking::WORDS), Default("header"),
        "How both gateways identify a packet: by a hash of its headers, or by an outer \
         header added by the sendbox.";
    mode: Mode, Word(Mode::WORDS), Default("enforce"),
        "`observe` measures; `dry-run` computes the rate as well; `enforce` paces.";
    floor: Bandwidth, Rate, Default("1 Mbit/s"), "Minimum rate.";
    ceiling: Option<Bandwidth>, Rate, Unset("no limit"), "Maximum rate.";
    weight: u32, Whole(1, 1000), Default("1"),
        "Relative share among bundles at the same bottleneck, all with `copa`.";
    elasticity: bool, Flag, Default("true"),
        "Detect elastic cross traffic, and compete with it.";
    multipath: bool, Flag, Default("true"),
        "Detect paths with unequal delays, and disable control on them.";
    feedback: Fields, Table(FEEDBACK.section), Default("{}"),
        "Impairments of the gateways' messages only, in both directions.";
    constants: Option<String>, Text, Unset("the defaults"),
        "Changes constants of the detectors, for experiments: `\"guard.gain = 1.2, copa.step = 0.3\"`. \
         The [book](../concepts/bundler.md#constants) lists them.";
}

section! {
    pub(crate) FEEDBACK: Feedback = "feedback", "In addition to the impairments of the links.";
    loss: Ratio, Share, Default("0 %"), "Loss probability of a message.";
    jitter: Span, Time(Span::ZERO, MAX_DELAY), Default("0 s"),
        "Maximum random delay of a message, uniform; messages can be reordered.";
}

section! {
    /// Control at a constant rate.
    pub CONSTANT_CONTROL: ConstantControl = "constant control",
    "A constant rate.";
    rate: Option<Bandwidth>, Rate, Required, "The rate, for example `\"90 Mbit/s\"`.";
}

/// Congestion controllers of a bundle's rate.
pub const CONTROL_KINDS: Variant = Variant {
    key: "kind",
    doc: "The congestion controller of a bundle.",
    shared: &[],
    kinds: &[
        ("copa", &Section { noun: "copa", doc: "Copa, as for a bundle.", fields: &[] }),
        (
            "basic-delay",
            &Section { noun: "basic-delay", doc: "The delay controller of Nimbus.", fields: &[] },
        ),
        ("bbr", &Section { noun: "bbr", doc: "BBR, for comparison.", fields: &[] }),
        ("constant", CONSTANT_CONTROL.section),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_boxes() {
        assert!(
            Marking::WORDS
                .iter()
                .eq(&[Marking::Header, Marking::Encapsulation].map(Marking::as_str))
        );
        assert!(
            Mode::WORDS.iter().eq(&[Mode::Observe, Mode::DryRun, Mode::Enforce].map(Mode::as_str))
        );
    }
}
