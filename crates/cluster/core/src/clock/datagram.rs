//! The datagrams of exchanges: `kind 1 │ reserved 7 │ number 8 │ stamp 8 │ authentication 16`.
//!
//! HMAC-SHA-256 (RFC 2104, truncated to 128 bits) authenticates requests and replies, with a key
//! derived from the secret of the pair of agents. A reply is as long as its request, so that a
//! forged request amplifies no traffic.

use base::Time;
use ring::hmac;

use super::Secret;

pub(super) const LENGTH: usize = 40;

/// Bytes before the authentication.
const CONTENT: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Reply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ping {
    pub(super) kind: Kind,
    /// The number of the request; its reply has the same one.
    pub(super) number: u64,
    /// Time of sending by the sender's clock.
    pub(super) stamp: Time,
}

/// The key of the pings between two agents.
pub(super) fn key(secret: &Secret) -> hmac::Key {
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"netarium clock 2"), secret);
    hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
}

impl Ping {
    /// The number of a datagram, without authentication.
    pub(super) fn number(bytes: &[u8]) -> Option<u64> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        bytes[8..].first_chunk().map(|number| u64::from_be_bytes(*number))
    }

    pub(super) fn encode(&self, key: &hmac::Key) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = match self.kind {
            Kind::Request => 1,
            Kind::Reply => 2,
        };
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..CONTENT].copy_from_slice(&self.stamp.as_nanos().to_be_bytes());
        let tag = hmac::sign(key, &bytes[..CONTENT]);
        bytes[CONTENT..].copy_from_slice(&tag.as_ref()[..LENGTH - CONTENT]);
        bytes
    }

    /// `None` if it is malformed or was not sealed with this key.
    pub(super) fn decode(bytes: &[u8], key: &hmac::Key) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let tag = hmac::sign(key, &bytes[..CONTENT]);
        let difference =
            tag.as_ref().iter().zip(&bytes[CONTENT..]).fold(0, |all, (a, b)| all | a ^ b);
        if difference != 0 {
            return None;
        }
        let kind = match bytes[0] {
            1 => Kind::Request,
            2 => Kind::Reply,
            _ => return None,
        };
        let (number, stamp) = (bytes[8..].first_chunk()?, bytes[16..].first_chunk()?);
        let stamp = Time::from_nanos(u64::from_be_bytes(*stamp));
        Some(Self { kind, number: u64::from_be_bytes(*number), stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_only_with_same_secret() {
        let ping = Ping { kind: Kind::Reply, number: 3 << 40, stamp: Time::from_nanos(77) };
        let bytes = ping.encode(&key(&[1; 32]));
        assert_eq!(Ping::decode(&bytes, &key(&[1; 32])), Some(ping));
        assert_eq!(Ping::decode(&bytes, &key(&[2; 32])), None);
        assert_eq!(Ping::decode(&bytes[1..], &key(&[1; 32])), None);
        for bit in 0..LENGTH * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Ping::decode(&bytes, &key(&[1; 32])), None, "bit {bit}");
        }
    }
}
