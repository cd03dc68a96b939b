//! When and where to send a DACK.
//!
//! A DACK is sent after the frames of an answer, or alone on the subflow with the fastest return
//! path, and after at most a quarter of a round-trip time (5 to 20 ms) on every other subflow: if
//! the first one is lost, the peer does not consider the data lost.

use base::{Span, Time};

use super::Session;
use super::subflow::Subflow;
use crate::SubflowId;
use crate::frame::{Dack, Frame};
use crate::payload::Payload;

/// Bounds of the time for which a DACK waits for more data, or for an answer.
const MIN_DACK_DELAY: Span = Span::from_millis(5);
pub(super) const MAX_DACK_DELAY: Span = Span::from_millis(20);
/// Number of bytes after which a DACK does not wait. Small messages are answered before
/// they are acknowledged.
const MAX_UNREPORTED_BYTES: u64 = 8 << 10;

/// State of acknowledgements for received data.
#[derive(Debug, Default)]
pub(super) struct Acknowledging {
    /// Received bytes when the last DACK was sent.
    reported: u64,
    at_once: bool,
    since: Option<Time>,
    /// Arrival time of the newest data.
    newest: Time,
}

impl Acknowledging {
    /// Processes a received frame that requires a DACK.
    pub(super) fn on_frame(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    pub(super) fn on_data(&mut self, now: Time) {
        self.newest = now;
    }

    /// Requests the next DACK without delay.
    pub(super) fn hurry(&mut self) {
        self.at_once = true;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.since.is_some()
    }

    fn is_due(&self, now: Time, come: u64, delay: Span) -> bool {
        let waited = self.since.is_some_and(|since| now >= since + delay);
        self.at_once || come >= self.reported + MAX_UNREPORTED_BYTES || waited
    }

    pub(super) fn deadline(&self, delay: Span) -> Option<Time> {
        self.since.map(|since| since + delay)
    }
}

impl<P: Payload> Session<P> {
    /// Whether a DACK is due for received or read data, so that [`poll`](Self::poll)
    /// should be called.
    pub fn is_dack_due(&self) -> bool {
        self.acknowledging.is_due(self.now, self.incoming.come(), self.dack_delay())
    }

    /// Maximum delay of a DACK. The peer applies the same delay at the other end of the same paths,
    /// so this is also the delay of its DACKs. Mean round-trip times cannot be used: delayed
    /// acknowledgements make those of the two ends differ.
    pub(super) fn dack_delay(&self) -> Span {
        let active = self.subflows.iter().filter(|subflow| subflow.is_active());
        let rtt = active.map(Subflow::min_rtt).min().unwrap_or(MAX_DACK_DELAY);
        Span::from_nanos(rtt.as_nanos() / 4).clamp(MIN_DACK_DELAY, MAX_DACK_DELAY)
    }

    /// Sends the DACKs that are due.
    pub(super) fn acknowledge(&mut self) {
        if self.is_over() {
            return;
        }
        let now = self.now;
        let (come, delay) = (self.incoming.come(), self.dack_delay());
        if self.acknowledging.is_due(now, come, delay)
            && let Some(best) = self.answering()
        {
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

    /// The subflow for urgent frames, if one has room.
    pub(super) fn answering(&self) -> Option<SubflowId> {
        self.best().filter(|id| self.subflow(*id).is_some_and(|s| !s.is_clogged()))
    }

    pub(super) fn send_dack(&mut self, id: SubflowId) {
        let newest = self.acknowledging.newest;
        let reported = self.incoming.come();
        self.acknowledging = Acknowledging { reported, at_once: false, since: None, newest };
        let delay = self.now.since(newest).as_nanos() / 1_000;
        let (next, credit) = (self.incoming.next(), self.incoming.grant());
        let ranges = self.incoming.ranges();
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.owes_dack = None;
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
