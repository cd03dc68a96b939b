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

/// Bounds of the delay of a DACK, which may be sent together with data of this end.
const MIN_DACK_DELAY: Span = Span::from_millis(5);
pub(super) const MAX_DACK_DELAY: Span = Span::from_millis(20);
/// Number of received bytes after which a DACK is sent at once: more than a short message, whose
/// answer carries the DACK.
const MAX_UNDACKED_BYTES: u64 = 8 << 10;

/// State of acknowledgements for received data.
#[derive(Debug, Default)]
pub(super) struct Acknowledging {
    /// [`arrival_counter`](super::receiving::Reassembly::arrival_counter) at the last DACK.
    reported: u64,
    is_immediate: bool,
    /// Arrival time of the oldest frame without a DACK.
    since: Option<Time>,
    newest_data_at: Time,
}

impl Acknowledging {
    /// Processes a received frame that requires a DACK.
    pub(super) fn on_frame(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    pub(super) fn on_data(&mut self, now: Time) {
        self.newest_data_at = now;
    }

    /// Requests the next DACK without delay.
    pub(super) fn send_immediately(&mut self) {
        self.is_immediate = true;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.since.is_some()
    }

    fn is_due(&self, now: Time, arrivals: u64, delay: Span) -> bool {
        let waited = self.since.is_some_and(|since| now >= since + delay);
        self.is_immediate || arrivals >= self.reported + MAX_UNDACKED_BYTES || waited
    }

    pub(super) fn deadline(&self, delay: Span) -> Option<Time> {
        self.since.map(|since| since + delay)
    }
}

impl<P: Payload> Session<P> {
    /// Whether a DACK is due for received or read data, so that [`poll`](Self::poll)
    /// should be called.
    pub fn is_dack_due(&self) -> bool {
        self.acknowledging.is_due(self.now, self.incoming.arrival_counter(), self.dack_delay())
    }

    /// Maximum delay of a DACK. The peer applies the same delay at the other end of the same paths,
    /// so this is also the delay of its DACKs. Mean round-trip times cannot be used: delayed
    /// acknowledgements make those of the two ends differ.
    pub(super) fn dack_delay(&self) -> Span {
        let rtt = self.active().map(Subflow::min_rtt).min().unwrap_or(MAX_DACK_DELAY);
        Span::from_nanos(rtt.as_nanos() / 4).clamp(MIN_DACK_DELAY, MAX_DACK_DELAY)
    }

    /// Sends the DACKs that are due.
    pub(super) fn acknowledge(&mut self) {
        if self.is_over() {
            return;
        }
        let now = self.now;
        let (arrivals, delay) = (self.incoming.arrival_counter(), self.dack_delay());
        if self.acknowledging.is_due(now, arrivals, delay)
            && let Some(best) = self.urgent_subflow()
        {
            self.send_dack(best);
        }
        let late = |since: Option<Time>| since.is_some_and(|since| now >= since + delay);
        for at in 0..self.subflows.len() {
            let subflow = &self.subflows[at];
            if subflow.is_usable() && !subflow.is_blocked() && late(subflow.dack_due_since) {
                self.send_dack(subflow.id);
            }
        }
    }

    /// The best subflow, unless its peer accepts no data.
    pub(super) fn urgent_subflow(&self) -> Option<SubflowId> {
        self.best_subflow().filter(|id| self.subflow(*id).is_some_and(|s| !s.is_blocked()))
    }

    pub(super) fn send_dack(&mut self, id: SubflowId) {
        let newest_data_at = self.acknowledging.newest_data_at;
        let reported = self.incoming.arrival_counter();
        self.acknowledging = Acknowledging { reported, newest_data_at, ..Acknowledging::default() };
        let delay = self.now.since(newest_data_at).as_nanos() / 1_000;
        let (next, credit) = (self.incoming.next(), self.incoming.grant());
        let ranges = self.incoming.ranges();
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.dack_due_since = None;
        let dack = Dack {
            next,
            credit,
            path_seq: subflow.expected_path_seq.wrapping_sub(1),
            delay_us: u32::try_from(delay).unwrap_or(u32::MAX),
            ranges,
        };
        self.send(id, Frame::Dack(dack));
    }
}
