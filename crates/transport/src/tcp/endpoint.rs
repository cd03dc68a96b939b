//! One end of a connection.

mod handshake;

use base::{Bytes, Span, Time};

use super::Config;
use super::control::CongestionControl;
use super::receiver::Receiver;
use super::segment::{Flags, Segment, Transmit};
use super::sender::Sender;

/// States of RFC 9293, those after the handshake as one: which FINs are sent, acknowledged and
/// received is known to the two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    Ended(End),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both FINs were acknowledged.
    Finished,
    /// This end aborted it.
    Aborted,
    /// The peer aborted or refused it.
    Reset,
    /// The peer did not answer for too long.
    TimedOut,
}

/// What an endpoint knows of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Option<Span>,
    /// Smallest round-trip time.
    pub min_rtt: Option<Span>,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX` before there is one.
    pub ssthresh: Bytes,
    /// Payload in flight.
    pub in_flight: Bytes,
    /// Segments with payload or FIN that were sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the window because of losses that acknowledgements showed.
    pub recoveries: u64,
    /// Reductions taken back.
    pub undone: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Segments that the peer reported to have had already.
    pub spurious: u64,
    /// Acknowledgements that echoed a mark of congestion.
    pub echoes: u64,
    /// Segments received whose packets were marked.
    pub marks: u64,
    /// Segments received a second time.
    pub duplicates: u64,
}

/// One end of a connection: a sender and a receiver. It is told the time, and never asks for it.
///
/// After every call that takes `now` (and after [`write`](Self::write), [`finish`](Self::finish),
/// [`read`](Self::read), [`abort`](Self::abort)), call [`poll_transmit`](Self::poll_transmit)
/// until it gives `None`, then look at [`next_timeout`](Self::next_timeout).
///
/// There is no TIME-WAIT that would outlive the connection. An end that has finished answers
/// retransmissions, so keep it until the other end has finished too.
#[derive(Clone, Debug)]
pub struct Endpoint {
    state: State,
    /// A SYN, or the answer to one, is to be sent.
    syn_due: bool,
    reset_due: bool,
    /// ECN is wanted.
    ecn: bool,
    /// When the SYN was sent, if once.
    syn_sent: Option<Time>,
    sender: Sender,
    receiver: Receiver,
}

impl Endpoint {
    /// The end that will open the connection, with its initial sequence number.
    pub fn connect(config: &Config, iss: u32) -> Self {
        Self {
            state: State::Closed,
            syn_due: false,
            reset_due: false,
            ecn: config.ecn,
            syn_sent: None,
            sender: Sender::new(config, iss),
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
            self.sender.arm_syn(now);
        }
    }

    /// A segment of the peer arrived. `ce`: its packet had experienced congestion.
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
        self.sender.on_ack(now, segment);
        let fin = flags.contains(Flags::FIN);
        if segment.length > 0 || fin || !self.receiver.is_next(segment) {
            if segment.length > 0 && self.sender.ecn {
                self.receiver.on_codepoint(ce, flags.contains(Flags::CWR));
            }
            self.receiver.on_segment(now, segment, self.sender.rtt.rto());
        }
        if self.receiver.finished() && self.sender.fin_acked() {
            self.end(End::Finished);
        }
    }

    fn end(&mut self, end: End) {
        self.state = State::Ended(end);
        self.sender.stop();
        self.syn_due = false;
    }

    /// Acts on any deadline that is due; harmless when none is.
    pub fn on_timeout(&mut self, now: Time) {
        match self.state {
            State::Established => {
                self.receiver.on_timeout(now);
                if !self.sender.on_timeout(now) {
                    self.end(End::TimedOut);
                }
            }
            State::SynSent | State::SynReceived => self.on_handshake_timeout(now),
            _ => {}
        }
    }

    /// The earliest deadline.
    pub fn next_timeout(&self) -> Option<Time> {
        let at = self.sender.next_timeout().min(self.receiver.next_timeout());
        (at < Time::MAX).then_some(at)
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.reset_due {
            self.reset_due = false;
            return Some(self.reset());
        }
        if self.state == State::Established {
            if let Some(mut outgoing) = self.sender.poll(now) {
                let with_data = outgoing.segment.length > 0;
                self.receiver.acknowledge(now, &mut outgoing.segment, with_data);
                return Some(Transmit { segment: outgoing.segment, ect: outgoing.ect });
            }
        } else if self.syn_due {
            self.syn_due = false;
            return Some(self.synchronise(now));
        }
        if self.receiver.wants_ack() && self.acknowledges() {
            let mut segment = Segment { seq: self.sender.next_seq(), ..Segment::default() };
            self.receiver.acknowledge(now, &mut segment, false);
            return Some(Transmit { segment, ect: false });
        }
        None
    }

    fn acknowledges(&self) -> bool {
        matches!(self.state, State::Established | State::Ended(End::Finished))
    }

    fn reset(&self) -> Transmit {
        let segment = Segment {
            seq: self.sender.next_seq(),
            ack: self.receiver.next_seq(),
            flags: Flags::RST | Flags::ACK,
            ..Segment::default()
        };
        Transmit { segment, ect: false }
    }

    /// The application writes `bytes`, to be sent when they may be. Ignored after
    /// [`finish`](Self::finish).
    pub fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// The application writes for ever.
    pub fn write_unlimited(&mut self) {
        self.sender.write_unlimited();
    }

    /// Nothing more will be written: a FIN follows what was. What was written for ever ends with
    /// what has been sent.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Ends the connection at once, with a RST if the peer may know of it.
    pub fn abort(&mut self) {
        self.reset_due = matches!(self.state, State::SynReceived | State::Established);
        if !matches!(self.state, State::Ended(_)) {
            self.end(End::Aborted);
        }
    }

    /// Payload that arrived in order and was not read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// The application reads `count` bytes, or all there are. It may open the window.
    pub fn read(&mut self, count: u64) {
        self.receiver.read(count);
    }

    /// Payload received in order since the beginning.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Payload that the peer has acknowledged since the beginning.
    pub fn acked(&self) -> u64 {
        self.sender.acked()
    }

    /// Payload written and not acknowledged.
    pub fn unacked(&self) -> u64 {
        self.sender.unacked()
    }

    /// Whether the handshake is done and the connection has not ended.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.ended().is_some()
    }

    /// How the connection ended.
    pub fn ended(&self) -> Option<End> {
        if let State::Ended(end) = self.state { Some(end) } else { None }
    }

    /// Whether all that the peer will ever send has arrived.
    pub fn peer_finished(&self) -> bool {
        self.receiver.finished()
    }

    /// What is known of the connection now.
    pub fn statistics(&self) -> Statistics {
        let counters = &self.sender.counters;
        Statistics {
            srtt: self.sender.rtt.srtt(),
            min_rtt: self.sender.rtt.min(),
            cwnd: self.sender.control.cwnd(),
            ssthresh: self.sender.control.ssthresh(),
            in_flight: Bytes::new(self.sender.in_flight()),
            sent: counters.sent,
            retransmits: counters.retransmits,
            timeouts: u64::from(counters.timeouts),
            recoveries: u64::from(counters.recoveries),
            undone: u64::from(counters.undone),
            probes: u64::from(counters.probes),
            spurious: u64::from(counters.duplicates),
            echoes: u64::from(counters.echoes),
            marks: self.receiver.marks,
            duplicates: self.receiver.duplicates,
        }
    }
}

#[cfg(test)]
impl Endpoint {
    /// Asserts that what is counted agrees with what is listed.
    pub(super) fn check(&self) {
        self.sender.check();
        if self.is_established() && self.sender.in_flight() > 0 {
            assert!(self.sender.next_timeout() < Time::MAX, "no timer");
        }
    }
}
