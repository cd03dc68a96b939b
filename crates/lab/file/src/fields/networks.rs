//! Generated and imported networks.

use base::{Bandwidth, Span};

use super::link::PROPERTIES;
use super::{Fields, MAX_DELAY, Section, Shape, Variant};

const COUNT: Shape = Shape::Whole(1, 1_000_000);
const PROBABILITY: Shape = Shape::Number(0.0, 1.0);
const DELAY: Shape = Shape::Time(Span::ZERO, MAX_DELAY);

section! {
    pub(crate) LINE: Line = "a line", "Routers in a row.";
    routers: Option<u32>, COUNT, Required, "Number of routers, `r1` and on.";
    hosts: u32, Whole(0, 1_000_000), Default("0"),
        "Hosts on every router: `h3` on `r3`, or `h3-1`, `h3-2`, …";
}

section! {
    pub(crate) STAR: Star = "a star", "Hosts `h1`, `h2`, … around the node `hub`.";
    hosts: Option<u32>, COUNT, Required, "Number of hosts.";
    hub: String, Word(&["switch", "router"]), Default("switch"), "What `hub` is.";
}

section! {
    pub(crate) DUMBBELL: Dumbbell = "a dumbbell",
    "Hosts `l1`, … and `r1`, … on either side of the link `core` between the routers `core1` and \
     `core2`.";
    left: Option<u32>, COUNT, Required, "Hosts on the left.";
    right: Option<u32>, COUNT, Required, "Hosts on the right.";
}

section! {
    pub(crate) TREE: Tree = "a tree", "Routers, `r1` at the root, and hosts `h1`, … as leaves.";
    depth: Option<u32>, Whole(1, 64), Required, "Levels of routers.";
    fanout: Option<u32>, COUNT, Required, "Children of every router.";
}

const RING: Section =
    Section { noun: "a ring", doc: "Routers in a circle.", fields: LINE.section.fields };

section! {
    pub(crate) GRID: Grid = "a grid", "Routers `r1-1` (row, column) and on.";
    rows: Option<u32>, COUNT, Required, "Rows.";
    columns: Option<u32>, COUNT, Required, "Columns.";
    wrap: bool, Flag, Default("false"), "Join the last to the first (a torus).";
    + LINE.hosts;
}

section! {
    pub(crate) FAT_TREE: FatTree = "a fat tree",
    "The k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): core `c1`, aggregation \
     `a1-1`, edge `e1-1`, hosts `h1-1-1`.";
    k: Option<u32>, Whole(2, 128), Required, "Ports of every router, even.";
}

section! {
    pub(crate) WAXMAN: Waxman = "a Waxman graph",
    "Routers in a square; the probability of a link decreases with distance (Waxman, JSAC 1988).";
    + LINE.routers;
    alpha: f64, PROBABILITY, Default("0.4"), "Parameter for the number of links.";
    beta: f64, PROBABILITY, Default("0.15"), "Parameter for the length of links.";
    side: Span, DELAY, Default("0 ns"),
        "Delay of a link as long as the square's side; 0 leaves delays to `link`.";
    + LINE.hosts;
}

section! {
    pub(crate) BARABASI_ALBERT: BarabasiAlbert = "a Barabási-Albert graph",
    "A scale-free graph (Barabási and Albert, Science 286, 1999).";
    + LINE.routers;
    links: u32, Whole(1, 1000), Default("2"), "Links of each new router.";
    + LINE.hosts;
}

