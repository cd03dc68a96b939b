use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Asn;
use crate::attribute::ExtendedCommunity;
use crate::nlri::evpn::{Esi, EvpnRoute, Flow, Mac};
use crate::nlri::flowspec::{Component, Test, Tests};
use crate::nlri::labelled::{Label, Labels};
use crate::nlri::vpn::{Distinguisher, RouteDistinguisher};

const fn family(afi: Afi, safi: Safi) -> Family {
    Family { afi, safi }
}

const FAMILIES: [Family; 23] = [
    family(Afi::IPV4, Safi::UNICAST),
    family(Afi::IPV6, Safi::UNICAST),
    family(Afi::IPV4, Safi::LABELLED),
    family(Afi::IPV6, Safi::LABELLED),
    family(Afi::IPV4, Safi::MPLS_VPN),
    family(Afi::IPV6, Safi::MPLS_VPN),
    family(Afi::IPV4, Safi::MCAST_MPLS_VPN),
    family(Afi::IPV4, Safi::MCAST_VPN),
    family(Afi::IPV6, Safi::MCAST_VPN),
    family(Afi::IPV4, Safi::ROUTE_TARGET),
    family(Afi::IPV4, Safi::SR_POLICY),
    family(Afi::IPV6, Safi::SR_POLICY),
    family(Afi::IPV4, Safi::FLOWSPEC),
    family(Afi::IPV6, Safi::FLOWSPEC),
    family(Afi::IPV4, Safi::FLOWSPEC_VPN),
    family(Afi::IPV6, Safi::FLOWSPEC_VPN),
    family(Afi::L2VPN, Safi::EVPN),
    family(Afi::L2VPN, Safi::VPLS),
    family(Afi::SERVICE_CHAIN, Safi::SERVICE_CHAIN),
    family(Afi::L2VPN, Safi::FLOWSPEC),
    family(Afi::BGP_LS, Safi::BGP_LS),
    family(Afi::BGP_LS, Safi::BGP_LS_VPN),
    family(Afi(77), Safi(77)),
];

/// Encodes, frames and reads again; the text is of what came back.
fn round(family: Family, destination: &Destination<'_>) -> String {
    let mut bytes = Vec::new();
    destination.encode(&mut bytes).unwrap();
    let read: Vec<_> = destinations(family, &bytes, false).map(Result::unwrap).collect();
    assert_eq!(read.len(), 1, "{bytes:02x?}");
    assert_eq!(&read[0].1, destination);
    let mut with_id = vec![0, 0, 0, 9];
    with_id.extend(&bytes);
    if family.afi != Afi(77) {
        let (route, again) = destinations(family, &with_id, true).next().unwrap().unwrap();
        assert_eq!((route.path_id, &again), (Some(9), destination));
    }
    read[0].1.to_string()
}

#[test]
fn routes_are_named_as_operators_name_them() {
    let distinguisher = RouteDistinguisher::from(Distinguisher::As2(65000, 1));
    let prefix = Prefix::V4(0x0a00_0100, 24);
    let stack = [0, 0x06, 0x40, 0, 0x0c, 0x81];
    let labels = Labels::parse(&stack).unwrap();
    let vpn4 = family(Afi::IPV4, Safi::MPLS_VPN);
    let vpn = Vpn { labels, distinguisher, prefix };
    assert_eq!(round(vpn4, &Destination::Vpn(vpn)), "65000:1 10.0.1.0/24 label 100/200");
    let labelled = Destination::Labelled(Labelled { labels, prefix });
    let text = round(family(Afi::IPV4, Safi::LABELLED), &labelled);
    assert_eq!(text, "10.0.1.0/24 label 100/200");
    let policy =
        SrPolicy { distinguisher: 1, color: 100, endpoint: "2001:db8::1".parse().unwrap() };
    let text = round(family(Afi::IPV6, Safi::SR_POLICY), &Destination::SrPolicy(policy));
    assert_eq!(text, "[1][100][2001:db8::1]/192");
    let target = RouteTarget::new(Asn(65000), ExtendedCommunity::route_target(Asn(65000), 7));
    let targets = family(Afi::IPV4, Safi::ROUTE_TARGET);
    assert_eq!(round(targets, &Destination::RouteTarget(target)), "65000:rt:65000:7/96");
    assert_eq!(round(targets, &Destination::RouteTarget(RouteTarget::DEFAULT)), "default");
}

