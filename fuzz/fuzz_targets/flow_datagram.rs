//! Any payload is a header that encodes to the same bytes, or too short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::datagram::{Header, LENGTH};

fuzz_target!(|payload: &[u8]| match Header::decode(payload) {
    Some(header) => assert_eq!(header.encode(), payload[..LENGTH]),
    None => assert!(payload.len() < LENGTH),
});
