//! The control messages of the two gateways, as payload of UDP datagrams.
//!
//! All fields are in network byte order. Type 4 is the header of an encapsulated packet, see
//! [`crate::encapsulation`].
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic, 0x4e42 |
//! | 2 | 1 | version, 2 |
//! | 3 | 1 | type: 1 heartbeat, 2 report, 3 congestion ACK |
//! | 4 | 4 | bundle |
//! | 8 | 8 | sender's incarnation, not 0 |
//! | 16 | 8 | receiver's incarnation if known, otherwise 0 |
//! | 24 | 8 | sequence number within the sender's incarnation, from 1 |
//! | 32 | | body |
//! | end | 16 | HMAC-SHA-256 of all before it, truncated (RFC 2104 §5) |
//!
//! | body of | at | bytes | field |
//! |---|---|---|---|
//! | heartbeat | 32 | 1 | binary logarithm of the period |
//! | | 33 | 8 | bytes sent |
//! | | 41 | 8 | packets sent |
//! | | 49 | 8 | send time |
//! | | 57 | 8 | sequence number of the newest report |
//! | report | 32 | 8 | sequence number of the heartbeat that it answers |
//! | | 40 | 8 | send time of that heartbeat |
//! | | 48 | 1 | binary logarithm of the period in force, or 255 |
//! | | 49 | 8 | receive time of the heartbeat |
//! | | 57 | 8 | bytes received |
//! | | 65 | 8 | packets received |
//! | congestion ACK | 32 | 8 | digest |
//! | | 40 | 8 | receive time of the packet |
//! | | 48 | 8 | bytes received |
//! | | 56 | 8 | packets received |
//!
//! Times are nanoseconds of the local clock; only differences are meaningful.

#[cfg(test)]
mod tests;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::digest::{Key, MacKey};
use crate::rejection::Rejection;

/// The UDP port of both gateways unless configured otherwise.
pub const PORT: u16 = 28_316;
/// The binary logarithm of the longest period.
pub const MAX_PERIOD_LOG2: u8 = 16;
/// Bytes of the longest message, a report.
pub const MAX_LEN: usize = 32 + 41 + TAG;

pub(crate) const MAGIC: u16 = 0x4e42;
pub(crate) const VERSION: u8 = 2;
/// The type of encapsulated packets.
pub(crate) const ENCAPSULATED: u8 = 4;
const TAG: usize = 16;
/// Value of the period in a report if no heartbeat has set one.
const NO_PERIOD: u8 = 255;

/// A message without its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Identifier of the bundle.
    pub bundle: u32,
    /// The sender's incarnation.
    pub incarnation: u64,
    /// The receiver's incarnation if known, otherwise 0.
    pub peer: u64,
    /// Sequence number of the message within the incarnation, from 1.
    pub sequence: u64,
    /// Content of the message.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// From the sendbox: a keepalive that requests a report.
    Heartbeat(Heartbeat),
    /// From the receivebox: the answer.
    Report(Report),
    /// From the receivebox: a packet that ended an epoch was received.
    Ack(Ack),
}

/// Sent by a sendbox every second, and whenever the period changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Binary logarithm of the period: of 2^this packets one ends an epoch.
    pub period_log2: u8,
    /// Bytes of the bundle that the sendbox has sent in this incarnation.
    pub bytes_sent: u64,
    /// Packets of the bundle that the sendbox has sent in this incarnation.
    pub packets_sent: u64,
    /// Send time in nanoseconds of the sendbox's clock.
    pub sent_at: u64,
    /// Sequence number of the newest report that the sendbox has accepted; 0 for none.
    pub answers: u64,
}

