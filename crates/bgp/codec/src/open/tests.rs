use proptest::prelude::*;

use super::*;
use crate::{Afi, Family, Message, Safi};

fn build(capabilities: &[Capability<'_>]) -> Vec<u8> {
    let mut open = OpenBuilder::new(Asn(4_200_000_001), 90, 0x0a00_0001);
    for capability in capabilities {
        open.capability(capability).unwrap();
    }
    open.build().unwrap()
}

fn parse(message: &[u8]) -> Open<'_> {
    Open::parse(Message::split(message).unwrap().body()).unwrap()
}

#[test]
fn decodes_encoded_capabilities() {
    let sent = [
        Capability::Multiprotocol(Family { afi: Afi::L2VPN, safi: Safi::EVPN }),
        Capability::RouteRefresh,
        Capability::ExtendedMessage,
        Capability::GracefulRestart {
            restarted: true,
            notification: true,
            time: 120,
            families: &[[0, 1, 1, 0x80]],
        },
        Capability::FourOctetAs(Asn(4_200_000_001)),
        Capability::AddPath(&[[0, 1, 1, 3], [0, 2, 1, 1]]),
        Capability::LongLivedGracefulRestart(&[[0, 1, 1, 0x80, 1, 0, 0]]),
        Capability::Opaque(200, &[1, 2, 3]),
    ];
    let bytes = build(&sent);
    let open = parse(&bytes);
    assert_eq!(open.capabilities().collect::<Vec<_>>(), sent);
    assert_eq!((open.my_as, open.asn()), (23456, Asn(4_200_000_001)));
    assert_eq!((open.version, open.hold_time, open.id), (4, 90, 0x0a00_0001));
    let ipv4 = Family::IPV4_UNICAST;
    assert_eq!(sent[3].restarting().next(), Some((ipv4, true)));
    assert_eq!(sent[6].long_lived().next(), Some((ipv4, true, 65536)));
}

#[test]
fn extends_long_parameters() {
    let long = [7; 200];
    let sent = [Capability::Opaque(201, &long), Capability::Opaque(202, &long)];
    let bytes = build(&sent);
    let open = parse(&bytes);
    assert!(open.extended);
    assert_eq!(open.capabilities().collect::<Vec<_>>(), sent);
    let mut limit = OpenBuilder::new(Asn(1), 0, 1);
    assert!(limit.capability(&Capability::Opaque(67, &[0; 256])).is_err());
    for _ in 0..20 {
        limit.capability(&Capability::Opaque(67, &[0; 255])).unwrap();
    }
    assert!(limit.build().is_err(), "an OPEN has at most 4,096 octets");
}

#[test]
fn keeps_malformed_capabilities_opaque() {
    let body = [4, 0, 1, 0, 90, 1, 1, 1, 1, 8, 2, 6, 65, 2, 0, 1, 2, 0];
    let open = Open::parse(&body).unwrap();
    let found: Vec<_> = open.capabilities().collect();
    assert_eq!(found, [Capability::Opaque(65, &[0, 1]), Capability::RouteRefresh]);
    assert_eq!(open.asn(), Asn(1));
    assert!(Open::parse(&body[..17]).is_err());
    assert!(Open::parse(&[&body[..], &[0]].concat()).is_err());
    // A capability that is longer than its parameter.
    let cut = [4, 0, 1, 0, 90, 1, 1, 1, 1, 4, 2, 2, 65, 4];
    let open = Open::parse(&cut).unwrap();
    assert_eq!(open.capabilities().count(), 0);
    assert!(open.raw_capabilities().next().unwrap().is_err());
}

#[test]
fn negotiates_common_capabilities() {
    let everything = [
        Capability::FourOctetAs(Asn(65000)),
        Capability::ExtendedMessage,
        Capability::AddPath(&[[0, 1, 1, 2], [0, 2, 1, 3]]),
    ];
    let takes = [
        Capability::FourOctetAs(Asn(65001)),
        Capability::AddPath(&[[0, 1, 1, 1], [0, 2, 1, 2], [0, 1, 2, 9]]),
    ];
    let (one, other) = (build(&everything), build(&takes));
    let (one, other) = (parse(&one), parse(&other));
    let there = Negotiated::between(&one, &other);
    assert!(there.four_octet_as && !there.extended_message);
    assert_eq!(there.add_path.iter().collect::<Vec<_>>(), [Family::IPV4_UNICAST]);
    let back = Negotiated::between(&other, &one);
    assert!(back.extended_message);
    assert_eq!(back.add_path.iter().collect::<Vec<_>>(), [Family::IPV6_UNICAST]);
    let nothing = build(&[]);
    assert_eq!(Negotiated::between(&parse(&nothing), &one).add_path, Families::NONE);
    assert!(!Negotiated::between(&parse(&nothing), &one).four_octet_as);
    assert!(parse(&nothing).families().contains(Family::IPV4_UNICAST));
}

proptest! {
    #[test]
    fn parses_any_bytes_without_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(open) = Open::parse(&body) {
            prop_assert!(open.capabilities().count() <= body.len());
            let _ = (open.asn(), open.families(), Negotiated::between(&open, &open));
        }
    }

    #[test]
    fn preserves_arbitrary_capabilities(
        capabilities in proptest::collection::vec(
            (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..12),
    ) {
        let sent: Vec<_> = capabilities
            .iter()
            .map(|(code, value)| Capability::decode(*code, value))
            .collect();
        let bytes = build(&sent);
        // Encoding does not preserve reserved bits.
        let twice: Vec<_> = parse(&bytes).capabilities().collect();
        let again = build(&twice);
        prop_assert_eq!(&bytes, &again);
        prop_assert_eq!(twice, sent);
    }
}
