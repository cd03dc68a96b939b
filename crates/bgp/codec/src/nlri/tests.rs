use proptest::prelude::*;

use super::*;

fn v4s(bytes: &[u8]) -> Vec<String> {
    let shown = |nlri: Result<Nlri>| match nlri {
        Ok(nlri) => nlri.prefix.to_string(),
        Err(error) => error.to_string(),
    };
    Prefixes::new(bytes, Afi::IPV4, false).map(shown).collect()
}

#[test]
fn parses_prefixes_of_all_lengths() {
    let bytes = [0, 8, 10, 32, 1, 2, 3, 4, 13, 10, 0xff, 24, 192, 0, 2, 8, 11];
    let expected = ["0.0.0.0/0", "10.0.0.0/8", "1.2.3.4/32", "10.255.0.0/13", "192.0.2.0/24"];
    assert_eq!(v4s(&bytes)[..5], expected);
    assert_eq!(v4s(&bytes)[5], "11.0.0.0/8");
    // Fields shorter than the four octets that are loaded at once.
    assert_eq!(v4s(&[8, 10]), ["10.0.0.0/8"]);
    assert_eq!(v4s(&[0]), ["0.0.0.0/0"]);
    assert_eq!(v4s(&[16, 10, 1]), ["10.1.0.0/16"]);
}

#[test]
fn stops_after_first_error() {
    assert_eq!(
        v4s(&[8, 10, 33, 1, 2, 3, 4, 5])[1],
        "prefix length at byte 2: 33 is above the maximum of 32"
    );
    assert_eq!(v4s(&[8, 10, 24, 1, 2]), ["10.0.0.0/8", "prefix at byte 2: 3 bytes left, 4 needed"]);
    let errors = |bytes: &[u8], afi, add_path| {
        let last = Prefixes::new(bytes, afi, add_path).last();
        last.unwrap().unwrap_err().to_string()
    };
    let short = "path identifier at byte 0: 3 bytes left, 4 needed";
    assert_eq!(errors(&[0, 0, 1], Afi::IPV4, true), short);
    let none = "prefix length at byte 4: 0 bytes left, 1 needed";
    assert_eq!(errors(&[0, 0, 0, 1], Afi::IPV4, true), none);
    let long = "prefix length at byte 0: 129 is above the maximum of 128";
    assert_eq!(errors(&[129; 20], Afi::IPV6, false), long);
}

#[test]
fn frames_routes_of_other_families() {
    let lengths = |bytes: &[u8], afi, safi, add_path| -> Vec<usize> {
        let family = Family { afi: Afi(afi), safi: Safi(safi) };
        let routes = Routes::new(bytes, family, add_path);
        routes.map(|route| route.map_or(0, |route| route.bytes.len())).collect()
    };
    assert_eq!(lengths(&[2, 1, 9, 3, 0], 25, 70, false), [3, 2], "EVPN");
    assert_eq!(lengths(&[0, 1, 0, 2, 7, 7], 16388, 71, false), [6], "BGP-LS");
    assert_eq!(lengths(&[0, 2, 7, 7, 0, 0], 25, 65, false), [4, 2], "VPLS");
    assert_eq!(lengths(&[3, 1, 8, 10, 0xf0, 1, 9], 1, 133, false), [4, 3], "flow");
    assert_eq!(lengths(&[0], 1, 132, false), [1], "default route target");
    assert_eq!(lengths(&[0, 0, 0, 1, 32, 1, 2, 3, 4], 1, 4, true), [5], "labelled, ADD-PATH");
    assert_eq!(lengths(&[112, 1], 1, 128, false), [0], "cut");
    assert_eq!(lengths(&[97, 1], 1, 132, false), [0], "too long");
    assert_eq!(lengths(&[9, 9, 9], 77, 7, true), [3], "unknown");
}

fn some_nlri() -> impl Strategy<Value = Nlri> {
    let v4 = (any::<u32>(), 0..=32_u8).prop_map(|(bits, length)| Prefix::V4(bits, length));
    let v6 = (any::<u128>(), 0..=128_u8).prop_map(|(bits, length)| Prefix::V6(bits, length));
    let prefix = prop_oneof![v4, v6].prop_map(Prefix::masked);
    (proptest::option::of(any::<u32>()), prefix)
        .prop_map(|(path_id, prefix)| Nlri { path_id, prefix })
}

proptest! {
    #[test]
    fn decodes_encoded_prefixes(all in proptest::collection::vec(some_nlri(), 0..20)) {
        for (is_v6, add_path) in [(false, false), (false, true), (true, false), (true, true)] {
            let chosen: Vec<_> = all
                .iter()
                .filter(|nlri| matches!(nlri.prefix, Prefix::V6(..)) == is_v6)
                .filter(|nlri| nlri.path_id.is_some() == add_path)
                .copied()
                .collect();
            let mut bytes = Vec::new();
            for nlri in &chosen {
                encode(nlri, &mut bytes);
            }
            let afi = if is_v6 { Afi::IPV6 } else { Afi::IPV4 };
            let read: Result<Vec<_>> = Prefixes::new(&bytes, afi, add_path).collect();
            prop_assert_eq!(read.as_ref(), Ok(&chosen));
            let routes = Routes::new(&bytes, Family { afi, safi: Safi::UNICAST }, add_path);
            prop_assert_eq!(routes.flatten().count(), chosen.len());
        }
    }

    #[test]
    fn parses_arbitrary_bytes_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        afi in prop_oneof![1..3_u16, Just(25), Just(16388)],
        safi in prop_oneof![1..6_u8, 65..74_u8, 128..135_u8],
        add_path: bool,
    ) {
        let family = Family { afi: Afi(afi), safi: Safi(safi) };
        let ends = Routes::new(&bytes, family, add_path).take(100).count();
        prop_assert!(ends <= bytes.len());
        let prefixes = Prefixes::new(&bytes, family.afi, add_path).take(100).count();
        prop_assert!(prefixes <= bytes.len());
    }
}
