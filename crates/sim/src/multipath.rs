//! MCTCP on the virtual clock: the sessions of both ends, over simulated TCP connections.
//!
//! ```text
//! applications (bulk, transfers, rpc, requests)     app/
//!        → streams: a session of the crate `mctcp` at each end
//!        → subflows: frames in order, counted in TCP connections
//!        → network                                  net.rs
//! ```
//!
//! Sessions are those of the wall clock; only their payload is a number. A frame is handed to the
//! other end's session when TCP has delivered the last of its bytes.

mod door;
mod stream;
mod streams;
mod subflow;

use base::{Bytes, LinkId};
use lab::plan::Multipath;
use mctcp::Settings;
use transport::tcp::Config;

pub(crate) use streams::Streams;

/// Smallest buffer of a session.
const LEAST_BUFFER: Bytes = Bytes::new(64 << 10);

/// A path that a flow may use.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The place of its ends among the legs.
    pub(crate) legs: u32,
    /// How its connections behave.
    pub(crate) config: Config,
    /// The sender's link, by its number in the original plan.
    pub(crate) link: LinkId,
    pub(crate) backup: bool,
}

/// What a flow over several paths is given.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    settings: Settings,
    ways: Vec<Way>,
    /// Send buffer of each subflow; `None`: as large as it takes.
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
            // The kernel, too, doubles what it is asked for.
            let buffer = Bytes::new(2 * window.count()).max(LEAST_BUFFER);
            (settings.send_buffer, settings.receive_buffer) = (buffer, buffer);
            settings.autotune = false;
        }
        Self { settings, ways, buffer: window }
    }

    /// Paths as sessions number them: several on the same way where there are more subflows.
    fn paths(&self) -> u16 {
        let ways = self.ways.len() as u16;
        ways.max(u16::from(self.settings.max_subflows))
    }

    fn way(&self, path: mctcp::PathId) -> &Way {
        &self.ways[usize::from(path.0) % self.ways.len()]
    }
}

/// What TCP takes beyond its congestion window: the low-water mark of its unsent part
/// (`TCP_NOTSENT_LOWAT`), as drivers on the wall clock set it.
fn low_water(cwnd: Bytes) -> u64 {
    (cwnd.count() / 4).clamp(16 << 10, 256 << 10)
}
