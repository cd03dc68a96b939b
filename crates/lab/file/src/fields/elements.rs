//! All sections except links: settings, nodes, programs, flows, events, mirrors, expectations.

use base::{Bytes, Ratio, Span};

use fabric::Sharing;

use super::cluster::{CPUS, MEMORY};
use super::{Fields, MAX_TIME, POSITIVE_TIME, Raw, SET, Shape, TIME, Words};
use crate::plan::{BoxAction, FileScope, Metric, Precision, Restart, Role, Routing};

pub(super) const NAMES: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);

words! {
    Sharing {
        ("rtt-max-min" Self::RttMaxMin) ("max-min" Self::MaxMin) ("slbn" Self::Slbn)
        ("none" Self::None)
    }
    Routing {
        ("delay" Self::Shortest(Metric::Delay)) ("hops" Self::Shortest(Metric::Hops))
        ("metric" Self::Shortest(Metric::Metric)) ("none" Self::None)
    }
    Precision { ("normal" Self::Normal) ("high" Self::High) }
    Role {
        ("host" Self::Host) ("router" Self::Router) ("switch" Self::Switch)
        ("sendbox" Self::SendBox) ("receivebox" Self::ReceiveBox)
    }
    FileScope { ("shared" Self::Shared) ("private" Self::Private) }
    Restart { ("never" Self::Never) ("on-failure" Self::OnFailure) ("always" Self::Always) }
    BoxAction { ("stop" Self::Stop) ("start" Self::Start) ("restart" Self::Restart) }
}

section! {
    /// `[lab]`
    pub(crate) LAB: Lab = "`[lab]`", "Settings of the whole run.";
    name: Option<String>, Text, Unset("the file's name"), "Names the run folder.";
    duration: Span, Time(Span::from_millis(1), MAX_TIME), Default("60 s"),
        "Maximum duration of the run. It ends earlier when all programs that are not services and \
         all finite flows have finished and no event is pending.";
    seed: u64, Whole(0, i64::MAX), Default("1"), "Seed of all random streams.";
    start_jitter: Option<Span>,
        TIME,
        Unset("0 s; with `netarium sweep --repeat` 100 ms or 1 % of `duration`, whichever is less"),
        "Maximum random delay after `start` of flows without their own `jitter`. `\"0 s\"` also \
         disables it for replicated runs.";
    model: String, Word(&["hop", "collapsed", "fluid"]), Default("hop"),
        "`hop`: packets cross every queue. `collapsed`: packets cross their whole path at once, \
         at their flow's share of it. `fluid`: flows are rates, queues are integrated between \
         changes (`netarium sim` only).";
    sharing: Sharing, Word(Sharing::WORDS), Default("rtt-max-min"),
        "With `model = \"collapsed\"`: how flows share links. `rtt-max-min`: max-min fair, in \
         inverse proportion to the round trips, so that links need realistic delays. `max-min`: \
         max-min fair, all with the same weight. `slbn`: max-min fair as well, by an agreement of \
         machines, each of which assigns the shares of its own links. `none`: each flow has its \
         path's capacity.";
    window: Raw, Either(&[Word(&["auto", "off"]), Data(Bytes::new(64), Bytes::new(1 << 30))]),
        Default("auto"),
        "With `model = \"collapsed\"`: the limit of a TCP flow in addition to links. `\"auto\"`: \
         its observed rate; `\"off\"`: none; a size from 64 B to 1 GiB, for example `\"64 KiB\"`: \
         this much per RTT.";
    acks: bool, Flag, Default("false"),
        "With `model = \"collapsed\"`: whether TCP segments without payload count in the \
         sharing; otherwise they bypass it.";
    routing: Routing, Word(Routing::WORDS), Default("delay"),
        "Shortest paths by delay, number of links, or the links' `metric`; equal paths are shared \
         by flow. `none`: programs on the routers set routes.";
    overhead: Raw, Text, Default("ethernet"),
        "Wire bytes of a packet beyond layer 3: `\"ethernet\"` (38 B: preamble, header, check \
         sequence, gap), `\"none\"`, or a size, for example `\"18 B\"`.";
    precision: Precision, Word(Precision::WORDS), Default("normal"),
        "`high` polls shortly before each deadline: less lateness, one busy core.";
    realtime: bool, Flag, Default("true"),
        "Use real-time scheduling if the machine allows it; see `run.json`.";
    tick: Option<Span>,
        Time(Span::from_nanos(1), Span::from_millis(100)),
        Unset("100 us while more than 20,000 packets/s pass, else none"),
        "Release grid: packets leave at its first point at or after their deadline.";
    tolerance: Raw, Either(&[TIME, Table(TOLERANCE.section)]), Default("{}"),
        "Maximum effect of the machine on the results of a trusted run. A text sets `floor`.";
    interval: Span, Time(Span::from_millis(1), Span::from_secs(3600)), Default("100 ms"),
        "Sampling interval of counters.";
    uplink: Raw, Either(&[Flag, Text]), Default("false"),
        "Access to the machine's network, through pasta. `true`: hosts have it directly. The name \
         of a router: hosts reach it through the lab, over that router.";
    capture: Raw, Either(&[Flag, List(&Text)]), Default("false"),
        "Interfaces whose packets are written to pcapng files: `true` (all of all hosts), nodes \
         (`\"alice\"`, `\"h*\"`) or interfaces (`\"r1.eth0\"`). Packets of `netarium sim` have \
         headers only.";
    tcp_events: Raw, Either(&[Flag, List(&Text)]), Default("false"),
        "Flows of which `netarium sim` records each change of the congestion window, the slow-start \
         threshold and the RTT, in `tcp.parquet`: `true` (all over TCP), or names of flows \
         (`\"bulk\"`, `\"a-*\"`).";
    record: bool, Flag, Default("false"),
        "`netarium run` records the input of the emulation, for `netarium replay`.";
    writable: Raw, List(&Text), Default("[]"),
        "Folders of the machine that programs may change: `[\"/srv/data\"]`. Each must exist. \
         Programs may always change the run folder, the lab file's folder, `/tmp`, `/var/tmp` and \
         `/dev/shm`, and have a `/run` of their own; all other files are read-only.";
    limits: Fields, Table(LIMITS.section), Default("{}"),
        "Limits at which `netarium sim` ends a run with an error; results so far are kept.";
}

