//! Views for the tests of the schedulers.

use base::{Bandwidth, Bytes, Span};

use super::{SubflowView, View};
use crate::SubflowId;

/// A session with unlimited data and a credit of 4 MiB.
pub(super) fn bulk() -> View {
    View {
        unsent: Bytes::new(1 << 20),
        more: true,
        credit: Bytes::new(4 << 20),
        window: Bytes::new(4 << 20),
        outstanding: Bytes::ZERO,
        frame: Bytes::new(16 << 10),
        blocked: false,
    }
}

/// An idle subflow with this round-trip time and rate; its window is the bandwidth-delay product.
pub(super) fn idle(id: u32, rtt_ms: u64, mbits: u64) -> SubflowView {
    let (rtt, rate) = (Span::from_millis(rtt_ms), Bandwidth::from_mbits_per_sec(mbits));
    SubflowView {
        id: SubflowId(id),
        room: Bytes::new(64 << 10),
        backup: false,
        weight: 1,
        srtt: rtt,
        rtt_var: Span::from_millis(1),
        min_rtt: rtt,
        cwnd: rate.bytes_in(rtt).max(Bytes::new(14_480)),
        in_flight: Bytes::ZERO,
        notsent: Bytes::ZERO,
        outstanding: Bytes::ZERO,
        rate: Some(rate),
        peak: Some(rate),
        capacity: None,
    }
}

/// The same with a full window and no room.
pub(super) fn busy(id: u32, rtt_ms: u64, mbits: u64) -> SubflowView {
    let idle = idle(id, rtt_ms, mbits);
    let notsent = Bytes::new(64 << 10);
    SubflowView {
        room: Bytes::ZERO,
        in_flight: idle.cwnd,
        notsent,
        outstanding: idle.cwnd + notsent,
        ..idle
    }
}
