use base::{IfaceId, NodeId, RandomStream, Span};
use fabric::{Ecn, Output, Part};
use run::calls::{CallWriter, RecordingError};
use run::record::RunRecord;

use super::*;

/// A ring, so that routes change, with links that use every element.
const LAB: &str = r#"
[lab]
duration = "10 s"
[node.a]
[node.b]
[node.r1]
kind = "router"
[node.r2]
kind = "router"
[node.r3]
kind = "router"
[[link]]
ends = ["a", "r1"]
[[link]]
ends = ["r1", "r2"]
name = "short"
rate = "5 Mbit/s"
delay = "3 ms"
loss = "2 %"
queue = { kind = "fq-codel", limit = "50 packets" }
[[link]]
ends = ["r1", "r3"]
rate = "8 Mbit/s"
delay = "5 ms"
jitter = "1 ms"
duplicate = "1 %"
[[link]]
ends = ["r3", "r2"]
delay = "5 ms"
reorder = { probability = "5 %", by = "2 ms" }
corrupt = "1 %"
[[link]]
ends = ["r2", "b"]
rate = "20 Mbit/s"
queue = { kind = "red", ecn = true }
[[mirror]]
name = "tap"
link = "short"
direction = "up"
[[at]]
time = "2 s"
link = "short"
down = true
[[at]]
time = "4 s"
link = "short"
up = true
[[at]]
time = "5 s"
link = "r2-b"
set = { delay = "30 ms" }
"#;

fn packet(plan: &Plan, random: &mut RandomStream) -> Packet<()> {
    let hosts = ["a", "b"].map(|name| plan.nodes[plan.node(name).unwrap().index()].ifaces[0]);
    let count = (random.unit() * 20.0) as u16 + 1;
    Packet {
        body: (),
        first: 0,
        count,
        to: (random.unit() > 0.02).then_some(hosts[usize::from(random.unit() > 0.3)]),
        link_scope: false,
        flow: (random.unit() * 8.0) as u32,
        segment: 1500,
        last: (random.unit() * 1400.0) as u32 + 40,
        ttl: if random.unit() > 0.02 { 64 } else { 1 },
        dscp: 0,
        ecn: if random.unit() > 0.5 { Ecn::Capable } else { Ecn::NotCapable },
        corrupt: None,
        mirrors: u64::from(random.unit() > 0.9),
        part: Part::Data,
        tag: 0,
        entered: Time::ZERO,
    }
}

/// Drives a fabric with seed 1 like the data path does, with random packets, and records the calls.
/// The recorded lab has `seed`.
fn recorded(folder: &RunFolder, seed: u64) -> RunRecord {
    let mut plan = plan(LAB, folder.path()).unwrap();
    let lab = lab::resolved(&Plan { seed, ..plan.clone() });
    plan.seed = 1;
    let plan = Arc::new(plan);
    let up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    let mut fabric: Fabric<()> = run::fabric(&plan, Box::new(Routes::compute(&plan, &up))).unwrap();
    let mut calls = CallWriter::start(folder, &lab).unwrap();
    let mut schedule = Schedule::new(Arc::clone(&plan));
    let mut random = RandomStream::new(3, "calls");
    let from: Vec<IfaceId> =
        ["a", "b"].map(|name| plan.nodes[plan.node(name).unwrap().index()].ifaces[0]).to_vec();
    let (mut now, mut delivered, mut refused) = (Time::ZERO, 0, 0);
    for round in 0..4_000u64 {
        now += Span::from_nanos((random.unit() * 3_000_000.0) as u64);
        // Events come late at times, and the fabric is ahead of the recording at times.
        if round % 7 == 0 {
            for change in schedule.changes(now) {
                let event = change.event;
                calls.change(change.apply(&mut fabric), event);
            }
        }
        if round % 3 == 0 {
            fabric.advance(now);
        }
        while let Some(output) = fabric.poll() {
            match output {
                Output::Deliver { .. } => delivered += 1,
                Output::Refused { node, packet, at, .. } if packet.to.is_some() => {
                    refused += 1;
                    let answer = Packet { to: Some(from[0]), entered: at, ttl: 64, ..packet };
                    calls.originate(fabric.now(), node, &answer);
                    fabric.originate(fabric.now(), node, answer);
                }
                _ => {}
            }
        }
        let (at, iface) = (fabric.now().max(now), from[round as usize % 2]);
        let packet = packet(&plan, &mut random);
        calls.inject(at, iface, &packet);
        fabric.inject(at, iface, packet);
    }
    assert!(delivered > 4_000 && refused > 50, "{delivered} delivered, {refused} refused");
    let report = calls.finish(fabric.now(), fabric.events(), fabric.trace_hash());
    assert!(report.error.is_none() && report.lost == 0);
    let record = RunRecord {
        schema: run::record::SCHEMA.to_owned(),
        plan_hash: run::lab_hash(&lab),
        trace_hash: Some(run::hash_text(fabric.trace_hash())),
        ..RunRecord::default()
    };
    folder.write_record(&record).unwrap();
    record
}

