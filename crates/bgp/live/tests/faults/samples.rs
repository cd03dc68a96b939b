//! Small captures, many of them intentionally malformed: archived unchanged, judged, without panic.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bgp::verdict::{Action, judge};
use bgp::{Message, MessageType};

use crate::collect::{Outcome, Output, collect, settings};
use crate::{data, readers};

fn samples() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(data("tcpdump")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 39);
    files
}

/// All messages, sorted, since the order of directions is lost.
fn messages(outcome: &Outcome) -> Vec<Vec<u8>> {
    let output = outcome.output().into_values().flatten();
    let mut messages: Vec<Vec<u8>> = output
        .filter_map(
            |output| if let Output::Message(_, bytes) = output { Some(bytes) } else { None },
        )
        .collect();
    messages.sort();
    messages
}

/// Payloads of segments according to tshark: sender and receiver, sequence number, bytes.
fn payloads(path: &Path) -> Option<Vec<(String, u32, Vec<u8>)>> {
    let fields = ["tcp.stream", "tcp.srcport", "tcp.seq_raw", "tcp.payload"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields", "-r"]).arg(path);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED tshark of {}: {error}", path.display());
            return None;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let parts: Vec<&str> = line.split('\t').collect();
        let hex = parts[3].as_bytes().chunks(2);
        let byte = |hex: &[u8]| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap();
        let way = format!("{} {}", parts[0], parts[1]);
        (way, parts[2].parse().unwrap_or(0), hex.map(byte).collect())
    };
    let all =
        text.lines().filter(|text| text.split('\t').nth(3).is_some_and(|hex| !hex.is_empty()));
    Some(all.map(line).collect())
}

/// Whether an UPDATE's lengths are inconsistent: in mid-stream it does not count as a message.
fn contradicts(body: &[u8]) -> bool {
    let word = |at: usize| body.get(at..at + 2).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]));
    let Some(withdrawn) = word(0) else { return true };
    word(2 + withdrawn).is_none_or(|attributes| 4 + withdrawn + attributes > body.len())
}

/// Messages that start at the start of a segment and end in the same segment.
fn in_one_segment(payload: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut found) = (0, Vec::new());
    while payload.len() >= at + 19 && payload[at..at + 16] == [0xff; 16] {
        let length = usize::from(payload[at + 16]) << 8 | usize::from(payload[at + 17]);
        if length < 19
            || at + length > payload.len()
            || at == 0 && payload[18] == 2 && contradicts(&payload[19..length])
        {
            break;
        }
        found.push(payload[at..at + length].to_vec());
        at += length;
    }
    found
}

#[test]
fn archives_bytes_of_wire() {
    let mut compared = 0;
    for path in samples() {
        let outcome = collect(std::slice::from_ref(&path), settings());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if BROKEN.iter().any(|(broken, _)| *broken == name) {
            readers::accept_or_tell(&outcome.archive, &path);
        } else {
            readers::accept(&outcome.archive);
        }
        let ours = messages(&outcome);
        let Some(payloads) = payloads(&path) else { return };
        // Retransmissions are counted once.
        let mut segments: BTreeMap<(String, u32), Vec<u8>> = BTreeMap::new();
        for (way, sequence, payload) in payloads {
            segments.entry((way, sequence)).or_insert(payload);
        }
        // If segments contradict each other, the first one counts, unlike in tshark.
        let overlaps = |(way, sequence): &(String, u32), payload: &[u8]| {
            let other = |((other, at), bytes): (&(String, u32), &Vec<u8>)| {
                let distance = sequence.wrapping_sub(*at) as usize;
                let behind = at.wrapping_sub(*sequence) as usize;
                let both = distance < bytes.len() || behind < payload.len();
                other == way && at != sequence && both
            };
            segments.iter().any(other)
        };
        // After a gap the position of the next message boundary is unknown.
        let follows = |(way, sequence): &(String, u32)| {
            let before = |((other, at), bytes): (&(String, u32), &Vec<u8>)| {
                other == way && at.wrapping_add(bytes.len() as u32) == *sequence
            };
            let first = segments.keys().find(|(other, _)| other == way);
            first.is_some_and(|(_, first)| first == sequence) || segments.iter().any(before)
        };
        let alone =
            segments.iter().filter(|(key, payload)| follows(key) && !overlaps(key, payload));
        let theirs: Vec<Vec<u8>> = alone.flat_map(|(_, payload)| in_one_segment(payload)).collect();
        // Messages without a certain boundary are reported as skipped.
        let (there, absent): (Vec<_>, Vec<_>) = theirs.iter().partition(|m| ours.contains(m));
        let bytes: usize = absent.iter().map(|message| message.len()).sum();
        let skipped = outcome.statistics.skipped_bytes as usize;
        assert!(bytes <= skipped, "{name}: {bytes} of {skipped}: {absent:02x?} are not there");
        for message in &ours {
            let whole = segments.values().any(|p| p.windows(message.len()).any(|w| w == message));
            assert!(whole || message.len() > 536, "{name}: {message:02x?} was not sent");
        }
        compared += there.len();
    }
    assert!(compared > 100, "{compared}");
}

/// Captures with malformed messages, each with the strongest required action; `None` if the
/// capture has no complete message. After an uncertain boundary messages need not be archived.
const BROKEN: [(&str, Option<Action>); 12] = [
    ("bgp-addpath.pcap", Some(Action::SessionReset)),
    ("bgp-aigp-oobr.pcap", None),
    ("bgp-as-path-oobr.pcap", None),
    ("bgp-bgp_capabilities_print-oobr-1.pcap", None),
    ("bgp-bgp_capabilities_print-oobr-2.pcap", None),
    ("bgp-infinite-loop.pcap", None),
    ("bgp-ub.pcap", None),
    ("bgp_mp_reach_nlri-oobr.pcap", None),
    ("bgp_mvpn_6_and_7_oobr.pcap", Some(Action::SessionReset)),
    ("bgp_pmsi_tunnel-oobr.pcap", Some(Action::SessionReset)),
    ("bgp_vpn_rt-oobr.pcap", Some(Action::SessionReset)),
    ("bgpsec_invalid_signature_block_length.pcap", Some(Action::TreatAsWithdraw)),
];

#[test]
fn judges_malformed_messages() {
    let mut wrong = Vec::new();
    for path in samples() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let outcome = collect(&[path], settings());
        let verdict = |output: &Output| {
            let Output::Message(negotiated, bytes) = output else { return None };
            let message = Message::split(bytes).unwrap();
            let is_update = message.kind() == MessageType::UPDATE;
            let judged = is_update.then(|| judge(message.body(), negotiated).action);
            Some(judged.unwrap_or(Action::Accept))
        };
        let worst = outcome.output().values().flatten().filter_map(verdict).max();
        let expected = BROKEN.iter().find(|(broken, _)| *broken == name);
        let expected = expected.map_or(Some(Action::Accept), |(_, action)| *action);
        let is_silent = worst.is_none() && BROKEN.iter().any(|(broken, _)| *broken == name);
        if worst != expected && !is_silent {
            wrong.push((name, worst));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
