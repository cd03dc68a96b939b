//! Networks that are generated or imported.

use super::link::PROPERTIES;
use super::{Field, LONGEST_DELAY, Section, Shape, Variant, optional, required};
use base::Span;

const COUNT: Shape = Shape::Whole(1, 1_000_000);
const PROBABILITY: Shape = Shape::Number(0.0, 1.0);
const DELAY: Shape = Shape::Time(Span::ZERO, LONGEST_DELAY);
const ROUTERS: Field = required("routers", COUNT, "Number of routers, `r1` and on.");
const HOSTS: Field = optional(
    "hosts",
    Shape::Whole(0, 1_000_000),
    "0",
    "Hosts on every router: `h3` on `r3`, or `h3-1`, `h3-2`, …",
);
const PREFIX: Field =
    optional("prefix", Shape::Text, "none", "Put before the names of all nodes and links.");
const LINK: Field = optional(
    "link",
    Shape::Table(&PROPERTIES),
    "{}",
    "Properties of all links (`rate`, `delay`, `queue`, … as in `[[link]]`), where the model or \
     file itself says nothing.",
);
const ACCESS: Field = optional(
    "access",
    Shape::Table(&PROPERTIES),
    "{}",
    "Properties of hosts' links; these go before what the model or file says.",
);
const AGGREGATION: Field = optional(
    "aggregation",
    Shape::Table(&PROPERTIES),
    "{}",
    "The same for links below the core: of stub domains, of the lower layers of a fat tree.",
);
const CORE: Field = optional(
    "core",
    Shape::Table(&PROPERTIES),
    "{}",
    "The same for all other links between routers or switches.",
);
const SEED: Field = optional(
    "seed",
    Shape::Whole(0, i64::MAX),
    "the lab's",
    "Gives the same network in every run, whatever the lab's seed.",
);

