//! Settings and statistics of reassembly.

use base::{Bytes, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub connections: usize,
    /// Maximum memory for bytes of all connections that are not in order yet.
    pub memory: Bytes,
    /// Maximum memory of one direction. It exceeds the window of a sender, so that the gap is
    /// acknowledged before a sender fills it.
    pub out_of_order: Bytes,
    /// Maximum distance of a segment from the next byte.
    pub window: Bytes,
    /// Maximum delay by which segments are reordered.
    pub settle: Span,
    /// Number of segments after which the start of a connection that was found
    /// mid-stream is determined.
    pub settle_segments: usize,
    /// Timeout of a gap that no acknowledgment covers.
    pub gap_timeout: Span,
    /// Timeout of a gap that the receiver acknowledged. Files need more than [`Self::settle`],
    /// because segments may be captured late there.
    pub acknowledged_timeout: Span,
    /// Idle timeout of a connection that has carried messages.
    pub idle: Span,
    /// Idle timeout of a connection without messages, or of one that has ended: longer than the
    /// step of one wrong time stamp.
    pub embryonic: Span,
    /// Bytes retained to detect a retransmission with other content.
    pub history: Bytes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 65_536,
            memory: Bytes::new(256 << 20),
            out_of_order: Bytes::new(4 << 20),
            window: Bytes::new(16 << 20),
            settle: Span::from_millis(200),
            settle_segments: 32,
            gap_timeout: Span::from_secs(30),
            acknowledged_timeout: Span::from_millis(200),
            idle: Span::from_secs(24 * 3600),
            embryonic: Span::from_secs(120),
            history: Bytes::new(16 << 10),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub segments: u64,
    pub payload_bytes: u64,
    pub snapped_bytes: u64,
    /// Segments with a wrong checksum, which are ignored.
    pub wrong_checksums: u64,
    pub duplicate_bytes: u64,
    /// Retransmitted octets with other content.
    pub conflicting_bytes: u64,
    pub out_of_order: u64,
    /// Segments outside the window, which are ignored unless consecutive ones follow.
    pub out_of_window: u64,
    pub messages: u64,
    pub holes: u64,
    pub missing_bytes: u64,
    pub skipped_bytes: u64,
    /// Streams that did not start with a BGP message: those of other protocols, and of scans.
    pub foreign: u64,
    pub connections: u64,
    pub evicted: u64,
    /// Pairs of addresses whose directions, or copies, were captured at different mirrors.
    pub joined: u64,
}
