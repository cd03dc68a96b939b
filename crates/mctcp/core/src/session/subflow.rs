//! One subflow: handshake, data in flight, progress.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, Span, Time};

use super::acknowledge::MAX_DACK_DELAY;
use super::sending::Slots;
use crate::frame::{Frame, Priority};
use crate::scheduler::SubflowView;
use crate::{PathId, PathInfo, SubflowId};

/// Round-trip time before the first sample.
const INITIAL_RTT: Span = Span::from_millis(100);
/// Period of `peak_rates`: a peak counts for one to two periods.
const PEAK_PERIOD: Span = Span::from_millis(2_500);
/// Maximum bytes of acknowledgements and control frames beyond the room of the driver.
const MAX_EXCESS_BYTES: u64 = 64 << 10;
/// Minimum backlog that counts as a queue: four segments.
const MIN_BACKLOG_BYTES: u64 = 4 * 1448;
/// Minimum margin of [`Subflow::ack_timeout`] above the mean.
const MIN_DACK_MARGIN: Span = Span::from_millis(2);
/// Time for which TCP delays the acknowledgement of a single segment (Linux, `TCP_DELACK_MIN`).
const DELAYED_ACK_TIMEOUT: Span = Span::from_millis(40);
/// Minimum time without progress after which a subflow is stale.
const MIN_STALE_TIMEOUT: Span = Span::from_millis(200);

/// State of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// TCP is connected. HELLO was sent on another subflow.
    Connected,
    /// HELLO was sent.
    HelloSent {
        since: Time,
    },
    JoinSent {
        nonce: [u8; 16],
        since: Time,
    },
    /// It carries data.
    Active,
    /// It makes no progress.
    Stale {
        /// TCP's number of acknowledged bytes once it has delivered the data in flight. `None`: TCP
        /// made progress, but the peer's session did not answer, so that only a DACK on this
        /// subflow shows that it delivers again.
        repaired_at: Option<u64>,
    },
    /// It ends once its data are acknowledged.
    Draining {
        since: Time,
    },
}

/// The oldest frame of a subflow for which no DACK was received on this subflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct AwaitedDack {
    path_seq: u32,
    /// Time since which it is the oldest.
    pub(super) since: Time,
    /// TCP has acknowledged the frame once it has acknowledged this number of bytes.
    end: u64,
    pub(super) is_acked: bool,
    /// Time of the first DACK on another subflow for a newer frame after TCP's acknowledgement.
    pub(super) answered_elsewhere_at: Option<Time>,
}

impl AwaitedDack {
    fn new(path_seq: u32, since: Time, end: u64) -> Self {
        Self { path_seq, since, end, is_acked: false, answered_elsewhere_at: None }
    }
}

