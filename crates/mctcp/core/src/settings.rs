//! Settings of a session.

use base::{Bytes, Span};

use crate::frame::{Limits, MIN_FRAME_LIMIT};
use crate::scheduler::SchedulerKind;

/// Settings of one end of a session. For limits of both ends, the smaller one applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The scheduler, which selects the subflow of the next frame.
    pub scheduler: SchedulerKind,
    /// Maximum number of concurrent subflows, 1 to 8.
    pub max_subflows: u8,
    /// Maximum payload of a frame, 1 KiB to 65,535 B.
    pub max_frame: Bytes,
    /// Maximum amount of unacknowledged and unsent data, at least 64 KiB.
    pub send_buffer: Bytes,
    /// Maximum amount of data buffered for the application: the maximum width of the credit, at
    /// least 64 KiB.
    pub receive_buffer: Bytes,
    /// Start with a small credit that grows with the data that the application reads, up to
    /// `receive_buffer`; otherwise the credit has its full width from the start.
    pub autotune: bool,
    /// Time for which a session without subflows is kept.
    pub resume: Span,
    /// Idle timeout: a session that receives no frame for this time fails; a probe is sent a third
    /// of it after the last frame.
    pub idle: Span,
    /// Timeout of a connection attempt or handshake on a path.
    pub handshake: Span,
    /// Number of written or received bytes after which further subflows are opened.
    pub join_after: Bytes,
    /// Age after which a session that transfers data opens further subflows also with fewer bytes.
    pub join_delay: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::default(),
            max_subflows: 8,
            max_frame: Bytes::new(16 << 10),
            send_buffer: Bytes::new(4 << 20),
            receive_buffer: Bytes::new(4 << 20),
            autotune: true,
            resume: Span::from_secs(30),
            idle: Span::from_secs(60),
            handshake: Span::from_secs(3),
            join_after: Bytes::new(256 << 10),
            join_delay: Span::from_millis(200),
        }
    }
}

impl Settings {
    /// The limits to send to the peer.
    pub fn limits(&self, proof: bool) -> Limits {
        let seconds =
            |span: Span| u16::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(u16::MAX);
        Limits {
            subflows: self.max_subflows.clamp(1, MAX_SUBFLOWS),
            frame: u16::try_from(self.max_frame.count()).unwrap_or(u16::MAX).max(MIN_FRAME_LIMIT),
            idle: seconds(self.idle).max(1),
            resume: seconds(self.resume),
            proof,
        }
    }
}

/// Maximum number of subflows that carry data at the same time.
pub const MAX_SUBFLOWS: u8 = 8;

/// Credit of the client before the server's answer: the maximum of data after HELLO.
pub const EARLY_CREDIT: Bytes = Bytes::new(64 << 10);
