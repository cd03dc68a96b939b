//! One subflow: handshake, data in flight, progress.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, Span, Time};

use super::acknowledge::MAX_DACK_DELAY;
use super::sending::Slots;
use crate::frame::{Frame, Priority};
use crate::scheduler::SubflowView;
use crate::{PathId, PathInfo, SubflowId};

/// Assumed round-trip time before the first sample.
const UNKNOWN_RTT: Span = Span::from_millis(100);
/// A delivery rate is remembered for between one and two such periods.
const WHILE: Span = Span::from_millis(2_500);
/// Maximum number of answer bytes beyond the room of the driver.
const MAX_EXCESS: u64 = 64 << 10;
/// Backlog below which there is no queue: four segments.
const MIN_BACKLOG: u64 = 4 * 1448;
/// Minimum margin above mean and peer delay after which a DACK is late.
const MIN_SLACK: Span = Span::from_millis(2);
/// Time for which TCP holds back the acknowledgement of a single segment (Linux: 40 ms).
const DELAYED_ACK: Span = Span::from_millis(40);
/// Minimum time without progress after which a subflow is stale.
const STALE: Span = Span::from_millis(200);

/// State of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// TCP is connected, but another subflow has sent HELLO.
    Held,
    /// HELLO was sent.
    Greeting { since: Time },
    /// JOIN was sent with this nonce.
    Joining { nonce: [u8; 16], since: Time },
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
    Draining { since: Time },
}

/// A frame for which no DACK was received on its subflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    path_seq: u32,
    /// Time since which it is the oldest.
    pub(super) since: Time,
    /// TCP's number of acknowledged bytes from which on the frame is acknowledged.
    end: u64,
    /// TCP has acknowledged the frame.
    pub(super) is_acked: bool,
    /// Time of the peer's first answer on another subflow after that.
    pub(super) outpaced_at: Option<Time>,
}

impl Unseen {
    fn new(path_seq: u32, since: Time, end: u64) -> Self {
        Self { path_seq, since, end, is_acked: false, outpaced_at: None }
    }
}

