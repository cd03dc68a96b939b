//! Any bytes are split into BMP packets and damage, which together cover every byte.

use bgp::bmp::{Body, Reader, Step};

pub(crate) fn target(bytes: &[u8]) {
    // The first byte is the size of the chunks in which the rest is passed.
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let (mut reader, mut from, mut to) = (Reader::new(), 0, 0);
    loop {
        match reader.next(&bytes[from..to], to == bytes.len()) {
            Step::Packet(packet) => {
                from += packet.bytes.len();
                match packet.parse() {
                    Ok(
                        Body::Statistics(_, all) | Body::Initiation(all) | Body::Termination(all),
                    ) => drop(all.iter().count()),
                    Ok(Body::PeerUp(_, up)) => drop(up.information.iter().count()),
                    _ => {}
                }
            }
            Step::Need(need) => {
                assert!(need > to - from && to < bytes.len());
                to = bytes.len().min(to + 1 + usize::from(size));
            }
            Step::Damaged(damage) => from += damage.skipped,
            Step::End => break,
        }
    }
    assert_eq!(from, bytes.len());
}
