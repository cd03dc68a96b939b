//! One sender over one bottleneck, without an endpoint: every transmission has a unique number,
//! each is acknowledged, and a gap of three is a loss.

use std::collections::VecDeque;

use super::*;

struct Flying {
    sent: Time,
    mark: SentMark,
}

pub(in super::super) struct Path<C> {
    pub(in super::super) control: C,
    pub(in super::super) now: Time,
    pub(in super::super) rate: Bandwidth,
    pub(in super::super) rtt: Span,
    /// Size of the bottleneck's queue in bytes.
    pub(in super::super) buffer: u64,
    /// Every n-th segment is lost; 0: none.
    pub(in super::super) lose_every: u64,
    /// The application's rate limit.
    pub(in super::super) pace: Option<Bandwidth>,
    pub(in super::super) delivered: u64,
    pub(in super::super) lost: u64,
    pub(in super::super) in_flight: u64,
    /// Maximum of the queue in bytes since the last reset.
    pub(in super::super) worst_queue: u64,
    estimate: DeliveryRate,
    flying: VecDeque<Option<Flying>>,
    first: u64,
    /// Acknowledgements in flight: arrival time and segment number.
    acks: VecDeque<(Time, u64)>,
    busy_until: Time,
    next_send: Time,
    recover: Option<u64>,
    srtt: Option<Span>,
    min_rtt: Span,
}

impl<C: CongestionControl> Path<C> {
    pub(in super::super) fn new(control: C, rate: Bandwidth, rtt: Span, buffer: u64) -> Self {
        Self {
            control,
            now: Time::ZERO,
            rate,
            rtt,
            buffer,
            lose_every: 0,
            pace: None,
            delivered: 0,
            lost: 0,
            in_flight: 0,
            worst_queue: 0,
            estimate: DeliveryRate::default(),
            flying: VecDeque::new(),
            first: 0,
            acks: VecDeque::new(),
            busy_until: Time::ZERO,
            next_send: Time::ZERO,
            recover: None,
            srtt: None,
            min_rtt: Span::MAX,
        }
    }

    pub(in super::super) fn queue(&self) -> u64 {
        self.rate.bytes_in(self.busy_until.since(self.now)).count()
    }

    /// Bandwidth-delay product.
    pub(in super::super) fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.rtt).count()
    }

    /// Runs for `span` and calls `watch` after every acknowledgement.
    pub(in super::super) fn run(&mut self, span: Span, mut watch: impl FnMut(&Self)) {
        let end = self.now + span;
        loop {
            let ack = self.acks.front().map_or(Time::MAX, |ack| ack.0);
            let may_send = self.in_flight + MSS <= self.control.cwnd().count();
            let send = if may_send { self.next_send.max(self.now) } else { Time::MAX };
            // Nothing is in flight: a timer detects the loss of the last segments.
            let stuck = ack == Time::MAX && send == Time::MAX;
            let at = if stuck { self.now + Span::from_millis(200) } else { ack.min(send) };
            if at > end {
                self.now = end;
                return;
            }
            self.now = at;
            if stuck {
                self.time_out();
            } else if ack <= send {
                self.acknowledge();
                watch(self);
            } else {
                self.send();
            }
        }
    }

    fn time_out(&mut self) {
        self.control.on_timeout(self.now, Bytes::new(self.in_flight));
        for segment in self.flying.drain(..).flatten() {
            self.estimate.on_lost(Bytes::new(MSS), &segment.mark);
        }
        self.lost += self.in_flight;
        self.first = self.first_unsent();
        self.in_flight = 0;
        self.recover = Some(self.first);
    }

    fn first_unsent(&self) -> u64 {
        self.first + self.flying.len() as u64
    }

    fn send(&mut self) {
        let (now, length) = (self.now, Bytes::new(MSS));
        let mark = self.estimate.on_sent(now, length, Bytes::new(self.in_flight));
        let number = self.first_unsent();
        self.flying.push_back(Some(Flying { sent: now, mark }));
        self.in_flight += MSS;
        self.control.on_sent(&Sent { now, length, in_flight: Bytes::new(self.in_flight) });
        let paces = [self.control.pacing_rate(), self.pace];
        if let Some(rate) = paces.into_iter().flatten().min() {
            self.next_send = now + rate.time_for(length);
        }
        if self.pace.is_some() {
            self.estimate.mark_app_limited(Bytes::new(self.in_flight));
        }
        let queue = self.queue();
        let unlucky = self.lose_every > 0 && number % self.lose_every == self.lose_every - 1;
        if queue + MSS > self.buffer || unlucky {
            return;
        }
        self.worst_queue = self.worst_queue.max(queue);
        self.busy_until = self.busy_until.max(now) + self.rate.time_for(length);
        self.acks.push_back((self.busy_until + self.rtt, number));
    }

    fn acknowledge(&mut self) {
        let Some((now, number)) = self.acks.pop_front() else { return };
        let prior = Bytes::new(self.in_flight);
        if number < self.first {
            return;
        }
        let index = (number - self.first) as usize;
        let Some(segment) = self.flying[index].take() else { return };
        let (mut rate, length) = (None, Bytes::new(MSS));
        self.estimate.on_delivered(now, length, segment.sent, &segment.mark, &mut rate);
        self.in_flight -= MSS;
        self.delivered += MSS;
        let lost = self.find_losses(number);
        let rtt = now.since(segment.sent);
        self.min_rtt = self.min_rtt.min(rtt);
        let smooth = |srtt: Span| Span::from_nanos((srtt.as_nanos() * 7 + rtt.as_nanos()) / 8);
        self.srtt = Some(self.srtt.map_or(rtt, smooth));
        self.estimate.finish(self.min_rtt, &mut rate);
        if lost > 0 && self.recover.is_none() {
            self.recover = Some(self.first_unsent());
            self.control.enter_recovery(now, Cause::Loss, prior);
        } else if self.recover.is_some_and(|recover| self.first >= recover) {
            self.recover = None;
            self.control.exit_recovery(now);
        }
        self.control.on_ack(&AckSample {
            now,
            acked: length,
            delivered: length,
            lost: Bytes::new(lost),
            rtt: Some(rtt),
            srtt: self.srtt,
            prior_in_flight: prior,
            in_flight: Bytes::new(self.in_flight),
            segments: 1,
            marked: 0,
            rate,
        });
    }

    fn find_losses(&mut self, number: u64) -> u64 {
        let mut lost = 0;
        while self.first + 3 <= number || self.flying.front().is_some_and(Option::is_none) {
            if let Some(Some(segment)) = self.flying.pop_front() {
                let (length, mark) = (Bytes::new(MSS), segment.mark);
                let since = self.estimate.on_lost(length, &mark);
                self.control.on_lost(&LostSegment {
                    now: self.now,
                    length,
                    sent_in_flight: mark.in_flight(),
                    lost: since,
                    app_limited: mark.is_app_limited(),
                });
                lost += MSS;
            }
            self.first += 1;
        }
        self.in_flight -= lost;
        self.lost += lost;
        lost
    }
}