#[test]
fn private_lans_and_service_chains() {
    let distinguisher = RouteDistinguisher::from(Distinguisher::Address([10, 0, 0, 1].into(), 7));
    let base = 800_000 << 4;
    let block = Vpls::Block { distinguisher, edge: 3, offset: 1, size: 8, base };
    let vpls = family(Afi::L2VPN, Safi::VPLS);
    let text = round(vpls, &Destination::Vpls(block));
    assert_eq!(text, "10.0.0.1:7 ve 3 block 1 size 8 base 800000");
    let edge = Vpls::Edge { distinguisher, address: [10, 0, 0, 2].into() };
    assert_eq!(round(vpls, &Destination::Vpls(edge)), "10.0.0.1:7 10.0.0.2");
    let chain = family(Afi::SERVICE_CHAIN, Safi::SERVICE_CHAIN);
    let instance = ServiceChain::Instance { distinguisher, function: 4 };
    let text = round(chain, &Destination::ServiceChain(instance));
    assert_eq!(text, "10.0.0.1:7 function 4");
    let path = ServiceChain::Path { distinguisher, path: 9 };
    assert_eq!(round(chain, &Destination::ServiceChain(path)), "10.0.0.1:7 path 9");
}

#[test]
fn multicast_vpn_routes_of_all_types() {
    let distinguisher = RouteDistinguisher::from(Distinguisher::As2(65000, 1));
    let originator = "10.0.0.1".parse().unwrap();
    let (source, group) = ("10.0.0.9".parse().ok(), "232.1.1.1".parse().ok());
    let source_as = Asn(65000);
    let key = [2, 12, 0, 0, 0xfd, 0xe8, 0, 0, 0, 1, 0, 0, 0xfd, 0xe8];
    let shared = McastVpn::Join { shared: true, distinguisher, source_as, source, group };
    let tree = McastVpn::Join { shared: false, distinguisher, source_as, source, group };
    let routes = [
        (McastVpn::IntraAs { distinguisher, originator }, "65000:1 [1]:[10.0.0.1]"),
        (McastVpn::InterAs { distinguisher, source_as }, "65000:1 [2]:[65000]"),
        (
            McastVpn::Selective { distinguisher, source, group: None, originator },
            "65000:1 [3]:[10.0.0.9]:[*]:[10.0.0.1]",
        ),
        (McastVpn::Leaf { key: &key, originator }, "[4]:[020c0000fde8000000010000fde8]:[10.0.0.1]"),
        (
            McastVpn::SourceActive { distinguisher, source, group },
            "65000:1 [5]:[10.0.0.9]:[232.1.1.1]",
        ),
        (shared, "65000:1 [6]:[65000]:[10.0.0.9]:[232.1.1.1]"),
        (tree, "65000:1 [7]:[65000]:[10.0.0.9]:[232.1.1.1]"),
        (McastVpn::Other { kind: 9, bytes: &[1] }, "[9]:[01]"),
    ];
    for (route, text) in routes {
        let shown = round(family(Afi::IPV4, Safi::MCAST_VPN), &Destination::McastVpn(route));
        assert_eq!(shown, text);
    }
}