/// A receivebox's answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Sequence number of the heartbeat.
    pub answers: u64,
    /// Send time of the heartbeat, copied from it.
    pub sent_at: u64,
    /// Binary logarithm of the period in force; `None` if no heartbeat has set one, or if the
    /// receivebox has not adopted the sendbox's incarnation yet.
    pub period_log2: Option<u8>,
    /// Receive time of the heartbeat in nanoseconds of the receivebox's clock.
    pub received_at: u64,
    /// Bytes of the bundle received in this incarnation of the receivebox.
    pub bytes_received: u64,
    /// Packets of the bundle received in this incarnation of the receivebox.
    pub packets_received: u64,
}

/// A congestion ACK: sent by a receivebox for each packet that ends an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The packet's digest.
    pub digest: u64,
    /// Receive time in nanoseconds of the receivebox's clock.
    pub received_at: u64,
    /// Bytes of the bundle received in this incarnation of the receivebox, including this packet.
    pub bytes_received: u64,
    /// Packets of the bundle received in this incarnation of the receivebox, including this packet.
    pub packets_received: u64,
}

/// Creates and verifies the tags of one bundle's messages.
#[derive(Clone)]
pub struct Authenticator(Hmac<Sha256>);

/// The bundle in a control message, not authenticated; `None` if the bytes are not a control
/// message of this version.
pub fn bundle_of(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [magic_high, magic_low, VERSION, 1..=3, a, b, c, d, ..]
            if [*magic_high, *magic_low] == MAGIC.to_be_bytes() =>
        {
            Some(u32::from_be_bytes([*a, *b, *c, *d]))
        }
        _ => None,
    }
}

/// Reason for the rejection of a message without a known bundle.
pub(crate) fn refuse(bytes: &[u8]) -> Rejection {
    match Message::parse(bytes) {
        Ok((message, _)) => Rejection::UnknownBundle(message.bundle),
        Err(rejection) => rejection,
    }
}

impl Message {
    /// Decodes and authenticates a message.
    pub fn open(authenticator: &Authenticator, bytes: &[u8]) -> Result<Self, Rejection> {
        let (message, signed) = Self::parse(bytes)?;
        let (signed, tag) = bytes.split_at(signed);
        if !authenticator.verify(signed, tag) {
            return Err(Rejection::BadTag);
        }
        Ok(message)
    }

    /// Encodes the message, including the tag.
    ///
    /// # Panics
    /// If a period exceeds [`MAX_PERIOD_LOG2`].
    pub fn seal(&self, authenticator: &Authenticator) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_LEN);
        bytes.extend_from_slice(&MAGIC.to_be_bytes());
        bytes.extend_from_slice(&[VERSION, self.body.type_of()]);
        bytes.extend_from_slice(&self.bundle.to_be_bytes());
        put(&mut bytes, &[self.incarnation, self.peer, self.sequence]);
        self.body.write(&mut bytes);
        authenticator.sign(&mut bytes);
        bytes
    }

    /// Decodes a message without its tag; also returns the offset of the tag.
    fn parse(bytes: &[u8]) -> Result<(Self, usize), Rejection> {
        let mut fields = Fields { bytes, at: 0 };
        let magic = u16::from_be_bytes(fields.take("magic")?);
        if magic != MAGIC {
            return Err(Rejection::Foreign(magic));
        }
        let [version] = fields.take("version")?;
        if version != VERSION {
            return Err(Rejection::UnknownVersion(version));
        }
        let [kind] = fields.take("type")?;
        if !(1..=3).contains(&kind) {
            return Err(Rejection::UnknownType(kind));
        }
        let bundle = u32::from_be_bytes(fields.take("bundle")?);
        let incarnation = fields.positive("incarnation")?;
        let peer = fields.number("peer's incarnation")?;
        let sequence = fields.positive("sequence number")?;
        let body = Body::parse(kind, &mut fields)?;
        let signed = fields.at;
        fields.take::<TAG>("tag")?;
        match bytes.len() - fields.at {
            0 => Ok((Self { bundle, incarnation, peer, sequence, body }, signed)),
            more => Err(Rejection::TrailingBytes(more)),
        }
    }
}

