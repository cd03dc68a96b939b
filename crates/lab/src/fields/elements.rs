//! Everything but links: settings, nodes, programs, flows, events, mirrors, expectations.

use base::{Bytes, Span};

use super::cluster::{MACHINE, NODE_CPUS, NODE_MEMORY};
use super::{LONGEST, SET, SOME_TIME, Section, Shape, TIME, optional, required};

pub(super) const NAMES: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);

/// `[lab]`
pub(crate) const LAB: Section = Section {
    noun: "`[lab]`",
    doc: "Settings of the whole run.",
    fields: &[
        optional("name", Shape::Text, "the file's name", "Names the run folder."),
        optional(
            "duration",
            Shape::Time(Span::from_millis(1), LONGEST),
            "60 s",
            "The longest that the run takes. It ends sooner when all programs that are no services \
             and all finite flows have finished and no event is to come.",
        ),
        optional("seed", Shape::Whole(0, i64::MAX), "1", "Keys every random stream."),
        optional(
            "start_jitter",
            TIME,
            "0 s; with `netarium sweep --repeat` 100 ms or 1 % of `duration`, what is less",
            "Flows start at random, by up to this later than `start`; those with a `jitter` of their \
             own by that. `\"0 s\"` switches it off for replicated runs, too.",
        ),
        optional(
            "model",
            Shape::Word(&["hop", "collapsed", "fluid"]),
            "hop",
            "`hop`: packets cross every queue. `collapsed`: packets cross their whole path at \
             once, at their flow's share of it. `fluid`: flows are rates, queues are integrated \
             between changes (`netarium sim` only).",
        ),
        optional(
            "sharing",
            Shape::Word(&["rtt-max-min", "max-min", "slbn", "none"]),
            "rtt-max-min",
            "With `model = \"collapsed\"`: how flows share links. `rtt-max-min`: max-min fair, in \
             inverse proportion to the round trips, so that links need realistic delays. \
             `max-min`: max-min fair, all with the same weight. `slbn`: max-min fair as well, by \
             what machines claim of links, each of which belongs to one of them. \
             `none`: each flow has its path's capacity.",
        ),
        optional(
            "window",
            Shape::Either(&[
                Shape::Word(&["auto", "off"]),
                Shape::Data(Bytes::new(64), Bytes::new(1 << 30)),
            ]),
            "auto",
            "With `model = \"collapsed\"`: what caps a TCP flow beside links. `\"auto\"`: what it \
             is seen to send; `\"off\"`: nothing; a size from 64 B to 1 GiB, such as `\"64 KiB\"`: this \
             much in each round trip.",
        ),
        optional(
            "acks",
            Shape::Flag,
            "false",
            "With `model = \"collapsed\"`: whether TCP segments without payload take part in the \
             sharing; otherwise they pass beside it.",
        ),
        optional(
            "routing",
            Shape::Word(&["delay", "hops", "metric", "none"]),
            "delay",
            "Shortest paths by delay, number of links, or the links' `metric`; equal paths are \
             shared by flow. `none`: programs on the routers do it.",
        ),
        optional(
            "overhead",
            Shape::Text,
            "ethernet",
            "Wire bytes of a packet beyond layer 3: `\"ethernet\"` (38 B: preamble, header, check \
             sequence, gap), `\"none\"`, or an amount such as `\"18 B\"`.",
        ),
        optional(
            "precision",
            Shape::Word(&["normal", "high"]),
            "normal",
            "`high` spins shortly before each deadline: less late, a busy core.",
        ),
        optional(
            "realtime",
            Shape::Flag,
            "true",
            "Use real-time scheduling where the machine allows it; `run.json` says whether it did.",
        ),
        optional(
            "tick",
            Shape::Time(Span::from_nanos(1), Span::from_millis(100)),
            "100 us while more than 20,000 packets/s pass, else none",
            "Release grid: packets leave at its first point at or after their deadline.",
        ),
        optional(
            "tolerance",
            Shape::Either(&[TIME, Shape::Table(&TOLERANCE)]),
            "1 ms, 5 %",
            "How late packets may be (99.9th percentile) in a trusted run. A text sets `floor`.",
        ),
        optional(
            "interval",
            Shape::Time(Span::from_millis(1), Span::from_secs(3600)),
            "100 ms",
            "How often counters are sampled.",
        ),
        optional("uplink", Shape::Flag, "false", "Give hosts the machine's network, by pasta."),
        optional(
            "capture",
            Shape::Either(&[Shape::Flag, Shape::List(&Shape::Text)]),
            "false",
            "Interfaces whose packets are written to pcapng files: `true` (all of all hosts), \
             nodes (`\"alice\"`, `\"h*\"`) or interfaces (`\"r1.eth0\"`).",
        ),
        optional(
            "record",
            Shape::Flag,
            "false",
            "`netarium run` records what enters the emulation, for `netarium replay`.",
        ),
        optional(
            "limits",
            Shape::Table(&LIMITS),
            "{}",
            "Where `netarium sim` ends a run with an error; what was measured so far is kept.",
        ),
    ],
};

