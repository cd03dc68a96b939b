//! The datagrams of exchanges: `kind 1 │ reserved 7 │ number 8 │ stamp 8 │ authentication 16`.
//!
//! Authenticated by HMAC-SHA-256 (RFC 2104, cut to 128 bits) under a key that is derived from the
//! secret of the pair of agents, for the question and for the answer. An answer is as long as its
//! question, so that it amplifies no flood.

use base::Time;
use ring::hmac;

use super::Secret;

/// Bytes of a datagram.
pub(super) const LENGTH: usize = 40;

/// Bytes before the authentication.
const CONTENT: usize = 24;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Question,
    Answer,
}

/// A datagram, made with the secret of the asked agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ping {
    pub(super) kind: Kind,
    /// The question's; its answer has the same.
    pub(super) number: u64,
    /// When it was made, by the clock of who made it.
    pub(super) stamp: Time,
}

/// The key of the pings between two agents.
pub(super) fn key(secret: &Secret) -> hmac::Key {
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"netarium clock 2"), secret);
    hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
}

impl Ping {
    /// The number of a datagram that need not be authentic.
    pub(super) fn number(bytes: &[u8]) -> Option<u64> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        bytes[8..].first_chunk().map(|number| u64::from_be_bytes(*number))
    }

    pub(super) fn encode(&self, key: &hmac::Key) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = match self.kind {
            Kind::Question => 1,
            Kind::Answer => 2,
        };
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..CONTENT].copy_from_slice(&self.stamp.as_nanos().to_be_bytes());
        let tag = hmac::sign(key, &bytes[..CONTENT]);
        bytes[CONTENT..].copy_from_slice(&tag.as_ref()[..LENGTH - CONTENT]);
        bytes
    }

    /// `None`: it is none, or of somebody who does not know the token.
    pub(super) fn decode(bytes: &[u8], key: &hmac::Key) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let tag = hmac::sign(key, &bytes[..CONTENT]);
        let differ = tag.as_ref().iter().zip(&bytes[CONTENT..]).fold(0, |all, (a, b)| all | a ^ b);
        if differ != 0 {
            return None;
        }
        let kind = match bytes[0] {
            1 => Kind::Question,
            2 => Kind::Answer,
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
    fn only_the_same_secret_reads_it_back() {
        let ping = Ping { kind: Kind::Answer, number: 3 << 40, stamp: Time::from_nanos(77) };
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
