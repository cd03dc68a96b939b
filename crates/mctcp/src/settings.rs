//! How a session behaves.

use base::{Bytes, Span};

use crate::frame::Limits;
use crate::scheduler::SchedulerKind;

/// Settings of one end of a session. Both ends have limits of their own; the smaller holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which subflow takes the next frame.
    pub scheduler: SchedulerKind,
    /// Most subflows at once, 1 to 8.
    pub max_subflows: u8,
    /// Most payload of a frame, 1 KiB to 65,535 B.
    pub max_frame: Bytes,
    /// Most unacknowledged and unsent data that is kept for the peer, 64 KiB at least.
    pub send_buffer: Bytes,
    /// Most data that is kept for the application: the credit's greatest width, 64 KiB at least.
    pub receive_buffer: Bytes,
    /// Let the credit begin small and grow with what the application reads, up to
    /// `receive_buffer`; otherwise it has its full width at once.
    pub autotune: bool,
    /// A session without subflows is kept for this long.
    pub resume: Span,
    /// A session on which nothing is heard for this long is lost; a third of it after the last
    /// frame a probe is sent.
    pub idle: Span,
    /// A connection attempt or a handshake on a path may take this long.
    pub handshake: Span,
    /// Open further subflows only once this much has been written or received …
    pub join_after: Bytes,
    /// … or the session is this old and still moving data.
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
    /// The limits to tell the peer.
    pub fn limits(&self, proof: bool) -> Limits {
        let seconds =
            |span: Span| u16::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(u16::MAX);
        Limits {
            subflows: self.max_subflows.clamp(1, MOST_SUBFLOWS),
            frame: u16::try_from(self.max_frame.count()).unwrap_or(u16::MAX).max(1024),
            idle: seconds(self.idle).max(1),
            resume: seconds(self.resume),
            proof,
        }
    }
}

/// What everyone takes as a frame's payload.
pub const LEAST_FRAME: Bytes = Bytes::new(1 << 10);

/// Most subflows that carry data at once.
pub const MOST_SUBFLOWS: u8 = 8;

/// Credit that either end has before the other's handshake has come: what may follow HELLO.
pub const EARLY_CREDIT: Bytes = Bytes::new(64 << 10);
