//! OPEN: identity and capabilities of a speaker (RFC 4271 §4.2, RFC 5492, RFC 9072).

use crate::capability::Capability;
use crate::cursor::Cursor;
use crate::negotiated::Families;
use crate::{Asn, Error, MessageType, Negotiated, Result};

/// Parameter that holds capabilities (RFC 5492 §4).
const CAPABILITIES: u8 = 2;
/// Marker of parameters with lengths of two octets (RFC 9072 §2).
const EXTENDED: u8 = 255;

/// An OPEN message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// Version of the protocol; 4.
    pub version: u8,
    /// AS number of two octets, or [`Asn::TRANS`] if it is larger; see [`Open::asn`].
    pub my_as: u16,
    /// Proposed hold time in seconds.
    pub hold_time: u16,
    /// BGP identifier of the speaker.
    pub id: u32,
    /// Optional parameters, encoded.
    pub parameters: &'a [u8],
    /// Lengths of parameters have two octets (RFC 9072).
    pub extended: bool,
    /// Offset of the parameters in the body.
    pub parameters_at: usize,
}

impl<'a> Open<'a> {
    /// Parses the body of a message. Fails if the fixed part or the parameters are truncated, or if
    /// bytes follow them.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let version = cursor.u8("version")?;
        let my_as = cursor.u16("my autonomous system")?;
        let hold_time = cursor.u16("hold time")?;
        let id = cursor.u32("BGP identifier")?;
        let mut length = usize::from(cursor.u8("optional parameters length")?);
        let extended = length != 0 && cursor.rest().first() == Some(&EXTENDED);
        if extended {
            cursor.u8("extended parameters type")?;
            length = cursor.u16("extended optional parameters length")?.into();
        }
        let parameters_at = cursor.at();
        let parameters = cursor.take(length, "optional parameters")?;
        if !cursor.is_empty() {
            let (at, value) = (cursor.at(), cursor.rest().len() as u64);
            let wrong = "excess bytes after the length that it states";
            return Err(Error::Value { field: "end of OPEN", at, value, wrong });
        }
        Ok(Self { version, my_as, hold_time, id, parameters, extended, parameters_at })
    }

    /// Optional parameters in order. The first malformed one is the last item.
    pub const fn parameters(&self) -> Parameters<'a> {
        Parameters {
            cursor: Cursor::new(self.parameters, self.parameters_at),
            extended: self.extended,
        }
    }

    /// Typed capabilities in order, up to the first truncated one.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability<'a>> + use<'a> {
        self.raw_capabilities()
            .map_while(Result::ok)
            .map(|(code, value, _)| Capability::decode(code, value))
    }

    /// Capabilities in order: code, value, and offset in the body.
    pub fn raw_capabilities(
        &self,
    ) -> impl Iterator<Item = Result<(u8, &'a [u8], usize)>> + use<'a> {
        let mut parameters = self.parameters();
        let mut inner = Cursor::new(&[], 0);
        std::iter::from_fn(move || {
            while inner.is_empty() {
                match parameters.next()? {
                    Ok((CAPABILITIES, value, at)) => inner = Cursor::new(value, at),
                    Ok(_) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
            let at = inner.at();
            let capability = capability(&mut inner);
            if capability.is_err() {
                inner = Cursor::new(&[], 0);
            }
            Some(capability.map(|(code, value)| (code, value, at)))
        })
    }

    /// AS number of the speaker, from its capability if there is one (RFC 6793).
    pub fn asn(&self) -> Asn {
        let four = self.capabilities().find_map(|capability| match capability {
            Capability::FourOctetAs(asn) => Some(asn),
            _ => None,
        });
        four.unwrap_or(Asn(self.my_as.into()))
    }

    /// Families for which the speaker receives and sends several paths.
    pub fn add_path(&self) -> (Families, Families) {
        let mut sets = (Families::NONE, Families::NONE);
        for (family, takes, sends) in self.capabilities().flat_map(|one| one.paths()) {
            sets.0 = if takes { sets.0.with(family) } else { sets.0 };
            sets.1 = if sends { sets.1.with(family) } else { sets.1 };
        }
        sets
    }

    /// Families of the speaker; IPv4 unicast if it announces none (RFC 4760 §8).
    pub fn families(&self) -> Families {
        let named: Families = self
            .capabilities()
            .filter_map(|capability| match capability {
                Capability::Multiprotocol(family) => Some(family),
                _ => None,
            })
            .collect();
        if named.is_empty() { named.with(crate::Family::IPV4_UNICAST) } else { named }
    }
}

fn capability<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, &'a [u8])> {
    let code = cursor.u8("capability code")?;
    let length = cursor.u8("capability length")?;
    Ok((code, cursor.take(length.into(), "capability")?))
}

/// Iterator over optional parameters: type, value, and offset of the value in the body.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    cursor: Cursor<'a>,
    extended: bool,
}

