//! Any payload is a header that reads back as its own bytes, or too short for one.
#![no_main]

use emu::flow::datagram::{Header, LENGTH};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| match Header::decode(payload) {
    Some(header) => assert_eq!(header.encode(), payload[..LENGTH]),
    None => assert!(payload.len() < LENGTH),
});
