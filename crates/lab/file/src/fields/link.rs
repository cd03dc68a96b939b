//! Links and the properties of their directions.

use base::{Bandwidth, Bytes, Ratio, Span};

use super::{
    Fields, Key, MAX_DELAY, POSITIVE_DATA, POSITIVE_TIME, Raw, Section, Shape, TIME, Variant,
};
use crate::compile::UNLIMITED;

const DELAY: Shape = Shape::Time(Span::ZERO, MAX_DELAY);
const PACKETS: Shape = Shape::Data(Bytes::new(1), Bytes::new(1 << 20));
const MTU: Shape = Shape::Data(Bytes::new(68), Bytes::new(65_535));

section! {
    /// Keys of a link that can also be set for one direction.
    pub(crate) DIRECTION: Direction = "a direction of a link",
    "Properties of one direction of a link; they override those of the link.";
    rate: Option<Raw>, Either(&[Word(&[UNLIMITED]), Rate]), Unset("no limit"),
        "Wire rate, with headers and `overhead`. `unlimited` lifts an earlier limit.";
    trace: Option<Raw>, Either(&[Text, Table(OPPORTUNITIES.section)]), Unset(""),
        "Instead of `rate`: a file in Mahimahi's format, with the time in ms of one delivery \
         opportunity of 1504 B per line, repeated after the last line; or a list of them.";
    delay: Span, DELAY, Default("0 ns"), "One-way propagation delay.";
    jitter: Option<Raw>, Either(&[DELAY, Variant(&JITTER_KINDS)]), Unset("none"),
        "Random part of the delay: a text is the standard deviation σ of a normal distribution \
         around `delay`, cut off at a delay of 0. Packets keep their order, which adds 0.05 σ, \
         0.9 σ or 1.9 σ to the mean delay of packets at intervals of 2 σ, 0.2 σ or 0.02 σ; see \
         `keep_order`.";
    loss: Raw, Either(&[Share, Variant(&LOSS_KINDS)]), Default("0 %"),
        "Loss after the queue: a text is the probability of independent losses.";
    reorder: Option<Fields>, Table(REORDER.section), Unset("none"),
        "Delays some packets so that later ones overtake them.";
    duplicate: Ratio, Share, Default("0 %"), "Probability that a packet arrives twice.";
    corrupt: Ratio, Share, Default("0 %"), "Probability that one bit of a packet is flipped.";
    queue: Raw, Either(&[Text, Variant(&QUEUE_KINDS)]), Default("droptail"),
        "The queue of the transmitter. A text is a kind (`\"codel\"`) or the limit of a \
         droptail queue (`\"1 bdp\"`, `\"100 packets\"`, `\"64 KiB\"`, `\"unlimited\"`).";
}

section! {
    /// `[[link]]`
    pub(crate) LINK: Link = "a link",
    "A link between two nodes. Properties apply to both directions unless `up` or `down` override \
     them.";
    ends: Option<Raw>, List(&Text), Required, "The two nodes; `up` is from the first.";
    name: Option<String>, Text, Unset("A-B"), "Unique among links.";
    + DIRECTION.rate;
    + DIRECTION.trace;
    + DIRECTION.delay;
    + DIRECTION.jitter;
    + DIRECTION.loss;
    + DIRECTION.reorder;
    + DIRECTION.duplicate;
    + DIRECTION.corrupt;
    mtu: Bytes, MTU, Default("1500 B"), "Maximum layer-3 packet; below 1280 B without IPv6.";
    + DIRECTION.queue;
    up: Option<Fields>, Table(DIRECTION.section), Unset(""),
        "Properties from the first end to the second: any of `rate`, `trace`, `delay`, \
         `jitter`, `loss`, `reorder`, `duplicate`, `corrupt`, `queue`.";
    down: Option<Fields>, Table(DIRECTION.section), Unset(""),
        "Properties from the second end to the first; keys as in `up`.";
    metric: u32, Whole(1, 1_000_000), Default("1"), "Cost with `routing = \"metric\"`.";
    addresses: Option<Fields>, Map(&Either(&[Text, List(&Text)])), Unset("given out"),
        "Fixed addresses with prefix lengths, by end: \
         `{ alice = [\"10.1.2.3/24\", \"fd00::1/64\"] }`.";
    state: String, Word(&["up", "down"]), Default("up"),
        "State at the start of the run.";
}

