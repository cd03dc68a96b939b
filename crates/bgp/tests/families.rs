//! Routes and attributes of real captures, as tshark names them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;

use bgp::attribute::{self, Attribute, RawAttribute};
use bgp::nlri::destinations;
use bgp::update::Update;
use bgp::verdict::{Action, judge};
use bgp::{Family, Message, MessageType, Negotiated};
use proptest::collection::vec;
use proptest::prelude::*;

/// Lines for what each UPDATE of a capture says, those in one segment: a marker begins it.
fn told(name: &str, negotiated: Negotiated) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/bgp/tcpdump");
    let bytes = fs::read(folder.join(name)).unwrap();
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(16).position(|window| window == bgp::MARKER) {
        at += found;
        let Some(message) = Message::split(&bytes[at..]) else {
            at += 1;
            continue;
        };
        at += message.bytes().len();
        if message.kind() == MessageType::UPDATE {
            update(message.body(), negotiated, &mut lines);
        }
    }
    lines
}

fn update(body: &[u8], negotiated: Negotiated, lines: &mut Vec<String>) {
    let Ok(update) = Update::parse(body) else { return };
    for raw in update.attributes() {
        let Ok(raw) = raw else { return lines.push("framing".into()) };
        match Attribute::decode(raw, &negotiated) {
            Ok(attribute) => typed(raw, attribute, negotiated, lines),
            Err(error) => lines.push(format!("malformed {}: {error}", raw.code)),
        }
    }
}

fn typed(
    raw: RawAttribute<'_>,
    attribute: Attribute<'_>,
    negotiated: Negotiated,
    lines: &mut Vec<String>,
) {
    let mut again = Vec::new();
    attribute.encode(&negotiated, &mut again).unwrap();
    assert!(again.ends_with(raw.value), "{attribute:?} is written as it was read");
    let line = match attribute {
        Attribute::MpReach(reach) => {
            return routes(reach.family, reach.nlri, negotiated, "+", lines);
        }
        Attribute::MpUnreach(unreach) => {
            return routes(unreach.family, unreach.nlri, negotiated, "-", lines);
        }
        Attribute::ExtendedCommunities(list) => list.to_string(),
        Attribute::Ipv6ExtendedCommunities(list) => list.to_string(),
        Attribute::PmsiTunnel(tunnel) => format!("pmsi {tunnel}"),
        Attribute::TunnelEncapsulation(tunnels) => format!("tunnels {tunnels}"),
        Attribute::Aigp(aigp) => format!("aigp {:?}", aigp.metric()),
        Attribute::BgpLs(properties) => format!("ls {properties}"),
        Attribute::Bgpsec(path) => format!("bgpsec {path}"),
        Attribute::PrefixSid(sid) => format!("prefix-sid {sid}"),
        Attribute::Sfp(path) => format!("sfp {path}"),
        Attribute::AttrSet(set) => {
            lines.push(format!("set of {}", set.origin()));
            let codes = set.typed().map(|attribute| attribute.map(|known| known.code()));
            format!("set {:?}", codes.collect::<Result<Vec<_>, _>>())
        }
        _ => return,
    };
    lines.push(line);
}

fn routes(
    family: Family,
    nlri: &[u8],
    negotiated: Negotiated,
    sign: &str,
    lines: &mut Vec<String>,
) {
    for read in destinations(family, nlri, negotiated.add_path.contains(family)) {
        match read {
            Ok((route, destination)) => {
                lines.push(format!("{sign} {destination}"));
                let mut again = Vec::new();
                destination.encode(&mut again).unwrap();
                assert_eq!(again, route.bytes, "{destination} is written as it was read");
            }
            Err(error) => lines.push(format!("{sign} malformed {error}")),
        }
    }
}