/// One TCP connection of a session.
#[derive(Debug)]
pub(super) struct Subflow<P> {
    pub(super) id: SubflowId,
    /// Path of the client.
    pub(super) path: Option<PathId>,
    /// Bit of this subflow in sets of subflows, unique among the current ones.
    pub(super) slot: Slots,
    pub(super) state: State,
    pub(super) priority: Priority,
    /// `path_seq` of the next sent frame and of the next received frame.
    pub(super) next_path_seq: u32,
    pub(super) expected_path_seq: u32,
    /// Number of bytes that the driver accepts.
    pub(super) room: u64,
    /// Number of bytes sent beyond `room`.
    excess: u64,
    pub(super) info: PathInfo,
    /// Times from sending pieces to their DACKs.
    ack_time: AckTime,
    /// Smoothed delivery rate.
    smoothed_rate: Bandwidth,
    /// Maxima of `smoothed_rate` in this and in the previous period; start of this period.
    peak_rates: [Bandwidth; 2],
    peaks_since: Time,
    /// Mean delivery rate while there is a queue.
    capacity: Option<Bandwidth>,
    /// Bytes passed to the driver since `info` was measured.
    pub(super) sent_since_info: u64,
    /// A piece was probably lost, and another subflow carries it now. Later data on this one wait
    /// for TCP's retransmission until TCP has acknowledged more than this many bytes.
    suspect_until: Option<u64>,
    /// Time of TCP's last acknowledgement, or of the start of the current data.
    pub(super) progress_at: Time,
    pub(super) awaited_dack: Option<AwaitedDack>,
    /// `path_seq` of the newest frame that requires a DACK.
    newest_path_seq: u32,
    /// TCP has undelivered data.
    pub(super) has_undelivered: bool,
    /// Bytes on this subflow that the peer has not acknowledged.
    pub(super) outstanding: u64,
    /// Control frames that must be delivered, with their numbers.
    pub(super) controls: VecDeque<(u32, Frame<P>)>,
    /// Client: the server's session, not only its acceptor, has sent frames on it.
    pub(super) reached_session: bool,
    /// Time since which received frames require a DACK on it.
    pub(super) dack_due_since: Option<Time>,
    /// Limit of `outstanding`: for a joined subflow until its rate is known, and after this subflow
    /// exhausted the credit.
    pub(super) budget: Option<u64>,
    pub(super) budget_lowered_at: Time,
    /// Bytes of the copies by which its capacity is measured.
    pub(super) explored_bytes: u64,
    pub(super) sent: u64,
    pub(super) reinjected: u64,
    pub(super) received: u64,
    pub(super) opened: Time,
}

impl<P> Subflow<P> {
    pub(super) fn new(id: SubflowId, path: Option<PathId>, slot: Slots, now: Time) -> Self {
        Self {
            id,
            path,
            slot,
            state: State::Connected,
            priority: Priority::default(),
            next_path_seq: 0,
            expected_path_seq: 0,
            room: 0,
            excess: 0,
            info: PathInfo::default(),
            ack_time: AckTime::default(),
            smoothed_rate: Bandwidth::ZERO,
            peak_rates: [Bandwidth::ZERO; 2],
            peaks_since: now,
            capacity: None,
            sent_since_info: 0,
            progress_at: now,
            suspect_until: None,
            awaited_dack: None,
            newest_path_seq: 0,
            has_undelivered: false,
            outstanding: 0,
            controls: VecDeque::new(),
            reached_session: false,
            dack_due_since: None,
            budget: None,
            budget_lowered_at: Time::ZERO,
            explored_bytes: 0,
            sent: 0,
            reinjected: 0,
            received: 0,
            opened: now,
        }
    }

    /// Whether its handshake is complete: frames may be sent on it if no better subflow exists.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.state, State::Active | State::Stale { .. } | State::Draining { .. })
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Whether it is active and not a backup.
    pub(super) fn is_regular(&self) -> bool {
        self.is_active() && !self.priority.backup
    }

    pub(super) fn is_hello_sent(&self) -> bool {
        matches!(self.state, State::HelloSent { .. })
    }

    pub(super) fn is_stale(&self) -> bool {
        matches!(self.state, State::Stale { .. })
    }

    /// Whether progress of TCP makes a stale subflow active again: at once if it is the only one,
    /// otherwise after TCP has retransmitted the lost data, behind which new data would wait.
    pub(super) fn is_revived_by_progress(&self, is_alone: bool) -> bool {
        let State::Stale { repaired_at: Some(end) } = self.state else { return false };
        is_alone || !self.info.in_flight.is_positive() || self.info.acked.count() >= end
    }

    pub(super) fn srtt(&self) -> Span {
        self.info.srtt.unwrap_or(INITIAL_RTT)
    }

    pub(super) fn min_rtt(&self) -> Span {
        self.info.min_rtt.unwrap_or(self.srtt())
    }

    /// Estimated unsent bytes in the socket.
    fn notsent(&self) -> u64 {
        let window = self.info.cwnd.count().saturating_sub(self.info.in_flight.count());
        let before = self.info.notsent.count();
        // Bytes within the window are sent at once.
        (before + self.sent_since_info).saturating_sub(if before == 0 { window } else { 0 })
    }

