//! Where packets turn.

use base::Time;

use super::Packet;
use crate::{Outbox, SessionId, Towards};

/// Bounces probes and drops Leaves.
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
        if !packet.leaves {
            out.send(self.session, self.hops, Towards::Source, packet);
        }
    }
}
