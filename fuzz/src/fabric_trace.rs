//! Any bytes as a recording of calls: as a whole file, and as a frame whose checksum is right.

use std::path::Path;

use base::{Time, fnv};
use run::calls::{Call, CallReader};

pub(crate) fn target(data: &[u8]) {
    read(data);
    let mut file = b"netarium fabric calls \r\n\x01\0\0\0\0\0\0\0".to_vec();
    file.extend(fnv::hash(b"").to_le_bytes());
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(fnv::hash(data).to_le_bytes());
    file.extend(data);
    read(&file);
}

fn read(file: &[u8]) {
    let Ok(mut reader) = CallReader::new(file, Path::new("fuzz")) else { return };
    let mut last = Time::ZERO;
    while let Ok(Some(call)) = reader.next_call() {
        let at = match call {
            Call::Inject { at, packet, .. }
            | Call::Originate { at, packet, .. }
            | Call::Forward { at, packet, .. } => {
                assert!(packet.count > 0 && packet.entered <= at && packet.dscp < 64);
                at
            }
            Call::Change { at, .. } | Call::End { at, .. } => at,
        };
        assert!(at >= last, "time decreases");
        last = at;
    }
}
