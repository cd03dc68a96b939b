//! The state of an endpoint without data to send, in place of a sender.

use base::{Span, Time};

use crate::tcp::packed::packed;
use crate::tcp::segment::Segment;
use crate::tcp::sender::{Sender, Settings};

/// Maximum timeout, as in Linux.
const MAX_RTO: Span = Span::from_secs(120);

#[derive(Clone, Debug)]
pub(super) struct Opening {
    settings: Settings,
    /// Time of the next retransmission of the SYN.
    pub(super) timeout: Time,
    /// Time of the SYN, if it was sent once.
    sent: Time,
    /// Round-trip time of the handshake, if only one SYN was sent.
    rtt: Option<Span>,
    /// Initial sequence number, the SYN's.
    pub(super) iss: u32,
    /// Window offered by the peer.
    window: u32,
    /// Whether the packet of the peer's SYN was marked.
    pub(super) syn_marked: bool,
    syns: u8,
    /// Retransmissions of the SYN by the timer.
    pub(super) timeouts: u8,
}

packed!(Opening { settings, iss, window, timeout, sent, rtt, syn_marked, syns, timeouts });

impl Opening {
    pub(super) fn new(settings: Settings, iss: u32) -> Self {
        Self {
            settings,
            timeout: Time::MAX,
            sent: Time::ZERO,
            rtt: None,
            iss,
            window: 0,
            syn_marked: false,
            syns: 0,
            timeouts: 0,
        }
    }

    /// The sequence number after the SYN.
    pub(super) const fn next_seq(&self) -> u32 {
        self.iss.wrapping_add(1)
    }

    /// Starts the timer of the SYN.
    pub(super) fn arm(&mut self, now: Time) {
        let rto = self.settings.initial_rto() * (1 << self.timeouts.min(16));
        self.timeout = now + rto.min(MAX_RTO);
    }

    /// Records that a SYN or SYN-ACK is sent.
    pub(super) fn on_syn_sent(&mut self, now: Time) {
        self.syns = self.syns.saturating_add(1);
        self.sent = now;
    }

    /// Completes the handshake.
    pub(super) fn establish(&mut self, now: Time, segment: &Segment) {
        self.timeout = Time::MAX;
        self.rtt = (self.syns == 1).then_some(now.since(self.sent));
        self.window = segment.window;
    }

    /// Handles a segment at an end that sends nothing: only its window matters.
    pub(super) fn on_segment(&mut self, segment: &Segment) {
        self.window = segment.window;
    }

    /// A sender before the peer's first segment.
    pub(super) fn sender(&self) -> Sender {
        Sender::new(&self.settings, self.iss)
    }

    /// Passes the results of the handshake to a sender.
    pub(super) fn inform(&self, sender: &mut Sender) {
        let established = self.sent + self.rtt.unwrap_or(Span::ZERO);
        sender.establish(established, self.window, self.rtt);
    }

    pub(super) const fn rtt(&self) -> Option<Span> {
        self.rtt
    }

    /// Initial congestion window in bytes.
    pub(super) fn initial_window(&self) -> u64 {
        self.settings.initial_window()
    }
}
