//! What a TCP flow asks of the network by the RTT-aware model: its weight and its cap.
//!
//! The round trip is that of the path alone, both ways, without queueing.

use base::{Bytes, Span};

/// No round trip counts as shorter: flows between nodes without delay, or on one node, have a
/// finite weight and cap.
pub const LEAST_ROUND_TRIP: Span = Span::from_micros(1);

/// The round trip of a path there and one back, which need not be the same way reversed.
pub fn round_trip(there: Span, back: Span) -> Span {
    there.saturating_add(back).max(LEAST_ROUND_TRIP)
}

/// The weight of a flow that shares a bottleneck in inverse proportion to its round trip.
pub fn weight(round_trip: Span) -> f64 {
    1.0 / round_trip.max(LEAST_ROUND_TRIP).as_secs_f64()
}

/// The most that a window lets through, bit/s: one window in each round trip.
pub fn window_cap(window: Bytes, round_trip: Span) -> f64 {
    window.count() as f64 * 8.0 * weight(round_trip)
}
