//! The collector as in `netarium collect --read`, and its complete output.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use base::Time;
use bgp::Negotiated;
use collector::archive::Recorder;
use collector::decapsulate::{Counters, Tag};
use collector::reassembly::Statistics;
use collector::{Event, Gap, GapCause, MirrorId, Peering, Sender, Sink, State};
use collector_live::Pipeline;
use collector_live::input::{Captures, Item};
use collector_live::live::{self, Clock, Handler, Source};
use collector_live::pipeline::Settings;

use crate::damage::Damaged;
use crate::encapsulate::{Carrier, Format};
use crate::mrt::{Ends, Timed};
use crate::oracle::Way;

#[derive(Clone, Debug)]
pub(crate) enum Output {
    Message(Negotiated, Vec<u8>),
    Gap(Gap),
}

#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) by: BTreeMap<(u32, IpAddr, IpAddr), Vec<Output>>,
    pub(crate) states: BTreeMap<Ends, Vec<(Time, State, State)>>,
    pub(crate) from_peers: BTreeMap<Ends, Vec<Timed>>,
    pub(crate) undecodable: u64,
}

impl Sink for Collected {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let (peer, local) = (peering.peer, peering.local);
        let way = |from| match from {
            Sender::Peer => (peering.mirror.0, peer, local),
            Sender::Local => (peering.mirror.0, local, peer),
        };
        match *event {
            Event::Message { time, from, message } => {
                let bytes = message.bytes().to_vec();
                if from == Sender::Peer {
                    let micros = time.as_nanos() / 1000;
                    let list = self.from_peers.entry((peer, local)).or_default();
                    list.push((micros, bytes.clone()));
                }
                let reading = match from {
                    Sender::Peer => peering.from_peer,
                    Sender::Local => peering.from_local,
                };
                self.by.entry(way(from)).or_default().push(Output::Message(reading, bytes));
            }
            Event::Gap(gap) if gap.cause == GapCause::Undecodable => self.undecodable += 1,
            Event::Gap(gap) if gap.cause.is_archived() => {}
            Event::Gap(gap) => self.by.entry(way(gap.from)).or_default().push(Output::Gap(gap)),
            Event::State { time, old, new, .. } => {
                self.states.entry((peer, local)).or_default().push((time, old, new));
            }
            Event::Reading(_) => {}
        }
    }
}

pub(crate) struct Outcome {
    pub(crate) collected: Collected,
    /// The archive: MRT records.
    pub(crate) archive: Vec<u8>,
    pub(crate) statistics: Statistics,
    pub(crate) counters: Counters,
    /// The VLAN of each mirror, or 0.
    pub(crate) vlans: Vec<u16>,
    pub(crate) troubles: Vec<String>,
    pub(crate) peak_memory: usize,
    pub(crate) lost_in_tunnels: u64,
}

pub(crate) struct Run<S> {
    pipeline: Pipeline<S>,
    troubles: Vec<String>,
    peak: usize,
}

impl<S: Sink> Handler for Run<S> {
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Frame(frame) => {
                self.pipeline.frame(&frame);
                self.peak = self.peak.max(self.pipeline.reassembler().memory());
            }
            Item::Dropped { .. } => {}
            Item::Trouble(error) => self.troubles.push(error.to_string()),
        }
    }

    fn pause(&mut self, clock: Clock) {
        assert_eq!(clock, Clock::Unknown, "files have their own time");
    }
}

pub(crate) fn settings() -> Settings {
    Settings { learn: 256, ..Settings::default() }
}

impl<S: Sink> Run<S> {
    pub(crate) fn counters(&self) -> Counters {
        self.pipeline.decapsulator().counters()
    }

    pub(crate) fn into_sink(self) -> S {
        self.pipeline.into_sink()
    }
}

/// Reads captures to their end; events go to `sink`.
pub(crate) fn run<S: Sink>(files: &[PathBuf], settings: Settings, sink: S) -> Run<S> {
    let mut run = Run { pipeline: Pipeline::new(settings, sink), troubles: Vec::new(), peak: 0 };
    let captures = Captures::open(files, false, false).unwrap();
    let stop = AtomicBool::new(false);
    live::run(&mut [Source::Captures(captures)], &mut run, &stop).unwrap();
    run.pipeline.finish();
    run
}

pub(crate) fn collect(files: &[PathBuf], settings: Settings) -> Outcome {
    collect_with(files, settings, None::<Collected>).0
}

/// Events also go to `other`.
pub(crate) fn collect_with<S: Sink>(
    files: &[PathBuf],
    settings: Settings,
    other: S,
) -> (Outcome, S) {
    let own = (Recorder::new(collector::archive::Settings::default()), Collected::default());
    let mut run = run(files, settings, (own, other));
    let mut lost = 0;
    run.pipeline.decapsulator_mut().losses(&mut |loss| lost += loss.packets);
    let pipeline = &run.pipeline;
    let vlan = |tags: &Vec<Tag>| {
        let vlan = |tag: &Tag| if let Tag::Vlan(vlan) = tag { Some(*vlan) } else { None };
        tags.iter().rev().find_map(vlan).filter(|vlan| *vlan >= 10).unwrap_or(0)
    };
    let mirrors = pipeline.decapsulator().mirrors().iter();
    let vlans = mirrors.map(|mirror| vlan(&mirror.tags)).collect();
    let (statistics, counters) =
        (*pipeline.reassembler().statistics(), pipeline.decapsulator().counters());
    assert_eq!(pipeline.reassembler().memory(), 0, "nothing waits at the end");
    let ((mut recorder, collected), other) = run.pipeline.into_sink();
    let outcome = Outcome {
        collected,
        archive: std::mem::take(recorder.buffer()),
        statistics,
        counters,
        vlans,
        troubles: run.troubles,
        peak_memory: run.peak,
        lost_in_tunnels: lost,
    };
    (outcome, other)
}

/// Each packet with a multiple of this number is missing in a tunnel's sequence.
pub(crate) const GAP: u32 = 40;

/// Writes captured packets to `parts` files, consecutive in time.
pub(crate) fn write(
    folder: &Path,
    damaged: &Damaged,
    carrier: Carrier,
    format: Format,
    parts: usize,
) -> Vec<PathBuf> {
    let size = damaged.packets.len().div_ceil(parts).max(1);
    let mut files = Vec::new();
    let mut number = 0;
    for (part, packets) in damaged.packets.chunks(size).enumerate() {
        let mut out = format.begin(carrier.link());
        for packet in packets {
            let wire = packet.wire(damaged.initial(packet));
            number += 1 + u32::from(number > 0 && number % GAP == 0);
            for frame in carrier.frames(&wire, number, packet.mirror) {
                format.frame(&mut out, packet.time, &frame, packet.cut());
            }
        }
        let path = folder.join(format!("part{part}.cap"));
        fs::write(&path, &out).unwrap();
        files.push(path);
    }
    files
}

pub(crate) fn collect_damaged(
    damaged: &Damaged,
    carrier: Carrier,
    format: Format,
    parts: usize,
) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), damaged, carrier, format, parts);
    let outcome = collect(&files, settings());
    assert_eq!(outcome.troubles, Vec::<String>::new());
    outcome
}

impl Outcome {
    pub(crate) fn output(&self) -> BTreeMap<Way, Vec<Output>> {
        let by = self.collected.by.iter();
        by.map(|((mirror, from, to), output)| {
            let index = MirrorId(*mirror).index().expect("a session of packets has a mirror");
            ((self.vlans[index], *from, *to), output.clone())
        })
        .collect()
    }
}
