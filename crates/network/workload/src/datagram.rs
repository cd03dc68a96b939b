//! The header at the start of each datagram of a paced flow or of queries: 16 bytes, big-endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | sequence number, from 0 |
//! | 8 | 8 | when it was sent, nanoseconds of lab time |
//!
//! The largest sequence numbers mark an [`EndMessage`], 24 bytes, which the ends of a flow on
//! different hosts exchange when all is sent.
//!
//! | sequence number | from | the next 8 bytes | the last 8 |
//! |---|---|---|---|
//! | 2⁶⁴ − 1 | sender | datagrams sent | when the last was, nanoseconds of lab time |
//! | 2⁶⁴ − 2 | receiver | 0 | time for which it waits for missing datagrams, nanoseconds |
//! | 2⁶⁴ − 3 | receiver | 0 | when the last arrived, nanoseconds of lab time |

use base::{Span, Time};

/// Length of a header in bytes.
pub const LENGTH: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Its position in the flow, from 0.
    pub sequence: u64,
    /// Send time, in nanoseconds of lab time.
    pub sent: u64,
}

impl Header {
    /// The header in wire format.
    pub fn encode(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sent.to_be_bytes());
        bytes
    }

    /// Decodes the header at the start of a payload; `None` if the payload is too short.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (sequence, rest) = payload.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        let sequence = u64::from_be_bytes(*sequence);
        Some(Self { sequence, sent: u64::from_be_bytes(*sent) })
    }
}

/// Length of a [`EndMessage`] in bytes.
pub const END_LENGTH: usize = 24;

const SENT: u64 = u64::MAX;
const WAITING: u64 = u64::MAX - 1;
const RECEIVED: u64 = u64::MAX - 2;

/// A message about the end of a flow whose ends are on different hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndMessage {
    /// From the sender: all datagrams are sent.
    Sent {
        count: u64,
        /// Send time of the last one.
        last: Time,
    },
    /// From the receiver: datagrams are missing.
    Waiting {
        /// The receiver waits for them until this long after the last arrival.
        timeout: Span,
    },
    /// From the receiver: it expects no more datagrams.
    Received {
        /// Arrival time of the last one.
        last: Time,
    },
}

impl EndMessage {
    /// The message in wire format.
    pub fn encode(self) -> [u8; END_LENGTH] {
        let fields = match self {
            Self::Sent { count, last } => [SENT, count, last.as_nanos()],
            Self::Waiting { timeout } => [WAITING, 0, timeout.as_nanos()],
            Self::Received { last } => [RECEIVED, 0, last.as_nanos()],
        };
        let mut bytes = [0; END_LENGTH];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// Decodes the message at the start of a payload; `None` if it is a datagram of the flow.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (kind, rest) = payload.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (last, _) = rest.split_first_chunk()?;
        let [count, nanos] = [count, last].map(|bytes| u64::from_be_bytes(*bytes));
        match u64::from_be_bytes(*kind) {
            SENT => Some(Self::Sent { count, last: Time::from_nanos(nanos) }),
            WAITING => Some(Self::Waiting { timeout: Span::from_nanos(nanos) }),
            RECEIVED => Some(Self::Received { last: Time::from_nanos(nanos) }),
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
        fn end_messages_round_trip(count: u64, nanos: u64) {
            let (last, timeout) = (Time::from_nanos(nanos), Span::from_nanos(nanos));
            let all = [
                EndMessage::Sent { count, last },
                EndMessage::Waiting { timeout },
                EndMessage::Received { last },
            ];
            for farewell in all {
                prop_assert_eq!(EndMessage::decode(&farewell.encode()), Some(farewell));
                prop_assert_eq!(EndMessage::decode(&farewell.encode()[..END_LENGTH - 1]), None);
            }
            let header = Header { sequence: count >> 1, sent: nanos };
            prop_assert_eq!(EndMessage::decode(&[header.encode(), [0; 16]].concat()), None);
        }

        #[test]
        fn decodes_headers_of_long_enough_payloads(payload: Vec<u8>) {
            match Header::decode(&payload) {
                Some(header) => prop_assert_eq!(&header.encode()[..], &payload[..LENGTH]),
                None => prop_assert!(payload.len() < LENGTH),
            }
        }
    }
}
