//! Any segments of a few connections, through sessions into records: no panic, memory stays
//! within its limits, and records are complete.

use std::net::SocketAddr;

use base::{Bytes, Time};
use bgp::mrt::Records;
use collector::archive::{self, Recorder};
use collector::reassembly::{Reassembler, Settings};
use collector::session::{self, Sessions};
use collector::{Checksum, MirrorId, Segment};

/// Max bytes that a segment adds before older data is discarded.
const SLACK: usize = 16 << 10;

pub(crate) fn target(data: &[u8]) {
    let memory = 64 << 10;
    let settings = Settings {
        connections: 3,
        memory: Bytes::new(memory as u64),
        out_of_order: Bytes::new(8 << 10),
        window: Bytes::new(64 << 10),
        history: Bytes::new(256),
        ..Settings::default()
    };
    let mut reassembler = Reassembler::new(settings);
    let mut sessions =
        Sessions::new(session::Settings::default(), Recorder::new(archive::Settings::default()));
    let (mut now, mut rest) = (1_000_000_000_u64, data);
    // Connection with end and port, flags, sequence, acknowledgment, delay, truncation, length;
    // the payload follows.
    while let Some((&[who, flags, s1, s0, a1, a0, later, cut, length], more)) =
        rest.split_first_chunk()
    {
        let (payload, next) = more.split_at(more.len().min(usize::from(length) * 2));
        rest = next;
        now += u64::from(later) * 3_000_000;
        let port = 4000 + u16::from(who >> 5 & 1);
        let ends = [SocketAddr::from(([10, 0, 0, who & 3], port)), ([10, 0, 0, 9], 179).into()];
        let from = usize::from(who >> 2 & 1);
        let number = |high, low| u32::from(u16::from_be_bytes([high, low]));
        // Some start close to the wrap-around of sequence numbers, some far from it.
        let base = u32::from(who >> 3 & 1).wrapping_neg() << 8;
        let far = u32::from(who >> 4 & 1) << 30;
        let segment = Segment {
            time: Time::from_nanos(now),
            mirror: MirrorId(0),
            source: ends[from],
            destination: ends[1 - from],
            sequence: base.wrapping_add(number(s1, s0)).wrapping_add(far),
            acknowledgment: base.wrapping_add(number(a1, a0)),
            flags: flags & 0x1f,
            payload,
            missing: if cut < 0xf0 { 0 } else { u32::from(cut & 0xf) * 64 },
            is_device: who >> 6 & 1 == 1,
            checksum: match cut {
                0xee => Checksum::Doubtful,
                0xef => Checksum::Wrong,
                _ => Checksum::Unknown,
            },
        };
        reassembler.segment(&segment, &mut sessions);
        assert!(reassembler.memory() <= memory + SLACK, "{}", reassembler.memory());
        if later > 250 {
            now += 40_000_000_000;
            reassembler.advance(Time::from_nanos(now), &mut sessions);
            sessions.advance(Time::from_nanos(now));
        }
    }
    reassembler.end(&mut sessions);
    sessions.finish();
    assert_eq!(reassembler.memory(), 0);
    let mut recorder = sessions.into_sink();
    let (count, bytes) = (recorder.records(), std::mem::take(recorder.buffer()));
    assert_eq!(Records::new(&bytes).count() as u64, count);
}
