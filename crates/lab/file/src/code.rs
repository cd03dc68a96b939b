//! Error codes of lab files, each with an explanation for the book.

macro_rules! codes {
    ($($code:ident $name:literal $title:literal: $text:literal,)+) => {
        /// A kind of error. Its name is stable; the book has a paragraph on each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $code,)+
        }

        impl Code {
            /// All codes, in order.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// The text of the code, such as `lab::E0005`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $name,)+ }
            }

            /// A short title.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$code => $title,)+ }
            }

            /// The meaning of the error, and its remedy.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$code => $text,)+ }
            }
        }
    };
}

codes! {
    Syntax "lab::E0001" "the file is not TOML":
        "The text breaks the rules of TOML. Texts need quotes (`rate = \"10 Mbit/s\"`), and a key may be set once only.",
    UnknownKey "lab::E0002" "unknown key":
        "The section has no key of this name, or this kind of the section does not have it. Unknown keys are errors, so that a misspelt key is found.",
    MissingKey "lab::E0003" "missing key":
        "The section requires this key.",
    WrongType "lab::E0004" "wrong type":
        "The key takes another type of value: for example a text, a list or a table.",
    Quantity "lab::E0005" "not a quantity":
        "Quantities are texts with a number and a unit: `\"10 ms\"`, `\"100 Mbit/s\"`, `\"64 KiB\"`, `\"0.1 %\"`. A bare number could mean several things.",
    OutOfRange "lab::E0006" "value out of range":
        "The value is below the minimum or above the maximum of the key.",
    UnknownWord "lab::E0007" "unknown word":
        "The key takes one of a fixed set of words; the message lists them.",
    Duplicate "lab::E0008" "name used twice":
        "Names of nodes, links, programs, flows, bundles and mirrors are unique, each among its \
         own kind. Two gateways have at most one bundle.",
    BadName "lab::E0009" "unfit name":
        "Node names are host names: letters, digits and hyphens, at most 63 of them, not digits only. Other names may have dots and underscores as well.",
    UnknownName "lab::E0010" "no such thing":
        "The lab has no node, link, program or flow of this name.",
    BadEnds "lab::E0011" "a link has two ends":
        "`ends` names two different nodes.",
    AmbiguousLink "lab::E0012" "more than one link matches":
        "Several links have these ends. Give the links names and use those.",
    BadAddress "lab::E0013" "not an address":
        "An interface address is written with its prefix length, `\"10.1.2.3/24\"` or \
         `\"fd00::1/64\"`, and belongs to one interface of a host or router. No bits are set after \
         the length of a prefix; the peer of a Bundler gateway is an address, with or without a \
         port.",
    AddressClash "lab::E0014" "addresses clash":
        "Two interfaces have the same address, two segments overlap, or a segment has two prefixes.",
    Unreachable "lab::E0015" "no route between two nodes":
        "No path of links connects the two nodes. Hosts do not forward: a path goes through routers and switches only.",
    Schedule "lab::E0016" "impossible schedule":
        "An event is after the end of the run, or the events are in an impossible order.",
    BadExpectation "lab::E0017" "not an expectation":
        "An expectation is a metric, a comparison and a value: `flow.NAME.goodput.mean >= 9 Mbit/s`, optionally with `between 5 s and 10 s`.",
    UnknownMetric "lab::E0018" "unknown metric":
        "The subject has no such number, or the number has no such statistic. The page on the lab file lists all.",
    ProgramNotFound "lab::E0019" "program not found":
        "The first word of the command is neither on `PATH` nor a file that may be executed.",
    BadTrace "lab::E0020" "bad trace or table file":
        "A trace of a link has one whole number of milliseconds a line, not decreasing, the last \
         above 0; a table of delays one time a line; a distribution of sizes (`cdf`) a size in \
         bytes and a share from 0 to 1 (or from 0 to 100) a line, rising, the last share 1 (or \
         100); a trace of datagrams a moment in seconds and a number of bytes a line, not \
         decreasing.",
    Unreadable "lab::E0021" "file cannot be read":
        "The file is missing, too large, not a regular file, or not readable. Paths are relative to the lab file's folder.",
    BadImport "lab::E0022" "topology file cannot be understood":
        "The imported file breaks the rules of its format.",
    BadGenerator "lab::E0023" "invalid generator parameters":
        "The generator's parameters are out of bounds or contradict each other.",
    BadSweep "lab::E0024" "bad sweep":
        "A sweep is `{ sweep = [values] }` or `{ range = \"FROM..TO\", steps = N }` (or `log = N`) in place of a value.",
    Restricted "lab::E0025" "not for this kind of node":
        "Switches have no addresses and run no programs; without routing there are no switches to \
         forward. A bundle goes from a sendbox to a receivebox; no other traffic begins or ends \
         there.",
    Conflict "lab::E0026" "keys contradict each other":
        "Two keys exclude each other, or one has no effect beside the other.",
    Limit "lab::E0027" "too many":
        "The lab exceeds a limit that keeps memory and time bounded.",
    Cycle "lab::E0028" "programs wait for each other":
        "Each of these programs starts after another of them, so none starts.",
    BadFilter "lab::E0029" "not a packet filter":
        "A filter joins `ip`, `ip6`, `tcp`, `udp`, `icmp`, `icmp6`, `proto N`, `port N`, `host NAME` (with `src` or `dst` in front of the last two) by `and`.",
    BadReady "lab::E0030" "not a ready condition":
        "One of `port 80`, `udp port 53`, `output \"text\"`, `file \"path\"`, `command \"line\"`, or a time such as `2 s`.",
    BadOverride "lab::E0031" "cannot be set":
        "`--set` takes the path of a key: `lab.routing`, `node.NAME.kind`, `link.NAME.delay`, `flow.NAME.size`.",
    BadWorkload "lab::E0032" "not a workload":
        "In a distribution of sizes that is written out, sizes rise and shares do not fall, and \
         the last share is 100 %. In a trace of datagrams, moments do not decrease.",
    TooFewPlaces "lab::E0033" "too few host addresses for sessions":
        "Every source of a session has a separate address at a router, over all generators, and no \
         session goes to itself. Use more `hosts`, more `routers`, or fewer sessions.",
    Empty "lab::E0034" "the file is empty":
        "The file has no sections, only white space and comments. `netarium new` writes a lab.",
    BadFolder "lab::E0035" "not a private or writable folder":
        "`private` and `writable` list absolute paths of folders other than `/`, `/dev`, `/proc` \
         and `/sys`. No private folder is inside another.",
    Unchecked "lab::W0001" "not checked":
        "The program of this shell line cannot be determined before it starts, or the user is not \
         in `/etc/passwd`, so it is not checked.",
    Isolated "lab::W0002" "a node without links":
        "The node has no link, so it can only send to itself.",
    NoEffect "lab::W0003" "without effect":
        "The value is valid but has no effect in this lab.",
    Approximated "lab::W0004" "taken more simply":
        "The lab's model does not support the value and uses the nearest one that it supports.",
    PartlyRead "lab::W0005" "not all of a topology file is used":
        "The file has parts that mean nothing here, such as an edge from a node to itself or an \
         unknown attribute, or it is not UTF-8, or links without a delay attract all routes.",
}

impl Code {
    /// Whether the lab can run nevertheless.
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::Unchecked
                | Self::Isolated
                | Self::NoEffect
                | Self::Approximated
                | Self::PartlyRead
        )
    }
}
