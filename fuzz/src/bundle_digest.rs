//! Digests of any bytes do not depend on fields that routers change, nor on the padding of a frame.

use std::sync::LazyLock;

use bundler::digest::{self, Key};

static KEY: LazyLock<Key> = LazyLock::new(|| Key::from_secret("fuzz"));

pub(crate) fn target(data: &[u8]) {
    let key = KEY.digest();
    let Some(digest) = digest::of_packet(&key, data) else { return };
    let mut seen = data.to_vec();
    match data[0] >> 4 {
        4 => {
            // DSCP and ECN, DF and MF, TTL, the header's checksum.
            (seen[1], seen[8], seen[10], seen[11]) = (!data[1], !data[8], !data[10], !data[11]);
            seen[6] ^= 0xe0;
        }
        6 => {
            // Traffic class and flow label, hop limit.
            (seen[1], seen[2], seen[3], seen[7]) = (!data[1], !data[2], !data[3], !data[7]);
            seen[0] ^= 0x0f;
        }
        version => panic!("a packet of version {version}"),
    }
    seen.extend([0x5a; 30]);
    assert_eq!(digest::of_packet(&key, &seen), Some(digest));
    for length in 0..data.len().min(100) {
        let cut = digest::of_packet(&key, &data[..length]);
        assert!(cut.is_none() || cut == Some(digest));
    }
}
