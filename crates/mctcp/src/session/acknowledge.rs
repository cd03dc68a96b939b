//! When to send a DACK, and where.
//!
//! A DACK goes at once on the subflow that is fastest back, and after at most a quarter of a
//! round-trip time (5 to 20 ms) on every other that carried something: if the fastest has just gone
//! silent, the peer learns it nevertheless.

use base::{Span, Time};

use super::Session;
use super::subflow::Subflow;
use crate::SubflowId;
use crate::frame::{Dack, Frame};
use crate::payload::Payload;

/// Least and greatest time for which a DACK waits. The least is below the time in which a machine
/// answers a request, so that most DACKs of requests leave with the answer.
const DELAYS: [Span; 2] = [Span::from_millis(5), Span::from_millis(20)];
/// Bytes after which it does not wait: small messages are answered sooner than acknowledged.
const ENOUGH: u64 = 8 << 10;

/// What waits to be acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acknowledging {
    /// What had come when the last DACK went.
    told: u64,
    at_once: bool,
    since: Option<Time>,
}

impl Acknowledging {
    /// A frame has come that asks for a DACK.
    pub(super) fn on_frame(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The peer should hear at once.
    pub(super) fn hurry(&mut self) {
        self.at_once = true;
    }

    fn is_due(&self, now: Time, come: u64, delay: Span) -> bool {
        let waited = self.since.is_some_and(|since| now >= since + delay);
        self.at_once || come >= self.told + ENOUGH || waited
    }

    pub(super) fn deadline(&self, delay: Span) -> Option<Time> {
        self.since.map(|since| since + delay)
    }
}

impl<P: Payload> Session<P> {
    /// Whether the peer is to hear at once of what came or was read: time to
    /// [`poll`](Self::poll).
    pub fn is_dack_due(&self) -> bool {
        self.acknowledging.is_due(self.now, self.incoming.come(), self.dack_delay())
    }

    /// How long a DACK waits for more to acknowledge. The peer does the same at the other end of
    /// the same paths, so that this is also how late its DACKs may be.
    pub(super) fn dack_delay(&self) -> Span {
        let active = self.subflows.iter().filter(|subflow| subflow.is_active());
        let srtt = active.map(Subflow::srtt).min().unwrap_or(DELAYS[1]);
        Span::from_nanos(srtt.as_nanos() / 4).clamp(DELAYS[0], DELAYS[1])
    }

    /// Sends what DACKs are due.
    pub(super) fn acknowledge(&mut self) {
        if self.is_over() {
            return;
        }
        let now = self.now;
        let (come, delay) = (self.incoming.come(), self.dack_delay());
        if self.acknowledging.is_due(now, come, delay)
            && let Some(best) = self.answering()
        {
            self.acknowledging = Acknowledging { told: come, ..Acknowledging::default() };
            self.send_dack(best);
        }
        let late = |since: Option<Time>| since.is_some_and(|since| now >= since + delay);
        for at in 0..self.subflows.len() {
            let subflow = &self.subflows[at];
            if subflow.is_usable() && !subflow.is_clogged() && late(subflow.owes_dack) {
                self.send_dack(subflow.id);
            }
        }
    }

    /// The subflow for what is to be heard at once, if it takes anything.
    pub(super) fn answering(&self) -> Option<SubflowId> {
        self.best().filter(|id| self.subflow(*id).is_some_and(|s| !s.is_clogged()))
    }

    pub(super) fn send_dack(&mut self, id: SubflowId) {
        let now = self.now;
        let (next, credit) = (self.incoming.next(), self.incoming.grant());
        let ranges = self.incoming.ranges();
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.owes_dack = None;
        let delay = now.since(subflow.heard).as_nanos() / 1_000;
        let dack = Dack {
            next,
            credit,
            path_seq: subflow.expects.wrapping_sub(1),
            delay_us: u32::try_from(delay).unwrap_or(u32::MAX),
            ranges,
        };
        self.send(id, Frame::Dack(dack));
    }
}
