//! Messages and their common header (RFC 4271 §4.1).

use crate::{Error, Result};

/// Sixteen octets of all ones begin each message.
pub const MARKER: [u8; 16] = [0xff; 16];
/// Bytes of the header: marker, length, type.
pub const HEADER: usize = 19;
/// Maximum length of a message of plain BGP-4 (RFC 4271 §4.1).
pub const MAX: usize = 4096;
/// Maximum length of an extended message (RFC 8654 §4).
pub const MAX_EXTENDED: usize = 65535;

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageType(pub u8);

#[expect(missing_docs, reason = "the names are the RFCs'")]
impl MessageType {
    pub const OPEN: Self = Self(1);
    pub const UPDATE: Self = Self(2);
    pub const NOTIFICATION: Self = Self(3);
    pub const KEEPALIVE: Self = Self(4);
    pub const ROUTE_REFRESH: Self = Self(5);

    /// Name in RFC 4271 or RFC 2918; `None` for undefined types.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::OPEN => "OPEN",
            Self::UPDATE => "UPDATE",
            Self::NOTIFICATION => "NOTIFICATION",
            Self::KEEPALIVE => "KEEPALIVE",
            Self::ROUTE_REFRESH => "ROUTE-REFRESH",
            _ => return None,
        })
    }
}

/// A complete message: header and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    /// The message at the start of `bytes`; `None` if the marker is missing, the length field is
    /// below 19, or the message is truncated.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
        if header[..16] != MARKER || length < HEADER {
            return None;
        }
        bytes.get(..length).map(Self)
    }

    /// All bytes, including the header.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Type of the message.
    pub fn kind(self) -> MessageType {
        MessageType(self.0[18])
    }

    /// Body, after the header.
    pub fn body(self) -> &'a [u8] {
        &self.0[HEADER..]
    }
}

/// Encodes a message from a type and a body. Fails if it exceeds `limit` octets.
pub fn encode(kind: MessageType, body: &[u8], limit: usize) -> Result<Vec<u8>> {
    let size = HEADER + body.len();
    let limit = limit.min(MAX_EXTENDED);
    if size > limit {
        return Err(Error::Long { field: "message", size, limit });
    }
    let mut message = Vec::with_capacity(size);
    message.extend_from_slice(&MARKER);
    message.extend_from_slice(&(size as u16).to_be_bytes());
    message.push(kind.0);
    message.extend_from_slice(body);
    Ok(message)
}

/// Encodes a KEEPALIVE.
pub const fn keepalive() -> [u8; HEADER] {
    let mut message = [0xff; HEADER];
    (message[16], message[17], message[18]) = (0, HEADER as u8, MessageType::KEEPALIVE.0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_keepalive_off() {
        let mut bytes = [0xff; 24];
        bytes[16..19].copy_from_slice(&[0, 19, 4]);
        let message = Message::split(&bytes).unwrap();
        assert_eq!((message.kind(), message.body()), (MessageType::KEEPALIVE, &[][..]));
        assert_eq!(message.kind().name(), Some("KEEPALIVE"));
        assert!(Message::split(&bytes[..18]).is_none());
        bytes[17] = 18;
        assert!(Message::split(&bytes).is_none());
        bytes[17] = 25;
        assert!(Message::split(&bytes).is_none());
    }
}
