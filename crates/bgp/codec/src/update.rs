//! UPDATE: withdrawn routes, attributes, announced routes (RFC 4271 §4.3).

mod visitor;

use crate::attribute::{self, Attribute, Attributes, MpUnreach, code};
use crate::cursor::Cursor;
use crate::message::{self, HEADER, MAX, MAX_EXTENDED};
use crate::nlri::{self, Nlri, Prefixes};
use crate::{Afi, Error, Family, MessageType, Negotiated, Result};

pub use visitor::{Visitor, judge, walk};

/// The parts of an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// Withdrawn IPv4 routes, encoded.
    pub withdrawn: &'a [u8],
    /// Path attributes, encoded.
    pub attributes: &'a [u8],
    /// Announced IPv4 routes, encoded.
    pub announced: &'a [u8],
}

impl<'a> Update<'a> {
    /// Splits the body of a message. Fails if the two length fields exceed it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let length = cursor.u16("withdrawn routes length")?;
        let withdrawn = cursor.take(length.into(), "withdrawn routes")?;
        let length = cursor.u16("total path attribute length")?;
        let attributes = cursor.take(length.into(), "path attributes")?;
        Ok(Self { withdrawn, attributes, announced: cursor.rest() })
    }

    /// Offset of the attributes in the body.
    #[inline]
    pub const fn attributes_at(&self) -> usize {
        4 + self.withdrawn.len()
    }

    /// Offset of the announced routes in the body.
    #[inline]
    pub const fn announced_at(&self) -> usize {
        self.attributes_at() + self.attributes.len()
    }

    /// Framed attributes in order.
    #[inline]
    pub const fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.attributes, self.attributes_at())
    }

    /// Withdrawn IPv4 prefixes; those of other families are in `MP_UNREACH_NLRI`.
    #[inline]
    pub fn withdrawn(&self, negotiated: &Negotiated) -> Prefixes<'a> {
        let add_path = negotiated.add_path.contains(Family::IPV4_UNICAST);
        Prefixes::new(self.withdrawn, Afi::IPV4, add_path)
    }

    /// Announced IPv4 prefixes; those of other families are in `MP_REACH_NLRI`.
    #[inline]
    pub fn announced(&self, negotiated: &Negotiated) -> Prefixes<'a> {
        let add_path = negotiated.add_path.contains(Family::IPV4_UNICAST);
        Prefixes::new(self.announced, Afi::IPV4, add_path)
    }

    /// The family of an End-of-RIB marker (RFC 4724 §2): an empty message, or a lone
    /// `MP_UNREACH_NLRI` without routes.
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

/// Builder of an UPDATE for a session with the capabilities `negotiated`.
#[derive(Clone, Debug)]
pub struct UpdateBuilder {
    negotiated: Negotiated,
    withdrawn: Vec<u8>,
    attributes: Vec<u8>,
    announced: Vec<u8>,
}

impl UpdateBuilder {
    /// An empty UPDATE: the End-of-RIB marker of IPv4 unicast.
    pub const fn new(negotiated: Negotiated) -> Self {
        Self { negotiated, withdrawn: Vec::new(), attributes: Vec::new(), announced: Vec::new() }
    }

    /// Withdraws an IPv4 prefix. Fails if the message would exceed its maximum length.
    pub fn withdraw(&mut self, nlri: &Nlri) -> Result<&mut Self> {
        let start = self.withdrawn.len();
        nlri::encode(nlri, &mut self.withdrawn);
        if let Err(error) = self.fits() {
            self.withdrawn.truncate(start);
            return Err(error);
        }
        Ok(self)
    }

    /// Appends an attribute. Fails if the message would exceed its maximum length.
    pub fn attribute(&mut self, attribute: &Attribute<'_>) -> Result<&mut Self> {
        let start = self.attributes.len();
        attribute.encode(&self.negotiated, &mut self.attributes)?;
        self.checked(start)
    }

    /// Appends an encoded attribute. Fails if the message would exceed its maximum length.
    pub fn raw_attribute(&mut self, flags: u8, code: u8, value: &[u8]) -> Result<&mut Self> {
        let start = self.attributes.len();
        attribute::encode(flags, code, value, &mut self.attributes)?;
        self.checked(start)
    }

    fn checked(&mut self, start: usize) -> Result<&mut Self> {
        if let Err(error) = self.fits() {
            self.attributes.truncate(start);
            return Err(error);
        }
        Ok(self)
    }

    /// Announces an IPv4 prefix. Fails if the message would exceed its maximum length.
    pub fn announce(&mut self, nlri: &Nlri) -> Result<&mut Self> {
        let start = self.announced.len();
        nlri::encode(nlri, &mut self.announced);
        if let Err(error) = self.fits() {
            self.announced.truncate(start);
            return Err(error);
        }
        Ok(self)
    }

    fn limit(&self) -> usize {
        if self.negotiated.extended_message { MAX_EXTENDED } else { MAX }
    }

    fn fits(&self) -> Result<()> {
        let fields = self.withdrawn.len() + self.attributes.len() + self.announced.len();
        let (size, limit) = (HEADER + 4 + fields, self.limit());
        if size > limit { Err(Error::Long { field: "UPDATE", size, limit }) } else { Ok(()) }
    }

    /// Builds the whole message.
    pub fn build(&self) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(self.limit() - HEADER);
        body.extend_from_slice(&(self.withdrawn.len() as u16).to_be_bytes());
        body.extend_from_slice(&self.withdrawn);
        body.extend_from_slice(&(self.attributes.len() as u16).to_be_bytes());
        body.extend_from_slice(&self.attributes);
        body.extend_from_slice(&self.announced);
        message::encode(MessageType::UPDATE, &body, self.limit())
    }
}

#[cfg(test)]
mod tests;