impl Link {
    /// The key of the properties of one direction.
    pub(crate) const fn of(&self, direction: base::Direction) -> Key<Option<Fields>> {
        match direction {
            base::Direction::Up => self.up,
            base::Direction::Down => self.down,
        }
    }
}

/// Properties of generated or imported links: those of a link without its ends,
/// name, addresses and state.
pub(super) const PROPERTIES: Section = Section {
    noun: "the properties of links",
    doc: "",
    fields: LINK.section.fields.split_at(2).1.split_at(13).0,
};

/// `set = { … }` of `[[at]]`.
pub(crate) const SET: Section = Section {
    noun: "a change of a link",
    doc: "",
    fields: &[
        DIRECTION.rate.field,
        DIRECTION.trace.field,
        DIRECTION.delay.field,
        DIRECTION.jitter.field,
        DIRECTION.loss.field,
        DIRECTION.reorder.field,
        DIRECTION.duplicate.field,
        DIRECTION.corrupt.field,
        DIRECTION.queue.field,
        LINK.up.field,
        LINK.down.field,
    ],
};

section! {
    pub(crate) OPPORTUNITIES: Opportunities = "a trace", "A trace in the lab file.";
    opportunities: Option<Vec<Span>>, List(&TIME), Required, "Times of delivery, not decreasing.";
    period: Option<Span>, POSITIVE_TIME, Required, "After this the trace starts again.";
}

section! {
    pub(crate) REORDER: Reorder = "reordering", "Reordering.";
    probability: Option<Ratio>, Share, Required, "Probability that a packet is held back.";
    by: Option<Span>, Time(Span::from_nanos(1), MAX_DELAY), Required,
        "Additional delay of such a packet.";
}

section! {
    /// Keys of all kinds of jitter.
    pub(crate) JITTER: Jitter = "jitter", "";
    correlation: Ratio, Share, Default("0 %"),
        "Correlation of consecutive samples (first-order autoregressive).";
    keep_order: bool, Flag, Default("true"),
        "A packet that would overtake waits for the packet in front, so that delays are at most x \
         with probability F(x) F(x + T) F(x + 2T) … for independent samples with distribution \
         function F and packets at intervals T. `false`: each delay is its own sample, and packets \
         overtake.";
}

section! {
    pub(crate) NORMAL_JITTER: NormalJitter = "normal jitter", "Mean 0.";
    deviation: Option<Span>, DELAY, Required, "Standard deviation.";
}

section! {
    pub(crate) UNIFORM_JITTER: UniformJitter = "uniform jitter", "Between minus and plus `spread`.";
    spread: Option<Span>, DELAY, Required, "Half the width.";
}

section! {
    pub(crate) PARETO_JITTER: ParetoJitter = "Pareto jitter",
    "A non-negative Lomax (Pareto II) tail.";
    mean: Option<Span>, DELAY, Required, "Mean of the added delay.";
    shape: f64, Number(1.001, 1000.0), Default("2.5"),
        "Tail index above 1, in steps of 0.001; the smaller, the heavier.";
}

section! {
    pub(crate) JITTER_TABLE: JitterTable = "jitter from a table",
    "An empirical distribution, interpolated between its samples.";
    table: Option<Raw>, Either(&[Text, List(&DELAY)]), Required,
        "A file with one time per line, or a list of times; at least two, in any order.";
}