section! {
    pub(crate) TOLERANCE: Tolerance = "a tolerance",
    "How far the machine may change results of a trusted run. Of `floor` and `delay`, the larger \
     applies.";
    floor: Span, TIME, Default("1 ms"), "Absolute tolerance of delays.";
    delay: Ratio, Share, Default("5 %"), "Tolerance of a delay, relative to it.";
    rate: Ratio, Share, Default("2 %"), "Tolerance of a rate, relative to it.";
}

section! {
    pub(crate) LIMITS: Limits = "a limit", "Limits of `netarium sim`.";
    events: u64, Whole(1, i64::MAX), Default("1000000000000"), "Maximum number of events.";
    memory: Bytes, Data(Bytes::new(1 << 20), Bytes::new(1 << 50)), Default("8 GiB"),
        "Maximum memory for packets, flows and pending events.";
}

section! {
    /// `[node.NAME]`
    pub(crate) NODE: Node = "a node",
    "A host, router, switch, sendbox or receivebox. Its name is its host name.";
    kind: Role, Word(Role::WORDS), Default("host"),
        "Hosts run programs and do not forward. Routers forward at layer 3, and can run programs. \
         Links that meet in a switch are one subnet. The boxes of bundles forward as routers do, \
         and nothing else runs on them.";
    address: Option<Raw>, NAMES, Unset("given out"),
        "Fixed addresses with prefix lengths, for a node with one interface: `[\"10.1.2.3/24\", \
         \"fd00::1/64\"]`. With more interfaces, see `addresses` of links.";
    machine: Option<String>, Text, Unset("any"),
        "With `netarium run --cluster`: the agent that runs this node.";
    cpus: Option<f64>, CPUS, Unset("as `[cluster]` says"),
        "With `netarium run --cluster`: cores that its programs need.";
    memory: Option<Bytes>, MEMORY, Unset("as `[cluster]` says"),
        "With `netarium run --cluster`: memory that its programs need.";
    user: Option<String>, Text, Unset("the user of the run"),
        "User of its programs and of `netarium exec` on it, for example `\"postgres\"`: with the \
         user's groups, `HOME`, `USER` and `LOGNAME`, and without capabilities. Without root, it \
         needs subordinate IDs (`/etc/subuid`, `/etc/subgid`).";
    files: FileScope, Word(FileScope::WORDS), Default("shared"),
        "`private`: its programs see a copy-on-write view of all files. Other nodes and the machine \
         do not see their changes, which end with the lab. The lab file's folder and the run \
         folder stay shared.";
    private: Raw, List(&Text), Default("[]"),
        "Folders with such a view, while other files stay shared: `[\"/var/lib/redis\", \
         \"/run\"]`. Each must exist.";
    private_size: Bytes, MEMORY, Default("1 GB"),
        "Maximum size of changed and new files in the node's private view. They are in memory.";
}

