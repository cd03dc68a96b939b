//! Any bytes as encapsulated packets: none passes without the key, and a packet of any bytes comes
//! out as it went in, once.
#![no_main]

use std::sync::LazyLock;

use bundler::digest::Key;
use bundler::encapsulation::{self, Decapsulator, Encapsulator, HEADER, Header};
use bundler::rejection::Rejection;
use libfuzzer_sys::fuzz_target;

static KEY: LazyLock<Key> = LazyLock::new(|| Key::from_secret("fuzz"));

fuzz_target!(|data: &[u8]| {
    let bundle = encapsulation::bundle_of(data).unwrap_or(1);
    let mut receiver = Decapsulator::new(bundle, &KEY);
    receiver.adopt(1);
    assert!(receiver.open(data).is_err());
    let Some((sequence, packet)) = data.split_first_chunk() else { return };
    let sequence = u64::from_be_bytes(*sequence).max(1);
    let header = Header { bundle, incarnation: 1, sequence };
    let sealed = Encapsulator::new(&KEY).seal(header, packet.len());
    let payload = [&sealed[..], packet].concat();
    if packet.is_empty() {
        assert!(receiver.open(&payload).is_err());
        return;
    }
    assert_eq!(Header::parse(&payload), Ok(header));
    let opened = receiver.open(&payload).expect("authentic and new");
    assert_eq!(opened.inner, HEADER..payload.len());
    assert_eq!(opened.digest, Some(header.digest(&KEY.digest())));
    assert_eq!(receiver.open(&payload), Err(Rejection::Replayed));
});