#[test]
fn evpn_routes_of_all_types() {
    let address = "10.0.0.1".parse().ok();
    let group = "232.1.1.1".parse().ok();
    let segment = Esi([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let label = Label::bottom(100);
    let flow = Flow { tag: 5, source: address, group, originator: address };
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let key = [3, 13, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    let shown = "[1]:[00:01:02:03:04:05:06:07:08:09]";
    let flows = "[5]:[32]:[10.0.0.1]:[32]:[232.1.1.1]:[32]:[10.0.0.1]";
    let routes = [
        (EvpnRoute::AutoDiscovery { segment, tag: 1, label }, format!("[1]:{shown}")),
        (
            EvpnRoute::MacIp { segment, tag: 0, mac, address, label, second_label: Some(label) },
            "[2]:[0]:[48]:[02:00:00:00:00:01]:[32]:[10.0.0.1]".into(),
        ),
        (
            EvpnRoute::InclusiveMulticast { tag: 0, originator: address },
            "[3]:[0]:[32]:[10.0.0.1]".into(),
        ),
        (
            EvpnRoute::Segment { segment, originator: address },
            format!("[4]:{}:[32]:[10.0.0.1]", &shown[4..]),
        ),
        (
            EvpnRoute::Prefix {
                segment,
                tag: 0,
                prefix: Prefix::V4(0x0a01_0000, 16),
                gateway: "0.0.0.0".parse().unwrap(),
                label,
            },
            "[5]:[0]:[16]:[10.1.0.0]".into(),
        ),
        (EvpnRoute::SelectiveMulticast { flow, flags: 2 }, format!("[6]:{flows}")),
        (
            EvpnRoute::MembershipReport { segment, flow, flags: 2 },
            format!("[7]:{}:{flows}", &shown[4..]),
        ),
        (
            EvpnRoute::Leave { segment, flow, reserved: 0, response_time: 10, flags: 2 },
            format!("[8]:{}:{flows}", &shown[4..]),
        ),
        (EvpnRoute::PerRegion { tag: 7, region: [1; 8] }, "[9]:[7]:[0101010101010101]".into()),
        (EvpnRoute::Selective(flow), format!("[10]:{flows}")),
    ];
    let evpn = family(Afi::L2VPN, Safi::EVPN);
    let distinguisher = Some(RouteDistinguisher::from(Distinguisher::As2(65000, 1)));
    for (route, text) in routes {
        let shown = round(evpn, &Destination::Evpn(Evpn { distinguisher, route }));
        assert_eq!(shown, format!("65000:1 {text}"));
    }
    let leaf = EvpnRoute::Leaf { key: &key, originator: address };
    let text = round(evpn, &Destination::Evpn(Evpn { distinguisher: None, route: leaf }));
    assert_eq!(text, "[11]:[030d00000001000000010000000000]:[32]:[10.0.0.1]");
    let other = EvpnRoute::Other { kind: 99, bytes: &[1, 2] };
    let text = round(evpn, &Destination::Evpn(Evpn { distinguisher: None, route: other }));
    assert_eq!(text, "[99]:[0102]");
}

#[test]
fn flow_specifications_are_read_and_written() {
    let mut components = Vec::new();
    Component::Prefix { kind: 1, prefix: Prefix::V4(0x0a00_0000, 8), offset: 0 }
        .encode(Afi::IPV4, &mut components);
    let mut tests = Vec::new();
    let between = [
        Test { operator: 3, value: 80 },
        Test { operator: 0x45, value: 90 },
        Test { operator: 1, value: 8080 },
    ];
    Tests::encode(&between, &mut tests);
    components.push(5);
    components.extend(&tests);
    components.extend([9, 0x81, 0x02, 12, 0x80, 0x05]);
    let flow = Flowspec::parse(Afi::IPV4, None, &components).unwrap();
    let text = round(family(Afi::IPV4, Safi::FLOWSPEC), &Destination::Flowspec(flow));
    assert_eq!(
        text,
        "flow4 { dst 10.0.0.0/8; dport >= 80 && <= 90 || = 8080; tcp flags = 0x2; \
         fragment dont_fragment,first_fragment; }"
    );
    // Descending types, and a component that is not there whole.
    assert!(Flowspec::parse(Afi::IPV4, None, &[5, 0x81, 80, 4, 0x81, 80]).is_err());
    assert!(Flowspec::parse(Afi::IPV4, None, &[5, 0x91, 80]).is_err());

    // 240 octets and more take two octets of length.
    let mut long = vec![5];
    let many: Vec<_> = (0..100).map(|value| Test { operator: 1, value: 256 + value }).collect();
    Tests::encode(&many, &mut long);
    let rd = Some(RouteDistinguisher::from(Distinguisher::As4(Asn(70000), 1)));
    let flow = Flowspec::parse(Afi::IPV4, rd, &long).unwrap();
    let text = round(family(Afi::IPV4, Safi::FLOWSPEC_VPN), &Destination::Flowspec(flow));
    assert!(text.starts_with("70000:1 flow4 { dport = 256 || = 257 ||"), "{text}");

    // RFC 8956 §3.8.2: a prefix whose first 64 bits do not matter.
    let six = [1, 104, 64, 0x12, 0x34, 0x56, 0x78, 0x9a];
    let flow = Flowspec::parse(Afi::IPV6, None, &six).unwrap();
    let text = round(family(Afi::IPV6, Safi::FLOWSPEC), &Destination::Flowspec(flow));
    assert_eq!(text, "flow6 { dst ::1234:5678:9a00:0/104 offset 64; }");
    // The same behind its first 65 bits.
    let odd = [1, 104, 65, 0x24, 0x68, 0xac, 0xf1, 0x34];
    let shifted = Flowspec::parse(Afi::IPV6, None, &odd).unwrap();
    assert_eq!(shifted.to_string(), "flow6 { dst ::1234:5678:9a00:0/104 offset 65; }");
    let mut again = Vec::new();
    flow.components().for_each(|component| component.encode(Afi::IPV6, &mut again));
    assert_eq!(again, six);
}

#[test]
fn link_state_descriptors_are_typed() {
    let local = [
        &[1, 0, 0, 26, 2, 0, 0, 4, 0, 0, 0xfd, 0xe8][..],
        &[2, 2, 0, 4, 0, 0, 0, 0, 2, 3, 0, 6, 0x17, 0x20, 0x16, 0, 0x40, 1],
    ]
    .concat();
    let mut node = vec![0, 1, 0, 39, 2, 0, 0, 0, 0, 0, 0, 0, 7];
    node.extend(&local);
    let prefix = [1, 9, 0, 3, 16, 10, 1];
    let mut route = vec![0, 3, 0, 46, 3, 0, 0, 0, 0, 0, 0, 0, 7];
    route.extend(&local);
    route.extend(prefix);
    let bytes = [node, route].concat();
    let family = family(Afi::BGP_LS, Safi::BGP_LS);
    let read: Vec<_> = destinations(family, &bytes, false).map(|read| read.unwrap().1).collect();
    let shown = "[local as 65000 area 0.0.0.0 igp-router 1720.1600.4001.00]";
    assert_eq!(read[0].to_string(), format!("node isis2 7 {shown}"));
    assert_eq!(read[1].to_string(), format!("prefix4 ospf 7 {shown} prefix 10.1.0.0/16"));
    assert_eq!(round(family, &read[0]), read[0].to_string());
    assert_eq!(round(family, &read[1]), read[1].to_string());
}

#[test]
fn a_malformed_route_does_not_hide_the_next() {
    // A multicast VPN route of type 2 that is too short, and a whole one.
    let bytes = [2, 3, 0, 0, 0, 2, 12, 0, 0, 0xfd, 0xe8, 0, 0, 0, 1, 0, 0, 0, 9];
    let family = family(Afi::IPV4, Safi::MCAST_VPN);
    let read: Vec<_> = destinations(family, &bytes, false).collect();
    assert!(read[0].is_err());
    assert_eq!(read[1].unwrap().1.to_string(), "65000:1 [2]:[9]");
}

/// Lengths that mean something, and anything else.
fn octet() -> impl Strategy<Value = u8> {
    prop_oneof![0..16_u8, Just(32), Just(48), Just(96), Just(128), 0..=255_u8]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn what_was_read_survives_being_written(
        family in 0..FAMILIES.len(),
        add_path: bool,
        kind in 0..14_u8,
        length in 0..40_u8,
        small in vec(octet(), 0..80),
    ) {
        let family = FAMILIES[family];
        let mut bytes = if add_path { vec![0, 0, 0, 1] } else { Vec::new() };
        let fits = length.min(small.len() as u8);
        // Headers that often fit what follows, so that more than framing is reached.
        bytes.extend(match family.safi {
            Safi::EVPN | Safi::MCAST_VPN => vec![kind, fits],
            Safi::BGP_LS | Safi::BGP_LS_VPN | Safi::SERVICE_CHAIN => vec![0, kind, 0, fits],
            Safi::VPLS => vec![0, if kind < 7 { 12 } else { 17 }],
            _ => Vec::new(),
        });
        bytes.extend(&small);
        for read in destinations(family, &bytes, add_path) {
            let Ok((route, destination)) = read else { continue };
            let _ = destination.to_string();
            let mut again = Vec::new();
            destination.encode(&mut again).unwrap();
            // Lengths of flow specifications may take two octets where one would do.
            prop_assert!(again.len() <= route.bytes.len());
            let reread = destinations(family, &again, false).next();
            if let Some(reread) = reread {
                prop_assert_eq!(reread.unwrap().1, destination);
            }
        }
    }

    #[test]
    fn distinguishers_survive_being_written(octets: [u8; 8]) {
        let distinguisher = RouteDistinguisher(octets);
        prop_assert_eq!(RouteDistinguisher::from(distinguisher.parts()), distinguisher);
    }
}
