//! `fabric.trace`: every call that changed a run's fabric, so that it can be repeated exactly.
//!
//! ```text
//! file    = magic, version u32, length u32, lab file, checksum u64, frame …
//! frame   = length u32, checksum u64, calls      (a frame is at most 1 MiB long)
//! call    = tag u8, nanoseconds since the call before, what belongs to it
//! ```
//!
//! Fixed numbers are little-endian, others LEB128. Checksums are FNV-1a. The lab file is the
//! resolved one, from which the network is built again. The last call is [`Call::End`].

use base::{IfaceId, NodeId, Time};
use fabric::Packet;

use crate::checksum;

mod code;
mod reader;
mod writer;

pub use reader::{CallReader, Flaw};
pub use writer::{CallReport, CallWriter};

/// The file in the run folder.
pub const FILE: &str = "fabric.trace";

const MAGIC: &[u8; 24] = b"netarium fabric calls \r\n";
const VERSION: u32 = 2;
/// The longest frame that is read.
const FRAME_LIMIT: usize = 1 << 20;
/// The longest lab file that is read.
const LAB_LIMIT: usize = 256 << 20;

/// What was done to the fabric, at its logical time. Packets come without their bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A packet left a node.
    Inject {
        /// When.
        at: Time,
        /// Through which interface.
        iface: IfaceId,
        /// The packet.
        packet: Packet<()>,
    },
    /// A router sent a packet of its own.
    Originate {
        /// When.
        at: Time,
        /// The router.
        node: NodeId,
        /// The packet.
        packet: Packet<()>,
    },
    /// A middlebox sent on a packet that had come through an interface.
    Forward {
        /// When.
        at: Time,
        /// The interface.
        iface: IfaceId,
        /// The packet.
        packet: Packet<()>,
    },
    /// An event of the lab changed the network.
    Change {
        /// When.
        at: Time,
        /// The event's position in the plan.
        event: usize,
    },
    /// The run ended.
    End {
        /// The fabric's time then.
        at: Time,
        /// Events that the fabric had processed.
        events: u64,
        /// Its hash over all deliveries.
        trace_hash: u64,
    },
}

#[cfg(test)]
mod tests;