/// One TCP connection of a session.
#[derive(Debug)]
pub(super) struct Subflow<P> {
    pub(super) id: SubflowId,
    /// Path of the client.
    pub(super) path: Option<PathId>,
    /// Bit of this subflow, which no other current subflow has.
    pub(super) slot: Slots,
    pub(super) state: State,
    pub(super) priority: Priority,
    /// `path_seq` of the next sent frame and of the next received frame.
    pub(super) sends: u32,
    pub(super) expects: u32,
    /// Number of bytes that the driver accepts.
    pub(super) room: u64,
    /// Number of bytes sent beyond `room`.
    excess: u64,
    pub(super) info: PathInfo,
    /// Times from sending pieces to their DACKs.
    ack_time: AckTime,
    /// Smoothed delivery rate.
    smooth: Bandwidth,
    /// Maximum of `smooth` in the current period and in the previous one; start of the current one.
    peaks: [Bandwidth; 2],
    peaks_since: Time,
    /// Mean delivery rate while there is a queue.
    capacity: Option<Bandwidth>,
    /// Bytes passed to the driver since `info` was measured.
    pub(super) given: u64,
    /// A piece was probably lost, and another subflow carries it now. Later data on this one wait
    /// for TCP's retransmission until TCP has acknowledged more than this many bytes.
    suspect_until: Option<u64>,
    /// Time of TCP's last acknowledgement, or of the start of the current data.
    pub(super) progress: Time,
    /// The oldest frame without a DACK on this subflow.
    pub(super) unseen: Option<Unseen>,
    /// The newest frame that requires a DACK.
    last_data: u32,
    /// TCP has undelivered data.
    pub(super) waiting: bool,
    /// Bytes on this subflow that the peer has not acknowledged.
    pub(super) outstanding: u64,
    /// Control frames that must be delivered, with their numbers.
    pub(super) controls: VecDeque<(u32, Frame<P>)>,
    /// Frames of the peer's session, not only of its acceptor, were received on it.
    pub(super) attached: bool,
    /// Time since which received frames require a DACK on it.
    pub(super) owes_dack: Option<Time>,
    /// Limit of `outstanding`, set after it delayed other subflows.
    pub(super) budget: Option<u64>,
    pub(super) budget_lowered_at: Time,
    /// Bytes of copies that show what it adds.
    pub(super) explored: u64,
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
            state: State::Held,
            priority: Priority::default(),
            sends: 0,
            expects: 0,
            room: 0,
            excess: 0,
            info: PathInfo::default(),
            ack_time: AckTime::default(),
            smooth: Bandwidth::ZERO,
            peaks: [Bandwidth::ZERO; 2],
            peaks_since: now,
            capacity: None,
            given: 0,
            progress: now,
            suspect_until: None,
            unseen: None,
            last_data: 0,
            waiting: false,
            outstanding: 0,
            controls: VecDeque::new(),
            attached: false,
            owes_dack: None,
            budget: None,
            budget_lowered_at: Time::ZERO,
            explored: 0,
            sent: 0,
            reinjected: 0,
            received: 0,
            opened: now,
        }
    }

    /// Whether frames may be sent on it if no better subflow exists.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.state, State::Active | State::Stale { .. } | State::Draining { .. })
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Whether it is used while other subflows exist.
    pub(super) fn is_regular(&self) -> bool {
        self.is_active() && !self.priority.backup
    }

    pub(super) fn is_stale(&self) -> bool {
        matches!(self.state, State::Stale { .. })
    }

    /// Whether progress of TCP revives it: without other subflows at once, otherwise after the
    /// repair. Before that, new data wait for retransmissions, and a backup must not stop.
    pub(super) fn is_revived_by_progress(&self, is_alone: bool) -> bool {
        let State::Stale { repaired_at: Some(end) } = self.state else { return false };
        is_alone || !self.info.in_flight.is_positive() || self.info.acked.count() >= end
    }

    pub(super) fn srtt(&self) -> Span {
        self.info.srtt.unwrap_or(UNKNOWN_RTT)
    }

    pub(super) fn min_rtt(&self) -> Span {
        self.info.min_rtt.unwrap_or(self.srtt())
    }

    /// Estimated unsent bytes in the socket.
    fn notsent(&self) -> u64 {
        let given = self.given;
        let window = self.info.cwnd.count().saturating_sub(self.info.in_flight.count());
        let before = self.info.notsent.count();
        // Bytes within the window are sent at once.
        (before + given).saturating_sub(if before == 0 { window } else { 0 })
    }

    /// Delivery rate.
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
            let least = self.min_rtt();
            // Bytes up to the bandwidth-delay product cause no queueing delay.
            let backlog = self.info.in_flight.count() + self.given.max(notsent) + length;
            let queued = capacity.time_for(Bytes::new(backlog)).saturating_sub(least);
            let sending = queued.max(capacity.time_for(Bytes::new(length)));
            return now + sending + Span::from_nanos(least.as_nanos() / 2);
        }
        let sending = match self.rate() {
            Some(rate) if rate.is_positive() => rate.time_for(Bytes::new(notsent + length)),
            _ => Span::ZERO,
        };
        now + sending + Span::from_nanos(self.srtt().as_nanos() / 2)
    }

    /// Bytes that it may get now.
    fn usable_room(&self) -> u64 {
        match self.budget {
            Some(budget) => self.room.min(budget.saturating_sub(self.outstanding)),
            None => self.room,
        }
    }

    /// Whether it has room, and never had a queue that shows its capacity.
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
            in_flight: self.info.in_flight + Bytes::new(self.given.saturating_sub(self.notsent())),
            notsent: Bytes::new(self.notsent()),
            outstanding: Bytes::new(self.outstanding),
            rate: self.info.delivery_rate.filter(|rate| rate.is_positive()),
            capacity: self.capacity,
            peak: self.peaks.iter().max().copied().filter(|rate| rate.is_positive()),
        }
    }

    /// Time at which the answer to HELLO is late.
    pub(super) fn hello_unanswered_at(&self) -> Option<Time> {
        match self.state {
            State::Greeting { since } => Some(since + super::opening::UNANSWERED),
            _ => None,
        }
    }

    /// Updates the TCP state. Returns whether bytes were acknowledged since the last update.
    pub(super) fn learn(&mut self, now: Time, info: PathInfo) -> bool {
        let idle = !info.in_flight.is_positive() && !info.notsent.is_positive();
        let moved = info.acked > self.info.acked;
        if moved || idle {
            self.progress = now;
        }
        if let Some(unseen) = &mut self.unseen {
            unseen.is_acked |= idle || info.acked.count() >= unseen.end;
        }
        self.suspect_until = self.suspect_until.filter(|end| !idle && info.acked.count() <= *end);
        self.waiting = !idle;
        self.learn_rate(now, &info);
        self.info = info;
        self.given = 0;
        moved
    }

    fn learn_rate(&mut self, now: Time, info: &PathInfo) {
        let Some(rate) = info.delivery_rate.filter(|rate| rate.is_positive()) else { return };
        if now >= self.peaks_since + WHILE {
            self.peaks = [Bandwidth::ZERO, self.peaks[0]];
            self.peaks_since = now;
        }
        // Single samples are too high or too low, because acknowledgements arrive in batches.
        self.smooth = smoothed(self.smooth, rate);
        self.peaks[0] = self.peaks[0].max(self.smooth);
        // Round trips of a few bytes are long for other reasons than our own queue, such as a
        // delayed acknowledgement, and their rate is that of the application.
        let backlog = info.in_flight.count() + info.notsent.count();
        let is_filled = backlog >= (info.cwnd.count() / 2).max(MIN_BACKLOG);
        let queued = is_filled
            && matches!((info.srtt, info.min_rtt), (Some(srtt), Some(least))
                if srtt.as_nanos() / 5 * 4 > least.as_nanos());
        if queued {
            self.capacity = Some(smoothed(self.capacity.unwrap_or(rate), rate));
        } else if self.capacity.is_some_and(|known| known < rate) {
            self.capacity = Some(rate);
        }
    }

    /// Adds a sample: a DACK acknowledges a piece that was sent `since` ago and was received
    /// `delay` before the DACK was sent (RFC 9002 §5.3). A sample above the timeout probably
    /// includes a loss, and counts as the timeout.
    pub(super) fn learn_ack_time(&mut self, since: Span, delay: Span) {
        let least = self.info.min_rtt.unwrap_or_default().min(since);
        let time = since.saturating_sub(delay).max(least);
        self.ack_time.sample(time.min(self.ack_timeout(Span::ZERO)));
    }

    /// Time after sending a piece at which its DACK is late, if the peer delays it by `delay`: the
    /// probe timeout of RFC 9002 §6.2.1, but at most twice the mean as in RFC 8985 §7.2.
    pub(super) fn ack_timeout(&self, delay: Span) -> Span {
        let AckTime { mean, deviation } = self.ack_time;
        if mean == 0 {
            return self.srtt() + self.srtt() + delay;
        }
        let slack = (4 * deviation).min(mean).max(MIN_SLACK.as_nanos());
        Span::from_nanos(mean + slack) + delay
    }

    /// Records that it has probably lost the oldest piece that it carries.
    pub(super) fn suspect(&mut self) {
        self.suspect_until = Some(self.end().saturating_sub(self.outstanding));
    }

    /// Whether it has probably lost a piece, or a DACK (then TCP has acknowledged the piece).
    pub(super) fn is_suspect(&self, now: Time) -> bool {
        let srtt = self.srtt().as_nanos();
        let late = self.progress + Span::from_nanos(srtt + srtt / 4) + DELAYED_ACK;
        self.suspect_until.is_some() || (self.waiting && self.outstanding == 0 && now >= late)
    }

    /// Whether TCP has had undelivered data for too long without progress.
    pub(super) fn is_stuck(&self, now: Time) -> bool {
        self.waiting && now >= self.stuck_at()
    }

    fn stuck_at(&self) -> Time {
        self.progress + self.stale_after()
    }

    /// Time without progress after which the subflow is stale.
    pub(super) fn stale_after(&self) -> Span {
        Span::from_nanos(self.srtt().as_nanos().saturating_mul(4)).max(STALE)
    }

    /// Time at which its frames count as lost although TCP has acknowledged them.
    pub(super) fn unanswered_at(&self) -> Option<Time> {
        let outpaced = self.unseen.and_then(|unseen| unseen.outpaced_at)?;
        Some(outpaced + self.stale_after() + MAX_DACK_DELAY)
    }

    /// TCP's number of acknowledged bytes once all bytes sent so far are delivered.
    fn end(&self) -> u64 {
        (self.info.acked + self.info.in_flight + self.info.notsent).count() + self.given
    }

    /// Records that the peer will answer this newest frame with a DACK.
    pub(super) fn expect_dack(&mut self, now: Time, path_seq: u32) {
        self.last_data = path_seq;
        let end = self.end();
        self.unseen.get_or_insert(Unseen::new(path_seq, now, end));
    }

    /// Records that the peer has received all frames up to this one.
    pub(super) fn on_seen(&mut self, now: Time, path_seq: u32) {
        while let Some((sent, _)) = self.controls.front()
            && is_seen(*sent, path_seq)
        {
            self.controls.pop_front();
        }
        if self.unseen.is_some_and(|unseen| is_seen(unseen.path_seq, path_seq)) {
            let next = Unseen::new(path_seq.wrapping_add(1), now, self.end());
            self.unseen = (!is_seen(self.last_data, path_seq)).then_some(next);
        }
    }

    /// Raises the limit after an acknowledgement of `bytes`, if it was in time.
    pub(super) fn raise_budget(&mut self, bytes: u64, in_time: bool) {
        if let Some(budget) = self.budget.filter(|_| in_time) {
            let grown = budget + bytes / 2;
            let enough = 2 * self.info.cwnd.count().max(self.outstanding);
            self.budget = (grown < enough).then_some(grown);
        }
    }

    /// Counts bytes of frames passed to the driver.
    pub(super) fn give(&mut self, now: Time, bytes: u64) {
        if !self.waiting {
            self.waiting = true;
            self.progress = now;
        }
        self.given += bytes;
        self.excess += bytes.saturating_sub(self.room);
        self.room = self.room.saturating_sub(bytes);
    }

    /// Sets the number of bytes that the driver accepts.
    pub(super) fn set_room(&mut self, room: u64) {
        self.room = room;
        if room > 0 {
            // There is room because little is unsent.
            self.excess = 0;
            self.given = 0;
            self.info.notsent = self.info.notsent.min(Bytes::new(room));
        }
    }

    /// Whether the peer does not even accept answers: then they wait, because the last answer
    /// includes all earlier ones.
    pub(super) fn is_clogged(&self) -> bool {
        self.excess > MAX_EXCESS
    }

    /// Takes the number of the next frame.
    pub(super) fn number(&mut self) -> u32 {
        let number = self.sends;
        self.sends = self.sends.wrapping_add(1);
        number
    }
}

/// Whether the frame `sent` is at or before `path_seq`. Numbers wrap around (RFC 1982).
fn is_seen(sent: u32, path_seq: u32) -> bool {
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
