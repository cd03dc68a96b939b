use proptest::prelude::*;

use super::*;
use crate::{Afi, Family, Safi};

fn two() -> Negotiated {
    Negotiated::default()
}

fn four() -> Negotiated {
    Negotiated { four_octet_as: true, ..Negotiated::default() }
}

fn raw(code: u8, value: &[u8]) -> RawAttribute<'_> {
    let flags = expected_flags(code).unwrap_or(flags::OPTIONAL);
    RawAttribute { flags, code, value, at: 10 }
}

#[test]
fn frames_attributes() {
    let bytes = [0x40, 1, 1, 0, 0x50, 2, 0, 0, 0xc0, 99, 2, 5, 6];
    let found: Vec<_> = Attributes::new(&bytes, 7).map(Result::unwrap).collect();
    let codes: Vec<_> = found.iter().map(|raw| (raw.code, raw.value.len(), raw.at)).collect();
    assert_eq!(codes, [(1, 1, 7), (2, 0, 11), (99, 2, 15)]);
    assert_eq!(found[1].value_at(), 15);
    let mut cut = Attributes::new(&bytes[..12], 0);
    let error = cut.by_ref().last().unwrap().unwrap_err();
    assert_eq!(error, Error::Short { field: "attribute", at: 8, need: 5, have: 4 });
    let error = Attributes::new(&[0x50, 1, 0], 0).next().unwrap().unwrap_err();
    assert_eq!(error, Error::Short { field: "attribute header", at: 0, need: 4, have: 3 });
}

#[test]
fn rejects_invalid_lengths() {
    let wrong: &[(u8, &[u8])] = &[
        (code::ORIGIN, &[3]),
        (code::ORIGIN, &[]),
        (code::NEXT_HOP, &[1, 2, 3]),
        (code::MULTI_EXIT_DISC, &[0; 5]),
        (code::LOCAL_PREF, &[]),
        (code::ATOMIC_AGGREGATE, &[0]),
        (code::AGGREGATOR, &[0; 8]),
        (code::COMMUNITIES, &[]),
        (code::COMMUNITIES, &[0; 6]),
        (code::ORIGINATOR_ID, &[0; 3]),
        (code::CLUSTER_LIST, &[]),
        (code::MP_REACH_NLRI, &[0, 1, 1, 4, 1, 2, 3]),
        (code::MP_REACH_NLRI, &[0, 1, 1, 4, 1, 2, 3, 4]),
        (code::MP_UNREACH_NLRI, &[0, 1]),
        (code::AS4_PATH, &[2, 1, 0, 1]),
        (code::AS4_AGGREGATOR, &[0; 6]),
        (code::LARGE_COMMUNITIES, &[0; 11]),
        (code::ONLY_TO_CUSTOMER, &[0; 2]),
    ];
    for (code, value) in wrong {
        let error = Attribute::decode(raw(*code, value), &two()).unwrap_err();
        assert!(error.at().is_some_and(|at| at >= 13), "{error}");
    }
    assert!(Attribute::decode(raw(code::AGGREGATOR, &[0; 8]), &four()).is_ok());
    assert!(Attribute::decode(raw(code::AGGREGATOR, &[0; 6]), &four()).is_err());
}

#[test]
fn keeps_deprecated_attributes_opaque() {
    for code in [0, 11, 12, 13, 19, 20, 21, 28, 30, 31, 129, 255] {
        let raw = raw(code, &[1, 2, 3]);
        assert_eq!(Attribute::decode(raw, &two()), Ok(Attribute::Opaque(raw)));
    }
}

