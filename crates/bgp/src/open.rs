//! OPEN: who speaks, and what they can do (RFC 4271 §4.2, RFC 5492, RFC 9072).

use crate::capability::Capability;
use crate::cursor::Cursor;
use crate::negotiated::Families;
use crate::{Asn, Error, MessageType, Negotiated, Result};

/// Parameter that holds capabilities (RFC 5492 §4).
const CAPABILITIES: u8 = 2;
/// Says that parameters have lengths of two octets (RFC 9072 §2).
const EXTENDED: u8 = 255;

/// An OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// Version of the protocol: 4.
    pub version: u8,
    /// The AS number, or [`Asn::TRANS`] if it does not fit; see [`Open::asn`].
    pub my_as: u16,
    /// Hold time that the speaker proposes, in seconds.
    pub hold_time: u16,
    /// BGP identifier.
    pub id: u32,
    /// Optional parameters.
    pub parameters: &'a [u8],
    /// Lengths of parameters have two octets (RFC 9072).
    pub extended: bool,
    /// Where the parameters begin, in bytes of the body.
    pub parameters_at: usize,
}

impl<'a> Open<'a> {
    /// Of the body of a message. Fails if the fixed part or the parameters are not all there, or
    /// something is behind them.
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
            let wrong = "more bytes than its length fields say";
            return Err(Error::Value { field: "end of OPEN", at, value, wrong });
        }
        Ok(Self { version, my_as, hold_time, id, parameters, extended, parameters_at })
    }

    /// The optional parameters, in order. It ends behind the first that does not fit.
    pub const fn parameters(&self) -> Parameters<'a> {
        Parameters {
            cursor: Cursor::new(self.parameters, self.parameters_at),
            extended: self.extended,
        }
    }

    /// The capabilities in order, typed; those that do not fit end the list.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability<'a>> + use<'a> {
        self.raw_capabilities()
            .map_while(Result::ok)
            .map(|(code, value, _)| Capability::decode(code, value))
    }

    /// The capabilities in order: code, value, and where the capability begins in the body.
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

    /// The speaker's AS number: that of four octets if it announces one (RFC 6793).
    pub fn asn(&self) -> Asn {
        let four = self.capabilities().find_map(|capability| match capability {
            Capability::FourOctetAs(asn) => Some(asn),
            _ => None,
        });
        four.unwrap_or(Asn(self.my_as.into()))
    }

    /// Families that the speaker takes and sends several paths for.
    pub fn add_path(&self) -> (Families, Families) {
        let mut sets = (Families::NONE, Families::NONE);
        for (family, takes, sends) in self.capabilities().flat_map(|one| one.paths()) {
            sets.0 = if takes { sets.0.with(family) } else { sets.0 };
            sets.1 = if sends { sets.1.with(family) } else { sets.1 };
        }
        sets
    }

    /// Families that the speaker speaks of: IPv4 unicast if it names none (RFC 4760 §8).
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

/// Optional parameters of an OPEN: type, value, and where the value begins in the body.
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
    /// How messages from `sender` to `receiver` are encoded: four-octet AS numbers if both speak
    /// them (RFC 6793 §4.1), long messages if the receiver takes them (RFC 8654 §4), several
    /// paths where the one sends and the other takes them (RFC 7911 §4).
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

/// An OPEN to be sent. AS numbers above 65535 are announced as a capability by the caller.
#[derive(Clone, Debug)]
pub struct OpenBuilder {
    asn: Asn,
    hold_time: u16,
    id: u32,
    capabilities: Vec<u8>,
}

impl OpenBuilder {
    /// Of a speaker, with a hold time in seconds and a BGP identifier.
    pub const fn new(asn: Asn, hold_time: u16, id: u32) -> Self {
        Self { asn, hold_time, id, capabilities: Vec::new() }
    }

    /// Announces a capability. Fails if its value takes more than 255 octets.
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

    /// The whole message: one parameter with all capabilities, extended if it must be. Fails if
    /// it takes more than the 4,096 octets that an OPEN may have.
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
