//! Any bytes are split into archive records and damage, which together cover every byte.

use bgp::mrt::{Body, Reader, Step};

pub(crate) fn target(bytes: &[u8]) {
    // The first byte is the size of the chunks in which the rest is passed.
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let (mut reader, mut from, mut to) = (Reader::new(), 0, 0);
    loop {
        match reader.next(&bytes[from..to], to == bytes.len()) {
            Step::Record(record) => {
                from += record.bytes.len();
                match record.parse() {
                    Ok(Body::Rib(rib)) => drop(rib.entries().count()),
                    Ok(Body::PeerIndexTable(table)) => drop(table.peers().count()),
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
