use std::path::Path;

use base::Span;
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
        flow: (seed * 0x9e37_79b9) as u32,
        segment: 1500,
        last: (seed % 1500) as u32,
        ttl: seed as u8,
        dscp: (seed % 64) as u8,
        ecn: [Ecn::NotCapable, Ecn::Capable, Ecn::Marked][(seed % 3) as usize],
        corrupt: None,
        mirrors: if seed.is_multiple_of(5) { u64::MAX } else { 0 },
        part: Part::ALL[(seed % 6) as usize],
        tag: 0,
        entered,
    }
}

/// Calls of all kinds, enough for several frames.
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

fn read(bytes: &[u8]) -> Result<Vec<Call>, Flaw> {
    let flaw = |error| match error {
        Error::Recording { flaw, .. } => flaw,
        other => panic!("{other}"),
    };
    let mut reader = CallReader::new(bytes, Path::new("test")).map_err(flaw)?;
    assert_eq!(reader.lab(), LAB);
    let mut calls = Vec::new();
    while let Some(call) = reader.next_call().map_err(flaw)? {
        calls.push(call);
    }
    Ok(calls)
}

#[test]
fn calls_come_back_as_they_were() {
    let calls = calls();
    let bytes = record(&calls);
    assert_eq!(read(&bytes).unwrap(), calls);
    assert!(bytes.len() < calls.len() * 25, "{} bytes", bytes.len());
}

#[test]
fn broken_files_are_told_apart() {
    let calls = calls();
    let whole = record(&calls);
    assert_eq!(read(b"PAR1"), Err(Flaw::Foreign));
    assert_eq!(read(&whole[..30]), Err(Flaw::Truncated));
    assert_eq!(read(&whole[..whole.len() - 1]), Err(Flaw::Truncated));
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        read(&bytes)
    };
    assert_eq!(changed(3), Err(Flaw::Foreign));
    assert_eq!(changed(MAGIC.len()), Err(Flaw::Version(VERSION ^ 1)));
    assert_eq!(changed(whole.len() - 5), Err(Flaw::Damaged));
    let mut longer = whole.clone();
    longer.push(0);
    assert_eq!(read(&longer), Err(Flaw::Trailing));
    // Whole frames may be cut off, as when the run was killed.
    let first = 65_536 + 12 + MAGIC.len() + 8 + LAB.len() + 8;
    assert_eq!(read(&whole[..first.min(whole.len())]), Err(Flaw::Truncated));
}

#[test]
fn a_run_without_a_recording_says_so() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "none").unwrap();
    assert!(matches!(CallReader::open(&folder), Err(Error::NotRecorded { .. })));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
        // Frames with a right checksum, so that calls are looked at.
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((LAB.len() as u32).to_le_bytes());
        bytes.extend(LAB.as_bytes());
        bytes.extend(checksum(LAB.as_bytes()).to_le_bytes());
        bytes.extend((tail.len() as u32).to_le_bytes());
        bytes.extend(checksum(&tail).to_le_bytes());
        bytes.extend(&tail);
        prop_assert!(read(&bytes).is_err() || tail.len() > 9);
    }
}
