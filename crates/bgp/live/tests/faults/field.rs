//! Inputs modelled on public bug reports of other tools (`data/bgp/field`).

use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Time;
use bgp::MessageType;
use bgp::bmp::{Body, Packet};
use collector::export::bmp::Exporter;
use collector::rib::Rib;
use collector::{Event, Peering, Sender, Sink, session};
use collector_live::input::{Format, Input};
use collector_live::pipeline::Settings;
use sha2::{Digest, Sha256};

use crate::collect::{self, run};
use crate::packet::{FIN, RST, records};
use crate::{data, mrt};

const PEER: &str = "192.0.2.2";
const START: u64 = 1_700_000_000;

/// Settings of `netarium collect --read --router 192.0.2.1`.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings { learn: 256, ..Settings::default() };
    settings.reassembly.acknowledged_timeout = settings.reassembly.gap_timeout;
    settings.sessions =
        session::Settings { routers: vec!["192.0.2.1".parse().unwrap()], ..Default::default() };
    settings
}

/// All events in their order, the routes at each time, and what a BMP station receives.
struct Everything {
    lines: Vec<(IpAddr, Time, String)>,
    updates: usize,
    rib: Rib,
    max_routes: usize,
    bmp: Exporter,
}

impl Everything {
    fn new() -> Self {
        Self {
            lines: Vec::new(),
            updates: 0,
            rib: Rib::new(),
            max_routes: 0,
            bmp: Exporter::new(collector::export::bmp::Settings::default()),
        }
    }

    /// Times in milliseconds and events of a peering.
    fn of(&self, peer: &str) -> Vec<(u64, &str)> {
        let peer: IpAddr = peer.parse().unwrap();
        let own = self.lines.iter().filter(|(of, ..)| *of == peer);
        own.map(|(_, time, line)| (millis(*time), line.as_str())).collect()
    }

    fn ups_and_downs(&self, peer: &str) -> (usize, usize) {
        let peer: IpAddr = peer.parse().unwrap();
        let mut greeting = Vec::new();
        let start = Exporter::new(collector::export::bmp::Settings::default())
            .greeting(&mut greeting)
            .unwrap();
        let mut rest = self.bmp.unread(start).unwrap();
        let (mut ups, mut downs) = (0, 0);
        while !rest.is_empty() {
            let packet = Packet::split(rest).unwrap();
            rest = &rest[packet.bytes.len()..];
            match packet.parse().unwrap() {
                Body::PeerUp(header, _) => ups += usize::from(header.address() == peer),
                Body::PeerDown(header, _) => downs += usize::from(header.address() == peer),
                _ => {}
            }
        }
        (ups, downs)
    }
}

fn millis(time: Time) -> u64 {
    // The files have times of microseconds that are not rounded.
    (time.as_nanos() / 1_000 - START * 1_000_000 + 500) / 1_000
}

impl Sink for Everything {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let mut line = String::new();
        let time = match event {
            Event::Message { time, from, message } => {
                let is_update = message.kind() == MessageType::UPDATE;
                self.updates += usize::from(is_update && *from == Sender::Peer);
                let _ = write!(line, "{from:?} {}", message.kind().0);
                *time
            }
            Event::State { time, old, new, reason } => {
                let _ = write!(line, "{old:?} > {new:?} {reason:?}");
                *time
            }
            Event::Gap(gap) => {
                let _ = write!(line, "gap {:?} {} {}", gap.cause, gap.missing, gap.skipped);
                gap.until
            }
            Event::Reading(reading) => reading.time,
        };
        self.lines.push((peering.peer, time, line));
        self.rib.event(peering, event);
        self.max_routes = self.max_routes.max(self.rib.len_of(peering.id));
        self.bmp.event(peering, event);
    }
}

fn collect(files: &[PathBuf], settings: Settings) -> Everything {
    run(files, settings, Everything::new()).into_sink()
}

fn field(name: &str) -> PathBuf {
    data("field").join(name)
}

