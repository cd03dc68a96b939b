//! What a driver does for the boxes of its lab.

use base::{IfaceId, NodeId, Time};
use bundler::digest::DigestKey;
use bundler::encapsulation::Envelope;
use fabric::{Ecn, Fabric, Packet};

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
    /// Bytes: a message, or an encapsulated packet.
    Payload {
        /// The interface whose address is the source address.
        source: IfaceId,
        /// The UDP payload.
        payload: Vec<u8>,
    },
    /// An encapsulated packet, where packets have no bytes.
    Enclosed {
        /// Its encapsulation.
        envelope: Envelope,
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

    /// Forwards a packet that `outer` carried encapsulated.
    fn forward_inner(&mut self, at: Time, iface: IfaceId, outer: &Packet<B>, mut inner: Packet<B>) {
        // RFC 6040 §4.2: a congestion mark of the outer packet is copied to the inner packet.
        if outer.ecn == Ecn::Marked && inner.ecn == Ecn::Capable {
            inner.ecn = Ecn::Marked;
        }
        self.forward(at, iface, inner);
    }

    /// A packet starts at a box; see [`Fabric::originate`].
    fn originate(&mut self, at: Time, node: NodeId, packet: Packet<B>) {
        self.fabric().originate(at, node, packet);
    }

    /// The digest of a single segment: the same wherever the network has carried it.
    fn digest(&mut self, key: &DigestKey, packet: &Packet<B>) -> u64;

    /// A UDP datagram between the boxes' ports; `None` if no such datagram is possible.
    fn message(&mut self, at: Time, ends: Ends, payload: Vec<u8>) -> Option<Packet<B>>;

    /// The same, around an encapsulated packet. DSCP, ECN and tag are the packet's.
    fn enclose(
        &mut self,
        at: Time,
        ends: Ends,
        envelope: Envelope,
        packet: Packet<B>,
    ) -> Option<Packet<B>>;

    /// The packet of these bytes, which `outer` carried encapsulated; `None` if it is malformed.
    fn decode(&mut self, outer: &Packet<B>, inner: &[u8]) -> Option<Packet<B>>;

    /// What a packet carries that has reached a box to which it is addressed; `None` if it is no
    /// intact datagram between boxes. Not called twice for a packet.
    fn open(&mut self, packet: &Packet<B>) -> Option<Contents<B>>;
}
