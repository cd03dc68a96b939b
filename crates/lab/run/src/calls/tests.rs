use std::path::Path;

use base::{Span, fnv};
use fabric::{Ecn, Part};
use proptest::prelude::*;

use super::*;
use crate::{Error, RunFolder};

const LAB: &str = "[node.a]\n";

fn at(nanos: u64) -> Time {
    Time::ZERO + Span::from_nanos(nanos)
}

fn packet(seed: u64, entered: Time) -> Packet<()> {
    Packet {
        body: (),
        first: (seed % 7) as u16,
        count: (seed % 45) as u16 + 1,
        to: (!seed.is_multiple_of(3)).then_some(IfaceId(seed as u32 % 1000)),
        link_scope: seed.is_multiple_of(5),
        flow: (seed * 0x9e37_79b9) as u32,
        segment: 1500,
        last: (seed % 1500) as u32,
        ttl: seed as u8,
        dscp: (seed % 64) as u8,
        ecn: [Ecn::NotCapable, Ecn::Capable, Ecn::Marked, Ecn::L4s][(seed % 4) as usize],
        corrupt: None,
        mirrors: if seed.is_multiple_of(5) { u64::MAX } else { 0 },
        part: Part::ALL[(seed % 6) as usize],
        tag: 0,
        entered,
    }
}

/// Calls of all kinds for several frames.
fn calls() -> Vec<Call> {
    let mut calls: Vec<Call> = (0..20_000u64)
        .map(|n| match n % 50 {
            47 => {
                let (at, iface) = (at(n * 1000), IfaceId(n as u32));
                Call::Forward { at, iface, packet: packet(n, Time::from_nanos(n * 980)) }
            }
            48 => Call::Change { at: at(n * 1000), event: (n / 50) as usize },
            49 => {
                let (at, node) = (at(n * 1000), NodeId(n as u32));
                Call::Originate { at, node, packet: packet(n, Time::from_nanos(n * 990)) }
            }
            _ => {
                let (at, iface) = (at(n * 1000), IfaceId(n as u32));
                Call::Inject { at, iface, packet: packet(n, at) }
            }
        })
        .collect();
    calls.push(Call::End { at: at(30_000_000), events: 12, trace_hash: u64::MAX });
    calls
}

/// The bytes of a recording of these calls.
fn record(calls: &[Call]) -> Vec<u8> {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "calls").unwrap();
    let mut writer = CallWriter::start(&folder, LAB).unwrap();
    for call in calls {
        match call {
            Call::Inject { at, iface, packet } => writer.inject(*at, *iface, packet),
            Call::Originate { at, node, packet } => writer.originate(*at, *node, packet),
            Call::Forward { at, iface, packet } => writer.forward(*at, *iface, packet),
            Call::Change { at, event } => writer.change(*at, *event),
            Call::End { at, events, trace_hash } => {
                let report = writer.finish(*at, *events, *trace_hash);
                assert!(report.error.is_none() && report.lost == 0, "{report:?}");
                return std::fs::read(folder.file(FILE)).unwrap();
            }
        }
    }
    panic!("the last call must be the end");
}

fn read(bytes: &[u8]) -> Result<Vec<Call>, RecordingError> {
    let error = |error| match error {
        Error::Recording { error, .. } => error,
        other => panic!("{other}"),
    };
    let mut reader = CallReader::new(bytes, Path::new("test")).map_err(error)?;
    assert_eq!(reader.lab(), LAB);
    let mut calls = Vec::new();
    while let Some(call) = reader.next_call().map_err(error)? {
        calls.push(call);
    }
    Ok(calls)
}

#[test]
fn reader_returns_recorded_calls() {
    let calls = calls();
    let bytes = record(&calls);
    assert_eq!(read(&bytes).unwrap(), calls);
    assert!(bytes.len() < calls.len() * 25, "{} bytes", bytes.len());
}

#[test]
fn distinguishes_kinds_of_invalid_files() {
    let calls = calls();
    let recording = record(&calls);
    assert_eq!(read(b"PAR1"), Err(RecordingError::NotARecording));
    assert_eq!(read(&recording[..30]), Err(RecordingError::Truncated));
    assert_eq!(read(&recording[..recording.len() - 1]), Err(RecordingError::Truncated));
    let changed = |at: usize| {
        let mut bytes = recording.clone();
        bytes[at] ^= 1;
        read(&bytes)
    };
    assert_eq!(changed(3), Err(RecordingError::NotARecording));
    assert_eq!(changed(MAGIC.len()), Err(RecordingError::UnsupportedVersion(VERSION ^ 1)));
    assert_eq!(changed(recording.len() - 5), Err(RecordingError::Damaged));
    let mut longer = recording.clone();
    longer.push(0);
    assert_eq!(read(&longer), Err(RecordingError::TrailingData));
    // A killed run leaves complete frames only.
    let first = 65_536 + 12 + MAGIC.len() + 8 + LAB.len() + 8;
    assert_eq!(read(&recording[..first.min(recording.len())]), Err(RecordingError::Truncated));
}

#[test]
fn run_without_recording_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "none").unwrap();
    assert!(matches!(CallReader::open(&folder), Err(Error::NotRecorded { .. })));
}

proptest! {
    #[test]
    fn reader_does_not_panic_on_any_input(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
        // The frames have a correct checksum, so that their calls are decoded.
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((LAB.len() as u32).to_le_bytes());
        bytes.extend(LAB.as_bytes());
        bytes.extend(fnv::hash(LAB.as_bytes()).to_le_bytes());
        bytes.extend((tail.len() as u32).to_le_bytes());
        bytes.extend(fnv::hash(&tail).to_le_bytes());
        bytes.extend(&tail);
        prop_assert!(read(&bytes).is_err() || tail.len() > 9);
    }
}
