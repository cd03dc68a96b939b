//! Routes of any family and attributes of any type are told without a panic, and are written as
//! they were read.
#![no_main]

use bgp::attribute::{Attribute, RawAttribute};
use bgp::nlri::destinations;
use bgp::{Afi, Family, Negotiated, Safi};
use libfuzzer_sys::fuzz_target;

/// Families whose routes are typed, and one that nobody knows.
const FAMILIES: [(u16, u8); 23] = [
    (1, 1),
    (2, 1),
    (1, 4),
    (2, 4),
    (1, 128),
    (2, 128),
    (1, 129),
    (1, 5),
    (2, 5),
    (1, 132),
    (1, 73),
    (2, 73),
    (1, 133),
    (2, 133),
    (1, 134),
    (2, 134),
    (25, 70),
    (25, 65),
    (25, 133),
    (31, 9),
    (16388, 71),
    (16388, 72),
    (77, 77),
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    if first >= 0x80 {
        let negotiated = Negotiated::default();
        let raw = RawAttribute { flags: 0xc0, code: first & 0x7f, value: bytes, at: 0 };
        let set = RawAttribute { code: 128, ..raw };
        for raw in [raw, set] {
            let Ok(attribute) = Attribute::decode(raw, &negotiated) else { continue };
            let _ = format!("{attribute:?}");
            tell(&attribute);
            let mut again = Vec::new();
            if attribute.encode(&negotiated, &mut again).is_ok() && raw.code >= 16 {
                assert!(again.ends_with(bytes));
            }
        }
        return;
    }
    let (afi, safi) = FAMILIES[usize::from(first) % FAMILIES.len()];
    let family = Family { afi: Afi(afi), safi: Safi(safi) };
    for (route, destination) in destinations(family, bytes, first & 0x40 != 0).flatten() {
        let _ = destination.to_string();
        let mut again = Vec::new();
        destination.encode(&mut again).expect("it fitted before");
        // Lengths of flow specifications may take two octets where one would do.
        assert!(again.len() <= route.bytes.len());
        let mut reread = destinations(family, &again, false).flatten();
        assert_eq!(
            reread.next().map(|read| read.1),
            Some(destination).filter(|_| !again.is_empty())
        );
    }
});

fn tell(attribute: &Attribute<'_>) {
    let _ = match attribute {
        Attribute::ExtendedCommunities(list) => list.to_string(),
        Attribute::Ipv6ExtendedCommunities(list) => list.to_string(),
        Attribute::PmsiTunnel(tunnel) => tunnel.to_string(),
        Attribute::TunnelEncapsulation(tunnels) => tunnels.to_string(),
        Attribute::BgpLs(properties) => properties.to_string(),
        Attribute::Bgpsec(path) => path.to_string(),
        Attribute::PrefixSid(sid) => sid.to_string(),
        Attribute::Sfp(path) => path.to_string(),
        Attribute::Aigp(aigp) => format!("{:?}", aigp.metric()),
        Attribute::AttrSet(set) => set.typed().count().to_string(),
        _ => String::new(),
    };
}