const TOLERANCE: Section = Section {
    noun: "a tolerance",
    doc: "The larger of the two counts.",
    fields: &[
        optional("floor", TIME, "1 ms", "As a time."),
        optional("share", Shape::Share, "5 %", "As a share of the shortest path's delay."),
    ],
};

const LIMITS: Section = Section {
    noun: "a limit",
    doc: "Where `netarium sim` ends a run.",
    fields: &[
        optional("events", Shape::Whole(1, i64::MAX), "10^12", "Most events."),
        optional(
            "memory",
            Shape::Data(Bytes::new(1 << 20), Bytes::new(1 << 50)),
            "8 GiB",
            "Most memory for packets, flows and pending events.",
        ),
    ],
};

/// `[node.NAME]`
pub(crate) const NODE: Section = Section {
    noun: "a node",
    doc: "A host, router, switch or box. Its name is its host name.",
    fields: &[
        optional(
            "kind",
            Shape::Word(&["host", "router", "switch", "sendbox", "receivebox"]),
            "host",
            "Hosts run programs and do not forward. Routers forward at layer 3, and can run \
             programs. Links that meet in a switch are one subnet. The boxes of bundles forward as \
             routers do, and nothing else runs on them.",
        ),
        optional(
            "address",
            NAMES,
            "given out",
            "Fixed addresses with prefix lengths, for a node with one interface: \
             `[\"10.1.2.3/24\", \"fd00::1/64\"]`. With more interfaces, see `addresses` of links.",
        ),
        MACHINE,
        NODE_CPUS,
        NODE_MEMORY,
    ],
};

