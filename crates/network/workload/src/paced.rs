//! Paced traffic: numbered datagrams on a schedule, the counters of their receiver, and the
//! end of the flow.
//!
//! If the two ends are on different hosts, each has its own [`PacedFlow`]. The sender then
//! announces its end ([`EndMessage`]) until the receiver answers, because the receiver does not
//! know the number of datagrams.

mod assigned;
mod receiver;
mod sender;

use base::{Span, Time};

use crate::datagram::EndMessage;
use crate::{Datagrams, Progress};
use receiver::Receiver;
pub use sender::PacedSender;

/// Time without datagrams after which the receiver expects no more. It is longer if the path's
/// propagation delay, or a measured delay, is at least half of it.
const SILENCE_TIMEOUT: Span = Span::from_secs(2);

/// Age at which a missing datagram counts as lost; longer for long delays, as above.
const LOSS_TIMEOUT: Span = Span::from_secs(1);

/// First and maximum interval of announcements. The interval doubles each time.
const ANNOUNCEMENT_INTERVALS: [Span; 2] = [Span::from_millis(50), Span::from_millis(400)];

/// A paced flow, or one of its ends.
#[derive(Debug)]
pub struct PacedFlow {
    sender: Option<PacedSender>,
    receiver: Option<Receiver>,
    /// Set for a sender whose receiver is on another host.
    announcer: Option<Announcer>,
    /// Propagation delay to the receiver.
    path_delay: Span,
    /// End of the flow's duration, if the flow has not ended before.
    expired: Option<Time>,
    /// Missing datagrams count as lost if they should have arrived before this time;
    /// [`Time::MAX`]: all missing datagrams.
    closed_at: Option<Time>,
}

#[derive(Debug)]
struct Announcer {
    next: Time,
    interval: Span,
    /// Time until which the sender waits for the answer.
    timeout: Time,
    /// From the answer: the arrival time of the last datagram.
    last_arrival: Option<Time>,
}

impl PacedFlow {
    /// A flow with the ends that are on this host; `path_delay` is the propagation delay to the
    /// receiver, or zero if it is unknown.
    pub fn open(sender: Option<PacedSender>, receives: bool, path_delay: Span, now: Time) -> Self {
        let announcer = sender.is_some() && !receives;
        Self {
            sender,
            receiver: receives.then(|| Receiver::new(now)),
            announcer: announcer.then_some(Announcer {
                next: Time::ZERO,
                interval: ANNOUNCEMENT_INTERVALS[0],
                timeout: Time::ZERO,
                last_arrival: None,
            }),
            path_delay,
            expired: None,
            closed_at: None,
        }
    }

    /// The sender, if it is on this host.
    pub const fn sender(&mut self) -> Option<&mut PacedSender> {
        self.sender.as_mut()
    }

    /// Records that `count` of the sender's due datagrams were sent.
    pub fn on_sent(&mut self, now: Time, count: u64) {
        let max_wait = self.loss_timeout();
        if let Some(sender) = &mut self.sender {
            sender.on_sent(now, count, max_wait);
        }
    }

