//! Opening a connection (RFC 9293 §3.5), with ECN negotiation (RFC 3168 §6.1.1).

use base::Time;

use super::{End, Endpoint, State};
use crate::tcp::segment::{Flags, Segment, Transmit};

/// Retransmissions of a SYN (Linux: `tcp_syn_retries`) or a SYN-ACK.
const MAX_RETRANSMISSIONS: u8 = 6;
/// Flags of a SYN that requests ECN; the SYN-ACK has only the first.
const ECN_SETUP: [Flags; 2] = [Flags::ECE, Flags::CWR];

impl Endpoint {
    pub(super) fn on_handshake(&mut self, now: Time, segment: &Segment, ce: bool) {
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            if self.state != State::Listen {
                self.end(End::Reset);
            }
            return;
        }
        let [ece, cwr] = ECN_SETUP;
        let answers = flags.contains(Flags::ACK) && segment.ack == self.opening.next_seq();
        match self.state {
            State::Listen if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) => {
                self.ecn = self.ecn && flags.contains(ece | cwr);
                self.receiver.synchronise(segment.seq);
                self.state = State::SynReceived;
                self.syn_due = true;
                self.opening.arm(now);
            }
            State::SynSent if flags.contains(Flags::SYN) && answers => {
                self.ecn = self.ecn && flags.contains(ece) && !flags.contains(cwr);
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
        let [ece, cwr] = ECN_SETUP;
        let mut segment = Segment {
            seq: self.opening.iss,
            window: self.receiver.initial_offer(),
            flags: Flags::SYN,
            ..Segment::default()
        };
        if self.state == State::SynReceived {
            segment.ack = self.receiver.next_seq();
            segment.flags = segment.flags | Flags::ACK;
            if self.ecn {
                segment.flags = segment.flags | ece;
            }
        } else if self.ecn && self.opening.timeouts < 2 {
            segment.flags = segment.flags | ece | cwr;
        }
        Transmit { segment, ect: false }
    }
}