pub(crate) const JITTER_KINDS: Variant = Variant {
    key: "distribution",
    doc: "Jitter with a shape.",
    shared: JITTER.section.fields,
    kinds: &[
        ("normal", NORMAL_JITTER.section),
        ("uniform", UNIFORM_JITTER.section),
        ("pareto", PARETO_JITTER.section),
        ("table", JITTER_TABLE.section),
    ],
};

section! {
    pub(crate) BERNOULLI: Bernoulli = "Bernoulli loss", "Packets are lost independently.";
    p: Option<Ratio>, Share, Required, "Probability that a packet is lost.";
}

section! {
    pub(crate) GILBERT_ELLIOTT: GilbertElliott = "Gilbert-Elliott loss",
    "A Markov chain of two states, one step per packet.";
    p: Option<Ratio>, Share, Required, "Probability of a step from good to bad.";
    r: Option<Ratio>, Share, Required, "Probability of a step from bad to good.";
    loss_bad: Ratio, Share, Default("100 %"), "Loss in the bad state.";
    loss_good: Ratio, Share, Default("0 %"), "Loss in the good state.";
}

pub(crate) const LOSS_KINDS: Variant = Variant {
    key: "model",
    doc: "A loss process.",
    shared: &[],
    kinds: &[("bernoulli", BERNOULLI.section), ("gilbert-elliott", GILBERT_ELLIOTT.section)],
};

const LIMIT_DOC: &str = "Maximum queue length: `\"1 bdp\"` (rate × 2 × delay of this \
    direction, at least one full-size packet), `\"100 packets\"` or `\"64 KiB\"` of wire.";

section! {
    pub(crate) DROPTAIL: Droptail = "a droptail queue",
    "First in, first out; arrivals at a full queue are dropped.";
    limit: Option<String>, Text, Unset("the larger of 1 bdp and 100 full-size packets"), LIMIT_DOC;
}

const DROPHEAD: Section = Section {
    noun: "a drophead queue",
    doc: "First in, first out; at a full queue the oldest packet is dropped.",
    fields: DROPTAIL.section.fields,
};

section! {
    pub(crate) RED: Red = "a RED queue",
    "Random early detection (Floyd and Jacobson 1993), gentle.";
    + DROPTAIL.limit;
    ecn: bool, Flag, Default("false"), "Mark ECN-capable packets instead of dropping them.";
    min: Option<Bytes>, POSITIVE_DATA, Unset("a sixth of the limit"),
        "Average queue without drops.";
    max: Option<Bytes>, POSITIVE_DATA, Unset("half of the limit"), "Average at `probability`.";
    probability: Ratio, Share, Default("10 %"), "Signals at `max`.";
    weight: Ratio, Share, Default("0.2 %"), "Weight of a sample in the average.";
    harddrop: bool, Flag, Default("true"),
        "Drop ECN-capable packets too where the average is above `max` (RFC 3168 §7); with `false`, \
         `min` and `max` at the same level mark as DCTCP expects.";
}

section! {
    pub(crate) CODEL: Codel = "a CoDel queue", "Controlled delay (RFC 8289).";
    limit: String, Text, Default("1000 packets"), LIMIT_DOC;
    + RED.ecn;
    target: Span, POSITIVE_TIME, Default("5 ms"), "Acceptable persistent queueing delay.";
    interval: Span, POSITIVE_TIME, Default("100 ms"),
        "Time for which the delay must stay above the target before packets are dropped.";
}

section! {
    pub(crate) FQ_CODEL: FqCodel = "an FQ-CoDel queue",
    "CoDel on fair flow queues (RFC 8290).";
    limit: String, Text, Default("10240 packets"), LIMIT_DOC;
    ecn: bool, Flag, Default("true"), "Mark instead of dropping (RFC 8290 §5.2.7).";
    + CODEL.target;
    + CODEL.interval;
    flows: u32, Whole(1, 65_536), Default("1024"), "Number of flow queues.";
    quantum: Option<Bytes>, PACKETS, Unset("a full-size packet"),
        "Wire bytes per flow queue and round.";
}