#[test]
fn a_recorded_fabric_is_repeated_exactly() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "ring").unwrap();
    let record = recorded(&folder, 1);
    let replay = super::replay(&folder).unwrap();
    assert!(replay.identical, "{replay:?}");
    assert_eq!(Some(&replay.replayed_trace_hash), record.trace_hash.as_ref());
    assert!(replay.packets > replay.calls && replay.calls > 4_000, "{replay:?}");
}

#[test]
fn another_seed_is_no_repetition() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "ring").unwrap();
    recorded(&folder, 2);
    let replay = super::replay(&folder).unwrap();
    assert!(!replay.identical && replay.wall_trace_hash != replay.replayed_trace_hash);
}

#[test]
fn refuses_the_recording_of_another_run() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "ring").unwrap();
    let record = recorded(&folder, 1);
    let with = |change: fn(&mut RunRecord)| {
        let mut record = record.clone();
        change(&mut record);
        folder.write_record(&record).unwrap();
        super::replay(&folder).unwrap_err()
    };
    let error = with(|record| record.plan_hash.push('0'));
    assert!(matches!(error, Error::ForeignRecording { .. }), "{error}");
    let error = with(|record| record.trace_hash = Some("0".to_owned()));
    assert!(matches!(error, Error::ForeignRecording { .. }), "{error}");
    folder.write_record(&record).unwrap();
    let path = folder.file(run::calls::FILE);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = super::replay(&folder).unwrap_err();
    let truncated = matches!(
        error,
        Error::Record(run::Error::Recording { error: RecordingError::Truncated, .. })
    );
    assert!(truncated, "{error}");
}

#[test]
fn refuses_packets_without_interface() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "ring").unwrap();
    let lab = lab::resolved(&plan(LAB, folder.path()).unwrap());
    let mut random = RandomStream::new(3, "calls");
    let sound = packet(&plan(&lab, folder.path()).unwrap(), &mut random);
    let cases: [fn(&mut CallWriter, Packet<()>); 4] = [
        |calls, packet| calls.inject(Time::ZERO, IfaceId(10_000), &packet),
        |calls, packet| {
            let packet = Packet { to: Some(IfaceId(10_000)), ..packet };
            calls.inject(Time::ZERO, IfaceId(0), &packet);
        },
        |calls, packet| calls.originate(Time::ZERO, NodeId(10_000), &packet),
        |calls, _| calls.change(Time::ZERO, 2),
    ];
    for case in cases {
        let folder = RunFolder::create(parent.path(), "ring").unwrap();
        let mut calls = CallWriter::start(&folder, &lab).unwrap();
        case(&mut calls, sound.clone());
        calls.finish(Time::ZERO, 0, 0);
        let mut reader = CallReader::open(&folder).unwrap();
        let error = feed(&mut reader, folder.path(), Vec::new()).unwrap_err();
        assert!(matches!(error, Error::ForeignRecording { .. }), "{error}");
    }
}
