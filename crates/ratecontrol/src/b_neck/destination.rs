//! Answers probes, and what nobody confirmed.

use base::Time;

use super::{BNeckPacket, Verdict};
use crate::{Destination, Outbox, SessionId, Towards};

/// The end of a session's path.
#[derive(Clone, Copy, Debug)]
pub struct BNeckDestination {
    pub(super) session: SessionId,
    pub(super) hops: u8,
}

impl Destination<BNeckPacket> for BNeckDestination {
    fn receive(&mut self, _now: Time, packet: BNeckPacket, out: &mut Outbox<BNeckPacket>) {
        let answer = match packet {
            BNeckPacket::Join { rate, limiter } | BNeckPacket::Probe { rate, limiter } => {
                BNeckPacket::Response { verdict: Verdict::Response, rate, limiter }
            }
            BNeckPacket::SetBottleneck { confirmed: false } => BNeckPacket::Update,
            _ => return,
        };
        out.send(self.session, self.hops, Towards::Source, answer);
    }
}
