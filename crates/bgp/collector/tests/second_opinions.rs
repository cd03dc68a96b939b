//! Tables and BMP output, read by independent programs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use base::Time;
use bgp::bmp::{Body, Packet};
use bgp::mrt::{Form, Peer, RibEntry, Session, StateChange, kind, write};
use bgp::{Asn, Family};
use bgpkit_parser::parser::bmp::messages::BmpMessageBody;
use collector::export::bmp::{Exporter, Settings};
use collector::input::mrt::Input;
use collector::{MirrorId, PeeringId};

fn truth() -> Vec<u8> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp");
    std::fs::read(data.join("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap()
}

/// Output of a program for a file with `bytes`; `None` if it is not installed.
fn ask(program: &str, before: &[&str], bytes: &[u8]) -> Option<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let output = Command::new(program).args(before).arg(file.path()).output();
    match output {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            eprintln!("SKIPPED {program} of what we write: {error}");
            None
        }
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A table of two peers with routes of both families, with and without path identifiers; then a
/// message and a change of state with microseconds.
fn archive() -> Vec<u8> {
    let time = Time::from_nanos(1_700_000_000_000_000_000);
    let mut out = Vec::new();
    let peer = |address, asn: u32| Peer { address, asn: Asn(asn), id: 7, four_octet_as: true };
    let peers = [peer(ip("192.0.2.1"), 4_200_000_001), peer(ip("2001:db8::1"), 65_002)];
    write::peer_index_table(&mut out, time, 9, b"", &peers).unwrap();
    let path = |asn: u32| [&[0x40, 1, 1, 0, 0x40, 2, 6, 2, 1][..], &asn.to_be_bytes()].concat();
    let v4 = [path(4_200_000_001), vec![0x40, 3, 4, 192, 0, 2, 1]].concat();
    let v6 = [path(65_002), vec![0x80, 14, 17, 16], ip6("2001:db8::1")].concat();
    let mut sequence = 0;
    let mut rib = |family, nlri: &[u8], entries: &[(u16, Option<u32>, &[u8])]| {
        let add_path = entries[0].1.is_some();
        let mut rib = write::Rib::open(&mut out, time, sequence, family, add_path, nlri);
        for &(peer, path_id, attributes) in entries {
            let entry = RibEntry { peer, originated: 1_699_999_999, path_id, attributes };
            rib.entry(&mut out, &entry).unwrap();
        }
        rib.close(&mut out);
        sequence += 1;
    };
    rib(Family::IPV4_UNICAST, &[24, 198, 51, 100], &[(0, None, &v4), (1, None, &v4)]);
    rib(Family::IPV6_UNICAST, &[32, 0x20, 1, 0xd, 0xb8], &[(1, None, &v6)]);
    rib(Family::IPV4_UNICAST, &[8, 10], &[(0, Some(1), &v4), (0, Some(2), &v4)]);
    let session = Session::new(Asn(4_200_000_001), Asn(65_000), ip("192.0.2.1"), ip("192.0.2.2"));
    let time = Time::from_nanos(1_700_000_001_500_000_000);
    let form = Form { four_octet_as: true, ..Form::default() };
    let mut update = Vec::new();
    let family = Family::IPV4_UNICAST;
    bgp::mrt::announcement(&mut update, family, None, &[16, 172, 16], &v4, None).unwrap();
    write::message(&mut out, time, kind::BGP4MP_ET, &session, form, &update);
    let change = StateChange { session, four_octet_as: true, old: 6, new: 1 };
    write::state_change(&mut out, time, kind::BGP4MP_ET, &change);
    out
}

fn ip6(text: &str) -> Vec<u8> {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec()
}

#[test]
fn bgpdump_reads_tables_and_sessions() {
    let Some(text) = ask("bgpdump", &["-m"], &archive()) else { return };
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "TABLE_DUMP2|1700000000|B|192.0.2.1|4200000001|198.51.100.0/24|4200000001|IGP",
        "TABLE_DUMP2|1700000000|B|2001:db8::1|65002|198.51.100.0/24|4200000001|IGP",
        "TABLE_DUMP2|1700000000|B|2001:db8::1|65002|2001:db8::/32|65002|IGP|2001:db8::1",
        "TABLE_DUMP2_AP|1700000000|B|192.0.2.1|4200000001|10.0.0.0/8|1|4200000001|IGP|192.0.2.1",
        "TABLE_DUMP2_AP|1700000000|B|192.0.2.1|4200000001|10.0.0.0/8|2|4200000001|IGP|192.0.2.1",
        "BGP4MP_ET|1700000001.500000|A|192.0.2.1|4200000001|172.16.0.0/16|4200000001|IGP",
        "BGP4MP_ET|1700000001.500000|STATE|192.0.2.1|4200000001|6|1",
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
}

#[test]
fn bgpkit_reads_tables_and_sessions() {
    let bytes = archive();
    let parser = bgpkit_parser::BgpkitParser::from_reader(&bytes[..]);
    let elements: Vec<String> = parser
        .into_elem_iter()
        .map(|one| format!("{} {} {}", one.peer_ip, one.prefix.prefix, one.as_path.unwrap()))
        .collect();
    let expected = [
        "192.0.2.1 198.51.100.0/24 4200000001",
        "2001:db8::1 198.51.100.0/24 4200000001",
        "2001:db8::1 2001:db8::/32 65002",
        "192.0.2.1 10.0.0.0/8 4200000001",
        "192.0.2.1 10.0.0.0/8 4200000001",
        "192.0.2.1 172.16.0.0/16 4200000001",
    ];
    assert_eq!(elements, expected);
}

fn monitored() -> Vec<u8> {
    let mut exporter = Exporter::new(Settings::default());
    let mut out = Vec::new();
    let cursor = exporter.greeting(&mut out).unwrap();
    let bytes = truth();
    let mut input = Input::new(MirrorId(0), PeeringId(0));
    assert_eq!(input.read(&bytes, true, &mut exporter), (bytes.len(), 0));
    exporter.statistics(Time::from_nanos(1)).unwrap();
    out.extend_from_slice(exporter.unread(cursor).unwrap());
    Exporter::termination(&mut out).unwrap();
    out
}

fn packets(bytes: &[u8]) -> Vec<Packet<'_>> {
    let mut found: Vec<Packet<'_>> = Vec::new();
    let mut at = 0;
    while let Some(packet) = Packet::split(&bytes[at..]) {
        at += packet.bytes.len();
        found.push(packet);
    }
    assert_eq!(at, bytes.len());
    found
}