section! {
    pub(crate) TRANSIT_STUB: TransitStub = "a transit-stub network",
    "The model of Zegura, Calvert and Bhattacharjee (INFOCOM 1996), as in GT-ITM: transit routers \
     `t1-2`, stub routers `s1-2-3-4`.";
    transit_domains: u32, COUNT, Default("2"), "Transit domains.";
    transit_routers: u32, COUNT, Default("5"), "Routers of each.";
    stubs: u32, Whole(0, 1000), Default("1"), "Stub domains of a transit router.";
    stub_routers: u32, COUNT, Default("10"), "Routers of each stub domain.";
    domain_links: f64, PROBABILITY, Default("0.5"), "Probability of a link between two domains.";
    transit_links: f64, PROBABILITY, Default("0.6"),
        "Probability of a link within a transit domain.";
    stub_links: f64, PROBABILITY, Default("0.4"), "Probability of a link within a stub domain.";
    extra_transit_stub: u32, Whole(0, 1_000_000), Default("0"),
        "Further links from stub to transit routers.";
    extra_stub_stub: u32, Whole(0, 1_000_000), Default("0"),
        "Further links between stub routers of different domains.";
    hosts: u32, Whole(0, 1_000_000), Default("0"), "Hosts of each stub router.";
    transit_rate: Bandwidth, Rate, Default("5 Gbit/s"), "Rate between transit routers.";
    stub_rate: Bandwidth, Rate, Default("1 Gbit/s"), "Rate of other links between routers.";
    host_rate: Bandwidth, Rate, Default("100 Mbit/s"), "Rate of hosts' links.";
    delay: Vec<Span>, List(&DELAY), Default("[\"1 ms\", \"10 ms\"]"),
        "Smallest and largest delay of links between routers.";
    host_delay: Span, DELAY, Default("1 us"), "Delay of hosts' links.";
}

section! {
    /// Keys of all generators.
    pub(crate) GENERATED: Generated = "a generator", "";
    + IMPORT.prefix;
    + IMPORT.link;
    + IMPORT.access;
    + IMPORT.aggregation;
    + IMPORT.core;
    seed: Option<u64>, Whole(0, i64::MAX), Unset("the lab's"),
        "Seed of the network; the network is then the same for every seed of the lab.";
}

/// `[[generate]]`
pub(crate) const GENERATE: Variant = Variant {
    key: "kind",
    doc: "A network from a model. Its nodes and links can be named like all others.",
    shared: GENERATED.section.fields,
    kinds: &[
        ("line", LINE.section),
        ("star", STAR.section),
        ("dumbbell", DUMBBELL.section),
        ("tree", TREE.section),
        ("ring", &RING),
        ("grid", GRID.section),
        ("fat-tree", FAT_TREE.section),
        ("waxman", WAXMAN.section),
        ("barabasi-albert", BARABASI_ALBERT.section),
        ("transit-stub", TRANSIT_STUB.section),
    ],
};

section! {
    /// `[[import]]`
    pub(crate) IMPORT: Import = "an import",
    "A network from a file. Its nodes and links can be named like all others.";
    file: Option<String>, Text, Required, "Relative to the folder of the lab file.";
    format: Option<String>, Word(&["graphml", "gml", "alt", "csv"]), Unset("by the file's ending"),
        "GraphML or GML (also of the Topology Zoo: delays follow from coordinates), GT-ITM's alt \
         format, or a list of links (`a,b,delay,rate,metric`).";
    hosts: u32, Whole(0, 100_000), Default("0"),
        "Hosts on every router: `NAME-h`, or `NAME-h1`, `NAME-h2`, …";
    prefix: Option<String>, Text, Unset("none"), "Prefix of the names of all nodes and links.";
    link: Fields, Table(&PROPERTIES), Default("{}"),
        "Properties of all links (`rate`, `delay`, `queue`, … as in `[[link]]`), unless the model \
         or file sets them.";
    access: Fields, Table(&PROPERTIES), Default("{}"),
        "Properties of hosts' links; they override those of the model or file.";
    aggregation: Fields, Table(&PROPERTIES), Default("{}"),
        "The same for links below the core: of stub domains, of the lower layers of a fat tree.";
    core: Fields, Table(&PROPERTIES), Default("{}"),
        "The same for all other links between routers or switches.";
}
