//! Weight and cap of a TCP flow in the RTT-aware model.
//!
//! The RTT is that of the path in both directions, without queueing.

use base::{Bytes, Span};

/// Minimum RTT, so that flows between nodes without delay, or on one node, have a
/// finite weight and cap.
pub const MIN_ROUND_TRIP: Span = Span::from_micros(1);

/// The RTT of a path and a return path, which need not be the same route reversed.
pub fn round_trip(there: Span, back: Span) -> Span {
    there.saturating_add(back).max(MIN_ROUND_TRIP)
}

/// The weight of a flow that shares a bottleneck in inverse proportion to its RTT.
pub fn weight(round_trip: Span) -> f64 {
    1.0 / round_trip.max(MIN_ROUND_TRIP).as_secs_f64()
}

/// The maximum rate of a window, bit/s: one window per RTT.
pub fn window_cap(window: Bytes, round_trip: Span) -> f64 {
    window.count() as f64 * 8.0 * weight(round_trip)
}
