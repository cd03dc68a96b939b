//! One subflow: its handshake, what it carries, whether it makes progress.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, Span, Time};

use super::sending::Slots;
use crate::frame::{Frame, Priority};
use crate::scheduler::SubflowView;
use crate::{PathId, PathInfo, SubflowId};

/// Round-trip time that is assumed before there is a sample.
const UNKNOWN_RTT: Span = Span::from_millis(100);
/// A delivery rate is remembered for once or twice this.
const WHILE: Span = Span::from_millis(2_500);
/// Bytes of answers beyond the room for them.
const MOST_EXCESS: u64 = 64 << 10;
/// Less than this makes no queue: four segments.
const LEAST_BACKLOG: u64 = 4 * 1448;
/// A subflow without progress is stale after this at the earliest.
const STALE: Span = Span::from_millis(200);

/// How far a subflow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// TCP is up, and the session's handshake goes on elsewhere.
    Held,
    /// HELLO was sent.
    Greeting {
        /// When.
        since: Time,
    },
    /// JOIN was sent with this nonce.
    Joining { nonce: [u8; 16], since: Time },
    /// It carries data.
    Active,
    /// It makes no progress.
    Stale {
        /// Since when.
        since: Time,
    },
    /// It is to end once what it carries is acknowledged.
    Draining {
        /// Since when.
        since: Time,
    },
}

