//! `fabric.trace`: every call that changed a run's fabric, for an exact replay.
//!
//! ```text
//! file    = magic, version u32, length u32, lab file, checksum u64, frame …
//! frame   = length u32, checksum u64, calls      (a frame is at most 1 MiB long)
//! call    = tag u8, nanoseconds since the previous call, arguments
//! ```
//!
//! Fixed numbers are little-endian, others LEB128. Checksums are FNV-1a. The lab file is the
//! resolved one, from which the network is built again. The last call is [`Call::End`].

use base::{IfaceId, NodeId, Time};
use fabric::Packet;

mod code;
mod reader;
mod writer;

pub use reader::{CallReader, RecordingError};
pub use writer::{CallReport, CallWriter};

/// The file in the run folder.
pub const FILE: &str = "fabric.trace";

const MAGIC: &[u8; 24] = b"netarium fabric calls \r\n";
const VERSION: u32 = 3;
const MAX_FRAME_BYTES: usize = 1 << 20;
const MAX_LAB_BYTES: usize = 256 << 20;

/// A call to the fabric, with its logical time. Packets have no payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A node sent a packet.
    Inject {
        at: Time,
        /// The interface through which it left.
        iface: IfaceId,
        packet: Packet<()>,
    },
    /// A router sent a packet that it generated.
    Originate { at: Time, node: NodeId, packet: Packet<()> },
    /// A middlebox forwarded a packet.
    Forward {
        at: Time,
        /// The interface through which the packet arrived.
        iface: IfaceId,
        packet: Packet<()>,
    },
    /// An event of the lab changed the network.
    Change {
        at: Time,
        /// The event's position in the plan.
        event: usize,
    },
    End {
        /// The fabric's time at the end.
        at: Time,
        /// Events that the fabric had processed.
        events: u64,
        /// The fabric's hash over all deliveries.
        trace_hash: u64,
    },
}

#[cfg(test)]
mod tests;
