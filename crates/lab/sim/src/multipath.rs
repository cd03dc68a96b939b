//! MCTCP on the virtual clock: the sessions of both ends, over simulated TCP connections.
//!
//! ```text
//! applications (bulk, transfers, rpc, requests)     app/
//!        → streams: a session of the crate `mctcp` at each end
//!        → subflows: frames in order, counted in TCP connections
//!        → network                                  net.rs
//! ```
//!
//! The sessions are the implementation that the wall clock uses, but their payload is only a byte
//! count. A frame is passed to the peer's session when TCP has delivered its last byte.

mod pending;
mod stream;
mod streams;
mod subflow;

use base::{Bytes, LinkId};
use lab::plan::Multipath;
use mctcp::Settings;
use transport::tcp::Config;

pub(crate) use streams::Streams;

/// Minimum buffer of a session.
const MIN_BUFFER: Bytes = Bytes::new(64 << 10);

/// A path that a flow may use.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// Index of its ends in `legs`.
    pub(crate) legs: u32,
    /// TCP configuration of its connections.
    pub(crate) config: Config,
    /// The sender's link, by its identifier in the original plan.
    pub(crate) link: LinkId,
    pub(crate) backup: bool,
}

/// Parameters of a multipath flow.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    settings: Settings,
    ways: Vec<Way>,
    /// Send buffer of each subflow; `None`: unlimited.
    buffer: Option<Bytes>,
}

impl Shape {
    pub(crate) fn new(multipath: &Multipath, ways: Vec<Way>, window: Option<Bytes>) -> Self {
        let mut settings = Settings {
            scheduler: multipath.scheduler,
            max_subflows: multipath.subflows,
            ..Settings::default()
        };
        if let Some(window) = window {
            // The kernel, too, doubles the requested size.
            let buffer = Bytes::new(2 * window.count()).max(MIN_BUFFER);
            (settings.send_buffer, settings.receive_buffer) = (buffer, buffer);
            settings.autotune = false;
        }
        Self { settings, ways, buffer: window }
    }

    /// Number of session paths; with more subflows than paths, several session paths use
    /// the same path.
    fn paths(&self) -> u16 {
        let ways = self.ways.len() as u16;
        ways.max(u16::from(self.settings.max_subflows))
    }

    fn way(&self, path: mctcp::PathId) -> &Way {
        &self.ways[usize::from(path.0) % self.ways.len()]
    }
}

/// TCP's limit for data beyond its congestion window: the low-water mark of unsent data
/// (`TCP_NOTSENT_LOWAT`), as drivers on the wall clock set it.
fn low_water(cwnd: Bytes) -> u64 {
    (cwnd.count() / 4).clamp(16 << 10, 256 << 10)
}
