//! The header in front of each datagram of a paced flow: 16 bytes, big-endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | sequence number, from 0 |
//! | 8 | 8 | when it was sent, nanoseconds of lab time |
//!
//! The largest sequence numbers mark what the ends of a flow on different machines say to each
//! other when all is sent: a [`Farewell`], 24 bytes.
//!
//! | sequence number | from | the next 8 bytes | the last 8 |
//! |---|---|---|---|
//! | 2⁶⁴ − 1 | sender | datagrams sent | when the last was, nanoseconds of lab time |
//! | 2⁶⁴ − 2 | receiver | 0 | what is missing may take so long, nanoseconds |
//! | 2⁶⁴ − 3 | receiver | 0 | when the last arrived, nanoseconds of lab time |

use base::{Span, Time};

/// Length of a header in bytes.
pub const LENGTH: usize = 16;

/// What a datagram says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Its position in the flow, from 0.
    pub sequence: u64,
    /// When it was sent, in nanoseconds of lab time.
    pub sent: u64,
}

impl Header {
    /// The header as it goes on the wire.
    pub fn encode(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sent.to_be_bytes());
        bytes
    }

    /// Reads the header at the start of a payload; `None` if the payload is too short for one.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (sequence, rest) = payload.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        let sequence = u64::from_be_bytes(*sequence);
        Some(Self { sequence, sent: u64::from_be_bytes(*sent) })
    }
}

/// Length of a [`Farewell`] in bytes.
pub const FAREWELL: usize = 24;

const SENT: u64 = u64::MAX;
const WAITING: u64 = u64::MAX - 1;
const OVER: u64 = u64::MAX - 2;

/// What the ends of a flow on different machines say to each other when all is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// The sender: so many were sent, the last at this time.
    Sent {
        /// Datagrams sent.
        count: u64,
        /// When the last was.
        last: Time,
    },
    /// The receiver: some are missing.
    Waiting {
        /// They may take so long.
        longest: Span,
    },
    /// The receiver: nothing more is waited for.
    Over {
        /// When the last arrived.
        last: Time,
    },
}

impl Farewell {
    /// As it goes on the wire.
    pub fn encode(self) -> [u8; FAREWELL] {
        let fields = match self {
            Self::Sent { count, last } => [SENT, count, last.as_nanos()],
            Self::Waiting { longest } => [WAITING, 0, longest.as_nanos()],
            Self::Over { last } => [OVER, 0, last.as_nanos()],
        };
        let mut bytes = [0; FAREWELL];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// Reads what is at the start of a payload; `None` if that is a datagram of the flow.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (kind, rest) = payload.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (last, _) = rest.split_first_chunk()?;
        let [count, nanos] = [count, last].map(|bytes| u64::from_be_bytes(*bytes));
        match u64::from_be_bytes(*kind) {
            SENT => Some(Self::Sent { count, last: Time::from_nanos(nanos) }),
            WAITING => Some(Self::Waiting { longest: Span::from_nanos(nanos) }),
            OVER => Some(Self::Over { last: Time::from_nanos(nanos) }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout_is_as_documented() {
        let header = Header { sequence: 0x0102, sent: 0x0304_0506 };
        assert_eq!(header.encode(), [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn headers_round_trip(sequence: u64, sent: u64, rest: Vec<u8>) {
            let header = Header { sequence, sent };
            let mut payload = header.encode().to_vec();
            payload.extend(rest);
            prop_assert_eq!(Header::decode(&payload), Some(header));
        }

        #[test]
        fn farewells_round_trip(count: u64, nanos: u64) {
            let (last, longest) = (Time::from_nanos(nanos), Span::from_nanos(nanos));
            let all = [
                Farewell::Sent { count, last },
                Farewell::Waiting { longest },
                Farewell::Over { last },
            ];
            for farewell in all {
                prop_assert_eq!(Farewell::decode(&farewell.encode()), Some(farewell));
                prop_assert_eq!(Farewell::decode(&farewell.encode()[..FAREWELL - 1]), None);
            }
            let header = Header { sequence: count >> 1, sent: nanos };
            prop_assert_eq!(Farewell::decode(&[header.encode(), [0; 16]].concat()), None);
        }

        #[test]
        fn any_payload_is_read_or_refused(payload: Vec<u8>) {
            match Header::decode(&payload) {
                Some(header) => prop_assert_eq!(&header.encode()[..], &payload[..LENGTH]),
                None => prop_assert!(payload.len() < LENGTH),
            }
        }
    }
}