#[test]
fn bgpkit_reads_exported_bmp() {
    let bytes = monitored();
    let (mut ups, mut downs, mut updates) = (0, 0, 0);
    for packet in packets(&bytes) {
        let theirs = bgpkit_parser::parser::bmp::parse_bmp_msg(&mut packet.bytes.to_vec().into());
        match packet.parse().unwrap() {
            Body::RouteMonitoring(header, _) => {
                updates += 1;
                // bgpkit-parser does not support path identifiers, even if the OPENs announce them.
                let Ok(theirs) = theirs else { continue };
                let peer = theirs.per_peer_header.unwrap();
                assert_eq!(
                    (peer.peer_ip, u32::from(peer.peer_asn)),
                    (header.address(), header.asn.0)
                );
            }
            Body::PeerUp(header, up) => {
                ups += 1;
                let theirs = theirs.unwrap();
                let peer = theirs.per_peer_header.unwrap();
                assert_eq!(peer.peer_ip, header.address());
                let BmpMessageBody::PeerUpNotification(theirs) = theirs.message_body else {
                    panic!("{theirs:?}")
                };
                assert_eq!(theirs.local_addr, up.local);
            }
            Body::PeerDown(..) => {
                downs += 1;
                assert!(matches!(
                    theirs.unwrap().message_body,
                    BmpMessageBody::PeerDownNotification(_)
                ));
            }
            _ => drop(theirs.unwrap()),
        }
    }
    assert!(ups >= 3 && downs >= 3 && updates >= 90, "{ups} {downs} {updates}");
}

/// A capture of one direction of a TCP connection from port 11019.
fn capture(stream: &[u8]) -> Vec<u8> {
    let mut out = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    for word in [0x0004_0002_u32, 0, 0, 65_535, 101] {
        out.extend(word.to_le_bytes());
    }
    let mut sequence = 1_u32;
    for part in stream.chunks(1_400) {
        let total = part.len() + 40;
        for word in [sequence, 0, total as u32, total as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend([0x45, 0]);
        out.extend((total as u16).to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        out.extend(11_019_u16.to_be_bytes());
        out.extend(40_000_u16.to_be_bytes());
        out.extend(sequence.to_be_bytes());
        out.extend([0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        out.extend_from_slice(part);
        sequence += part.len() as u32;
    }
    out
}

#[test]
fn tshark_reads_exported_bmp() {
    let bytes = monitored();
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    for packet in packets(&bytes) {
        *expected.entry(packet.kind.to_string()).or_default() += 1;
    }
    let arguments = ["-d", "tcp.port==11019,bmp", "-T", "fields", "-e", "bmp.type", "-r"];
    let Some(text) = ask("tshark", &arguments, &capture(&bytes)) else { return };
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for number in text.split([',', '\n']).filter(|text| !text.is_empty()) {
        *found.entry(number.to_owned()).or_default() += 1;
    }
    assert_eq!(found, expected);
}
