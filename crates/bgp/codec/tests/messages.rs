//! Captured messages, intact and damaged: parsing never panics and returns the sent routes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use bgp::negotiated::Families;
use bgp::nlri::{Nlri, Route};
use bgp::open::Open;
use bgp::update::{Update, Visitor, walk};
use bgp::verdict::{Action, judge};
use bgp::{Family, MARKER, Message, MessageType, Negotiated};
use proptest::prelude::*;

fn data(folder: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(folder)
}

/// All contiguous messages in a file, whatever surrounds them.
fn messages(file: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(file).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = bytes[at..].windows(16).position(|window| window == MARKER) {
        at += next;
        match Message::split(&bytes[at..]) {
            Some(message) => {
                found.push(message.bytes().to_vec());
                at += message.bytes().len();
            }
            None => at += 1,
        }
    }
    found
}

static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(samples);

fn samples() -> Vec<Vec<u8>> {
    let mut files: Vec<_> =
        fs::read_dir(data("tcpdump")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let found: Vec<_> = files.iter().flat_map(|file| messages(file)).collect();
    assert!(found.len() > 100, "{}", found.len());
    found
}

/// Parameters for decoding a message.
fn parameters() -> [Negotiated; 3] {
    let four = Negotiated { four_octet_as: true, ..Negotiated::default() };
    [Negotiated::default(), four, Negotiated { add_path: Families::ALL, ..four }]
}

#[derive(Default)]
struct Count {
    announced: usize,
    withdrawn: usize,
    routes: usize,
    paths: usize,
}

impl Visitor for Count {
    fn announced(&mut self, _: Family, nlri: Nlri) {
        self.announced += 1;
        self.paths += usize::from(nlri.path_id.is_some());
    }

    fn withdrawn(&mut self, _: Family, _: Nlri) {
        self.withdrawn += 1;
    }

    fn announced_route(&mut self, _: Family, _: Route<'_>) {
        self.routes += 1;
    }
}

/// Walks, judges and parses a message; checks that both decoders of prefixes agree.
fn exercise(message: &[u8]) {
    let Some(message) = Message::split(message) else { return };
    for negotiated in parameters() {
        if message.kind() == MessageType::OPEN
            && let Ok(open) = Open::parse(message.body())
        {
            let _ = Negotiated::between(&open, &open);
        }
        if message.kind() != MessageType::UPDATE {
            continue;
        }
        let mut count = Count::default();
        let action = walk(message.body(), &negotiated, &mut count);
        let verdict = judge(message.body(), &negotiated);
        assert_eq!(action, verdict.action);
        assert_eq!(action == Action::Accept, verdict.problems.is_empty());
        if let Ok(update) = Update::parse(message.body()) {
            let plain = update.announced(&negotiated).flatten().count();
            assert!(plain <= count.announced);
        }
    }
}

#[test]
fn decodes_captured_messages() {
    SAMPLES.iter().for_each(|message| exercise(message));
    let opens: Vec<_> = SAMPLES
        .iter()
        .filter_map(|message| Message::split(message))
        .filter(|message| message.kind() == MessageType::OPEN)
        .collect();
    let good = opens.iter().filter(|message| Open::parse(message.body()).is_ok()).count();
    assert!(good > 10, "{good} of {}", opens.len());
}

/// All routes of five speakers in a dump that BIRD wrote are valid.
#[test]
fn accepts_updates_of_add_path_sessions() {
    let all = messages(&data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt"));
    let (mut count, mut updates) = (Count::default(), 0);
    let [_, four, paths] = parameters();
    for message in all.iter().filter_map(|message| Message::split(message)) {
        if message.kind() != MessageType::UPDATE {
            continue;
        }
        updates += 1;
        let negotiated = [four, paths]
            .into_iter()
            .find(|negotiated| judge(message.body(), negotiated).action == Action::Accept)
            .unwrap_or_else(|| panic!("{:?}", judge(message.body(), &four)));
        walk(message.body(), &negotiated, &mut count);
    }
    assert_eq!((updates, count.announced, count.withdrawn, count.paths), EXPECTED);
}

/// UPDATEs, announced prefixes, withdrawn prefixes, announced prefixes with path identifiers.
const EXPECTED: (usize, usize, usize, usize) = (108, 21_000, 3000, 9000);

proptest! {
    #[test]
    fn decodes_damaged_messages_without_panic(
        which: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut: prop::sample::Index,
    ) {
        let mut message = SAMPLES[which.index(SAMPLES.len())].clone();
        for (at, value) in &damage {
            let at = 19 + at.index(message.len().max(20) - 19);
            if let Some(octet) = message.get_mut(at) {
                *octet = *value;
            }
        }
        exercise(&message);
        let length = 19 + cut.index(message.len().max(20) - 19);
        message.truncate(length);
        message[16..18].copy_from_slice(&(length as u16).to_be_bytes());
        exercise(&message);
    }

    #[test]
    fn decodes_arbitrary_bodies_without_panic(
        kind in 0..8_u8,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        exercise(&bgp::message::encode(MessageType(kind), &body, 65535).unwrap());
    }

    /// A body with valid length fields and mostly valid attributes.
    #[test]
    fn decodes_arbitrary_attributes_without_panic(
        attributes in prop::collection::vec(
            (any::<u8>(), 0..42_u8, prop::collection::vec(any::<u8>(), 0..60)), 0..12),
        announced in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut field = Vec::new();
        for (flags, code, value) in &attributes {
            bgp::attribute::encode(*flags, *code, value, &mut field).unwrap();
        }
        let mut body = vec![0, 0];
        body.extend_from_slice(&(field.len() as u16).to_be_bytes());
        body.extend_from_slice(&field);
        body.extend_from_slice(&announced);
        exercise(&bgp::message::encode(MessageType::UPDATE, &body, 65535).unwrap());
    }
}