    /// The next deadline: to send, to announce the end, or to call [`Self::on_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        let next = match (&self.sender, &self.announcer) {
            (Some(sender), _) if !sender.is_finished() => sender.next_wake(),
            (_, Some(announcer)) => Some(announcer.next),
            _ => None,
        };
        [next, self.times_out_at()].into_iter().flatten().min()
    }

    /// Handles a payload at the receiver; returns its delay if it is a new datagram.
    pub fn on_payload(&mut self, payload: &[u8], at: Time) -> Option<Span> {
        let receiver = self.receiver.as_mut()?;
        let limit = match &self.sender {
            Some(sender) => Some(sender.sent()),
            None if receiver.take_announcement(payload) => return None,
            None => None,
        };
        if self.closed_at.is_some() {
            return None;
        }
        receiver.on_payload(payload, limit, at)
    }

    /// Handles a received datagram; returns whether it is new.
    pub fn on_datagram(&mut self, sequence: u64, at: Time, delay: Span) -> bool {
        self.receiver.as_mut().is_some_and(|receiver| receiver.on_datagram(sequence, at, delay))
    }

    pub fn on_damaged(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.damaged += 1;
        }
    }

    /// Handles a payload at the sender, whose receiver is on another host.
    pub fn on_reply(&mut self, now: Time, payload: &[u8]) {
        let Some(announcer) = &mut self.announcer else { return };
        match EndMessage::decode(payload) {
            Some(EndMessage::Waiting { timeout }) => {
                announcer.timeout = announcer.timeout.max(now + SILENCE_TIMEOUT + timeout);
            }
            Some(EndMessage::Received { last }) => announcer.last_arrival = Some(last),
            _ => {}
        }
    }

    /// The announcement to send now, if one is due.
    pub fn announcement(&mut self, now: Time) -> Option<EndMessage> {
        let sender = self.sender.as_ref().filter(|sender| sender.is_finished())?;
        let announcer = self.announcer.as_mut()?;
        if announcer.last_arrival.is_some() || announcer.next > now {
            return None;
        }
        let (count, last) = (sender.sent(), sender.last_sent());
        announcer.timeout = announcer.timeout.max(last + SILENCE_TIMEOUT);
        announcer.next = now + announcer.interval;
        announcer.interval =
            (announcer.interval + announcer.interval).min(ANNOUNCEMENT_INTERVALS[1]);
        Some(EndMessage::Sent { count, last })
    }

    /// Takes the receiver's answer to the last announcement.
    pub fn take_reply(&mut self) -> Option<EndMessage> {
        let is_over = self.closed_at.is_some() || self.progress() != Progress::Going;
        let receiver = self.receiver.as_mut()?;
        if !std::mem::take(&mut receiver.owes_reply) {
            return None;
        }
        Some(if is_over {
            EndMessage::Received { last: receiver.last_arrival }
        } else {
            EndMessage::Waiting { timeout: SILENCE_TIMEOUT.max(receiver.max_wait()) }
        })
    }

    /// Whether missing datagrams are no longer expected.
    pub fn is_timed_out(&self, now: Time) -> bool {
        self.times_out_at().is_some_and(|at| at <= now)
    }

    /// Ends the flow if missing datagrams are no longer expected. All received datagrams must have
    /// been passed in before.
    pub fn on_wake(&mut self, now: Time) -> Progress {
        if let Some(end) = self.end().filter(|_| self.is_timed_out(now)) {
            self.closed_at = Some(Time::MAX);
            if let Some(receiver) = &mut self.receiver {
                receiver.owes_reply = receiver.announced.is_some();
            }
            return self.ended(end);
        }
        self.progress()
    }

    /// Handles the end of the flow's duration: the sender stops.
    pub fn expire(&mut self, now: Time) -> Progress {
        let announced = self.receiver.as_ref().is_some_and(|r| r.announced.is_some());
        if !announced && self.sender.as_ref().is_none_or(|sender| !sender.is_finished()) {
            self.expired = Some(now);
        }
        if let Some(sender) = &mut self.sender {
            sender.stop(now);
        }
        self.progress()
    }

    pub fn progress(&self) -> Progress {
        let Some(end) = self.end() else { return Progress::Going };
        let is_complete = match (&self.sender, &self.receiver, &self.announcer) {
            (Some(sender), Some(receiver), _) => receiver.sequence.distinct() >= sender.sent(),
            (None, Some(receiver), _) => receiver.is_complete(),
            (_, None, Some(announcer)) => announcer.last_arrival.is_some(),
            (_, None, None) => true,
        };
        if is_complete { self.ended(end) } else { Progress::Going }
    }

    /// Ends the flow: later arrivals do not count.
    pub fn close(&mut self, now: Time) {
        let has_ended = self.progress() != Progress::Going;
        self.closed_at.get_or_insert(if has_ended { Time::MAX } else { now });
    }

    pub fn counts(&self) -> Datagrams {
        let mut counts = Datagrams::default();
        if let Some(sender) = &self.sender {
            sender.count(&mut counts);
        }
        if let Some(receiver) = &self.receiver {
            receiver.count(&mut counts);
            // Sent, overdue, and newer than all that have arrived.
            let due = self.sender.as_ref().and(self.edge()).unwrap_or(0);
            counts.lost += due.saturating_sub(receiver.sequence.next());
        }
        counts
    }

    /// After `close`: the number of datagrams that should have arrived (sender), or the highest
    /// received sequence number plus one (receiver). The difference is lost.
    pub fn edge(&self) -> Option<u64> {
        let at = self.closed_at?;
        match (&self.sender, &self.receiver) {
            (Some(sender), _) => Some(sender.sent_before(at, self.loss_timeout())),
            (None, receiver) => receiver.as_ref().map(|receiver| receiver.sequence.next()),
        }
    }

    fn ended(&self, end: Time) -> Progress {
        if self.expired.is_some() { Progress::Cut(end) } else { Progress::Done(end) }
    }

    /// Time of the last transmission or arrival, once all datagrams are sent and this is known.
    fn end(&self) -> Option<Time> {
        let announced = self.receiver.as_ref().and_then(|receiver| receiver.announced);
        let sent = match &self.sender {
            Some(sender) => sender.is_finished().then_some(sender.last_sent()),
            None => announced.map(|announced| announced.last).or(self.expired),
        };
        let arrived = match &self.receiver {
            Some(receiver) => Some(receiver.last_arrival),
            None => self.announcer.as_ref().and_then(|announcer| announcer.last_arrival),
        };
        Some(sent?.max(arrived.unwrap_or(Time::ZERO)))
    }

    fn times_out_at(&self) -> Option<Time> {
        let answer = self.announcer.as_ref().map_or(Time::ZERO, |announcer| announcer.timeout);
        Some((self.end()? + SILENCE_TIMEOUT.max(self.max_wait())).max(answer))
    }

    fn loss_timeout(&self) -> Span {
        LOSS_TIMEOUT.max(self.max_wait())
    }

    fn max_wait(&self) -> Span {
        let measured = self.receiver.as_ref().map_or(Span::ZERO, Receiver::max_wait);
        measured.max(self.path_delay.saturating_add(self.path_delay))
    }
}