/// `[[generate]]`
pub(crate) const GENERATE: Variant = Variant {
    key: "kind",
    doc: "A network from a model. Its nodes and links can be named like all others.",
    shared: &[PREFIX, LINK, ACCESS, AGGREGATION, CORE, SEED],
    kinds: &[
        ("line", &Section { noun: "a line", doc: "Routers in a row.", fields: &[ROUTERS, HOSTS] }),
        (
            "star",
            &Section {
                noun: "a star",
                doc: "Hosts `h1`, `h2`, … around the node `hub`.",
                fields: &[
                    required("hosts", COUNT, "Number of hosts."),
                    optional("hub", Shape::Word(&["switch", "router"]), "switch", "What `hub` is."),
                ],
            },
        ),
        (
            "dumbbell",
            &Section {
                noun: "a dumbbell",
                doc: "Hosts `l1`, … and `r1`, … on either side of the link `core` between the routers \
                  `core1` and `core2`.",
                fields: &[
                    required("left", COUNT, "Hosts on the left."),
                    required("right", COUNT, "Hosts on the right."),
                ],
            },
        ),
        (
            "tree",
            &Section {
                noun: "a tree",
                doc: "Routers, `r1` at the root, and hosts `h1`, … as leaves.",
                fields: &[
                    required("depth", Shape::Whole(1, 64), "Levels of routers."),
                    required("fanout", COUNT, "Children of every router."),
                ],
            },
        ),
        (
            "ring",
            &Section { noun: "a ring", doc: "Routers in a circle.", fields: &[ROUTERS, HOSTS] },
        ),
        (
            "grid",
            &Section {
                noun: "a grid",
                doc: "Routers `r1-1` (row, column) and on.",
                fields: &[
                    required("rows", COUNT, "Rows."),
                    required("columns", COUNT, "Columns."),
                    optional("wrap", Shape::Flag, "false", "Join the last to the first (a torus)."),
                    HOSTS,
                ],
            },
        ),
        (
            "fat-tree",
            &Section {
                noun: "a fat tree",
                doc: "The k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): core `c1`, \
                  aggregation `a1-1`, edge `e1-1`, hosts `h1-1-1`.",
                fields: &[required("k", Shape::Whole(2, 128), "Ports of every router, even.")],
            },
        ),
        (
            "waxman",
            &Section {
                noun: "a Waxman graph",
                doc: "Routers in a square, the nearer the likelier linked (Waxman, JSAC 1988).",
                fields: &[
                    ROUTERS,
                    optional("alpha", PROBABILITY, "0.4", "How many links there are."),
                    optional("beta", PROBABILITY, "0.15", "How long they are."),
                    optional(
                        "side",
                        DELAY,
                        "0 ns",
                        "Delay of a link as long as the square's side; 0 leaves delays to `link`.",
                    ),
                    HOSTS,
                ],
            },
        ),
        (
            "barabasi-albert",
            &Section {
                noun: "a Barabási-Albert graph",
                doc: "A scale-free graph (Barabási and Albert, Science 286, 1999).",
                fields: &[
                    ROUTERS,
                    optional(
                        "links",
                        Shape::Whole(1, 1000),
                        "2",
                        "Links that a new router brings.",
                    ),
                    HOSTS,
                ],
            },
        ),
        (
            "transit-stub",
            &Section {
                noun: "a transit-stub network",
                doc: "The model of Zegura, Calvert and Bhattacharjee (INFOCOM 1996), as in GT-ITM: \
                  transit routers `t1-2`, stub routers `s1-2-3-4`.",
                fields: &[
                    optional("transit_domains", COUNT, "2", "Transit domains."),
                    optional("transit_routers", COUNT, "5", "Routers of each."),
                    optional(
                        "stubs",
                        Shape::Whole(0, 1000),
                        "1",
                        "Stub domains of a transit router.",
                    ),
                    optional("stub_routers", COUNT, "10", "Routers of each stub domain."),
                    optional("domain_links", PROBABILITY, "0.5", "Of a link between two domains."),
                    optional("transit_links", PROBABILITY, "0.6", "Of a link within a domain."),
                    optional("stub_links", PROBABILITY, "0.4", "Of a link within a stub domain."),
                    optional(
                        "extra_transit_stub",
                        Shape::Whole(0, 1_000_000),
                        "0",
                        "Further links from stub to transit routers.",
                    ),
                    optional(
                        "extra_stub_stub",
                        Shape::Whole(0, 1_000_000),
                        "0",
                        "Further links between stub routers of different domains.",
                    ),
                    optional(
                        "hosts",
                        Shape::Whole(0, 1_000_000),
                        "0",
                        "Hosts of each stub router.",
                    ),
                    optional("transit_rate", Shape::Rate, "5 Gbit/s", "Between transit routers."),
                    optional("stub_rate", Shape::Rate, "1 Gbit/s", "Of other links of routers."),
                    optional("host_rate", Shape::Rate, "100 Mbit/s", "Of hosts' links."),
                    optional(
                        "delay",
                        Shape::List(&DELAY),
                        "[\"1 ms\", \"10 ms\"]",
                        "Smallest and largest delay of links between routers.",
                    ),
                    optional("host_delay", DELAY, "1 us", "Delay of hosts' links."),
                ],
            },
        ),
    ],
};

/// `[[import]]`
pub(crate) const IMPORT: Section = Section {
    noun: "an import",
    doc: "A network from a file. Its nodes and links can be named like all others.",
    fields: &[
        required("file", Shape::Text, "Relative to the folder of the lab file."),
        optional(
            "format",
            Shape::Word(&["graphml", "gml", "alt", "csv"]),
            "by the file's ending",
            "GraphML or GML (also of the Topology Zoo: delays follow from coordinates), GT-ITM's \
             alt format, or a list of links (`a,b,delay,rate,metric`).",
        ),
        optional(
            "hosts",
            Shape::Whole(0, 100_000),
            "0",
            "Hosts on every router: `NAME-h`, or `NAME-h1`, `NAME-h2`, …",
        ),
        PREFIX,
        LINK,
        ACCESS,
        AGGREGATION,
        CORE,
    ],
};
