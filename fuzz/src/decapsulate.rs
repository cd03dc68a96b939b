//! Any bytes as frames of any link type: the decapsulated bytes are part of the frame.

use base::Time;
use collector::decapsulate::{Decapsulator, Settings};
use collector::{Frame, LinkType};

pub(crate) fn target(data: &[u8]) {
    let mut decapsulator = Decapsulator::new(Settings::default());
    let mut rest = data;
    let mut time = Time::ZERO;
    while let [link_high, link_low, length, more, tail @ ..] = rest {
        let (data, next) = tail.split_at(tail.len().min(usize::from(*length) * 8));
        let link = LinkType(u16::from_be_bytes([*link_high & 1, *link_low]));
        let length = data.len() as u32 + u32::from(*more) * 64;
        time = Time::from_nanos(time.as_nanos() + u64::from(*more) * 10_000_000);
        let without_checksum = *link_high & 2 != 0;
        let frame = Frame { time, link, interface: 0, data, length, without_checksum };
        decapsulator.segments(&frame, &mut |segment| {
            assert!(segment.source.port() == 179 || segment.destination.port() == 179);
            assert!(segment.payload.len() <= 65_535.max(data.len()));
        });
        decapsulator.losses(&mut |loss| assert!(loss.packets > 0 && loss.since <= loss.until));
        rest = next;
    }
    decapsulator.end(time, &mut |_| {});
    assert_eq!(decapsulator.counters().fragments_pending, 0);
}
