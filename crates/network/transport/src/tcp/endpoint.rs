//! One end of a connection.

mod handshake;
mod opening;

use base::{Bytes, Span, Time};

use super::packed::{Packed, Packer, Unpacker};
use super::receiver::Receiver;
use super::segment::{Ect, Feedback, Flags, Segment, Transmit};
use super::sender::{Sender, Settings};
use super::{Config, Statistics};
use opening::Opening;

/// Idle time after which an end that sends no data acknowledges at once again.
const IDLE: Span = Span::from_millis(300);

/// States of RFC 9293, with all states after the handshake as one: the two halves store which FINs
/// are sent, acknowledged and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    Ended(End),
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both FINs were acknowledged.
    Finished,
    /// This end aborted it.
    Aborted,
    /// The peer aborted or rejected it.
    Reset,
    /// The peer did not answer within the timeout.
    TimedOut,
}

/// One end of a connection: a sender and a receiver. The time is an argument.
///
/// After every call that takes `now` (and after [`write`](Self::write), [`finish`](Self::finish),
/// [`read`](Self::read), [`abort`](Self::abort)), call [`poll_transmit`](Self::poll_transmit) until
/// it returns `None`, then read [`next_wake`](Self::next_wake).
///
/// TIME-WAIT is not modelled: no state outlives the connection. An end that has finished answers
/// retransmissions, so keep it until the other end has finished too.
#[derive(Clone, Debug)]
pub struct Endpoint {
    state: State,
    /// A SYN or SYN-ACK must be sent.
    syn_due: bool,
    reset_due: bool,
    /// Requested feedback of marks; after the handshake: negotiated.
    ecn: Feedback,
    opening: Opening,
    /// Absent until the application writes or finishes.
    sender: Option<Sender>,
    receiver: Receiver,
}

impl Endpoint {
    /// The end that will open the connection, with its initial sequence number.
    pub fn connect(config: &Config, iss: u32) -> Self {
        Self {
            state: State::Closed,
            syn_due: false,
            reset_due: false,
            ecn: config.feedback(),
            opening: Opening::new(Settings::new(config), iss),
            sender: None,
            receiver: Receiver::new(config),
        }
    }

    /// The end that waits for a SYN, with its initial sequence number.
    pub fn listen(config: &Config, iss: u32) -> Self {
        Self { state: State::Listen, ..Self::connect(config, iss) }
    }

    /// Begins the handshake.
    pub fn open(&mut self, now: Time) {
        if self.state == State::Closed {
            self.state = State::SynSent;
            self.syn_due = true;
            self.opening.arm(now);
        }
    }

