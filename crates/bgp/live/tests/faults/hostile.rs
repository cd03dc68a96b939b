//! Hostile traffic: its memory use is bounded, and it does not affect other sessions.

use std::net::SocketAddr;

use base::RandomStream;
use collector_live::pipeline::Settings;

use crate::collect::{Outcome, collect, settings};
use crate::damage::{Damaged, Plan, damage};
use crate::data;
use crate::encapsulate::{Carrier, Format};
use crate::judge::archived;
use crate::oracle::{Way, expect};
use crate::packet::{ACK, FIN, Original, Packet, RST, SYN, read};

/// A segment from an unknown host to a router's port 179.
fn stranger(time: u64, from: SocketAddr, to: SocketAddr, flags: u8, payload: &[u8]) -> Packet {
    Packet {
        time,
        from,
        to,
        flags,
        window: 512,
        options: Vec::new(),
        payload: payload.to_vec(),
        connection: usize::MAX,
        side: 0,
        offset: 0,
        acked: 0,
        kept: None,
        flipped: None,
        merged: false,
        first_part: None,
        mirror: 0,
    }
}

fn crowd(real: &Damaged, strangers: &[Packet], settings: Settings) -> Outcome {
    let mut out = Format::Nanoseconds.begin(1);
    let mut all: Vec<(u64, Vec<u8>)> = real
        .packets
        .iter()
        .map(|packet| (packet.time, packet.wire(real.initial(packet))))
        .collect();
    // Sequence numbers of hostile packets are their offsets.
    let foreign = strangers.iter().map(|packet| (packet.time, packet.wire([0, 0])));
    all.extend(foreign);
    all.sort_by_key(|(time, _)| *time);
    for (time, wire) in all {
        for frame in Carrier::Ethernet.frames(&wire, 0, 0) {
            Format::Nanoseconds.frame(&mut out, time, &frame, 0);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.pcap");
    std::fs::write(&path, out).unwrap();
    collect(&[path], settings)
}

fn sessions() -> (Original, Damaged) {
    let original = read(&data("pcap/addpath-extmsg-as4-v6-md5.pcap"), usize::MAX);
    let damaged = damage(&original, &Plan::default());
    (original, damaged)
}

/// All messages of the real sessions are archived in order, without gaps.
fn unharmed(original: &Original, real: &Damaged, outcome: &Outcome) {
    let output = outcome.output();
    for (way, connections) in expect(original, real) {
        let messages: Vec<&Vec<u8>> =
            output[&way].iter().filter_map(crate::judge::message).collect();
        let expected: Vec<&Vec<u8>> = connections[0].whole().collect();
        assert_eq!(
            output[&way].len(),
            expected.len(),
            "{way:?} {:?}",
            output[&way].iter().rev().take(3).collect::<Vec<_>>()
        );
        assert!(messages == expected, "{way:?}");
    }
    archived(outcome).unwrap();
}

fn ways(outcome: &Outcome) -> Vec<Way> {
    outcome.output().into_keys().collect()
}

#[test]
fn limits_syn_flood() {
    let (original, real) = sessions();
    let (first, last) = (real.packets[0].time, real.packets[real.packets.len() - 1].time);
    let router = real.packets[0].to;
    let mut rng = RandomStream::new(1, "flood");
    let count = 100_000;
    let flood = (0..count).map(|number| {
        let time = first + (last - first) * number / count;
        let address =
            u32::from_be_bytes([11, (number >> 16) as u8, (number >> 8) as u8, number as u8]);
        let from = SocketAddr::new(
            match router {
                SocketAddr::V4(_) => std::net::Ipv4Addr::from_bits(address).into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::from_bits(address.into()).into(),
            },
            rng.below(65_536) as u16,
        );
        let mut packet = stranger(time, from, router, SYN, &[]);
        packet.offset = rng.bits() & 0xffff_ffff;
        packet
    });
    let flood: Vec<Packet> = flood.collect();
    let mut limited = settings();
    limited.reassembly.connections = 1024;
    let outcome = crowd(&real, &flood, limited);
    unharmed(&original, &real, &outcome);
    assert_eq!(ways(&outcome).len(), 6);
    assert!(outcome.statistics.connections > 100_000);
    assert!(outcome.statistics.evicted > 90_000, "{:?}", outcome.statistics);
    assert!(outcome.peak_memory < 1 << 20, "{}", outcome.peak_memory);
}

#[test]
fn other_protocols_on_the_port_of_bgp() {
    let (original, real) = sessions();
    let start = real.packets[0].time;
    let router: SocketAddr = "10.9.1.1:179".parse().unwrap();
    let mut rng = RandomStream::new(2, "foreign");
    let mut foreign = Vec::new();
    for client in 0..60_u64 {
        let from: SocketAddr = format!("10.66.0.{client}:{}", 40_000 + client).parse().unwrap();
        let mut offset = rng.bits() & 0xffff_ffff;
        for number in 0..400_u64 {
            let payload: Vec<u8> = match client % 4 {
                0 => {
                    b"GET /index.html HTTP/1.1\r\nHost: example.net\r\nAccept: */*\r\n\r\n".to_vec()
                }
                1 => [
                    &[22, 3, 1, 4, 0][..],
                    &(0..1400).map(|_| rng.bits() as u8).collect::<Vec<_>>(),
                ]
                .concat(),
                2 => vec![0xff; 1448],
                // A marker followed by bytes that no message contains.
                _ => [&[0xff; 16][..], &[0, 19, 9, 0xff, 0xff]].concat(),
            };
            let mut packet = stranger(start + number * 20_000_000, from, router, ACK, &payload);
            packet.offset = offset;
            offset = (offset + payload.len() as u64) & 0xffff_ffff;
            foreign.push(packet);
        }
    }
    let outcome = crowd(&real, &foreign, settings());
    unharmed(&original, &real, &outcome);
    // By the header, type 9 with a valid marker and length is a message.
    let strangers =
        ways(&outcome).into_iter().filter(|(_, from, _)| from.to_string().starts_with("10.66."));
    assert_eq!(strangers.count(), 0, "other traffic creates no peering");
    assert!(outcome.peak_memory < 64 * (200 << 10), "{}", outcome.peak_memory);
}

#[test]
fn limits_memory_for_tiny_overlapping_segments() {
    let (original, real) = sessions();
    let start = real.packets[0].time;
    let router: SocketAddr = "10.9.1.1:179".parse().unwrap();
    let mut rng = RandomStream::new(3, "tiny");
    let mut tiny = Vec::new();
    for client in 0..8_u64 {
        let from: SocketAddr = format!("10.77.0.{client}:50000").parse().unwrap();
        tiny.push(stranger(start, from, router, SYN, &[]));
        for number in 0..4_000_u64 {
            let length = 1 + rng.below(4) as usize;
            let mut packet =
                stranger(start + number * 1_000_000, from, router, ACK, &vec![0x41; length]);
            // Never the first byte, so that all segments must be held.
            packet.offset = 2 + rng.below(60_000);
            tiny.push(packet);
        }
    }
    let mut limited = settings();
    limited.reassembly.memory = base::Bytes::new(512 << 10);
    limited.reassembly.out_of_order = base::Bytes::new(128 << 10);
    let outcome = crowd(&real, &tiny, limited);
    let output = outcome.output();
    for (way, connections) in expect(&original, &real) {
        let messages = output[&way].iter().filter_map(crate::judge::message).count();
        assert_eq!(messages, connections[0].whole().count(), "{way:?}");
    }
    assert!(outcome.peak_memory < (512 << 10) + (160 << 10), "{}", outcome.peak_memory);
}

/// Forged segments of real connections: data far outside the window, and resets and FINs that no
/// receiver would accept.
#[test]
fn forged_segments_of_real_connections() {
    let (original, real) = sessions();
    let mut forged = real.clone();
    let mut rng = RandomStream::new(4, "forged");
    for at in (0..real.packets.len()).step_by(3).rev() {
        let model = &real.packets[at];
        // Before a connection is established, the first segment is accepted.
        let spoke = |side| {
            let of =
                |packet: &&Packet| packet.connection == model.connection && packet.side == side;
            real.packets[..at].iter().filter(of).any(|packet| !packet.payload.is_empty())
        };
        if !(spoke(0) && spoke(1)) {
            continue;
        }
        let mut packet = model.clone();
        packet.options = Vec::new();
        packet.flags = [RST, RST | ACK, FIN | ACK, ACK][rng.below(4) as usize];
        packet.payload = if packet.flags == ACK { vec![0xff; 40] } else { Vec::new() };
        packet.acked = model.acked;
        // At least 64 MB from the position of the stream.
        let far = (64 << 20) + rng.below(1 << 30);
        packet.offset = (packet.offset + far) & 0xffff_ffff;
        forged.packets.insert(at, packet);
    }
    let folder = tempfile::tempdir().unwrap();
    let files = crate::collect::write(folder.path(), &forged, Carrier::Ethernet, Format::Pcap, 1);
    let outcome = collect(&files, settings());
    unharmed(&original, &real, &outcome);
    assert!(outcome.statistics.out_of_window > 10, "{:?}", outcome.statistics);
}
