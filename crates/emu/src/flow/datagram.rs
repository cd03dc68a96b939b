//! The header in front of each datagram of a paced flow: 16 bytes, big-endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | sequence number, from 0 |
//! | 8 | 8 | when it was sent, nanoseconds of `CLOCK_MONOTONIC` |

/// Length of a header in bytes.
pub const LENGTH: usize = 16;

/// What a datagram says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Its position in the flow, from 0.
    pub sequence: u64,
    /// When it was sent, in nanoseconds of `CLOCK_MONOTONIC`.
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
        fn any_payload_is_read_or_refused(payload: Vec<u8>) {
            match Header::decode(&payload) {
                Some(header) => prop_assert_eq!(&header.encode()[..], &payload[..LENGTH]),
                None => prop_assert!(payload.len() < LENGTH),
            }
        }
    }
}
