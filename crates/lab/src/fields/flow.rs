//! Built-in flows: what they send, when, and how.

use base::{Bytes, Span};

use super::elements::NAMES;
use super::{LONGEST, SOME_DATA, SOME_TIME, Section, Shape, TIME, optional, required};

const DATAGRAM: Shape = Shape::Data(Bytes::new(16), Bytes::new(65_507));
pub(super) const DRAWN: Shape = Shape::Either(&[SOME_DATA, Shape::Table(&SIZES)]);
/// In the order of `mctcp::scheduler::SchedulerKind`.
const SCHEDULERS: &[&str] =
    &["earliest", "min-rtt", "round-robin", "weighted", "redundant", "backup", "blest", "ecf"];
/// More than any run comes to.
const COUNT: Shape = Shape::Whole(1, 1_000_000_000);

/// `[[flow]]`
pub(crate) const FLOW: Section = Section {
    noun: "a flow",
    doc: "Traffic without a program. TCP sends as fast as it goes; with `arrivals`, `think`, \
          `count` or a distribution of `size` it makes many transfers, each over a connection of \
          its own; with `request`, `response` or `interval` (or `count` or `think`, but no `size`) \
          it exchanges messages over one connection, and with `arrivals` beside these over as \
          many connections as there are requests at once, which stay open. UDP sends at `rate`, \
          with `control` at the rate that the network assigns, and with `request` or `response` \
          one request at a time.",
    fields: &[
        required("from", NAMES, "The sender; it opens the connection. May be a pattern or a list."),
        required("to", NAMES, "The receiver. As many as in `from` (joined in order), or one."),
        optional("name", Shape::Text, "FROM-TO", "Unique among flows."),
        optional(
            "transport",
            Shape::Word(&["tcp", "udp", "mctcp", "mptcp"]),
            "tcp",
            "`mctcp` and `mptcp` (the kernel's Multipath TCP; wall clock only) carry a TCP flow over \
             several paths at once: bulk, transfers, and requests one after the other.",
        ),
        optional(
            "control",
            Shape::Text,
            "the kernel's; `cubic` in simulations",
            "TCP congestion control, as the kernel names it. With UDP the protocol of explicit \
             rate control (see `[control]`) that assigns the flow's rate; none by default.",
        ),
        optional("ecn", Shape::Flag, "false", "Negotiate ECN (RFC 3168) for TCP."),
        optional(
            "window",
            Shape::Data(Bytes::new(4096), Bytes::new(1 << 30)),
            "the kernel's; 6 MiB in simulations",
            "Receive and send buffer of TCP, at both ends. With MCTCP each subflow has such buffers, \
             and the session twice as much, as a kernel doubles what a socket asks for.",
        ),
        optional("size", DRAWN, "no end", "Payload to send in all, or in each transfer."),
        optional("arrivals", Shape::Table(&ARRIVALS), "", "When transfers start (open loop)."),
        optional(
            "think",
            Shape::Either(&[TIME, Shape::Table(&THINK)]),
            "0 s",
            "From the end of a transfer or response to the next transfer or request (closed loop).",
        ),
        optional("count", COUNT, "no end", "Number of transfers or requests."),
        optional("duration", SOME_TIME, "no end", "The flow ends after this."),
        optional(
            "rate",
            Shape::Rate,
            "",
            "Rate of UDP payload; required with UDP. With explicit rate control the most that the \
             flow can use of the wire, by default whatever it gets. A bulk flow over TCP: rate at \
             which the application offers payload, by default as fast as it goes; what the network \
             does not take at once follows later.",
        ),
        optional(
            "pause",
            Shape::Pair(&[TIME, TIME]),
            "",
            "A bulk flow over TCP: two moments after its start between which the receiver reads \
             nothing, such as `[\"10 s\", \"40 s\"]`. What arrives waits in its buffers; when they \
             are full, the sender has to wait, too.",
        ),
        optional("packet", DATAGRAM, "the smallest MTU less headers", "Payload of a datagram."),
        optional(
            "pattern",
            Shape::Either(&[Shape::Word(&["constant", "poisson"]), Shape::Table(&PATTERN)]),
            "constant",
            "How UDP datagrams are spaced: equally, or as a Poisson process of the same mean rate.",
        ),
        optional(
            "streams",
            Shape::Whole(1, 1024),
            "1",
            "Parallel TCP connections. With `arrivals` of requests those that are open from the \
             start.",
        ),
        optional(
            "message",
            SOME_DATA,
            "",
            "Write messages of this size, each in segments of its own, without Nagle's delay.",
        ),
        optional(
            "via",
            NAMES,
            "all that lead to the receiver",
            "With several paths: the sender's links to use, in order; the first is tried first. A \
             path ends at the nearest of the receiver's interfaces that no earlier path has taken.",
        ),
        optional(
            "backup",
            NAMES,
            "[]",
            "With several paths: links whose paths are used only while no other works.",
        ),
        optional(
            "subflows",
            Shape::Whole(1, 8),
            "one for each path",
            "With several paths: most connections at once. With MCTCP more than paths put several \
             on the same.",
        ),
        optional(
            "scheduler",
            Shape::Word(SCHEDULERS),
            "earliest",
            "With MCTCP: which subflow takes the next frame.",
        ),
        optional("request", DRAWN, "64 B", "Size of a request."),
        optional("response", DRAWN, "1 kB", "Size of a response."),
        optional("interval", TIME, "0 s", "From one request to the next, at least."),
        optional(
            "timeout",
            SOME_TIME,
            "1 s",
            "With requests over UDP: without a response for this long, one counts as lost.",
        ),
        optional("family", Shape::Word(&["ipv4", "ipv6"]), "ipv4", "Address family."),
        optional(
            "start",
            Shape::Either(&[TIME, Shape::Table(&START)]),
            "0 s",
            "When it starts. A text sets `at`.",
        ),
        optional("dscp", Shape::Whole(0, 63), "0", "DSCP value of its packets."),
    ],
};