/// Time in milliseconds of the first packet of a file with one of `flags`.
fn first_with(path: &Path, flags: u8) -> u64 {
    let file = std::fs::read(path).unwrap();
    let found = records(&file).into_iter().find(|(_, frame)| frame[14 + 20 + 13] & flags != 0);
    millis(Time::from_nanos(found.unwrap().0))
}

/// A session ends behind its last message: the state changes once, at `time`, no route remains,
/// and a station receives one Peer Up and one Peer Down.
fn assert_ended(all: &Everything, time: u64, reason: &str, name: &str) {
    let events = all.of(PEER);
    assert!(events.is_sorted_by_key(|(time, _)| *time), "{name}: {events:?}");
    let last = (time, format!("Established > Idle {reason}"));
    assert_eq!(events.last().map(|(at, line)| (*at, (*line).to_owned())), Some(last), "{name}");
    let ends = events.iter().filter(|(_, line)| line.contains("> Idle")).count();
    assert_eq!((ends, all.ups_and_downs(PEER)), (1, (1, 1)), "{name}: {events:?}");
    let peering = all.rib.peerings().find(|one| one.peering.peer.to_string() == PEER).unwrap();
    assert_eq!(all.rib.len_of(peering.peering.id), 0, "{name}");
}

#[test]
fn ends_session_behind_held_bytes_of_other_direction() {
    for (name, updates, time, reason, gaps) in [
        ("one-lost-peer-closes", 5, 12_018, "Notification(Peer, 6, 2)", &["Mirror 51 0"][..]),
        ("one-lost-router-closes", 5, 12_018, "Notification(Local, 6, 2)", &["Mirror 51 0"]),
        ("router-closes", 6, 12_024, "Notification(Local, 6, 2)", &["Cut 501 546"; 6]),
    ] {
        let all = collect(&[field(&format!("24-cut-then-down/{name}.pcap"))], settings());
        assert_eq!(all.updates, updates, "{name}");
        assert_ended(&all, time, reason, name);
        let found: Vec<_> =
            all.of(PEER).into_iter().filter_map(|(_, line)| line.strip_prefix("gap ")).collect();
        assert_eq!(found, gaps, "{name}");
        assert_eq!(all.max_routes, updates, "{name}");
    }
}

#[test]
fn ends_session_at_time_of_reset_or_fin() {
    for name in ["peer-fin", "peer-rst", "peer-rstack", "router-rst", "router-rstack"] {
        // Packets of another session, or none, follow.
        for others in [0, 20] {
            let path = field(&format!("25-reset-time/{name}-{others}.pcap"));
            let all = collect(std::slice::from_ref(&path), settings());
            let reason = if name == "peer-fin" { "Finished" } else { "Reset" };
            assert_ended(&all, first_with(&path, FIN | RST), reason, name);
        }
    }
}

#[test]
fn reads_each_link_type_and_tag() {
    for name in [
        "802.1br",
        "arista-d28b-48",
        "arista-d28b-64",
        "cisco-cmd",
        "loop",
        "nflog",
        "pktap-258",
        "pppoe",
    ] {
        let path = field(&format!("17-link-types/{name}.pcap"));
        let run = run(&[path], settings(), Everything::new());
        assert_eq!(run.counters().unread(), Vec::<String>::new(), "{name}");
        let all = run.into_sink();
        let peerings = all.rib.peerings().count();
        assert_eq!((all.updates, all.max_routes, peerings), (20, 20, 1), "{name}");
    }
}

#[test]
fn names_conversion_of_foreign_formats() {
    for (name, format) in [("endace.erf", "ERF (Endace)"), ("solaris.snoop", "snoop (RFC 1761)")] {
        let mut input = Input::open(&field(&format!("17-link-types/{name}")), false).unwrap();
        let found = input.format().unwrap();
        assert_eq!(found, Format::Foreign(format));
        assert!(found.refusal().unwrap().contains("editcap -F pcap"), "{name}");
    }
}

