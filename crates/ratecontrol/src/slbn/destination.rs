//! The destination: "drops Leave packets, and bounces Join and Probe packets back" (§III).

use base::Time;

use super::{Kind, Packet};
use crate::{Outbox, SessionId, Towards};

/// Where a session ends. It keeps nothing.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    session: SessionId,
    hops: u8,
}

impl Destination {
    pub(super) fn new(session: SessionId, hops: u8) -> Self {
        Self { session, hops }
    }
}

impl crate::Destination<Packet> for Destination {
    fn receive(&mut self, _now: Time, packet: Packet, out: &mut Outbox<Packet>) {
        if matches!(packet.kind, Kind::Join | Kind::Probe) {
            let ack = Packet { kind: Kind::ProbeAck, ..packet };
            out.send(self.session, self.hops, Towards::Source, ack);
        }
    }
}