/// One TCP connection of a session.
#[derive(Debug)]
pub(super) struct Subflow<P> {
    pub(super) id: SubflowId,
    /// The client's.
    pub(super) path: Option<PathId>,
    /// One bit, unlike that of every other subflow there is.
    pub(super) slot: Slots,
    pub(super) state: State,
    pub(super) priority: Priority,
    /// `path_seq` of the next frame to send and of the next to come.
    pub(super) sends: u32,
    pub(super) expects: u32,
    /// What the driver takes.
    pub(super) room: u64,
    /// What it was given beyond that.
    excess: u64,
    pub(super) info: PathInfo,
    /// Mean of the newest delivery rates.
    smooth: Bandwidth,
    /// Its greatest values in this while and in the one before, and when this one began.
    peaks: [Bandwidth; 2],
    peaks_since: Time,
    /// Mean delivery rate while there is a queue.
    capacity: Option<Bandwidth>,
    /// Given to the driver since `info` was taken.
    pub(super) given: u64,
    /// It has probably lost a piece that another one carries now, and TCP has acknowledged nothing
    /// since.
    pub(super) is_suspect: bool,
    /// When TCP last acknowledged anything, or began to have something to deliver.
    pub(super) progress: Time,
    /// TCP has something to deliver.
    pub(super) waiting: bool,
    /// What it carries that the peer has not acknowledged.
    pub(super) outstanding: u64,
    /// Control frames that have to arrive, and their numbers.
    pub(super) controls: VecDeque<(u32, Frame<P>)>,
    /// When the newest frame came.
    pub(super) heard: Time,
    /// The peer's session has sent something on it, not just whoever accepted the connection.
    pub(super) attached: bool,
    /// Since when frames that came on it wait for a DACK on it.
    pub(super) owes_dack: Option<Time>,
    /// Limit of `outstanding`, once it has held others up.
    pub(super) budget: Option<u64>,
    pub(super) punished: Time,
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
            smooth: Bandwidth::ZERO,
            peaks: [Bandwidth::ZERO; 2],
            peaks_since: now,
            capacity: None,
            given: 0,
            progress: now,
            is_suspect: false,
            waiting: false,
            outstanding: 0,
            controls: VecDeque::new(),
            heard: now,
            attached: false,
            owes_dack: None,
            budget: None,
            punished: Time::ZERO,
            sent: 0,
            reinjected: 0,
            received: 0,
            opened: now,
        }
    }

    /// Whether frames may be sent on it, if need be.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.state, State::Active | State::Stale { .. } | State::Draining { .. })
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    pub(super) fn is_stale(&self) -> bool {
        matches!(self.state, State::Stale { .. })
    }

    pub(super) fn srtt(&self) -> Span {
        self.info.srtt.unwrap_or(UNKNOWN_RTT)
    }

    /// What is in the socket and not sent yet, as far as known.
    fn notsent(&self) -> u64 {
        let given = self.given;
        let window = self.info.cwnd.count().saturating_sub(self.info.in_flight.count());
        let before = self.info.notsent.count();
        // What fits the window leaves at once.
        (before + given).saturating_sub(if before == 0 { window } else { 0 })
    }

    /// Rate at which it delivers.
    pub(super) fn rate(&self) -> Option<Bandwidth> {
        let window = || {
            let srtt = self.info.srtt?.as_nanos().max(1);
            let bits = u128::from(self.info.cwnd.count()) * 8 * 1_000_000_000 / u128::from(srtt);
            Some(Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX)))
        };
        match (self.info.delivery_rate.filter(|rate| rate.is_positive()), window()) {
            // An application that sends little gets little delivered: the window tells more.
            (Some(rate), Some(window)) => Some(rate.max(window)),
            (rate, window) => rate.or(window),
        }
    }

    /// When `length` more bytes would arrive.
    pub(super) fn expected(&self, now: Time, length: u64) -> Time {
        let notsent = self.notsent();
        if let Some(capacity) = self.capacity {
            let least = self.info.min_rtt.unwrap_or(self.srtt());
            // What the path holds without a queue is not waited for.
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

    pub(super) fn view(&self) -> SubflowView {
        let room = match self.budget {
            Some(budget) => self.room.min(budget.saturating_sub(self.outstanding)),
            None => self.room,
        };
        SubflowView {
            id: self.id,
            room: Bytes::new(room),
            backup: self.priority.backup,
            weight: self.priority.weight.max(1),
            srtt: self.srtt(),
            rtt_var: self.info.rtt_var.unwrap_or(Span::from_nanos(self.srtt().as_nanos() / 2)),
            min_rtt: self.info.min_rtt.unwrap_or(self.srtt()),
            cwnd: self.info.cwnd,
            in_flight: self.info.in_flight + Bytes::new(self.given.saturating_sub(self.notsent())),
            notsent: Bytes::new(self.notsent()),
            outstanding: Bytes::new(self.outstanding),
            rate: self.info.delivery_rate.filter(|rate| rate.is_positive()),
            capacity: self.capacity,
            peak: self.peaks.iter().max().copied().filter(|rate| rate.is_positive()),
        }
    }

    /// When the answer to HELLO is late.
    pub(super) fn unanswered_at(&self) -> Option<Time> {
        match self.state {
            State::Greeting { since } => Some(since + super::opening::UNANSWERED),
            _ => None,
        }
    }

    /// TCP tells how it stands. Says whether anything was acknowledged since the last time.
    pub(super) fn learn(&mut self, now: Time, info: PathInfo) -> bool {
        let idle = !info.in_flight.is_positive() && !info.notsent.is_positive();
        let moved = info.acked > self.info.acked;
        if moved || idle {
            self.progress = now;
            self.is_suspect = false;
        }
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
        // Single samples err to both sides: acknowledgements come in bunches.
        self.smooth = smoothed(self.smooth, rate);
        self.peaks[0] = self.peaks[0].max(self.smooth);
        // Round trips of a few bytes are long for other reasons than a queue of our own, such as a
        // delayed acknowledgement, and their rate is that of the application.
        let backlog = info.in_flight.count() + info.notsent.count();
        let is_filled = backlog >= (info.cwnd.count() / 2).max(LEAST_BACKLOG);
        let queued = is_filled
            && matches!((info.srtt, info.min_rtt), (Some(srtt), Some(least))
                if srtt.as_nanos() / 5 * 4 > least.as_nanos());
        if queued {
            self.capacity = Some(smoothed(self.capacity.unwrap_or(rate), rate));
        } else if self.capacity.is_some_and(|known| known < rate) {
            self.capacity = Some(rate);
        }
    }

    /// Whether TCP has had something to deliver for too long without any progress.
    pub(super) fn is_stuck(&self, now: Time) -> bool {
        self.waiting && now >= self.stuck_at()
    }

    fn stuck_at(&self) -> Time {
        let patience = Span::from_nanos(self.srtt().as_nanos().saturating_mul(4));
        self.progress + patience.max(STALE)
    }

    /// The peer has seen frames up to this one. Numbers begin again after the last (RFC 1982).
    pub(super) fn on_seen(&mut self, path_seq: u32) {
        while let Some((sent, _)) = self.controls.front()
            && path_seq.wrapping_sub(*sent) <= u32::MAX / 2
        {
            self.controls.pop_front();
        }
    }

    /// So much of what it carried is acknowledged: if in time, it may soon carry more.
    pub(super) fn forgive(&mut self, bytes: u64, in_time: bool) {
        if let Some(budget) = self.budget.filter(|_| in_time) {
            let grown = budget + bytes / 2;
            let enough = 2 * self.info.cwnd.count().max(self.outstanding);
            self.budget = (grown < enough).then_some(grown);
        }
    }

    /// So many bytes of frames go to the driver.
    pub(super) fn give(&mut self, now: Time, bytes: u64) {
        if !self.waiting {
            self.waiting = true;
            self.progress = now;
        }
        self.given += bytes;
        self.excess += bytes.saturating_sub(self.room);
        self.room = self.room.saturating_sub(bytes);
    }

    /// The driver takes so much now.
    pub(super) fn set_room(&mut self, room: u64) {
        self.room = room;
        if room > 0 {
            // There is room because little is left unsent.
            self.excess = 0;
            self.given = 0;
            self.info.notsent = self.info.notsent.min(Bytes::new(room));
        }
    }

    /// Whether the peer does not take even what has to be answered: then answers wait, for the
    /// last of them says it all.
    pub(super) fn is_clogged(&self) -> bool {
        self.excess > MOST_EXCESS
    }

    /// Takes the next number for a frame.
    pub(super) fn number(&mut self) -> u32 {
        let number = self.sends;
        self.sends = self.sends.wrapping_add(1);
        number
    }
}

fn smoothed(mean: Bandwidth, sample: Bandwidth) -> Bandwidth {
    let (mean, sample) = (mean.bits_per_sec(), sample.bits_per_sec());
    Bandwidth::from_bits_per_sec(mean - mean / 8 + sample / 8)
}
