//! What a driver does for the boxes of its lab.

use base::{IfaceId, NodeId, Time};
use bundler::digest::DigestKey;
use bundler::encapsulation::HEADER;
use fabric::{Fabric, Packet};

/// The interfaces whose addresses the packets between two boxes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Of the box that sends.
    pub from: IfaceId,
    /// Of the box that receives.
    pub to: IfaceId,
}

/// What a datagram between boxes carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents<B> {
    /// A message.
    Message(Vec<u8>),
    /// A packet of an encapsulated bundle.
    Enclosed {
        /// The header before it.
        header: [u8; HEADER],
        /// The packet, with the tag that the datagram has.
        packet: Packet<B>,
    },
}

/// A driver: it has the fabric, and knows what a packet's body is.
pub trait Driver<B: Clone + 'static> {
    /// The fabric that the boxes are in.
    fn fabric(&mut self) -> &mut Fabric<B>;

    /// A packet that came through `iface` of a box goes on; see [`Fabric::forward`].
    fn forward(&mut self, at: Time, iface: IfaceId, packet: Packet<B>) {
        self.fabric().forward(at, iface, packet);
    }

    /// A packet starts at a box; see [`Fabric::originate`].
    fn originate(&mut self, at: Time, node: NodeId, packet: Packet<B>) {
        self.fabric().originate(at, node, packet);
    }

    /// The digest of a single segment: the same wherever the network has carried it.
    fn digest(&mut self, key: &DigestKey, packet: &Packet<B>) -> u64;

    /// A UDP datagram between the boxes' ports; `None` if no such datagram is possible.
    fn message(&mut self, at: Time, ends: Ends, payload: Vec<u8>) -> Option<Packet<B>>;

    /// The same, around a header and a packet. DSCP, ECN and tag are the packet's.
    fn enclose(
        &mut self,
        at: Time,
        ends: Ends,
        header: [u8; HEADER],
        packet: Packet<B>,
    ) -> Option<Packet<B>>;

    /// What a packet carries that has reached a box to which it is addressed; `None` if it is no
    /// intact datagram between boxes. Not called twice for a packet.
    fn open(&mut self, packet: &Packet<B>) -> Option<Contents<B>>;
}
