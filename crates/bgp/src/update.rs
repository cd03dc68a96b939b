//! UPDATE: routes that are withdrawn, attributes, routes that are announced (RFC 4271 §4.3).

use crate::attribute::{Attributes, MpUnreach, code};
use crate::cursor::Cursor;
use crate::nlri::Prefixes;
use crate::{Afi, Family, Negotiated, Result};

/// Where the parts of an UPDATE are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// Withdrawn IPv4 routes.
    pub withdrawn: &'a [u8],
    /// Path attributes.
    pub attributes: &'a [u8],
    /// Announced IPv4 routes.
    pub announced: &'a [u8],
}

impl<'a> Update<'a> {
    /// The parts of the body of a message. Fails if the two length fields do not fit.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let length = cursor.u16("withdrawn routes length")?;
        let withdrawn = cursor.take(length.into(), "withdrawn routes")?;
        let length = cursor.u16("total path attribute length")?;
        let attributes = cursor.take(length.into(), "path attributes")?;
        Ok(Self { withdrawn, attributes, announced: cursor.rest() })
    }

    /// Where the attributes begin, in bytes of the body.
    #[inline]
    pub const fn attributes_at(&self) -> usize {
        4 + self.withdrawn.len()
    }

    /// Where the announced routes begin, in bytes of the body.
    #[inline]
    pub const fn announced_at(&self) -> usize {
        self.attributes_at() + self.attributes.len()
    }

    /// The attributes, framed.
    #[inline]
    pub const fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.attributes, self.attributes_at())
    }

    /// The withdrawn IPv4 prefixes; those of other families are in `MP_UNREACH_NLRI`.
    #[inline]
    pub fn withdrawn(&self, negotiated: &Negotiated) -> Prefixes<'a> {
        let add_path = negotiated.add_path.contains(Family::IPV4_UNICAST);
        Prefixes::new(self.withdrawn, Afi::IPV4, add_path)
    }

    /// The announced IPv4 prefixes; those of other families are in `MP_REACH_NLRI`.
    #[inline]
    pub fn announced(&self, negotiated: &Negotiated) -> Prefixes<'a> {
        let add_path = negotiated.add_path.contains(Family::IPV4_UNICAST);
        Prefixes::new(self.announced, Afi::IPV4, add_path)
    }

    /// The family whose table is complete with this message, if it says nothing else (RFC 4724
    /// §2): an empty message, or a lone `MP_UNREACH_NLRI` without routes.
    pub fn end_of_rib(&self) -> Option<Family> {
        if !self.withdrawn.is_empty() || !self.announced.is_empty() {
            return None;
        }
        let mut attributes = self.attributes();
        let Some(first) = attributes.next() else { return Some(Family::IPV4_UNICAST) };
        let first = first.ok()?;
        if first.code != code::MP_UNREACH_NLRI || attributes.next().is_some() {
            return None;
        }
        let unreach = MpUnreach::parse(first.value, &Negotiated::default(), 0).ok()?;
        unreach.nlri.is_empty().then_some(unreach.family)
    }
}