#[test]
fn archives_updates_of_merged_segments() {
    for name in ["gro-on", "gro-mostly-merged", "merged-with-right-sums"] {
        let outcome = collect::collect(&[field(&format!("23-gro/{name}.pcap.zst"))], settings());
        assert_eq!(outcome.statistics.wrong_checksums, 0, "{name}");
        let mut hash = Sha256::new();
        let (mut count, mut others) = (0, 0);
        for (_, bytes) in mrt::messages(&outcome.archive).values().flatten() {
            if bytes[18] == 2 {
                hash.update(bytes);
                count += 1;
            } else {
                others += 1;
            }
        }
        let start = u64::from_be_bytes(*hash.finalize().first_chunk().unwrap());
        assert_eq!((count, others, start), (400, 3, 0x05c2_5d64_590c_58e3), "{name}: {start:x}");
    }
}

#[test]
fn names_packets_that_are_not_read() {
    let unread = |name, ports: &[u16]| {
        let mut settings = settings();
        settings.decapsulate.ports = ports.to_vec();
        let run = run(&[field(&format!("26-other-port/{name}.pcap"))], settings, Everything::new());
        let unread = run.counters().unread();
        (run.into_sink().updates, unread)
    };
    let port = "14 BGP segments of port 1179 (read them with --port 1179)";
    let (updates, found) = unread("port1179", &[179]);
    assert_eq!((updates, found[0].as_str()), (0, port));
    assert_eq!(unread("port1179", &[179, 1179]), (10, Vec::new()));
    let (updates, found) = unread("no-tcp", &[179]);
    let all = "20 packets without readable BGP (20 packets of other protocols)";
    assert_eq!((updates, found), (0, vec![all.to_owned()]));
    // IEEE 802.15.4 has a number between those of Juniper.
    let mut file = std::fs::read(field("26-other-port/no-tcp.pcap")).unwrap();
    file[20] = 195;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.pcap");
    std::fs::write(&path, file).unwrap();
    let found = run(&[path], settings(), Everything::new()).counters().unread();
    assert_eq!(found, ["20 packets of unknown link type 195"]);
}

#[test]
fn interface_of_one_name_is_one_mirror() {
    for (name, updates, sessions) in [
        ("cat-of-two", 60, 1),
        ("default-resolution", 60, 1),
        ("ns-and-offset", 60, 1),
        ("profishark-2pow32", 60, 1),
        ("two-links-two-resolutions", 120, 2),
    ] {
        let path = field(&format!("07-pcapng/{name}.pcapng"));
        let all = collect(&[path], settings());
        let peerings: Vec<_> = all.rib.peerings().collect();
        assert_eq!((all.updates, peerings.len()), (updates, sessions), "{name}");
        assert!(peerings.iter().all(|one| one.peering.certain), "{name}");
        let gaps = all.lines.iter().filter(|(.., line)| line.starts_with("gap")).count();
        assert_eq!(gaps, 0, "{name}");
    }
}

#[test]
fn first_packet_without_time_has_that_of_next() {
    let mut file = std::fs::read(field("18-clocks/one-zero-stamp.pcap")).unwrap();
    file[24..32].fill(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.pcap");
    std::fs::write(&path, file).unwrap();
    let all = collect(&[path], settings());
    let first = all.lines.iter().map(|(_, time, _)| *time).min();
    assert!(first >= Some(Time::from_nanos(START * 1_000_000_000)), "{first:?}");
    assert_eq!((all.updates, all.max_routes), (10, 10));
}

#[test]
fn wrong_time_ends_no_session() {
    for (name, updates) in [
        ("one-zero-stamp", 10),
        ("one-stamp-a-day-ahead", 10),
        ("one-hour-back", 10),
        ("one-hour-ahead", 10),
        ("falls-to-1970", 10),
        ("ntp-jumps-53-years", 10),
        ("epoch0", 11),
        ("after-2038", 11),
        ("end-of-32-bits", 11),
    ] {
        let path = field(&format!("18-clocks/{name}.pcap"));
        let all = collect(&[path], settings());
        let events = all.lines.iter().map(|(.., line)| line.as_str());
        let ends = events.filter(|line| line.starts_with("Established >")).count();
        assert_eq!((all.updates, all.max_routes, ends), (updates, 10, 0), "{name}");
    }
}
