//! MCTCP on the virtual clock: the driver of `mctcp` over simulated TCP connections.
//!
//! The payload of its sessions is only a byte count. A frame is passed to the peer's session when
//! TCP has delivered its last byte.

mod link;
mod streams;

use std::sync::Arc;

use base::{Bytes, LinkId};
use lab::plan::Multipath;
use mctcp::driver::Setup;
use transport::tcp::Config;

pub(crate) use streams::Streams;

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
    setup: Arc<Setup>,
    ways: Vec<Way>,
    /// Send buffer of each subflow; `None`: unlimited.
    buffer: Option<Bytes>,
}

impl Shape {
    pub(crate) fn new(multipath: &Multipath, ways: Vec<Way>, window: Option<Bytes>) -> Self {
        let backups: Vec<bool> = ways.iter().map(|way| way.backup).collect();
        let setup = Setup::new(multipath.scheduler, multipath.subflows, &backups, window);
        Self { setup: Arc::new(setup), ways, buffer: window }
    }

    /// With more subflows than paths, several session paths use the same path.
    fn way(&self, path: mctcp::PathId) -> &Way {
        &self.ways[usize::from(path.0) % self.ways.len()]
    }
}
