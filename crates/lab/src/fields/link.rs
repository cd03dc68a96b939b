//! Links: what a direction can be told to do.

use base::{Bytes, Span};

use super::{
    Field, LONGEST_DELAY, SOME_DATA, SOME_TIME, Section, Shape, TIME, Variant, optional, required,
};

const DELAY: Shape = Shape::Time(Span::ZERO, LONGEST_DELAY);
const PACKETS: Shape = Shape::Data(Bytes::new(1), Bytes::new(1 << 20));
const MTU: Shape = Shape::Data(Bytes::new(68), Bytes::new(65_535));

const RATE_DOC: &str = "Bits of wire per second, headers and `overhead` included.";
const TRACE_DOC: &str = "Instead of `rate`: a file in Mahimahi's format, one millisecond a line at \
    which 1504 bytes may leave, repeated for ever after its last line; or the opportunities \
    themselves.";

const RATE: Field = optional("rate", Shape::Rate, "no limit", RATE_DOC);
const DELAY_FIELD: Field = optional("delay", DELAY, "0 ns", "Propagation delay, one way.");
const TRACE: Field =
    optional("trace", Shape::Either(&[Shape::Text, Shape::Table(&OPPORTUNITIES)]), "", TRACE_DOC);
const JITTER: Field = optional(
    "jitter",
    Shape::Either(&[DELAY, Shape::Variant(&JITTER_KINDS)]),
    "none",
    "Random part of the delay: a text is the standard deviation of a normal distribution around \
     `delay`. Packets keep their order.",
);
const LOSS: Field = optional(
    "loss",
    Shape::Either(&[Shape::Share, Shape::Variant(&LOSS_KINDS)]),
    "0 %",
    "Packets lost behind the queue: a text is the probability, packets independent.",
);
const REORDER: Field = optional(
    "reorder",
    Shape::Table(&REORDER_SECTION),
    "none",
    "Packets held back so that later ones overtake them.",
);
const DUPLICATE: Field =
    optional("duplicate", Shape::Share, "0 %", "Probability that a packet arrives twice.");
const CORRUPT: Field =
    optional("corrupt", Shape::Share, "0 %", "Probability that one bit of a packet is flipped.");
const MTU_FIELD: Field =
    optional("mtu", MTU, "1500 B", "Largest layer-3 packet; below 1280 B there is no IPv6.");
const QUEUE: Field = optional(
    "queue",
    Shape::Either(&[Shape::Text, Shape::Variant(&QUEUE_KINDS)]),
    "droptail",
    "What waits for the transmitter. A text is a kind (`\"codel\"`) or the limit of a droptail \
     queue (`\"1 bdp\"`, `\"100 packets\"`, `\"64 KiB\"`, `\"unlimited\"`).",
);

const DIRECTION: Section = Section {
    noun: "a direction of a link",
    doc: "The properties of a link, for one direction; they go before the link's own.",
    fields: &[RATE, TRACE, DELAY_FIELD, JITTER, LOSS, REORDER, DUPLICATE, CORRUPT, QUEUE],
};
const UP: Field = optional(
    "up",
    Shape::Table(&DIRECTION),
    "",
    "What differs from the first end to the second: any of `rate`, `trace`, `delay`, `jitter`, \
     `loss`, `reorder`, `duplicate`, `corrupt`, `queue`.",
);
const DOWN: Field = optional(
    "down",
    Shape::Table(&DIRECTION),
    "",
    "What differs from the second end to the first; keys as in `up`.",
);
const METRIC: Field =
    optional("metric", Shape::Whole(1, 1_000_000), "1", "Cost with `routing = \"metric\"`.");

/// `[[link]]`
pub(crate) const LINK: Section = Section {
    noun: "a link",
    doc: "A link between two nodes. Properties hold both ways unless `up` or `down` say otherwise.",
    fields: &[
        required("ends", Shape::List(&Shape::Text), "The two nodes; `up` is from the first."),
        optional("name", Shape::Text, "A-B", "Unique among links."),
        RATE,
        TRACE,
        DELAY_FIELD,
        JITTER,
        LOSS,
        REORDER,
        DUPLICATE,
        CORRUPT,
        MTU_FIELD,
        QUEUE,
        UP,
        DOWN,
        METRIC,
        optional(
            "addresses",
            Shape::Map(&Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)])),
            "given out",
            "Fixed addresses with prefix lengths, by end: \
             `{ alice = [\"10.1.2.3/24\", \"fd00::1/64\"] }`.",
        ),
        optional(
            "state",
            Shape::Word(&["up", "down"]),
            "up",
            "Whether it is in service when the run begins.",
        ),
    ],
};

