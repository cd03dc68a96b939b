//! Interface of a driver to the gateways of its lab.

use base::{IfaceId, NodeId, Time};
use bundler::digest::DigestKey;
use bundler::encapsulation::Envelope;
use fabric::{Ecn, Fabric, Packet};

/// The interfaces whose addresses are used by packets between two gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Interface of the sending gateway.
    pub from: IfaceId,
    /// Interface of the receiving gateway.
    pub to: IfaceId,
}

/// Content of a datagram between gateways.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents<B> {
    /// Bytes: a message, or an encapsulated packet.
    Payload {
        /// The interface whose address is the source address.
        source: IfaceId,
        payload: Vec<u8>,
    },
    /// An encapsulated packet, where packets have no bytes.
    Enclosed {
        envelope: Envelope,
        /// The packet, with the tag that the datagram has.
        packet: Packet<B>,
    },
}

/// A driver: it owns the fabric, and defines the body of packets.
pub trait Driver<B: Clone + 'static> {
    fn fabric(&mut self) -> &mut Fabric<B>;

    /// Forwards a packet that arrived at `iface` of a gateway; see [`Fabric::forward`].
    fn forward(&mut self, at: Time, iface: IfaceId, packet: Packet<B>) {
        self.fabric().forward(at, iface, packet);
    }

    /// Forwards a packet that was encapsulated in `outer`.
    fn forward_inner(&mut self, at: Time, iface: IfaceId, outer: &Packet<B>, mut inner: Packet<B>) {
        // RFC 6040 §4.2: a congestion mark of the outer packet is copied to the inner packet.
        if outer.ecn == Ecn::Marked && inner.ecn != Ecn::NotCapable {
            inner.ecn = Ecn::Marked;
        }
        self.forward(at, iface, inner);
    }

    /// Sends a packet of a gateway; see [`Fabric::originate`].
    fn originate(&mut self, at: Time, node: NodeId, packet: Packet<B>) {
        self.fabric().originate(at, node, packet);
    }

    /// The digest of a single segment: the same at every point of the network.
    fn digest(&mut self, key: &DigestKey, packet: &Packet<B>) -> u64;

    /// A UDP datagram between the gateways' ports; `None` if no such datagram is possible.
    fn message(&mut self, at: Time, ends: Ends, payload: Vec<u8>) -> Option<Packet<B>>;

    /// The same, with an encapsulated packet. DSCP, ECN and tag are those of the packet.
    fn enclose(
        &mut self,
        at: Time,
        ends: Ends,
        envelope: Envelope,
        packet: Packet<B>,
    ) -> Option<Packet<B>>;

    /// The packet in these bytes, which was encapsulated in `outer`; `None` if it is malformed.
    fn decode(&mut self, outer: &Packet<B>, inner: &[u8]) -> Option<Packet<B>>;

    /// The content of a packet that is addressed to a gateway; `None` if it is not an intact
    /// datagram between gateways. Called only once per packet.
    fn open(&mut self, packet: &Packet<B>) -> Option<Contents<B>>;
}