    pub(super) fn rate(&self) -> Option<Bandwidth> {
        let window = || {
            let srtt = self.info.srtt?.as_nanos().max(1);
            let bits = u128::from(self.info.cwnd.count()) * 8 * 1_000_000_000 / u128::from(srtt);
            Some(Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX)))
        };
        match (self.info.delivery_rate.filter(|rate| rate.is_positive()), window()) {
            // If the application sends little, the delivery rate is low: the window gives
            // a better estimate.
            (Some(rate), Some(window)) => Some(rate.max(window)),
            (rate, window) => rate.or(window),
        }
    }

    /// Expected arrival time of `length` more bytes.
    pub(super) fn expected(&self, now: Time, length: u64) -> Time {
        let notsent = self.notsent();
        if let Some(capacity) = self.capacity {
            let min_rtt = self.min_rtt();
            // Bytes up to the bandwidth-delay product cause no queueing delay.
            let backlog = self.info.in_flight.count() + self.sent_since_info.max(notsent) + length;
            let queued = capacity.time_for(Bytes::new(backlog)).saturating_sub(min_rtt);
            let sending = queued.max(capacity.time_for(Bytes::new(length)));
            return now + sending + Span::from_nanos(min_rtt.as_nanos() / 2);
        }
        let sending = match self.rate() {
            Some(rate) if rate.is_positive() => rate.time_for(Bytes::new(notsent + length)),
            _ => Span::ZERO,
        };
        now + sending + Span::from_nanos(self.srtt().as_nanos() / 2)
    }

    /// Bytes that may be sent on it now: room within the budget.
    fn usable_room(&self) -> u64 {
        match self.budget {
            Some(budget) => self.room.min(budget.saturating_sub(self.outstanding)),
            None => self.room,
        }
    }

    /// Whether it has room and its capacity is unknown, since it never had a queue.
    pub(super) fn is_unexplored(&self) -> bool {
        self.capacity.is_none() && self.usable_room() > 0
    }

    pub(super) fn view(&self) -> SubflowView {
        SubflowView {
            id: self.id,
            room: Bytes::new(self.usable_room()),
            backup: self.priority.backup,
            weight: self.priority.weight.max(1),
            srtt: self.srtt(),
            rtt_var: self.info.rtt_var.unwrap_or(Span::from_nanos(self.srtt().as_nanos() / 2)),
            min_rtt: self.min_rtt(),
            cwnd: self.info.cwnd,
            in_flight: self.info.in_flight
                + Bytes::new(self.sent_since_info.saturating_sub(self.notsent())),
            notsent: Bytes::new(self.notsent()),
            outstanding: Bytes::new(self.outstanding),
            rate: self.info.delivery_rate.filter(|rate| rate.is_positive()),
            capacity: self.capacity,
            peak: self.peak_rates.iter().max().copied().filter(|rate| rate.is_positive()),
        }
    }

    /// Time at which the answer to HELLO is late.
    pub(super) fn hello_unanswered_at(&self) -> Option<Time> {
        match self.state {
            State::HelloSent { since } => Some(since + super::opening::HELLO_TIMEOUT),
            _ => None,
        }
    }

    /// Updates the TCP state. Returns whether bytes were acknowledged since the last update.
    pub(super) fn update_info(&mut self, now: Time, info: PathInfo) -> bool {
        let idle = !info.in_flight.is_positive() && !info.notsent.is_positive();
        let has_progress = info.acked > self.info.acked;
        if has_progress || idle {
            self.progress_at = now;
        }
        if let Some(frame) = &mut self.awaited_dack {
            frame.is_acked |= idle || info.acked.count() >= frame.end;
        }
        self.suspect_until = self.suspect_until.filter(|end| !idle && info.acked.count() <= *end);
        self.has_undelivered = !idle;
        self.update_rate(now, &info);
        self.info = info;
        self.sent_since_info = 0;
        has_progress
    }

    fn update_rate(&mut self, now: Time, info: &PathInfo) {
        let Some(rate) = info.delivery_rate.filter(|rate| rate.is_positive()) else { return };
        if now >= self.peaks_since + PEAK_PERIOD {
            self.peak_rates = [Bandwidth::ZERO, self.peak_rates[0]];
            self.peaks_since = now;
        }
        // Single samples are too high or too low, because acknowledgements arrive in batches.
        self.smoothed_rate = smoothed(self.smoothed_rate, rate);
        self.peak_rates[0] = self.peak_rates[0].max(self.smoothed_rate);
        // Round trips of a few bytes are long for other reasons than our own queue, such as a
        // delayed acknowledgement, and their rate is that of the application.
        let backlog = info.in_flight.count() + info.notsent.count();
        let is_filled = backlog >= (info.cwnd.count() / 2).max(MIN_BACKLOG_BYTES);
        let queued = is_filled
            && matches!((info.srtt, info.min_rtt), (Some(srtt), Some(min_rtt))
                if srtt.as_nanos() / 5 * 4 > min_rtt.as_nanos());
        if queued {
            self.capacity = Some(smoothed(self.capacity.unwrap_or(rate), rate));
        } else if self.capacity.is_some_and(|known| known < rate) {
            self.capacity = Some(rate);
        }
    }

    /// Adds a sample: a DACK acknowledges a piece that was sent `since` ago and was received
    /// `delay` before the DACK was sent (RFC 9002 §5.3). A sample above the timeout probably
    /// includes a loss, and counts as the timeout.
    pub(super) fn add_ack_time(&mut self, since: Span, delay: Span) {
        let min = self.info.min_rtt.unwrap_or_default().min(since);
        let time = since.saturating_sub(delay).max(min);
        self.ack_time.sample(time.min(self.ack_timeout(Span::ZERO)));
    }

    /// Time after sending a piece at which its DACK is late, if the peer delays it by `delay`: the
    /// probe timeout of RFC 9002 §6.2.1, but at most twice the mean as in RFC 8985 §7.2.
    pub(super) fn ack_timeout(&self, delay: Span) -> Span {
        let AckTime { mean, deviation } = self.ack_time;
        if mean == 0 {
            return self.srtt() + self.srtt() + delay;
        }
        let slack = (4 * deviation).min(mean).max(MIN_DACK_MARGIN.as_nanos());
        Span::from_nanos(mean + slack) + delay
    }

    /// Records that it has probably lost the oldest piece that it carries.
    pub(super) fn suspect_loss(&mut self) {
        self.suspect_until = Some(self.sent_end().saturating_sub(self.outstanding));
    }

    /// Whether it has probably lost a piece, or a DACK (then TCP has acknowledged the piece).
    pub(super) fn is_suspect(&self, now: Time) -> bool {
        let srtt = self.srtt().as_nanos();
        let late = self.progress_at + Span::from_nanos(srtt + srtt / 4) + DELAYED_ACK_TIMEOUT;
        self.suspect_until.is_some()
            || (self.has_undelivered && self.outstanding == 0 && now >= late)
    }

    /// Whether TCP has had undelivered data for too long without progress.
    pub(super) fn is_stuck(&self, now: Time) -> bool {
        self.has_undelivered && now >= self.stuck_at()
    }

    fn stuck_at(&self) -> Time {
        self.progress_at + self.stale_after()
    }

    /// Time without progress after which the subflow is stale.
    pub(super) fn stale_after(&self) -> Span {
        Span::from_nanos(self.srtt().as_nanos().saturating_mul(4)).max(MIN_STALE_TIMEOUT)
    }

    /// Time at which its frames count as lost although TCP has acknowledged them.
    pub(super) fn unanswered_at(&self) -> Option<Time> {
        let answered = self.awaited_dack.and_then(|frame| frame.answered_elsewhere_at)?;
        Some(answered + self.stale_after() + MAX_DACK_DELAY)
    }

    /// TCP's number of acknowledged bytes once all bytes sent so far are delivered.
    fn sent_end(&self) -> u64 {
        (self.info.acked + self.info.in_flight + self.info.notsent).count() + self.sent_since_info
    }

    /// Records the newest frame that requires a DACK.
    pub(super) fn expect_dack(&mut self, now: Time, path_seq: u32) {
        self.newest_path_seq = path_seq;
        let end = self.sent_end();
        self.awaited_dack.get_or_insert(AwaitedDack::new(path_seq, now, end));
    }

    /// Records that the peer has received all frames up to this one.
    pub(super) fn on_dack(&mut self, now: Time, path_seq: u32) {
        while let Some((sent, _)) = self.controls.front()
            && is_covered(*sent, path_seq)
        {
            self.controls.pop_front();
        }
        if self.awaited_dack.is_some_and(|frame| is_covered(frame.path_seq, path_seq)) {
            let next = AwaitedDack::new(path_seq.wrapping_add(1), now, self.sent_end());
            self.awaited_dack = (!is_covered(self.newest_path_seq, path_seq)).then_some(next);
        }
    }

    /// Raises the limit after an acknowledgement of `bytes`, if it was in time.
    pub(super) fn raise_budget(&mut self, bytes: u64, in_time: bool) {
        if let Some(budget) = self.budget.filter(|_| in_time) {
            let grown = budget + bytes / 2;
            let max_budget = 2 * self.info.cwnd.count().max(self.outstanding);
            self.budget = (grown < max_budget).then_some(grown);
        }
    }

    /// Counts the bytes of a frame passed to the driver.
    pub(super) fn count_sent(&mut self, now: Time, bytes: u64) {
        if !self.has_undelivered {
            self.has_undelivered = true;
            self.progress_at = now;
        }
        self.sent_since_info += bytes;
        self.excess += bytes.saturating_sub(self.room);
        self.room = self.room.saturating_sub(bytes);
    }

    /// Sets the number of bytes that the driver accepts.
    pub(super) fn set_room(&mut self, room: u64) {
        self.room = room;
        if room > 0 {
            // There is room because little is unsent.
            self.excess = 0;
            self.sent_since_info = 0;
            self.info.notsent = self.info.notsent.min(Bytes::new(room));
        }
    }

    /// Whether the peer reads nothing, not even acknowledgements. No more are then sent: a later
    /// acknowledgement includes the earlier ones.
    pub(super) fn is_blocked(&self) -> bool {
        self.excess > MAX_EXCESS_BYTES
    }

    pub(super) fn take_path_seq(&mut self) -> u32 {
        let number = self.next_path_seq;
        self.next_path_seq = self.next_path_seq.wrapping_add(1);
        number
    }
}