impl Body {
    const fn type_of(&self) -> u8 {
        match self {
            Self::Heartbeat(_) => 1,
            Self::Report(_) => 2,
            Self::Ack(_) => 3,
        }
    }

    fn parse(kind: u8, fields: &mut Fields<'_>) -> Result<Self, Rejection> {
        Ok(match kind {
            1 => Self::Heartbeat(Heartbeat {
                period_log2: fields.period()?,
                bytes_sent: fields.number("bytes sent")?,
                packets_sent: fields.number("packets sent")?,
                sent_at: fields.number("time of sending")?,
                answers: fields.number("newest report")?,
            }),
            2 => Self::Report(Report {
                answers: fields.number("heartbeat answered")?,
                sent_at: fields.number("time of sending")?,
                period_log2: match fields.bytes.get(fields.at) {
                    Some(&NO_PERIOD) => {
                        fields.at += 1;
                        None
                    }
                    _ => Some(fields.period()?),
                },
                received_at: fields.number("time of receipt")?,
                bytes_received: fields.number("bytes received")?,
                packets_received: fields.number("packets received")?,
            }),
            _ => Self::Ack(Ack {
                digest: fields.number("digest")?,
                received_at: fields.number("time of receipt")?,
                bytes_received: fields.number("bytes received")?,
                packets_received: fields.number("packets received")?,
            }),
        })
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Heartbeat(it) => {
                bytes.push(valid(it.period_log2));
                put(bytes, &[it.bytes_sent, it.packets_sent, it.sent_at, it.answers]);
            }
            Self::Report(it) => {
                put(bytes, &[it.answers, it.sent_at]);
                bytes.push(it.period_log2.map_or(NO_PERIOD, valid));
                put(bytes, &[it.received_at, it.bytes_received, it.packets_received]);
            }
            Self::Ack(it) => {
                put(bytes, &[it.digest, it.received_at, it.bytes_received, it.packets_received]);
            }
        }
    }
}

impl Authenticator {
    /// An authenticator for messages of the bundle with this key.
    pub fn new(key: &Key) -> Self {
        // A short key is padded with zeros to a block (RFC 2104 §2).
        let mut block = [0; 64];
        let MacKey(bytes) = key.mac();
        block[..bytes.len()].copy_from_slice(&bytes);
        Self(Hmac::new(&block.into()))
    }

    /// Appends the tag of `bytes`.
    pub fn sign(&self, bytes: &mut Vec<u8>) {
        let mut mac = self.0.clone();
        mac.update(bytes);
        bytes.extend_from_slice(&mac.finalize().into_bytes()[..TAG]);
    }

    /// Verifies a tag in constant time.
    fn verify(&self, signed: &[u8], tag: &[u8]) -> bool {
        let mut mac = self.0.clone();
        mac.update(signed);
        mac.verify_truncated_left(tag).is_ok()
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authenticator(..)")
    }
}

/// The unread bytes.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Rejection> {
        let taken = self.bytes[self.at..].first_chunk();
        let taken = taken.ok_or(Rejection::Truncated { field, at: self.at })?;
        self.at += N;
        Ok(*taken)
    }

    fn number(&mut self, field: &'static str) -> Result<u64, Rejection> {
        self.take(field).map(u64::from_be_bytes)
    }

    fn positive(&mut self, field: &'static str) -> Result<u64, Rejection> {
        let at = self.at;
        match self.number(field)? {
            0 => Err(Rejection::BadValue { field, at, value: 0 }),
            number => Ok(number),
        }
    }

    fn period(&mut self) -> Result<u8, Rejection> {
        let (field, at) = ("period", self.at);
        match self.take(field)? {
            [value @ 0..=MAX_PERIOD_LOG2] => Ok(value),
            [value] => Err(Rejection::BadValue { field, at, value }),
        }
    }
}

fn put(bytes: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
}

fn valid(period_log2: u8) -> u8 {
    assert!(period_log2 <= MAX_PERIOD_LOG2, "a period of 2^{period_log2} packets");
    period_log2
}
