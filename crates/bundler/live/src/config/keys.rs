//! The keys of both configuration files.

use base::Bytes;
use bundler::settings::Marking;
use lab::config::{BUNDLE, Fields, Raw, Shape, Words};
use lab::section;

/// The number of the table is also the priority of four rules. They must precede the look-up of the
/// main table (32766), otherwise no packet would reach the gateway.
const MAX_TABLE: i64 = 32_766 - 4;

/// One text or several.
const TEXTS: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);

section! {
    /// `send.toml`
    pub(super) SEND: Send = "a sendbox",
    "The sendbox of `netarium bundle send`, and its bundles.";
    listen: Option<String>, Text, Unset("all addresses, port 28316"),
        "Address and port where messages, and encapsulated packets, arrive.";
    device: String, Text, Default("bundle0"), "Name of its TUN device.";
    status: Option<String>, Text, Unset("`/run/netarium/send.sock`, or `receive.sock`"),
        "Socket where it reports its status.";
    metrics: Option<String>, Text, Unset("none"),
        "Address and port where it serves metrics, such as `127.0.0.1:9316`.";
    table: u32, Whole(1, MAX_TABLE), Default("28316"),
        "Number of its routing table, and of the first of its four routing rules; not 253 to 255.";
    spin: bool, Flag, Default("false"),
        "Poll the clock for the last 100 us before a packet is due.";
    translation: Option<String>, Word(&["exempt"]), Unset(""),
        "Run although the machine translates source addresses; its rules must exempt the prefixes \
         of the bundles.";
    bundle: Fields, Map(&Table(OUTGOING.section)), Default("{}"), "Bundles, `[bundle.NAME]`.";
}

section! {
    /// `receive.toml`
    pub(super) RECEIVE: Receive = "a receivebox",
    "The receivebox of `netarium bundle receive`, and its bundles.";
    + SEND.listen;
    + SEND.device;
    + SEND.status;
    + SEND.metrics;
    interface: Option<Raw>, TEXTS, Unset("where packets to the peers leave"),
        "Interfaces where packets of bundles arrive.";
    bundle: Fields, Map(&Table(INCOMING.section)), Default("{}"), "Bundles, `[bundle.NAME]`.";
}

section! {
    /// `[bundle.NAME]` of a sendbox
    pub(super) OUTGOING: Outgoing = "a bundle", "A bundle at its sendbox.";
    remote: Option<Raw>, TEXTS, Required,
        "Prefixes of the other site, such as `[\"10.2.0.0/16\"]`.";
    local: Raw, TEXTS, Default("[]"),
        "Prefixes of this site whose packets the bundle takes; all if empty.";
    peer: Option<String>, Text, Required,
        "Address of the gateway at the other site; the default port is 28316.";
    key: Option<String>, Text, Unset(""),
        "The secret of both gateways, at least 16 bytes, as made by `openssl rand -hex 32`.";
    key_file: Option<String>, Text, Unset(""),
        "In place of `key`: the file that has it, relative to this file.";
    id: Option<u32>, Whole(1, u32::MAX as i64), Unset("from the key"),
        "Number of the bundle where one key serves several; the same at both gateways.";
    + BUNDLE.scheduler;
    control: Raw, BUNDLE.control.field.shape, Default("copa"),
        "The congestion controller: `copa`, `basic-delay`, `bbr`, `constant:90 Mbit/s`, or `{ kind \
         = \"constant\", rate = \"90 Mbit/s\" }`.";
    marking: Marking, Word(Marking::WORDS), Default("header"),
        "`header`: packets are recognised by a keyed hash of their headers; `encapsulation`: each \
         travels encrypted and authenticated in a UDP datagram. The same at both gateways.";
    + BUNDLE.mode;
    + BUNDLE.floor;
    + BUNDLE.ceiling;
    + BUNDLE.weight;
    overhead: Bytes, Data(Bytes::ZERO, Bytes::new(1000)), Default("38 B"),
        "Wire bytes of a packet beyond layer 3; the same at both gateways.";
    + BUNDLE.elasticity;
    + BUNDLE.multipath;
    on_failure: String, Word(&["open"]), Default("open"),
        "Action without feedback from the receivebox: all packets pass.";
    seed: u64, Whole(0, u32::MAX as i64), Default("0"),
        "Seed of random choices, such as the queues of `sfq`.";
}

section! {
    /// `[bundle.NAME]` of a receivebox
    pub(super) INCOMING: Incoming = "an incoming bundle", "A bundle at its receivebox.";
    local: Option<Raw>, TEXTS, Required,
        "Prefixes of this site: the `remote` of the sendbox.";
    remote: Raw, TEXTS, Default("[]"), "Prefixes of the other site; all if empty.";
    + OUTGOING.peer;
    + OUTGOING.key;
    + OUTGOING.key_file;
    + OUTGOING.id;
    + OUTGOING.marking;
    + OUTGOING.overhead;
}