impl<'a> Parameters<'a> {
    fn parameter(&mut self) -> Result<(u8, &'a [u8], usize)> {
        let kind = self.cursor.u8("parameter type")?;
        let length = if self.extended {
            self.cursor.u16("parameter length")?.into()
        } else {
            usize::from(self.cursor.u8("parameter length")?)
        };
        let at = self.cursor.at();
        Ok((kind, self.cursor.take(length, "parameter")?, at))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<(u8, &'a [u8], usize)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let parameter = self.parameter();
        if parameter.is_err() {
            self.cursor = Cursor::new(&[], 0);
        }
        Some(parameter)
    }
}

impl Negotiated {
    /// Encoding of messages from `sender` to `receiver`: four-octet AS numbers if both support them
    /// (RFC 6793 §4.1), extended messages if the receiver accepts them (RFC 8654 §4), path
    /// identifiers if the sender sends and the receiver accepts them (RFC 7911 §4).
    pub fn between(sender: &Open<'_>, receiver: &Open<'_>) -> Self {
        let can = |open: &Open<'_>, code| open.capabilities().any(|one| one.code() == code);
        let four = |open: &Open<'_>| {
            open.capabilities().any(|one| matches!(one, Capability::FourOctetAs(_)))
        };
        let (sent, taken) = (sender.add_path().1, receiver.add_path().0);
        Self {
            four_octet_as: four(sender) && four(receiver),
            extended_message: can(receiver, crate::capability::code::EXTENDED_MESSAGE),
            add_path: sent.iter().filter(|family| taken.contains(*family)).collect(),
        }
    }
}

/// Builder of an OPEN. For AS numbers above 65535 the caller must add the capability.
#[derive(Clone, Debug)]
pub struct OpenBuilder {
    asn: Asn,
    hold_time: u16,
    id: u32,
    capabilities: Vec<u8>,
}

impl OpenBuilder {
    /// An OPEN with a hold time in seconds and a BGP identifier.
    pub const fn new(asn: Asn, hold_time: u16, id: u32) -> Self {
        Self { asn, hold_time, id, capabilities: Vec::new() }
    }

    /// Announces a capability. Fails if its value exceeds 255 octets.
    pub fn capability(&mut self, capability: &Capability<'_>) -> Result<&mut Self> {
        let start = self.capabilities.len();
        self.capabilities.extend([capability.code(), 0]);
        capability.encode_value(&mut self.capabilities);
        let size = self.capabilities.len() - start - 2;
        let Ok(length) = u8::try_from(size) else {
            self.capabilities.truncate(start);
            return Err(Error::Long { field: "capability", size, limit: 255 });
        };
        self.capabilities[start + 1] = length;
        Ok(self)
    }

    /// Builds the whole message: one parameter with all capabilities, extended if necessary. Fails
    /// if it exceeds the 4,096 octets of an OPEN.
    pub fn build(&self) -> Result<Vec<u8>> {
        let mut body = vec![4];
        body.extend(self.asn.two_octets().to_be_bytes());
        body.extend(self.hold_time.to_be_bytes());
        body.extend(self.id.to_be_bytes());
        let size = self.capabilities.len();
        match size {
            0 => body.push(0),
            1..=253 => body.extend([size as u8 + 2, CAPABILITIES, size as u8]),
            _ => {
                body.extend([255, EXTENDED]);
                body.extend((size as u16 + 3).to_be_bytes());
                body.push(CAPABILITIES);
                body.extend((size as u16).to_be_bytes());
            }
        }
        body.extend_from_slice(&self.capabilities);
        crate::message::encode(MessageType::OPEN, &body, crate::message::MAX)
    }
}

#[cfg(test)]
mod tests;
