//! Turns cells round.

use base::Time;

use super::{BfyzPacket, Kind};
use crate::{Destination, Outbox, SessionId, Towards};

/// The end of a session's path.
#[derive(Clone, Copy, Debug)]
pub struct BfyzDestination {
    pub(super) session: SessionId,
    pub(super) hops: u8,
}

impl Destination<BfyzPacket> for BfyzDestination {
    fn receive(&mut self, _now: Time, packet: BfyzPacket, out: &mut Outbox<BfyzPacket>) {
        if matches!(packet.kind, Kind::Join | Kind::Probe) {
            let ack = BfyzPacket { kind: Kind::Ack, ..packet };
            out.send(self.session, self.hops, Towards::Source, ack);
        }
    }
}