/// Properties of links that come from a generator or an import.
pub(super) const PROPERTIES: Section = Section {
    noun: "the properties of links",
    doc: "",
    fields: &[
        RATE,
        TRACE,
        DELAY_FIELD,
        JITTER,
        LOSS,
        REORDER,
        DUPLICATE,
        CORRUPT,
        MTU_FIELD,
        QUEUE,
        UP,
        DOWN,
        METRIC,
    ],
};

/// `set = { … }` of `[[at]]`.
pub(crate) const SET: Section = Section {
    noun: "a change of a link",
    doc: "",
    fields: &[RATE, TRACE, DELAY_FIELD, JITTER, LOSS, REORDER, DUPLICATE, CORRUPT, QUEUE, UP, DOWN],
};

const OPPORTUNITIES: Section = Section {
    noun: "a trace",
    doc: "A trace written out.",
    fields: &[
        required("opportunities", Shape::List(&TIME), "Moments of delivery, not decreasing."),
        required("period", SOME_TIME, "After this the trace starts again."),
    ],
};

const REORDER_SECTION: Section = Section {
    noun: "reordering",
    doc: "Reordering.",
    fields: &[
        required("probability", Shape::Share, "Probability that a packet is held back."),
        required("by", Shape::Time(Span::from_nanos(1), LONGEST_DELAY), "For how long."),
    ],
};

const CORRELATION: Field = optional(
    "correlation",
    Shape::Share,
    "0 %",
    "How much a draw resembles the one before (first-order autoregressive).",
);

const JITTER_KINDS: Variant = Variant {
    key: "distribution",
    doc: "Jitter with a shape.",
    shared: &[CORRELATION],
    kinds: &[
        (
            "normal",
            &Section {
                noun: "normal jitter",
                doc: "Mean 0.",
                fields: &[required("deviation", DELAY, "Standard deviation.")],
            },
        ),
        (
            "uniform",
            &Section {
                noun: "uniform jitter",
                doc: "Between minus and plus `spread`.",
                fields: &[required("spread", DELAY, "Half the width.")],
            },
        ),
        (
            "pareto",
            &Section {
                noun: "Pareto jitter",
                doc: "A non-negative Lomax (Pareto II) tail.",
                fields: &[
                    required("mean", DELAY, "Mean of the added delay."),
                    optional(
                        "shape",
                        Shape::Number(1.001, 1000.0),
                        "2.5",
                        "Tail index above 1, in steps of 0.001; the smaller, the heavier.",
                    ),
                ],
            },
        ),
        (
            "table",
            &Section {
                noun: "jitter from a table",
                doc: "An empirical distribution, interpolated between its samples.",
                fields: &[required(
                    "table",
                    Shape::Either(&[Shape::Text, Shape::List(&DELAY)]),
                    "A file with one time a line, or a list of times; at least two, in any order.",
                )],
            },
        ),
    ],
};

const LOSS_KINDS: Variant = Variant {
    key: "model",
    doc: "A loss process.",
    shared: &[],
    kinds: &[
        (
            "bernoulli",
            &Section {
                noun: "Bernoulli loss",
                doc: "Packets are lost independently.",
                fields: &[required("p", Shape::Share, "Probability that a packet is lost.")],
            },
        ),
        (
            "gilbert-elliott",
            &Section {
                noun: "Gilbert-Elliott loss",
                doc: "A chain of two states, stepped once a packet.",
                fields: &[
                    required("p", Shape::Share, "Probability of a step from good to bad."),
                    required("r", Shape::Share, "Probability of a step from bad to good."),
                    optional("loss_bad", Shape::Share, "100 %", "Loss in the bad state."),
                    optional("loss_good", Shape::Share, "0 %", "Loss in the good state."),
                ],
            },
        ),
    ],
};