#[test]
fn decodes_next_hops_by_length() {
    for length in 0..60 {
        let bytes: Vec<u8> = (0..length).collect();
        let next_hop = NextHop::new(&bytes);
        let defined = matches!(length, 0 | 4 | 8 | 12 | 16 | 24 | 32 | 48);
        assert_eq!(matches!(next_hop, NextHop::Unknown(_)), !defined, "{length}");
        let mut back = Vec::new();
        next_hop.encode(&mut back);
        assert_eq!(back, bytes);
    }
    let value = [&[0, 1, 1, 16][..], &[0x20; 16], &[0, 8, 10]].concat();
    let Ok(Attribute::MpReach(reach)) = Attribute::decode(raw(14, &value), &two()) else {
        panic!("MP_REACH_NLRI")
    };
    assert_eq!(reach.family, Family::IPV4_UNICAST);
    assert!(matches!(reach.next_hop(), NextHop::V6(_)));
    assert_eq!(reach.prefixes().unwrap().count(), 1);
    let table = MpReach::parse_dumped(&value[3..20], Family::IPV6_UNICAST, 0).unwrap();
    assert_eq!((table.next_hop, table.nlri), (reach.next_hop, &[][..]));
    assert_eq!(MpReach::parse_dumped(&value, Family::IPV4_UNICAST, 0).unwrap().nlri, reach.nlri);
}

#[test]
fn encodes_long_values_with_extended_length() {
    let mut bytes = Vec::new();
    encode(flags::OPTIONAL, 200, &[7; 255], &mut bytes).unwrap();
    assert_eq!(bytes[..3], [0x80, 200, 255]);
    bytes.clear();
    encode(flags::OPTIONAL, 200, &[7; 256], &mut bytes).unwrap();
    assert_eq!(bytes[..4], [0x90, 200, 1, 0]);
    bytes.clear();
    assert!(encode(flags::OPTIONAL, 200, &vec![7; 65536], &mut bytes).is_err());
    assert!(bytes.is_empty());
}

proptest! {
    #[test]
    fn encodes_decoded_attributes(
        code in prop_oneof![1..=40_u8, Just(128), any::<u8>()],
        value in proptest::collection::vec(any::<u8>(), 0..40),
        wide: bool,
    ) {
        let negotiated = if wide { four() } else { two() };
        let raw = raw(code, &value);
        let Ok(attribute) = Attribute::decode(raw, &negotiated) else { return Ok(()) };
        prop_assert_eq!(attribute.code(), code);
        let mut bytes = Vec::new();
        attribute.encode(&negotiated, &mut bytes).unwrap();
        let again = Attributes::new(&bytes, 10).next().unwrap().unwrap();
        prop_assert_eq!(again.flags, raw.flags & !flags::EXTENDED_LENGTH);
        prop_assert_eq!(Attribute::decode(again, &negotiated), Ok(attribute));
    }

    #[test]
    fn preserves_paths_in_session_of_two_octets(
        asns in proptest::collection::vec(1..0xffff_u32, 1..300),
    ) {
        let asns: Vec<_> = asns.into_iter().map(Asn).collect();
        let path = AsPathBuf::sequence(&asns);
        let mut bytes = Vec::new();
        Attribute::AsPath(path.view()).encode(&two(), &mut bytes).unwrap();
        let raw = Attributes::new(&bytes, 0).next().unwrap().unwrap();
        let Attribute::AsPath(read) = Attribute::decode(raw, &two()).unwrap() else {
            panic!("AS_PATH")
        };
        prop_assert_eq!(read.asns().collect::<Vec<_>>(), asns);
    }

    #[test]
    fn preserves_routes_of_family(
        safi in prop_oneof![Just(1), Just(2), Just(128), Just(70), any::<u8>()],
        afi in prop_oneof![Just(1), Just(2), Just(25), any::<u16>()],
        next_hop in proptest::collection::vec(any::<u8>(), 0..50),
        nlri in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let family = Family { afi: Afi(afi), safi: Safi(safi) };
        let reach =
            MpReach { family, next_hop: &next_hop, reserved: 0, nlri: &nlri, add_path: false };
        let mut bytes = Vec::new();
        Attribute::MpReach(reach).encode(&two(), &mut bytes).unwrap();
        let raw = Attributes::new(&bytes, 0).next().unwrap().unwrap();
        prop_assert_eq!(Attribute::decode(raw, &two()), Ok(Attribute::MpReach(reach)));
    }
}