/// Sizes that are drawn.
const SIZES: Section = Section {
    noun: "a distribution of sizes",
    doc: "Sizes drawn independently: exactly one of `exponential`, `pareto`, `table`, `cdf`.",
    fields: &[
        optional("exponential", SOME_DATA, "", "Exponential with this mean."),
        optional("pareto", SOME_DATA, "", "Pareto with this mean (before `limit` cuts it)."),
        optional(
            "shape",
            Shape::Number(1.001, 1000.0),
            "1.2",
            "With `pareto`: tail index above 1, in steps of 0.001; the smaller, the heavier.",
        ),
        optional("limit", SOME_DATA, "none", "With `pareto`: larger draws are cut to this."),
        optional(
            "table",
            Shape::List(&Shape::Pair(&[
                Shape::Data(Bytes::ZERO, Bytes::new(1 << 60)),
                Shape::Share,
            ])),
            "",
            "Points of the cumulative distribution, a size and the share that is no larger, \
             linear in between: `[[\"1 kB\", \"50 %\"], [\"1 MB\", \"100 %\"]]`.",
        ),
        optional(
            "cdf",
            Shape::Text,
            "",
            "A file with such points: a size in bytes and a share from 0 to 1 on each line.",
        ),
    ],
};

const ARRIVALS: Section = Section {
    noun: "the arrivals of a flow",
    doc: "Transfers that start whether or not those before have ended: exactly one of `poisson`, \
          `every`, `load`.",
    fields: &[
        optional("poisson", SOME_TIME, "", "A Poisson process with this mean time between starts."),
        optional("every", SOME_TIME, "", "At equal distances."),
        optional(
            "load",
            Shape::Share,
            "",
            "A Poisson process: payload of all flows of this entry together, as a share of the \
             rate of the link `of`.",
        ),
        optional("of", NAMES, "", "With `load`: a link's name, or its two ends."),
    ],
};

const START: Section = Section {
    noun: "the start of a flow",
    doc: "When a flow starts, with a random part.",
    fields: &[
        optional("at", TIME, "0 s", "The earliest start."),
        optional(
            "jitter",
            TIME,
            "`start_jitter` of `[lab]`",
            "It starts later than `at` by up to this, uniformly distributed, and before the end of \
             the run. Keyed by the lab's seed and the flow's name: equal on both clocks, and other \
             flows change nothing.",
        ),
    ],
};

const THINK: Section = Section {
    noun: "a think time",
    doc: "A think time that is drawn.",
    fields: &[required("exponential", SOME_TIME, "Exponential with this mean.")],
};

const PATTERN: Section = Section {
    noun: "a pattern of datagrams",
    doc: "Either `on` and `off`, or `trace`.",
    fields: &[
        optional("on", SOME_TIME, "", "Length of a period in which it sends at `rate`."),
        optional("off", SOME_TIME, "", "Length of the silence that follows."),
        optional(
            "exponential",
            Shape::Flag,
            "false",
            "Lengths are exponentially distributed, with `on` and `off` as their means.",
        ),
        optional(
            "trace",
            Shape::Either(&[Shape::Text, Shape::Table(&DATAGRAMS)]),
            "",
            "A file with a moment in seconds and the bytes of a datagram's payload on each line, \
             repeated for ever (one mean gap after its last line); or the datagrams themselves. \
             It takes the place of `rate` and `packet`.",
        ),
    ],
};

const DATAGRAMS: Section = Section {
    noun: "a trace of datagrams",
    doc: "A trace written out.",
    fields: &[
        required(
            "datagrams",
            Shape::List(&Shape::Pair(&[Shape::Time(Span::ZERO, LONGEST), DATAGRAM])),
            "Moments, not decreasing, and payloads: `[[\"0 ms\", \"200 B\"]]`.",
        ),
        required("period", SOME_TIME, "After this the trace starts again."),
    ],
};

#[cfg(test)]
mod tests {
    use mctcp::scheduler::SchedulerKind;

    #[test]
    fn all_schedulers_have_their_words() {
        let names: Vec<&str> = SchedulerKind::ALL.iter().map(|(_, name)| *name).collect();
        assert_eq!(super::SCHEDULERS, names);
    }
}
