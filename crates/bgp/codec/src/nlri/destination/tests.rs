use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::nlri::Routes;

const fn family(afi: Afi, safi: Safi) -> Family {
    Family { afi, safi }
}

const MCAST_VPN: Family = family(Afi::IPV4, Safi::MCAST_VPN);

const FAMILIES: [Family; 19] = [
    Family::IPV4_UNICAST,
    Family::IPV6_UNICAST,
    family(Afi::IPV4, Safi::LABELLED),
    family(Afi::IPV6, Safi::LABELLED),
    family(Afi::IPV4, Safi::MPLS_VPN),
    family(Afi::IPV6, Safi::MPLS_VPN),
    family(Afi::IPV4, Safi::MCAST_MPLS_VPN),
    MCAST_VPN,
    family(Afi::IPV4, Safi::ROUTE_TARGET),
    family(Afi::IPV6, Safi::SR_POLICY),
    family(Afi::IPV4, Safi::FLOWSPEC),
    family(Afi::IPV6, Safi::FLOWSPEC),
    family(Afi::IPV4, Safi::FLOWSPEC_VPN),
    family(Afi::L2VPN, Safi::EVPN),
    family(Afi::L2VPN, Safi::VPLS),
    family(Afi::SERVICE_CHAIN, Safi::SERVICE_CHAIN),
    family(Afi::BGP_LS, Safi::BGP_LS),
    family(Afi::BGP_LS, Safi::BGP_LS_VPN),
    family(Afi(77), Safi(77)),
];

fn decode(family: Family, bytes: &[u8]) -> Result<Destination<'_>> {
    Destination::decode(&Route { path_id: None, bytes, at: 0 }, family)
}

#[test]
fn decodes_labels_and_distinguishers() {
    let stack = [0, 0x06, 0x40, 0, 0x0c, 0x81];
    let labelled = [&[72][..], &stack, &[10, 0, 1]].concat();
    let read = decode(family(Afi::IPV4, Safi::LABELLED), &labelled).unwrap();
    assert_eq!(read.to_string(), "10.0.1.0/24 label 100/200");
    let vpn = family(Afi::IPV4, Safi::MPLS_VPN);
    for (distinguisher, text) in [
        ([0, 0, 0xfd, 0xe8, 0, 0, 0, 1], "65000:1"),
        ([0, 1, 10, 0, 0, 1, 0, 7], "10.0.0.1:7"),
        ([0, 2, 0, 1, 0x11, 0x70, 0, 1], "70000:1"),
        ([0, 3, 1, 2, 3, 4, 5, 6], "0x0003010203040506"),
    ] {
        let bytes = [&[136][..], &stack, &distinguisher, &[10, 0, 1]].concat();
        let read = decode(vpn, &bytes).unwrap().to_string();
        assert_eq!(read, format!("{text} 10.0.1.0/24 label 100/200"));
        let bytes = [&[88][..], &distinguisher, &[10, 0, 1]].concat();
        let multicast = decode(family(Afi::IPV4, Safi::MCAST_MPLS_VPN), &bytes).unwrap();
        assert_eq!(multicast.to_string(), format!("{text} 10.0.1.0/24"));
    }
}

#[test]
fn keeps_other_routes_opaque() {
    // A multicast VPN route of type 2, and one of an undefined type.
    let bytes = [2, 3, 0, 0, 0, 99, 2, 7, 7];
    let routes: Vec<_> = Routes::new(&bytes, MCAST_VPN, false).map(Result::unwrap).collect();
    assert_eq!(Destination::decode(&routes[0], MCAST_VPN), Ok(Destination::Opaque(&bytes[..5])));
    let next = Destination::decode(&routes[1], MCAST_VPN).unwrap();
    assert_eq!(next.to_string(), "0x63020707");
}

#[test]
fn continues_after_malformed_route() {
    // A labelled route that is shorter than its label, and a whole one.
    let bytes = [16, 0, 0, 48, 0, 0x06, 0x41, 10, 0, 1];
    let labelled = family(Afi::IPV4, Safi::LABELLED);
    let routes: Vec<_> = Routes::new(&bytes, labelled, false).map(Result::unwrap).collect();
    assert!(Destination::decode(&routes[0], labelled).is_err());
    let next = Destination::decode(&routes[1], labelled).unwrap();
    assert_eq!(next.to_string(), "10.0.1.0/24 label 100");
}

/// Meaningful lengths and arbitrary ones.
fn octet() -> impl Strategy<Value = u8> {
    prop_oneof![0..16_u8, Just(32), Just(48), Just(96), Just(128), 0..=255_u8]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn keeps_all_bytes_of_opaque_routes(
        family in 0..FAMILIES.len(),
        add_path: bool,
        kind in 0..14_u8,
        length in 0..40_u8,
        small in vec(octet(), 0..80),
    ) {
        let family = FAMILIES[family];
        let mut bytes = if add_path { vec![0, 0, 0, 1] } else { Vec::new() };
        let fits = length.min(small.len() as u8);
        // Headers that often match the following bytes, so that decoding gets beyond the framing.
        bytes.extend(match family.safi {
            Safi::EVPN | Safi::MCAST_VPN => vec![kind, fits],
            Safi::BGP_LS | Safi::BGP_LS_VPN | Safi::SERVICE_CHAIN => vec![0, kind, 0, fits],
            Safi::VPLS => vec![0, if kind < 7 { 12 } else { 17 }],
            _ => Vec::new(),
        });
        bytes.extend(&small);
        for route in Routes::new(&bytes, family, add_path).flatten() {
            let Ok(destination) = Destination::decode(&route, family) else { continue };
            let _ = destination.to_string();
            if let Destination::Opaque(bytes) = destination {
                prop_assert_eq!(bytes, route.bytes);
            }
        }
    }
}