    /// Handles a segment of the peer. `ce`: its packet was marked with congestion experienced.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        match self.state {
            State::Established => self.on_established(now, segment, ce),
            State::Ended(End::Finished) => {
                if segment.length > 0 || segment.flags.contains(Flags::FIN) {
                    self.receiver.ack_at_once();
                }
            }
            State::Closed | State::Ended(_) => {}
            State::Listen | State::SynSent | State::SynReceived => {
                self.on_handshake(now, segment, ce);
            }
        }
    }

    fn on_established(&mut self, now: Time, segment: &Segment, ce: bool) {
        let flags = segment.flags;
        if flags.intersects(Flags::RST | Flags::SYN) {
            if flags.contains(Flags::RST) {
                self.end(End::Reset);
            } else {
                self.receiver.ack_at_once();
            }
            return;
        }
        match &mut self.sender {
            Some(sender) => sender.on_ack(now, segment),
            None => self.opening.on_segment(segment),
        }
        let fin = flags.contains(Flags::FIN);
        if segment.length > 0 || fin || !self.receiver.is_next(segment) {
            if segment.length > 0 && self.ecn != Feedback::Off {
                let reduced = self.ecn == Feedback::Classic && flags.contains(Flags::CWR);
                self.receiver.on_codepoint(ce, reduced);
            }
            let idle = self.sender.as_ref().map(|sender| sender.rtt.rto());
            self.receiver.on_segment(now, segment, idle.unwrap_or(IDLE));
        }
        let acked = self.sender.as_ref().is_some_and(Sender::fin_acked);
        if acked && self.receiver.finished() {
            self.end(End::Finished);
        }
    }

    fn end(&mut self, end: End) {
        self.state = State::Ended(end);
        self.opening.timeout = Time::MAX;
        self.receiver.stop();
        if let Some(sender) = &mut self.sender {
            sender.stop();
        }
        self.syn_due = false;
    }

    /// Handles expired deadlines; has no effect without one.
    pub fn on_wake(&mut self, now: Time) {
        match self.state {
            State::Established => {
                self.receiver.on_wake(now);
                if !self.sender.as_mut().is_none_or(|sender| sender.on_wake(now)) {
                    self.end(End::TimedOut);
                }
            }
            State::SynSent | State::SynReceived => self.on_handshake_timeout(now),
            _ => {}
        }
    }

    /// Maximum payload in bytes that this end accepts, and the shift of its window (RFC 7323 §2).
    pub fn syn_options(&self) -> (u16, u8) {
        self.receiver.syn_options()
    }

    /// The earliest deadline.
    pub fn next_wake(&self) -> Option<Time> {
        let opening = (self.opening.timeout < Time::MAX).then_some(self.opening.timeout);
        let sender = self.sender.as_ref().and_then(Sender::next_wake);
        [opening, self.receiver.next_wake(), sender].into_iter().flatten().min()
    }

    /// Whether the connection is established and this end idle: all written data has been
    /// acknowledged, all received data was acknowledged and read, and there is no deadline. Never
    /// with BBR, whose state is too large to be packed.
    pub fn is_at_rest(&self) -> bool {
        self.state == State::Established
            && !self.syn_due
            && !self.reset_due
            && self.opening.timeout == Time::MAX
            && self.receiver.is_at_rest()
            && self.sender.as_ref().is_none_or(Sender::is_at_rest)
    }

    /// Packs an end [at rest](Self::is_at_rest); the state of others would be incomplete.
    pub fn pack(&self, to: &mut Packer) {
        debug_assert!(self.is_at_rest(), "something is under way");
        self.sender.pack(to);
        self.receiver.pack(to);
        self.opening.pack(to);
        self.ecn.pack(to);
    }

    /// Restores a packed end.
    pub fn unpack(from: &mut Unpacker<'_>) -> Self {
        let sender = Packed::unpack(from);
        let receiver = Packed::unpack(from);
        let opening = Packed::unpack(from);
        Self {
            state: State::Established,
            syn_due: false,
            reset_due: false,
            ecn: Packed::unpack(from),
            opening,
            sender,
            receiver,
        }
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.reset_due {
            self.reset_due = false;
            return Some(self.reset());
        }
        if self.state == State::Established {
            let outgoing = self.sender.as_mut().and_then(|sender| sender.poll(now));
            if let Some(mut outgoing) = outgoing {
                self.receiver.acknowledge(now, &mut outgoing.segment, self.ecn);
                return Some(Transmit { segment: outgoing.segment, ect: outgoing.ect });
            }
        } else if self.syn_due {
            self.syn_due = false;
            return Some(self.synchronise(now));
        }
        if self.receiver.wants_ack() && self.acknowledges() {
            let mut segment = Segment { seq: self.next_seq(), ..Segment::default() };
            self.receiver.acknowledge(now, &mut segment, self.ecn);
            return Some(Transmit { segment, ect: self.ecn.control_ect() });
        }
        None
    }

    fn next_seq(&self) -> u32 {
        self.sender.as_ref().map_or(self.opening.next_seq(), Sender::next_seq)
    }

    fn sender_mut(&mut self) -> &mut Sender {
        self.sender.get_or_insert_with(|| {
            let mut sender = self.opening.sender();
            if self.state == State::Established {
                self.opening.inform(&mut sender);
                sender.ecn = self.ecn;
            }
            sender
        })
    }

    fn acknowledges(&self) -> bool {
        matches!(self.state, State::Established | State::Ended(End::Finished))
    }

    fn reset(&self) -> Transmit {
        let segment = Segment {
            seq: self.next_seq(),
            ack: self.receiver.next_seq(),
            flags: Flags::RST | Flags::ACK,
            ..Segment::default()
        };
        Transmit { segment, ect: Ect::Not }
    }

    /// The application writes `bytes`. Ignored after [`finish`](Self::finish).
    pub fn write(&mut self, bytes: u64) {
        self.sender_mut().write(bytes);
    }

    /// The application writes an infinite stream.
    pub fn write_unlimited(&mut self) {
        self.sender_mut().write_unlimited();
    }

    /// No more data will be written: a FIN follows the written data. An infinite stream ends with
    /// the data sent so far.
    pub fn finish(&mut self) {
        self.sender_mut().finish();
    }

    /// Ends the connection at once, with a RST if the peer may have received a segment.
    pub fn abort(&mut self) {
        self.reset_due = matches!(self.state, State::SynReceived | State::Established);
        if !matches!(self.state, State::Ended(_)) {
            self.end(End::Aborted);
        }
    }

    /// Payload received in order and not read yet.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// The application reads `count` bytes, or all available ones. This may open the window.
    pub fn read(&mut self, count: u64) {
        self.receiver.read(count);
    }

    /// Total payload received in order.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Total payload acknowledged by the peer.
    pub fn acked(&self) -> u64 {
        self.sender.as_ref().map_or(0, Sender::acked)
    }

    /// Payload written and not acknowledged.
    pub fn unacked(&self) -> u64 {
        self.sender.as_ref().map_or(0, Sender::unacked)
    }

    /// Payload written and never sent (Linux: `tcpi_notsent_bytes`).
    pub fn not_sent(&self) -> u64 {
        self.sender.as_ref().map_or(0, Sender::unsent)
    }

    /// The congestion window in bytes.
    pub fn cwnd(&self) -> Bytes {
        let initial = || Bytes::new(self.opening.initial_window());
        self.sender.as_ref().map_or_else(initial, Sender::cwnd)
    }

    /// Whether the handshake is complete and the connection has not ended.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.ended().is_some()
    }

    /// The reason for the end of the connection.
    pub fn ended(&self) -> Option<End> {
        if let State::Ended(end) = self.state { Some(end) } else { None }
    }

    /// Whether everything up to the peer's FIN has arrived.
    pub fn peer_finished(&self) -> bool {
        self.receiver.finished()
    }

    /// Current statistics of the connection.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = match &self.sender {
            Some(sender) => sender.statistics(),
            None => Statistics {
                srtt: self.opening.rtt(),
                min_rtt: self.opening.rtt(),
                cwnd: Bytes::new(self.opening.initial_window()),
                ssthresh: Bytes::MAX,
                ..Statistics::default()
            },
        };
        statistics.marks = self.receiver.marks;
        statistics.duplicates = self.receiver.duplicates;
        statistics
    }
}

#[cfg(test)]
impl Endpoint {
    /// Memory beyond the endpoint itself, if nothing is outstanding.
    pub(super) fn heap_bytes(&self) -> usize {
        assert!(self.receiver.is_in_order());
        self.sender.as_ref().map_or(0, Sender::heap_bytes)
    }

    /// Asserts that counters agree with lists.
    pub(super) fn check(&self) {
        let Some(sender) = &self.sender else { return };
        sender.check();
        if self.is_established() && self.statistics().in_flight.is_positive() {
            assert!(sender.next_wake().is_some(), "no timer");
        }
    }
}
