//! Attributes of a customer's route, carried through a provider's VPN (RFC 6368).

use super::{Attribute, Attributes, RawAttribute, code};
use crate::{Asn, Error, Negotiated, Result};

/// Sets within sets are looked into this deep. Deeper ones come from nobody who means it.
const DEPTH: usize = 4;

/// The value of attribute 128: the customer's AS and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttrSet<'a>(&'a [u8]);

impl<'a> AttrSet<'a> {
    /// Wrong if the AS is missing, the attributes do not fill the rest, or families of routes are
    /// among them, or sets nest deeper than four (RFC 7606 §7.16, RFC 6368 §5).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut pending = vec![(value, 0)];
        while let Some((value, depth)) = pending.pop() {
            if value.len() < 4 {
                let (field, have) = ("origin AS of ATTR_SET", value.len());
                return Err(Error::Short { field, at: 0, need: 4, have });
            }
            for attribute in Self(value).attributes() {
                let RawAttribute { code: kind, value, at, .. } = attribute?;
                let wrong = match kind {
                    code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => "not allowed in a set",
                    code::ATTR_SET if depth + 1 >= DEPTH => "a set too deep",
                    code::ATTR_SET => {
                        pending.push((value, depth + 1));
                        continue;
                    }
                    _ => continue,
                };
                return Err(Error::Value { field: "ATTR_SET", at, value: kind.into(), wrong });
            }
        }
        Ok(Self(value))
    }

    /// The AS of the customer's edge that sent the route.
    pub fn origin(self) -> Asn {
        Asn(self.0.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets)))
    }

    /// The customer's attributes, framed.
    pub fn attributes(self) -> Attributes<'a> {
        Attributes::new(self.0.get(4..).unwrap_or_default(), 4)
    }

    /// Whether AS numbers of the set have four octets, as they should (RFC 6368 §5): `false` only
    /// if that makes no sense and two octets do, as some routers send them.
    pub fn four_octet_as(self) -> bool {
        let decodes = |four_octet_as| {
            let negotiated = Negotiated { four_octet_as, ..Negotiated::default() };
            let wide =
                |raw: &RawAttribute<'_>| matches!(raw.code, code::AS_PATH | code::AGGREGATOR);
            let mut raw = self.attributes().flatten().filter(wide);
            raw.all(|raw| Attribute::decode(raw, &negotiated).is_ok())
        };
        decodes(true) || !decodes(false)
    }

    /// The customer's attributes, typed.
    pub fn typed(self) -> impl Iterator<Item = Result<Attribute<'a>>> {
        let four_octet_as = self.four_octet_as();
        let negotiated = Negotiated { four_octet_as, ..Negotiated::default() };
        self.attributes().map(move |raw| Attribute::decode(raw?, &negotiated))
    }

    /// Appends the value of an attribute: the AS, and attributes that are encoded already.
    pub fn encode(origin: Asn, attributes: &[u8], out: &mut Vec<u8>) {
        out.extend(origin.0.to_be_bytes());
        out.extend(attributes);
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Whether attribute 128 is well-formed; if it is not, its routes are withdrawn (RFC 7606 §7.16).
pub fn check(value: &[u8]) -> Result<()> {
    AttrSet::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Vec<u8> {
        let mut value = vec![0, 0, 0xfd, 0xe8];
        for _ in 1..depth {
            let mut attributes = Vec::new();
            super::super::encode(0xc0, code::ATTR_SET, &value, &mut attributes).unwrap();
            value.clear();
            AttrSet::encode(Asn(65000), &attributes, &mut value);
        }
        value
    }

    #[test]
    fn sets_nest_only_so_deep() {
        assert!(check(&nested(1)).is_ok());
        assert!(check(&nested(DEPTH)).is_ok());
        assert!(check(&nested(DEPTH + 1)).is_err());
        assert!(check(&nested(5000)).is_err());
    }

    #[test]
    fn the_customers_attributes_are_typed() {
        let value = [0, 0, 0xfd, 0xe9, 0x40, 1, 1, 0, 0x40, 5, 4, 0, 0, 0, 44];
        let set = AttrSet::parse(&value).unwrap();
        assert_eq!(set.origin(), Asn(65001));
        let typed: Vec<_> = set.typed().map(|attribute| attribute.unwrap().code()).collect();
        assert_eq!((typed, set.four_octet_as()), (vec![1, 5], true));
        let short = [0, 0, 0xfd, 0xe9, 0x40, 2, 4, 2, 1, 0x15, 0xb3];
        let set = AttrSet::parse(&short).unwrap();
        assert!(!set.four_octet_as() && set.typed().all(|attribute| attribute.is_ok()));
        assert!(check(&[0, 0, 0, 1, 0x80, code::MP_UNREACH_NLRI, 3, 0, 1, 1]).is_err());
        assert!(check(&value[..3]).is_err());
        assert!(check(&value[..14]).is_err());
    }
}
