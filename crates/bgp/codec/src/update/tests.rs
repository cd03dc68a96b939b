use proptest::prelude::*;

use super::*;
use crate::attribute::{AsPathBuf, MpReach, Origin, RawAttribute};
use crate::negotiated::Families;
use crate::nlri::Route;
use crate::verdict::{Action, Problem};
use crate::{Asn, Message, Prefix, Safi};

/// Log of all visits, in order.
#[derive(Default)]
struct Seen(Vec<String>);

impl Visitor for Seen {
    fn withdrawn(&mut self, family: Family, nlri: Nlri) {
        self.0.push(format!("-{family} {}", nlri.prefix));
    }

    fn withdrawn_route(&mut self, family: Family, route: Route<'_>) {
        self.0.push(format!("-{family} {:?}", route.bytes));
    }

    fn attribute(&mut self, raw: &RawAttribute<'_>, attribute: &Attribute<'_>) {
        assert_eq!(raw.code, attribute.code());
        self.0.push(attribute::name(raw.code).unwrap_or("?").to_owned());
    }

    fn announced(&mut self, family: Family, nlri: Nlri) {
        self.0.push(format!("+{family} {} {:?}", nlri.prefix, nlri.path_id));
    }

    fn announced_route(&mut self, family: Family, route: Route<'_>) {
        self.0.push(format!("+{family} {:?}", route.bytes));
    }

    fn problem(&mut self, problem: Problem) {
        self.0.push(format!("!{}", problem.error));
    }
}

fn body(message: &[u8]) -> &[u8] {
    Message::split(message).unwrap().body()
}

fn v4(bits: u32, length: u8) -> Nlri {
    Nlri { path_id: None, prefix: Prefix::V4(bits, length) }
}

#[test]
fn visits_all_parts_of_update() {
    let negotiated =
        Negotiated { add_path: Families::NONE.with(Family::IPV6_UNICAST), ..Negotiated::default() };
    let mut builder = UpdateBuilder::new(negotiated);
    builder.withdraw(&v4(0x0b00_0000, 8)).unwrap();
    let path = AsPathBuf::sequence(&[Asn(1), Asn(2)]);
    let nlri = [0, 0, 0, 7, 16, 0x20, 1];
    let reach = MpReach {
        family: Family::IPV6_UNICAST,
        next_hop: &[0x20; 16],
        reserved: 0,
        nlri: &nlri,
        add_path: true,
    };
    let evpn = Family { afi: Afi::L2VPN, safi: Safi::EVPN };
    let unreach = MpUnreach { family: evpn, nlri: &[200, 1, 5], add_path: false };
    for attribute in [
        Attribute::Origin(Origin::Igp),
        Attribute::AsPath(path.view()),
        Attribute::NextHop([192, 0, 2, 1].into()),
        Attribute::MpReach(reach),
        Attribute::MpUnreach(unreach),
    ] {
        builder.attribute(&attribute).unwrap();
    }
    builder.raw_attribute(0xc0, 20, &[1, 2]).unwrap();
    builder.announce(&v4(0x0a01_0000, 16)).unwrap();
    let bytes = builder.build().unwrap();
    let mut seen = Seen::default();
    assert_eq!(walk(body(&bytes), &negotiated, &mut seen), Action::Accept);
    let expected = [
        "-ipv4/unicast 11.0.0.0/8",
        "ORIGIN",
        "AS_PATH",
        "NEXT_HOP",
        "MP_REACH_NLRI",
        "+ipv6/unicast 2001::/16 Some(7)",
        "MP_UNREACH_NLRI",
        "-l2vpn/evpn [200, 1, 5]",
        "?",
        "+ipv4/unicast 10.1.0.0/16 None",
    ];
    assert_eq!(seen.0, expected);
}

#[test]
fn visits_malformed_attributes_as_opaque() {
    let mut builder = UpdateBuilder::new(Negotiated::default());
    builder.raw_attribute(0x40, 1, &[9]).unwrap();
    builder.raw_attribute(0x40, 1, &[0]).unwrap();
    builder.announce(&v4(0x0a00_0000, 8)).unwrap();
    let bytes = builder.build().unwrap();
    let mut seen = Seen::default();
    assert_eq!(walk(body(&bytes), &Negotiated::default(), &mut seen), Action::TreatAsWithdraw);
    let expected = [
        "ORIGIN",
        "!ORIGIN at byte 7: 9 is not a valid origin",
        "!duplicate ORIGIN at byte 8",
        "+ipv4/unicast 10.0.0.0/8 None",
        "!AS_PATH is missing; the input ends at byte 12",
        "!NEXT_HOP is missing; the input ends at byte 12",
    ];
    assert_eq!(seen.0, expected);
}