/// `[[program]]`
pub(crate) const PROGRAM: Section = Section {
    noun: "a program",
    doc: "A real program on a node.",
    fields: &[
        required(
            "node",
            NAMES,
            "Where it runs: a node, a list of nodes, or a pattern with `*` or `?`, which stands for \
             hosts; once on each of them.",
        ),
        required(
            "run",
            NAMES,
            "A text is a line for `/bin/sh`; a list is a program and its arguments.",
        ),
        optional("name", Shape::Text, "NODE.COMMAND", "Unique among programs."),
        optional("start", TIME, "0 s", "Not before this."),
        optional("after", NAMES, "[]", "Programs that must be ready (or have started) before."),
        optional(
            "ready",
            Shape::Text,
            "at once",
            "`port 80`, `udp port 53`, `output \"text\"`, `file \"path\"`, `command \"line\"` (run \
             beside it until it exits with 0), or a time such as `2 s`.",
        ),
        optional("ready_timeout", SOME_TIME, "30 s", "How long becoming ready may take."),
        optional(
            "restart",
            Shape::Word(&["never", "on-failure", "always"]),
            "never",
            "What happens when it ends by itself.",
        ),
        optional(
            "env",
            Shape::Map(&Shape::Text),
            "{}",
            "Added to the environment, of which programs inherit `PATH`, `HOME`, `USER`, `LOGNAME`, \
             `SHELL`, `LANG`, `LANGUAGE`, `LC_*`, `TERM`, `COLORTERM`, `NO_COLOR`, `TZ`, `TMPDIR`, \
             `COLUMNS`, `LINES` and `PWD`.",
        ),
        optional("dir", Shape::Text, "the lab file's folder", "Working directory."),
        optional(
            "service",
            Shape::Flag,
            "true with `ready`, else false",
            "Does not keep the run going; stopped at its end.",
        ),
        optional(
            "exit",
            Shape::Either(&[
                Shape::Whole(0, 255),
                Shape::List(&Shape::Whole(0, 255)),
                Shape::Word(&["any"]),
            ]),
            "0",
            "Exit statuses that are fine when it ends by itself, or `\"any\"`.",
        ),
        optional("grace", TIME, "2 s", "Between SIGTERM and SIGKILL."),
        optional(
            "privileged",
            Shape::Flag,
            "false",
            "Keeps all capabilities of the lab's user namespace, system calls that are otherwise \
             refused, and writable kernel parameters. The result names the program. If the run is \
             started by root, such a program can take over the machine.",
        ),
        optional(
            "output",
            Shape::Data(Bytes::ZERO, Bytes::new(1 << 60)),
            "100 MB",
            "At most this much of its standard output and error is kept, both together. The rest is \
             discarded, and the result says so.",
        ),
    ],
};

/// `[[at]]`
pub(crate) const AT: Section = Section {
    noun: "an event",
    doc: "Something that happens at a set time, to one of `link`, `node`, `program`, `flow`, `box`.",
    fields: &[
        required("time", TIME, "When."),
        optional("link", NAMES, "", "A link's name, or its two ends."),
        optional("node", Shape::Text, "", "A node."),
        optional("program", Shape::Text, "", "A program."),
        optional("flow", Shape::Text, "", "A flow."),
        optional(
            "box",
            Shape::Text,
            "",
            "The process of a sendbox or receivebox. Without it packets pass as they pass a router.",
        ),
        optional(
            "set",
            Shape::Table(&SET),
            "",
            "New properties of a link, as in `[[link]]`; the others stay, and so does what is \
             queued.",
        ),
        optional("down", Shape::Flag, "", "A link or node goes out of service."),
        optional("up", Shape::Flag, "", "A link or node comes back."),
        optional("stop", Shape::Flag, "", "A program gets SIGTERM; a flow stops."),
        optional("kill", Shape::Flag, "", "A program gets SIGKILL."),
        optional("start", Shape::Flag, "", "A program or flow starts (again)."),
        optional(
            "action",
            Shape::Word(&["stop", "start", "restart"]),
            "",
            "What a box does: it ends without a word, starts knowing nothing, or both at once.",
        ),
    ],
};

/// `[[mirror]]`
pub(crate) const MIRROR: Section = Section {
    noun: "a mirror",
    doc: "A copy of some of a link's packets, taken where they enter it.",
    fields: &[
        required("link", NAMES, "A link's name, or its two ends."),
        optional("name", Shape::Text, "LINK.mirror", "Unique among mirrors."),
        optional("direction", Shape::Word(&["both", "up", "down"]), "both", ""),
        optional(
            "filter",
            Shape::Text,
            "everything",
            "Such as `tcp port 179` or `host alice and udp`.",
        ),
        optional("to", Shape::Text, "a pcapng file", "The node that gets the copies."),
    ],
};

/// `[[expect]]`
pub(crate) const EXPECT: Section = Section {
    noun: "an expectation",
    doc: "What must hold at the end; otherwise the run exits with 1.",
    fields: &[required(
        "that",
        Shape::Text,
        "A metric, a comparison and a value: `flow.NAME.goodput.mean >= 9 Mbit/s`, optionally with \
         `between 5 s and 10 s`.",
    )],
};
