//! Built-in flows: traffic, schedule and transport.

use base::{Bandwidth, Bytes, Ratio, Span};
use mctcp::scheduler::SchedulerKind;

use super::elements::NAMES;
use super::{Fields, MAX_TIME, POSITIVE_DATA, POSITIVE_TIME, Raw, Shape, TIME, Words};
use crate::plan::Family;

const DATAGRAM: Shape = Shape::Data(Bytes::new(16), Bytes::new(65_507));
pub(super) const DRAWN: Shape = Shape::Either(&[POSITIVE_DATA, Shape::Table(SIZES.section)]);
/// More than any run can handle.
const COUNT: Shape = Shape::Whole(1, 1_000_000_000);

words! {
    Family { ("ipv4" Self::V4) ("ipv6" Self::V6) }
}

section! {
    /// `[[flow]]`
    pub(crate) FLOW: Flow = "a flow",
    "Traffic without a program. TCP sends as fast as the network allows; with `arrivals`, `think`, \
     `count` or a distribution of `size` it makes many transfers, each over a separate connection; \
     with `request`, `response` or `interval` (or `count` or `think`, but no `size`) it exchanges \
     messages over one connection, and with `arrivals` beside these over as many connections as \
     there are requests at once, which stay open. UDP sends at `rate`, with `control` at the rate \
     that the network assigns, and with `request` or `response` one request at a time.";
    from: Option<Raw>, NAMES, Required,
        "The sender; it opens the connection. May be a pattern or a list.";
    to: Option<Raw>, NAMES, Required,
        "The receiver. As many as in `from` (joined in order), or one.";
    name: Option<String>, Text, Unset("FROM-TO"), "Unique among flows.";
    transport: String, Word(&["tcp", "udp", "mctcp", "mptcp"]), Default("tcp"),
        "`mctcp` and `mptcp` (the kernel's Multipath TCP; wall clock only) carry a TCP flow over \
         several paths at once: bulk, transfers, and requests one after the other.";
    control: Option<String>, Text, Unset("the kernel's; `cubic` in simulations"),
        "TCP congestion control by the kernel's name. With UDP the protocol of explicit rate \
         control (see `[control]`) that assigns the flow's rate; none by default.";
    ecn: bool, Flag, Default("false"), "Negotiate ECN (RFC 3168) for TCP.";
    window: Option<Bytes>,
        Data(Bytes::new(4096), Bytes::new(1 << 30)),
        Unset("the kernel's; 6 MiB in simulations"),
        "Receive and send buffer of TCP, at both ends. With MCTCP each subflow has such buffers, \
         and the session twice as much, because the kernel doubles the requested size.";
    size: Option<Raw>, DRAWN, Unset("no end"), "Total payload, or payload of each transfer.";
    arrivals: Option<Fields>, Table(ARRIVALS.section), Unset(""),
        "When transfers start (open loop).";
    think: Raw, Either(&[TIME, Table(THINK.section)]), Default("0 s"),
        "Time from the end of a transfer or response to the next one (closed loop).";
    count: Option<u64>, COUNT, Unset("no end"), "Number of transfers or requests.";
    duration: Option<Span>, POSITIVE_TIME, Unset("no end"), "The flow ends after this.";
    rate: Option<Bandwidth>, Rate, Unset(""),
        "Rate of UDP payload; required with UDP. With explicit rate control: the maximum wire rate \
         of the flow, by default unlimited. A bulk flow over TCP: rate at which the application \
         offers payload, by default unlimited; payload that the network cannot carry at once is \
         sent later.";
    pause: Option<(Span, Span)>, Pair(&[TIME, TIME]), Unset(""),
        "A bulk flow over TCP: two times after its start between which the receiver does not \
         read, for example `[\"10 s\", \"40 s\"]`. Its buffers fill, and then the sender stops.";
    packet: Option<Bytes>, DATAGRAM, Unset("the smallest MTU less headers"),
        "Payload of a datagram.";
    pattern: Raw, Either(&[Word(&["constant", "poisson"]), Table(PATTERN.section)]),
        Default("constant"),
        "Spacing of UDP datagrams: constant, or a Poisson process with the same mean rate.";
    streams: u32, Whole(1, 1024), Default("1"),
        "Parallel TCP connections. With `arrivals` of requests those that are open from the start.";
    message: Option<Bytes>, POSITIVE_DATA, Unset(""),
        "Write messages of this size, each in separate segments, without Nagle's algorithm.";
    via: Option<Raw>, NAMES, Unset("all with a path to the receiver"),
        "With several paths: the sender's links to use, in order; the first is tried first. A \
         path ends at the nearest of the receiver's interfaces that no earlier path has taken.";
    backup: Raw, NAMES, Default("[]"),
        "With several paths: links whose paths are used only if no other path works.";
    subflows: Option<u8>, Whole(1, 8), Unset("one for each path"),
        "With several paths: maximum number of connections. With MCTCP and more connections \
         than paths, several share a path.";
    scheduler: SchedulerKind, Word(SchedulerKind::NAMES), Default("earliest"),
        "With MCTCP: the scheduler, which selects the subflow of the next frame.";
    request: Raw, DRAWN, Default("64 B"), "Size of a request.";
    response: Raw, DRAWN, Default("1 kB"), "Size of a response.";
    interval: Span, TIME, Default("0 s"), "Minimum time between two requests.";
    timeout: Span, POSITIVE_TIME, Default("1 s"),
        "With requests over UDP: timeout after which a request counts as lost.";
    family: Family, Word(Family::WORDS), Default("ipv4"), "Address family.";
    start: Raw, Either(&[TIME, Table(START.section)]), Default("0 s"),
        "Start time. A text sets `at`.";
    dscp: u8, Whole(0, 63), Default("0"), "DSCP value of its packets.";
}