#[test]
fn recognizes_end_of_rib() {
    let end = |body: &[u8]| Update::parse(body).unwrap().end_of_rib();
    assert_eq!(end(&[0, 0, 0, 0]), Some(Family::IPV4_UNICAST));
    let of_ipv6 = [0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1];
    assert_eq!(end(&of_ipv6), Some(Family::IPV6_UNICAST));
    let long = [0, 0, 0, 7, 0x90, 15, 0, 3, 0, 2, 1];
    assert_eq!(end(&long), Some(Family::IPV6_UNICAST));
    assert_eq!(end(&[0, 0, 0, 7, 0x80, 15, 4, 0, 2, 1, 0]), None, "it withdraws ::/0");
    assert_eq!(end(&[0, 2, 8, 10, 0, 0]), None);
    assert_eq!(end(&[0, 0, 0, 4, 0x40, 1, 1, 0]), None);
    assert_eq!(end(&[0, 0, 0, 10, 0x80, 15, 3, 0, 2, 1, 0x40, 1, 1, 0]), None);
}

#[test]
fn rejects_messages_above_limit() {
    let fill = |negotiated| {
        let mut builder = UpdateBuilder::new(negotiated);
        let count = (0..65536).take_while(|bits| builder.announce(&v4(*bits, 32)).is_ok()).count();
        assert!(builder.withdraw(&v4(0, 32)).is_err() && builder.withdraw(&v4(0, 0)).is_ok());
        (count, builder.build().unwrap().len())
    };
    assert_eq!(fill(Negotiated::default()), ((4096 - 23) / 5, 4094));
    let extended = Negotiated { extended_message: true, ..Negotiated::default() };
    assert_eq!(fill(extended), ((65535 - 23) / 5, 65534));
}

proptest! {
    #[test]
    fn parses_built_messages(
        withdrawn in proptest::collection::vec((any::<u32>(), 0..=32_u8), 0..20),
        announced in proptest::collection::vec((any::<u32>(), 0..=32_u8), 0..20),
        path_id in proptest::option::of(any::<u32>()),
        asns in proptest::collection::vec(1..u32::MAX, 0..20),
        med: u32,
    ) {
        let add_path = match path_id {
            Some(_) => Families::NONE.with(Family::IPV4_UNICAST),
            None => Families::NONE,
        };
        let negotiated = Negotiated { four_octet_as: true, add_path, ..Negotiated::default() };
        let nlri = |&(bits, length): &(u32, u8)| {
            Nlri { path_id, prefix: Prefix::V4(bits, length).masked() }
        };
        let withdrawn: Vec<_> = withdrawn.iter().map(nlri).collect();
        let announced: Vec<_> = announced.iter().map(nlri).collect();
        let asns: Vec<_> = asns.into_iter().map(Asn).collect();
        let path = AsPathBuf::sequence(&asns);
        let sent = [Attribute::AsPath(path.view()), Attribute::MultiExitDisc(med)];
        let mut builder = UpdateBuilder::new(negotiated);
        for nlri in &withdrawn {
            builder.withdraw(nlri).unwrap();
        }
        for attribute in &sent {
            builder.attribute(attribute).unwrap();
        }
        for nlri in &announced {
            builder.announce(nlri).unwrap();
        }
        let bytes = builder.build().unwrap();
        let update = Update::parse(body(&bytes)).unwrap();
        let read: Result<Vec<_>> = update.withdrawn(&negotiated).collect();
        prop_assert_eq!(read, Ok(withdrawn));
        let read: Result<Vec<_>> = update.announced(&negotiated).collect();
        prop_assert_eq!(read, Ok(announced));
        let read: Vec<_> = update
            .attributes()
            .map(|raw| Attribute::decode(raw.unwrap(), &negotiated).unwrap())
            .collect();
        prop_assert_eq!(read, sent);
    }
}
