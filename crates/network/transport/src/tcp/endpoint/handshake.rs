//! Opening a connection (RFC 9293 §3.5), with ECN negotiation (RFC 3168 §6.1.1, RFC 9768 §3.1).

use base::Time;

use super::{End, Endpoint, State};
use crate::tcp::segment::{Feedback, Flags, Segment, Transmit};

/// Retransmissions of a SYN (Linux: `tcp_syn_retries`) or a SYN-ACK.
const MAX_RETRANSMISSIONS: u8 = 6;

/// AE, CWR and ECE of a SYN that requests this feedback of marks.
const fn request(own: Feedback) -> u64 {
    match own {
        Feedback::Off => 0,
        Feedback::Classic => 3,
        Feedback::Accurate | Feedback::L4s => 7,
    }
}

/// The feedback that a SYN with these bits requests, if this end supports it.
const fn requested(own: Feedback, bits: u64) -> Feedback {
    match (own, bits) {
        (Feedback::Accurate | Feedback::L4s, 7) => own,
        (Feedback::Off, _) => Feedback::Off,
        (_, 3 | 7) => Feedback::Classic,
        _ => Feedback::Off,
    }
}

/// AE, CWR and ECE of the SYN-ACK: accurate feedback reports the ECN field of the SYN (RFC 9768,
/// table 2).
const fn consent(agreed: Feedback, marked: bool) -> u64 {
    match agreed {
        Feedback::Off => 0,
        Feedback::Classic => 1,
        Feedback::Accurate | Feedback::L4s if marked => 6,
        Feedback::Accurate => 4,
        Feedback::L4s => 3,
    }
}

/// The feedback to which a SYN-ACK with these bits consents (RFC 9768, table 2 and §3.1.3).
const fn agreed(own: Feedback, bits: u64) -> Feedback {
    match (own, bits) {
        (Feedback::Accurate | Feedback::L4s, 2..=6) => own,
        (Feedback::Off, _) => Feedback::Off,
        (_, 1) | (Feedback::Classic, 5) => Feedback::Classic,
        _ => Feedback::Off,
    }
}

impl Endpoint {
    pub(super) fn on_handshake(&mut self, now: Time, segment: &Segment, ce: bool) {
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            if self.state != State::Listen {
                self.end(End::Reset);
            }
            return;
        }
        let answers = flags.contains(Flags::ACK) && segment.ack == self.opening.next_seq();
        match self.state {
            State::Listen if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) => {
                self.ecn = requested(self.ecn, flags.marks());
                self.opening.syn_marked = ce;
                self.receiver.synchronise(segment.seq);
                self.state = State::SynReceived;
                self.syn_due = true;
                self.opening.arm(now);
            }
            State::SynSent if flags.contains(Flags::SYN) && answers => {
                self.ecn = agreed(self.ecn, flags.marks());
                self.receiver.synchronise(segment.seq);
                self.establish(now, segment);
                self.receiver.ack_at_once();
            }
            State::SynReceived if flags.contains(Flags::SYN) => self.syn_due = true,
            State::SynReceived if answers => {
                self.establish(now, segment);
                self.on_segment(now, segment, ce);
            }
            _ => {}
        }
    }

    fn establish(&mut self, now: Time, segment: &Segment) {
        self.state = State::Established;
        self.syn_due = false;
        self.opening.establish(now, segment);
        if let Some(sender) = &mut self.sender {
            self.opening.inform(sender);
            sender.ecn = self.ecn;
        }
    }

    pub(super) fn on_handshake_timeout(&mut self, now: Time) {
        if self.opening.timeout > now {
            return;
        }
        if self.opening.timeouts >= MAX_RETRANSMISSIONS {
            self.end(End::TimedOut);
            return;
        }
        self.opening.timeouts += 1;
        self.opening.arm(now);
        self.syn_due = true;
    }

    /// Builds the SYN or SYN-ACK.
    pub(super) fn synchronise(&mut self, now: Time) -> Transmit {
        self.opening.on_syn_sent(now);
        let mut segment = Segment {
            seq: self.opening.iss,
            window: self.receiver.initial_offer(),
            flags: Flags::SYN,
            ..Segment::default()
        };
        if self.state == State::SynReceived {
            segment.ack = self.receiver.next_seq();
            let bits = consent(self.ecn, self.opening.syn_marked);
            segment.flags = segment.flags.with_marks(bits) | Flags::ACK;
        } else if self.opening.timeouts < 2 {
            segment.flags = segment.flags.with_marks(request(self.ecn));
        }
        Transmit { segment, ect: self.ecn.control_ect() }
    }
}
