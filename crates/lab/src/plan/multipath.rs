//! TCP over several paths at once.

use std::fmt;

use base::{IfaceId, LinkId};
use mctcp::scheduler::SchedulerKind;

use super::{Flow, Plan, Tcp, Traffic};

/// How a flow's connections use several paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipath {
    /// By which protocol.
    pub kind: MultipathKind,
    /// The paths, at least one, each over a link of the sender of its own; the first is tried
    /// first.
    pub paths: Vec<Path>,
    /// Which subflow takes the next frame (MCTCP; the kernel's MPTCP has one scheduler only).
    pub scheduler: SchedulerKind,
    /// Most subflows at once, 1 to 8; more than paths: several on the same.
    pub subflows: u8,
}

/// A protocol that spreads one stream over several TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipathKind {
    /// Frames in the payload of ordinary TCP connections: the crate `mctcp`.
    Mctcp,
    /// The kernel's Multipath TCP (RFC 8684); on the wall clock only.
    Mptcp,
}

impl MultipathKind {
    /// The word for it in lab files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mctcp => "mctcp",
            Self::Mptcp => "mptcp",
        }
    }
}

impl fmt::Display for MultipathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mctcp => "MCTCP",
            Self::Mptcp => "MPTCP",
        })
    }
}

/// A pair of interfaces between which subflows run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The sender's interface.
    pub from: IfaceId,
    /// The receiver's.
    pub to: IfaceId,
    /// To be used only while no other path works.
    pub backup: bool,
}

impl Traffic {
    /// How its TCP connections behave; `None`: there are none.
    pub const fn tcp(&self) -> Option<&Tcp> {
        match self {
            Self::Bulk { tcp, .. }
            | Self::Transfers { tcp, .. }
            | Self::Rpc { tcp, .. }
            | Self::Requests { tcp, .. } => Some(tcp),
            Self::Paced { .. } | Self::Controlled { .. } | Self::Queries { .. } => None,
        }
    }
}

impl Flow {
    /// How it uses several paths, if it does.
    pub fn multipath(&self) -> Option<&Multipath> {
        self.traffic.tcp()?.multipath.as_ref()
    }
}

impl Plan {
    /// The sender's link of a path: what paths are called by.
    pub fn path_link(&self, path: &Path) -> LinkId {
        self.ifaces[path.from.index()].link
    }
}
