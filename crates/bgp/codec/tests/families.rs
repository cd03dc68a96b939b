//! Routes and attributes of real captures, compared with those that tshark prints.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;

use bgp::attribute::{self, Attribute, RawAttribute};
use bgp::nlri::{Destination, Routes};
use bgp::update::Update;
use bgp::verdict::{Action, judge};
use bgp::{Family, Message, MessageType, Negotiated};
use proptest::collection::vec;
use proptest::prelude::*;

/// Lines for each UPDATE of a capture that is in one segment and begins with a marker.
fn decoded(name: &str, negotiated: Negotiated) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp/tcpdump");
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
        Attribute::Aigp(aigp) => format!("aigp {:?}", aigp.metric()),
        Attribute::Opaque(raw) => format!("opaque {} {}", raw.code, Destination::Opaque(raw.value)),
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
    for route in Routes::new(nlri, family, negotiated.add_path.contains(family)) {
        let route = match route {
            Ok(route) => route,
            Err(error) => return lines.push(format!("{sign} malformed {error}")),
        };
        lines.push(match Destination::decode(&route, family) {
            Ok(destination) => format!("{sign} {destination}"),
            Err(error) => format!("{sign} malformed {error}"),
        });
    }
}

/// Distinct lines of a capture, with AS numbers of two octets.
fn distinct(name: &str) -> Vec<String> {
    let mut lines = decoded(name, Negotiated::default());
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

#[test]
fn decodes_labelled_routes() {
    let four = Negotiated { four_octet_as: true, ..Negotiated::default() };
    let lines = decoded("bgp-lu-multiple-labels.pcap", four);
    let announced = "+ 30.1.1.1/32 label 100/101/102/103";
    assert_eq!(lines, [announced, announced, "- 30.1.1.1/32 label 524288"]);
    let lines = decoded("bgp-aigp.pcap", Negotiated::default());
    assert_eq!(lines, ["aigp Some(2000)", "+ 172.16.21.4/32 label 300096"]);
    let lines = decoded("bgp-aigp-2.pcap", Negotiated::default());
    assert_eq!(lines, ["+ 123.1.1.0/24 label 20", "aigp Some(4294967295)"]);
}

#[test]
fn decodes_ethernet_vpns() {
    let lines = decoded("bgp-encap.pcap", Negotiated::default());
    let route = "+ 0x0221000104040404000400000000000000000000000000003002060a0efaf300000065";
    assert_eq!(lines, ["rt:65000:101 0x030c:0x000000000008", route]);
}

#[test]
fn decodes_layer_three_vpns_with_attribute_set() {
    let lines = decoded("bgp_vpn_attrset.pcap", Negotiated::default());
    let expected = [
        "rt:300:300",
        "opaque 128 0x0000fde940010100400204020115b34005040000002c80090416050505800a0416050505",
        "+ 500:500 133.0.0.0/8 label 100208",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn decodes_route_target_membership() {
    let expected = [
        "+ 0x2000000016",
        "+ 0x30000000160002",
        "+ 0x5000000016020200010000",
        "+ 0x60000000160002000100010001",
        "+ 0x60000000160202000186a0ffff",
        "- 0x30000000170102",
        "- 0x5300000017010201020304e0",
        "- 0x6000000017010201020304ffff",
    ];
    let lines = distinct("bgp-rt-prefix.pcap");
    assert!(expected.iter().all(|line| lines.contains(&(*line).to_owned())), "{lines:#?}");
}

#[test]
fn decodes_extended_communities() {
    assert_eq!(distinct("bgp-link-bw-extcommunity.pcapng"), ["0x4004:0xfde847f42400"]);
    let states = ["0x4300:0x000000000001", "0x4300:0x000000000002"];
    assert_eq!(distinct("bgp-ovs.pcapng"), states);
}

#[test]
fn decodes_multicast_vpns_and_tunnels() {
    let lines = distinct("bgp-ub.pcap");
    let expected = [
        "rt:1:1",
        "opaque 22 0x00010000000a000004000081730a000004",
        "+ 0x010c00000001000000010a000004",
        "+ 18826:640 172.17.33.64/28 label 1028",
    ];
    assert!(expected.iter().all(|line| lines.contains(&(*line).to_owned())), "{lines:#?}");
}

#[test]
fn checks_signed_paths() {
    let four = Negotiated { four_octet_as: true, ..Negotiated::default() };
    let lines = decoded("bgp-bgpsec.pcap", four);
    let routes = lines.iter().filter(|line| line.starts_with("+ 1.0.")).count();
    let paths = lines.iter().filter(|line| line.starts_with("opaque 33 ")).count();
    assert_eq!((routes, paths), (20, 20));

    let lines = distinct("bgpsec_invalid_signature_block_length.pcap");
    let wrong = "signature block length at byte 57: 1 is below the size of the length field";
    assert!(lines.contains(&format!("malformed 33: {wrong}")), "{lines:#?}");
}

/// Required action for an UPDATE with one more attribute.
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
fn judges_malformed_attributes_and_routes() {
    assert_eq!(judged(26, &[1, 0, 11, 0, 0, 0, 0, 0, 0, 0, 9]), Action::Accept);
    assert_eq!(judged(26, &[1, 0, 10, 0, 0, 0, 0, 0, 0, 9]), Action::AttributeDiscard);
    for (code, value) in [(16, &[0; 9][..]), (25, &[0; 21]), (128, &[0; 3])] {
        assert_eq!(judged(code, value), Action::TreatAsWithdraw, "{code}");
    }
    assert_eq!(judged(33, &[0, 1]), Action::TreatAsWithdraw);
    // Withdrawn EVPN routes: opaque, and one that exceeds the attribute.
    assert_eq!(judged(15, &[0, 25, 70, 2, 4, 0, 0, 0, 0]), Action::Accept);
    assert_eq!(judged(15, &[0, 25, 70, 2, 5, 0, 0, 0, 0]), Action::FamilyDisable);
    // A labelled route without a label.
    assert_eq!(judged(15, &[0, 1, 4, 8, 10]), Action::FamilyDisable);
}

#[test]
fn decodes_malformed_captures_without_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp/tcpdump");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name();
        for four_octet_as in [false, true] {
            let negotiated = Negotiated { four_octet_as, ..Negotiated::default() };
            decoded(name.to_str().unwrap(), negotiated);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn encodes_decoded_attributes_to_same_bytes(
        code in prop::sample::select(&[16_u8, 22, 23, 25, 26, 29, 33, 37, 40, 128][..]),
        pieces in vec((0..=20_u8, any::<bool>(), vec(any::<u8>(), 0..14)), 0..6),
    ) {
        // TLVs with one-octet and two-octet lengths, so that many values have valid framing.
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