section! {
    pub(crate) FQ: Fq = "an FQ queue",
    "Fair flow queues, a new flow first until it has sent a quantum (RFC 8290 §4, without CoDel).";
    + DROPTAIL.limit;
    + FQ_CODEL.flows;
    quantum: Option<Bytes>, PACKETS, Unset("10 full-size packets"),
        "Wire bytes per flow queue and round.";
}

section! {
    pub(crate) PIE: Pie = "a PIE queue", "Proportional integral controller enhanced (RFC 8033).";
    + CODEL.limit;
    + RED.ecn;
    target: Span, POSITIVE_TIME, Default("15 ms"), "Target of the queueing delay.";
    update: Span, POSITIVE_TIME, Default("15 ms"), "Interval at which the drop probability changes.";
    burst: Span, TIME, Default("150 ms"), "Time after an idle period for which nothing is dropped.";
}

section! {
    pub(crate) FQ_PIE: FqPie = "an FQ-PIE queue", "PIE on fair flow queues.";
    + FQ_CODEL.limit;
    + FQ_CODEL.ecn;
    + PIE.target;
    + PIE.update;
    + PIE.burst;
    + FQ_CODEL.flows;
    + FQ_CODEL.quantum;
}

section! {
    pub(crate) DUALPI2: DualPi2 = "a DualPI2 queue",
    "A queue for L4S traffic, which has ECT(1) or CE, beside one for other traffic (RFC 9332).";
    limit: String, Text, Default("10000 packets"), LIMIT_DOC;
    + FQ_CODEL.ecn;
    target: Span, POSITIVE_TIME, Default("15 ms"), "Target delay of the queue for other traffic.";
    step: Span, POSITIVE_TIME, Default("1 ms"),
        "Delay from which each packet of the L4S queue is marked.";
}

section! {
    pub(crate) SFQ: Sfq = "an SFQ queue", "Stochastic fair queueing (McKenney 1990).";
    + DROPTAIL.limit;
    + FQ_CODEL.flows;
    + FQ_CODEL.quantum;
    perturb: Option<Span>, POSITIVE_TIME, Unset("never"), "Interval of hash changes.";
}

section! {
    pub(crate) PRIORITY: Priority = "a priority queue",
    "Strict priority over bands by DSCP class selector.";
    + DROPTAIL.limit;
    bands: u32, Whole(1, 8), Default("3"), "Number of bands.";
}

section! {
    pub(crate) DRR: Drr = "a DRR queue",
    "Deficit round robin over DSCP classes (Shreedhar and Varghese 1995).";
    + DROPTAIL.limit;
    quanta: Option<Vec<Bytes>>, List(&PACKETS), Required,
        "Wire bytes per class and round; the last value applies to further classes.";
}

section! {
    pub(crate) POLICER: Policer = "a policer",
    "A token bucket without a queue: packets that exceed it are dropped.";
    rate: Option<Bandwidth>, Rate, Required, "Sustained rate.";
    burst: Option<Bytes>, POSITIVE_DATA, Required, "Size of the bucket, at least one packet with its headers.";
    + DROPTAIL.limit;
}

pub(crate) const QUEUE_KINDS: Variant = Variant {
    key: "kind",
    doc: "A queue discipline.",
    shared: &[],
    kinds: &[
        ("droptail", DROPTAIL.section),
        ("drophead", &DROPHEAD),
        ("red", RED.section),
        ("codel", CODEL.section),
        ("fq", FQ.section),
        ("fq-codel", FQ_CODEL.section),
        ("pie", PIE.section),
        ("fq-pie", FQ_PIE.section),
        ("dualpi2", DUALPI2.section),
        ("sfq", SFQ.section),
        ("priority", PRIORITY.section),
        ("drr", DRR.section),
        ("policer", POLICER.section),
    ],
};
