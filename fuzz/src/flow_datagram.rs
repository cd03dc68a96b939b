//! Any payload is a header that encodes to the same bytes, or too short.

use workload::datagram::{Header, LENGTH};

pub(crate) fn target(payload: &[u8]) {
    match Header::decode(payload) {
        Some(header) => assert_eq!(header.encode(), payload[..LENGTH]),
        None => assert!(payload.len() < LENGTH),
    }
}