section! {
    /// A distribution of random sizes.
    pub(crate) SIZES: Sizes = "a distribution of sizes",
    "Sizes drawn independently: exactly one of `exponential`, `pareto`, `table`, `cdf`.";
    exponential: Option<Bytes>, POSITIVE_DATA, Unset(""), "Exponential with this mean.";
    pareto: Option<Bytes>, POSITIVE_DATA, Unset(""), "Pareto with this mean (before the `limit`).";
    shape: f64, Number(1.001, 1000.0), Default("1.2"),
        "With `pareto`: tail index above 1, in steps of 0.001; the smaller, the heavier.";
    limit: Option<Bytes>, POSITIVE_DATA, Unset("none"),
        "With `pareto`: maximum; larger values are set to it.";
    table: Option<Vec<(Bytes, Ratio)>>,
        List(&Pair(&[Data(Bytes::ZERO, Bytes::new(1 << 60)), Share])),
        Unset(""),
        "Points of the cumulative distribution, each a size and the share of values up to it, with \
         linear interpolation: `[[\"1 kB\", \"50 %\"], [\"1 MB\", \"100 %\"]]`.";
    cdf: Option<String>, Text, Unset(""),
        "A file with such points: a size in bytes and a share from 0 to 1, or from 0 to 100, on each \
         line.";
}

section! {
    pub(crate) ARRIVALS: Arrivals = "the arrivals of a flow",
    "Transfers that start independently of the end of earlier ones: exactly one of `poisson`, \
     `every`, `load`.";
    poisson: Option<Span>, POSITIVE_TIME, Unset(""),
        "A Poisson process with this mean time between starts.";
    every: Option<Span>, POSITIVE_TIME, Unset(""), "Constant time between starts.";
    load: Option<Ratio>, Share, Unset(""),
        "A Poisson process: payload of all flows of this entry together, as a share of the rate \
         of the link `of`.";
    of: Option<Raw>, NAMES, Unset(""), "With `load`: a link's name, or its two ends.";
}

section! {
    pub(crate) START: Start = "the start of a flow", "When a flow starts, with a random part.";
    at: Span, TIME, Default("0 s"), "The earliest start.";
    jitter: Option<Span>, TIME, Unset("`start_jitter` of `[lab]`"),
        "Maximum random delay after `at`, uniformly distributed, and before the end of \
         the run. Keyed by the lab's seed and the flow's name: equal on both clocks, and other \
         flows change nothing.";
}

section! {
    pub(crate) THINK: Think = "a think time", "A random think time.";
    exponential: Option<Span>, POSITIVE_TIME, Required, "Exponential with this mean.";
}

section! {
    pub(crate) PATTERN: Pattern = "a pattern of datagrams", "Either `on` and `off`, or `trace`.";
    on: Option<Span>, POSITIVE_TIME, Unset(""), "Length of a period in which it sends at `rate`.";
    off: Option<Span>, POSITIVE_TIME, Unset(""),
        "Length of the period without sending that follows.";
    exponential: bool, Flag, Default("false"),
        "Lengths are exponentially distributed, with `on` and `off` as their means.";
    pareto: Option<f64>, Number(1.001, 1000.0), Unset(""),
        "Lengths have a Pareto distribution with this tail index (in steps of 0.001; the smaller, \
         the heavier), and `on` and `off` as their means.";
    trace: Option<Raw>, Either(&[Text, Table(DATAGRAMS.section)]), Unset(""),
        "A file with a time in seconds and the bytes of a datagram's payload on each line, \
         repeated for ever (one mean gap after its last line); or the datagrams themselves. It \
         replaces `rate` and `packet`.";
}

section! {
    pub(crate) DATAGRAMS: Datagrams = "a trace of datagrams", "A trace in the lab file.";
    datagrams: Option<Vec<(Span, Bytes)>>,
        List(&Pair(&[Time(Span::ZERO, MAX_TIME), DATAGRAM])),
        Required,
        "Times, not decreasing, and payloads: `[[\"0 ms\", \"200 B\"]]`.";
    period: Option<Span>, POSITIVE_TIME, Required, "After this the trace starts again.";
}
