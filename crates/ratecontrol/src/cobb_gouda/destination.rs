//! The end of the path.

use base::Time;

use super::Packet;
use crate::{Outbox, SessionId, Towards};

/// Turns packets round.
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
    fn receive(&mut self, _: Time, packet: Packet, out: &mut Outbox<Packet>) {
        out.send(self.session, self.hops, Towards::Source, packet);
    }
}
