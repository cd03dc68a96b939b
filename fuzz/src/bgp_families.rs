//! Routes of any family and attributes of any type are decoded without a panic, and their
//! bytes are kept.

use bgp::attribute::{Attribute, RawAttribute};
use bgp::nlri::{Destination, Routes};
use bgp::{Afi, Family, Negotiated, Safi};

/// Families whose routes are decoded or checked, and an unknown one.
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

pub(crate) fn target(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    if first >= 0x80 {
        let negotiated = Negotiated::default();
        let raw = RawAttribute { flags: 0xc0, code: first & 0x7f, value: bytes, at: 0 };
        let set = RawAttribute { code: 128, ..raw };
        for raw in [raw, set] {
            let Ok(attribute) = Attribute::decode(raw, &negotiated) else { continue };
            let _ = format!("{attribute:?}");
            if let Attribute::ExtendedCommunities(list) = attribute {
                let _ = list.to_string();
            }
            let mut again = Vec::new();
            if attribute.encode(&negotiated, &mut again).is_ok() && raw.code >= 16 {
                assert!(again.ends_with(bytes));
            }
        }
        return;
    }
    let (afi, safi) = FAMILIES[usize::from(first) % FAMILIES.len()];
    let family = Family { afi: Afi(afi), safi: Safi(safi) };
    for route in Routes::new(bytes, family, first & 0x40 != 0).flatten() {
        let Ok(destination) = Destination::decode(&route, family) else { continue };
        let _ = destination.to_string();
        if let Destination::Opaque(bytes) = destination {
            assert_eq!(bytes, route.bytes);
        }
    }
}