section! {
    /// `[[program]]`
    pub(crate) PROGRAM: Program = "a program", "A real program on a node.";
    node: Option<Raw>, NAMES, Required,
        "Where it runs: a node, a list of nodes, or a pattern with `*` or `?`, which stands for \
         hosts; once on each of them.";
    run: Option<Raw>, NAMES, Required,
        "A text is a line for `/bin/sh`; a list is a program and its arguments.";
    name: Option<String>, Text, Unset("NODE.COMMAND"), "Unique among programs.";
    start: Span, TIME, Default("0 s"), "Earliest start.";
    after: Raw, NAMES, Default("[]"), "Programs that must be ready (or have started) before.";
    ready: Option<String>, Text, Unset("at once"),
        "`port 80`, `udp port 53`, `output \"text\"`, `file \"path\"`, `command \"line\"` (run \
         beside it until it exits with 0), or a time such as `2 s`.";
    ready_timeout: Span, POSITIVE_TIME, Default("30 s"), "Timeout of the ready condition.";
    restart: Restart, Word(Restart::WORDS), Default("never"),
        "Whether it is restarted when it exits.";
    env: Fields, Map(&Text), Default("{}"),
        "Additional environment variables. Programs inherit `PATH`, `HOME`, `USER`, `LOGNAME`, \
         `SHELL`, `LANG`, `LANGUAGE`, `LC_*`, `TERM`, `COLORTERM`, `NO_COLOR`, `TZ`, `TMPDIR`, \
         `COLUMNS`, `LINES` and `PWD`.";
    dir: Option<String>, Text, Unset("the lab file's folder"), "Working directory.";
    user: Option<String>, Text, Unset("the node's `user`"),
        "User of the program, for example `\"www-data\"`; `\"root\"` is the user of the run in a \
         lab without root. See `user` of nodes.";
    service: Option<bool>, Flag, Unset("true with `ready`, else false"),
        "Does not prolong the run; stopped at its end.";
    exit: Raw, Either(&[Whole(0, 255), List(&Whole(0, 255)), Word(&["any"])]), Default("0"),
        "Expected exit statuses, or `\"any\"`.";
    grace: Span, TIME, Default("2 s"), "Time between SIGTERM and SIGKILL.";
    privileged: bool, Flag, Default("false"),
        "Keeps all capabilities of the lab's user namespace, system calls that are otherwise \
         refused, writable files, and writable kernel parameters. The result names the program. If \
         the run is started by root, such a program can take over the machine.";
    output: Bytes, Data(Bytes::ZERO, Bytes::new(1 << 60)), Default("100 MB"),
        "Maximum size of its recorded standard output and error together. The rest is discarded \
         and counted in the result.";
}

section! {
    /// `[[at]]`
    pub(crate) AT: At = "an event",
    "An action at a set time on one of `link`, `node`, `program`, `flow`, `box`.";
    time: Option<Span>, TIME, Required, "Time of the event.";
    link: Option<Raw>, NAMES, Unset(""), "A link's name, or its two ends.";
    node: Option<String>, Text, Unset(""), "A node.";
    program: Option<String>, Text, Unset(""), "A program.";
    flow: Option<String>, Text, Unset(""), "A flow.";
    r#box: Option<String>, Text, Unset(""),
        "The process of a sendbox or receivebox. While stopped, it forwards packets like a router.";
    set: Option<Fields>, Table(&SET), Unset(""),
        "New properties of a link, as in `[[link]]`; other properties and queued packets stay.";
    down: Option<bool>, Flag, Unset(""), "Takes a link or node down.";
    up: Option<bool>, Flag, Unset(""), "Brings a link or node up.";
    stop: Option<bool>, Flag, Unset(""), "Sends SIGTERM to a program; stops a flow.";
    kill: Option<bool>, Flag, Unset(""), "Sends SIGKILL to a program.";
    start: Option<bool>, Flag, Unset(""), "Starts or restarts a program or flow.";
    action: Option<BoxAction>, Word(BoxAction::WORDS), Unset(""),
        "Action of a sendbox or receivebox: `stop` ends its process without notice, `start` starts \
         it without state, `restart` does both.";
}

section! {
    /// `[[mirror]]`
    pub(crate) MIRROR: Mirror = "a mirror",
    "Copies some of a link's packets where they enter the link.";
    link: Option<Raw>, NAMES, Required, "A link's name, or its two ends.";
    name: Option<String>, Text, Unset("LINK.mirror"), "Unique among mirrors.";
    direction: String, Word(&["both", "up", "down"]), Default("both"), "";
    filter: Option<String>, Text, Unset("everything"),
        "For example `tcp port 179` or `host alice and udp`.";
    to: Option<String>, Text, Unset("a pcapng file"), "The node that receives the copies.";
}

section! {
    /// `[[expect]]`
    pub(crate) EXPECT: Expect = "an expectation",
    "A condition on the results; if it fails, the run exits with 1.";
    that: Option<String>, Text, Required,
        "A metric, a comparison and a value: `flow.NAME.goodput.mean >= 9 Mbit/s`, optionally \
         with `between 5 s and 10 s`.";
}