/// Whether a DACK for `path_seq` includes the frame `sent`. Numbers wrap around (RFC 1982).
fn is_covered(sent: u32, path_seq: u32) -> bool {
    path_seq.wrapping_sub(sent) <= u32::MAX / 2
}

fn smoothed(mean: Bandwidth, sample: Bandwidth) -> Bandwidth {
    let (mean, sample) = (mean.bits_per_sec(), sample.bits_per_sec());
    Bandwidth::from_bits_per_sec(mean - mean / 8 + sample / 8)
}

/// Times from sending pieces to their DACKs, without the delay of the peer. They differ from
/// TCP's round-trip times: if the answer takes another path, TCP delays its acknowledgement by up
/// to 40 ms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckTime {
    /// Smoothed mean in nanoseconds; 0 before the first sample.
    mean: u64,
    deviation: u64,
}

impl AckTime {
    /// Updates the mean and the deviation as in RFC 6298 §2.
    fn sample(&mut self, time: Span) {
        let time = time.as_nanos().max(1);
        if self.mean == 0 {
            *self = Self { mean: time, deviation: time / 2 };
        } else {
            self.deviation = (3 * self.deviation + self.mean.abs_diff(time)) / 4;
            self.mean = (7 * self.mean + time) / 8;
        }
    }
}