/// What a capture says, told once each, with AS numbers of two octets.
fn different(name: &str) -> Vec<String> {
    let mut lines = told(name, Negotiated::default());
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

#[test]
fn labelled_routes() {
    let four = Negotiated { four_octet_as: true, ..Negotiated::default() };
    let lines = told("bgp-lu-multiple-labels.pcap", four);
    let announced = "+ 30.1.1.1/32 label 100/101/102/103";
    assert_eq!(lines, [announced, announced, "- 30.1.1.1/32 label 524288"]);
    let lines = told("bgp-aigp.pcap", Negotiated::default());
    assert_eq!(lines, ["aigp Some(2000)", "+ 172.16.21.4/32 label 300096"]);
    let lines = told("bgp-aigp-2.pcap", Negotiated::default());
    assert_eq!(lines, ["+ 123.1.1.0/24 label 20", "aigp Some(4294967295)"]);
}

#[test]
fn ethernet_vpns() {
    let lines = told("bgp-encap.pcap", Negotiated::default());
    let route = "+ 4.4.4.4:4 [2]:[0]:[48]:[02:06:0a:0e:fa:f3]";
    assert_eq!(lines, ["rt:65000:101 encapsulation:vxlan", route]);
}

#[test]
fn layer_three_vpns_with_a_customers_attributes() {
    let lines = told("bgp_vpn_attrset.pcap", Negotiated::default());
    let expected = [
        "rt:300:300",
        "set of 65001",
        "set Ok([1, 2, 5, 9, 10])",
        "+ 500:500 133.0.0.0/8 label 100208",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn membership_in_route_targets() {
    let expected = [
        "+ 22:*/32",
        "+ 22:0x0002/48",
        "+ 22:0x020200010000/80",
        "+ 22:rt:1:65537/96",
        "+ 22:rt:100000:65535/96",
        "- 23:0x0102/48",
        "- 23:0x010201020304e0/83",
        "- 23:rt:1.2.3.4:65535/96",
    ];
    let lines = different("bgp-rt-prefix.pcap");
    assert!(expected.iter().all(|line| lines.contains(&(*line).to_owned())), "{lines:#?}");
}

#[test]
fn communities_of_eight_octets() {
    assert_eq!(different("bgp-link-bw-extcommunity.pcapng"), ["link-bandwidth:65000:125000"]);
    let states = ["origin-validation:not-found", "origin-validation:invalid"];
    assert_eq!(different("bgp-ovs.pcapng"), states);
}

#[test]
fn multicast_vpns_and_their_tunnels() {
    let lines = different("bgp-ub.pcap");
    let expected = [
        "rt:1:1",
        "pmsi rsvp-te-p2mp label 0 10.0.0.4:33139:167772164",
        "+ 1:1 [1]:[10.0.0.4]",
        "+ 18826:640 172.17.33.64/28 label 1028",
    ];
    assert!(expected.iter().all(|line| lines.contains(&(*line).to_owned())), "{lines:#?}");
}

#[test]
fn signed_paths() {
    let four = Negotiated { four_octet_as: true, ..Negotiated::default() };
    let lines = told("bgp-bgpsec.pcap", four);
    let routes = lines.iter().filter(|line| line.starts_with("+ 1.0.")).count();
    let paths: Vec<_> = lines.iter().filter(|line| line.starts_with("bgpsec")).collect();
    assert_eq!(routes, paths.len());
    let key = "0a15fa1cb92f4d3495fef0ca9180c0a93c4a254f";
    assert_eq!(*paths[0], format!("bgpsec 2 (algorithm 1: key {key})"));
    let two = format!("key 0ca06bdfc29488fa1a7f4a4793f3a94010a80f97 key {key})");
    assert!(paths.iter().any(|path| path.starts_with("bgpsec 3 2") && path.ends_with(&two)));

    let lines = different("bgpsec_invalid_signature_block_length.pcap");
    let wrong = "signature block length at byte 57: 1 is less than the length field takes";
    assert!(lines.contains(&format!("malformed 33: {wrong}")), "{lines:#?}");
}

/// What a router should do about an UPDATE with one more attribute.
fn judged(code: u8, value: &[u8]) -> Action {
    let flags = attribute::expected_flags(code).unwrap();
    let mut attributes = Vec::new();
    attribute::encode(0x40, 1, &[0], &mut attributes).unwrap();
    attribute::encode(0x40, 2, &[], &mut attributes).unwrap();
    attribute::encode(0x40, 3, &[10, 0, 0, 1], &mut attributes).unwrap();
    attribute::encode(flags, code, value, &mut attributes).unwrap();
    let mut body = vec![0, 0];
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body.extend([8, 11]);
    judge(&body, &Negotiated::default()).action
}

#[test]
fn malformed_attributes_and_routes_have_a_verdict() {
    assert_eq!(judged(26, &[1, 0, 11, 0, 0, 0, 0, 0, 0, 0, 9]), Action::Accept);
    assert_eq!(judged(26, &[1, 0, 10, 0, 0, 0, 0, 0, 0, 9]), Action::AttributeDiscard);
    assert_eq!(judged(40, &[1, 0, 6, 0, 0, 0, 0, 0, 9]), Action::AttributeDiscard);
    assert_eq!(judged(29, &[4, 2, 0, 9, 1]), Action::AttributeDiscard);
    for (code, value) in [(16, &[0; 9][..]), (25, &[0; 21]), (22, &[0; 3]), (128, &[0; 3])] {
        assert_eq!(judged(code, value), Action::TreatAsWithdraw, "{code}");
    }
    assert_eq!(judged(33, &[0, 1]), Action::TreatAsWithdraw);
    // A withdrawn EVPN route of type 2, and one that is too short to be one.
    let mut route = vec![0, 25, 70, 2, 33];
    route.extend([0; 22]);
    route.extend([48, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(judged(15, &route), Action::Accept);
    assert_eq!(judged(15, &[0, 25, 70, 2, 4, 0, 0, 0, 0]), Action::FamilyDisable);
}

#[test]
fn malformed_captures_are_told_without_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/bgp/tcpdump");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name();
        for four_octet_as in [false, true] {
            let negotiated = Negotiated { four_octet_as, ..Negotiated::default() };
            told(name.to_str().unwrap(), negotiated);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn attributes_are_written_as_they_were_read(
        code in prop::sample::select(&[16_u8, 22, 23, 25, 26, 29, 33, 37, 40, 128][..]),
        pieces in vec((0..=20_u8, any::<bool>(), vec(any::<u8>(), 0..14)), 0..6),
    ) {
        // TLVs of both widths, so that many values have a framing that fits.
        let mut value = Vec::new();
        for (kind, wide, bytes) in pieces {
            match code {
                29 => value.extend([4, kind.wrapping_mul(7), 0, bytes.len() as u8]),
                26 => value.extend([kind, 0, bytes.len() as u8 + 3]),
                23 if wide => {
                    value.extend([0, 15, 0, bytes.len() as u8 + 2, kind, bytes.len() as u8]);
                }
                _ => value.extend([kind, 0, bytes.len() as u8]),
            }
            value.extend(bytes);
        }
        let raw = RawAttribute { flags: 0xc0, code, value: &value, at: 0 };
        let negotiated = Negotiated::default();
        if let Ok(attribute) = Attribute::decode(raw, &negotiated) {
            prop_assert_eq!(attribute.code(), code);
            typed(raw, attribute, negotiated, &mut Vec::new());
        }
    }
}
