//! Any bytes are split into archive records and damage, which together cover every byte. Each
//! record has a line of JSON, and its lines of bgpdump do not panic.

use bgp::mrt::{Body, Reader, Step};
use collector::text::bgpdump::{Renderer, records};
use collector::text::json_lines;
use serde::de::IgnoredAny;

pub(crate) fn target(bytes: &[u8]) {
    // The first byte is the size of the chunks in which the rest is passed.
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let (mut reader, mut from, mut to) = (Reader::new(), 0, 0);
    let mut line = Vec::new();
    loop {
        match reader.next(&bytes[from..to], to == bytes.len()) {
            Step::Record(record) => {
                from += record.bytes.len();
                match record.parse() {
                    Ok(Body::Rib(rib)) => drop(rib.entries().count()),
                    Ok(Body::PeerIndexTable(table)) => drop(table.peers().count()),
                    _ => {}
                }
                line.clear();
                json_lines::record(&record, &mut line);
                assert!(serde_json::from_slice::<IgnoredAny>(&line).is_ok());
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
    let mut renderer = Renderer::new();
    for record in records(bytes) {
        line.clear();
        renderer.render(&record, &mut line);
    }
}