const LIMIT_DOC: &str = "Where the queue is full: `\"1 bdp\"` (rate × 2 × delay of this \
    direction, at least one full-size packet), `\"100 packets\"` or `\"64 KiB\"` of wire.";
const LIMIT: Field =
    optional("limit", Shape::Text, "the larger of 1 bdp and 100 full-size packets", LIMIT_DOC);
const ECN: Field =
    optional("ecn", Shape::Flag, "false", "Mark packets that allow it instead of dropping them.");
const TARGET: Field = optional("target", SOME_TIME, "5 ms", "Acceptable standing delay.");
const INTERVAL: Field =
    optional("interval", SOME_TIME, "100 ms", "Time over which the delay must stay above it.");
const FLOWS: Field = optional("flows", Shape::Whole(1, 65_536), "1024", "Number of flow queues.");
const QUANTUM: Field =
    optional("quantum", PACKETS, "a full-size packet", "Wire bytes a flow queue sends a round.");

/// Kinds of queues.
pub(crate) const QUEUE_KINDS: Variant = Variant {
    key: "kind",
    doc: "A queue discipline.",
    shared: &[],
    kinds: &[
        (
            "droptail",
            &Section {
                noun: "a droptail queue",
                doc: "First in, first out; arrivals at a full queue are dropped.",
                fields: &[LIMIT],
            },
        ),
        (
            "drophead",
            &Section {
                noun: "a drophead queue",
                doc: "First in, first out; at a full queue the oldest packet is dropped.",
                fields: &[LIMIT],
            },
        ),
        (
            "red",
            &Section {
                noun: "a RED queue",
                doc: "Random early detection (Floyd and Jacobson 1993), gentle.",
                fields: &[
                    LIMIT,
                    ECN,
                    optional(
                        "min",
                        SOME_DATA,
                        "a sixth of the limit",
                        "Average queue without drops.",
                    ),
                    optional("max", SOME_DATA, "half of the limit", "Average at `probability`."),
                    optional("probability", Shape::Share, "10 %", "Signals at `max`."),
                    optional("weight", Shape::Share, "0.2 %", "Weight of a sample in the average."),
                ],
            },
        ),
        (
            "codel",
            &Section {
                noun: "a CoDel queue",
                doc: "Controlled delay (RFC 8289).",
                fields: &[
                    optional("limit", Shape::Text, "1000 packets", LIMIT_DOC),
                    ECN,
                    TARGET,
                    INTERVAL,
                ],
            },
        ),
        (
            "fq-codel",
            &Section {
                noun: "an FQ-CoDel queue",
                doc: "CoDel on fair flow queues (RFC 8290).",
                fields: &[
                    optional("limit", Shape::Text, "10240 packets", LIMIT_DOC),
                    optional(
                        "ecn",
                        Shape::Flag,
                        "true",
                        "Mark instead of dropping (RFC 8290 §5.2.7).",
                    ),
                    TARGET,
                    INTERVAL,
                    FLOWS,
                    QUANTUM,
                ],
            },
        ),
        (
            "sfq",
            &Section {
                noun: "an SFQ queue",
                doc: "Stochastic fair queueing (McKenney 1990).",
                fields: &[
                    LIMIT,
                    FLOWS,
                    QUANTUM,
                    optional("perturb", SOME_TIME, "never", "How often the hash changes."),
                ],
            },
        ),
        (
            "priority",
            &Section {
                noun: "a priority queue",
                doc: "Strict priority over bands by DSCP class selector.",
                fields: &[LIMIT, optional("bands", Shape::Whole(1, 8), "3", "Number of bands.")],
            },
        ),
        (
            "drr",
            &Section {
                noun: "a DRR queue",
                doc: "Deficit round robin over DSCP classes (Shreedhar and Varghese 1995).",
                fields: &[
                    LIMIT,
                    required(
                        "quanta",
                        Shape::List(&PACKETS),
                        "Wire bytes that each class sends a round; the last class takes the rest.",
                    ),
                ],
            },
        ),
        (
            "policer",
            &Section {
                noun: "a policer",
                doc: "A token bucket: what exceeds it is dropped, nothing waits for it.",
                fields: &[
                    required("rate", Shape::Rate, "Sustained rate."),
                    required("burst", SOME_DATA, "Size of the bucket."),
                    LIMIT,
                ],
            },
        ),
    ],
};
