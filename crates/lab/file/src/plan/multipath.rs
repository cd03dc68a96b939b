//! TCP over several paths at once.

use std::fmt;

use base::{IfaceId, LinkId};
use mctcp::scheduler::SchedulerKind;

use super::{Flow, Plan, Tcp, Traffic};

/// Multipath settings of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipath {
    /// The multipath protocol.
    pub kind: MultipathKind,
    /// The paths, at least one, each over a different link of the sender; the first is used first.
    pub paths: Vec<Path>,
    /// The scheduler of frames on subflows (MCTCP; the kernel's MPTCP has only one scheduler).
    pub scheduler: SchedulerKind,
    /// Maximum number of simultaneous subflows, 1 to 8; if there are fewer paths, several subflows
    /// use the same path.
    pub subflows: u8,
}

/// A protocol that distributes one stream over several TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipathKind {
    /// Frames in the payload of ordinary TCP connections: the crate `mctcp`.
    Mctcp,
    /// The kernel's Multipath TCP (RFC 8684); on the wall clock only.
    Mptcp,
}

impl MultipathKind {
    /// The word in lab files.
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
    /// The receiver's interface.
    pub to: IfaceId,
    /// Used only while no other path works.
    pub backup: bool,
}

impl Traffic {
    /// The TCP settings; `None`: the traffic does not use TCP.
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
    /// The multipath settings, if the flow has any.
    pub fn multipath(&self) -> Option<&Multipath> {
        self.traffic.tcp()?.multipath.as_ref()
    }
}

impl Plan {
    /// The sender's link of a path, which identifies the path.
    pub fn path_link(&self, path: &Path) -> LinkId {
        self.ifaces[path.from.index()].link
    }
}
