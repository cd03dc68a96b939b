//! TCP: endpoints of full-duplex connections whose payload is counted, not carried.
//!
//! An [`Endpoint`] combines a sending half (`sender`: scoreboard, loss detection, recovery, timers,
//! transmission) with a receiving half (`receiver`: reassembly, acknowledgements, window), and
//! opens and closes the connection (`endpoint`).
//!
//! | function | source |
//! |---|---|
//! | handshake, window, closing, zero-window probes | RFC 9293, RFC 7323 (scaling) |
//! | silly window and small segments | RFC 1122, Minshall's variant of Nagle's algorithm |
//! | acknowledgements | RFC 5681 §4.2, RFC 2018 (SACK), RFC 2883 (duplicates), Linux's quick ACKs |
//! | loss detection | RFC 8985 (RACK-TLP), with RFC 6675's pipe; RFC 3042 follows from the pipe |
//! | timeout | RFC 6298 with Linux's lower bound, RFC 5682 (F-RTO with SACK) |
//! | undo | DSACK (RFC 3708) and F-RTO |
//! | ECN | RFC 3168; RFC 9768 without its option, for DCTCP and Prague |
//! | congestion control | [`control`] |
//! | pacing | the controller's rate (BBR), or Linux's internal pacing as an option |
//!
//! Not modelled: values of time stamps (their bytes are counted), urgent data, simultaneous open,
//! a receiver that discards what it acknowledged selectively, segmentation offload, and
//! retransmissions that are cut differently than before.

pub mod control;
mod endpoint;
mod header;
mod packed;
mod ranges;
mod receiver;
mod rtt;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

use base::{Bandwidth, Bytes, Span};

pub use control::Control;
pub use endpoint::{End, Endpoint};
pub use header::HeaderFields;
pub use packed::{Packer, Unpacker};
use segment::Feedback;
pub use segment::{Ect, Flags, Segment, Transmit};

/// Configuration of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum payload of a segment: the MTU minus 20 or 40 bytes of IP and 32 of TCP. 1 to 65535.
    pub mss: u32,
    /// Congestion controller of the sender.
    pub control: Control,
    /// Initial window, in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Receive buffer: the window that is offered while no data waits to be read.
    pub receive_window: Bytes,
    /// Request and accept explicit congestion notification (RFC 3168). Controllers that respond to
    /// the share of marks always do, with accurate feedback (RFC 9768).
    pub ecn: bool,
    /// Send small segments without waiting (Nagle's algorithm is off).
    pub nodelay: bool,
    /// Pace also with a congestion controller that has no pacing rate: by window and round-trip
    /// time, as Linux's internal pacing does.
    pub paced: bool,
    /// Maximum delay of an acknowledgement.
    pub delayed_ack: Span,
    /// Number of full-sized segments that are acknowledged at once (RFC 5681: 2).
    pub ack_every: u32,
    /// Number of segments acknowledged at once at the start and after idle times, as Linux does.
    pub quick_acks: u8,
    /// Lower bound of the deviation's part of the retransmission timeout (Linux: 200 ms).
    pub min_rto: Span,
    /// Retransmission timeout before the first RTT sample (RFC 6298: 1 s).
    pub initial_rto: Span,
    /// Seed of the congestion controller's random decisions.
    pub seed: u64,
    /// HyStart++ (RFC 9406) in Reno's first slow start; CUBIC always uses it.
    pub hystart: bool,
    /// Alternative backoff with ECN (RFC 8511).
    pub abe: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1448,
            control: Control::default(),
            initial_window: 10,
            receive_window: Bytes::new(6 << 20),
            ecn: false,
            nodelay: false,
            paced: false,
            delayed_ack: Span::from_millis(40),
            ack_every: 2,
            quick_acks: 16,
            min_rto: Span::from_millis(200),
            initial_rto: Span::from_secs(1),
            seed: 0,
            hystart: false,
            abe: false,
        }
    }
}

impl Config {
    fn feedback(&self) -> Feedback {
        match self.control {
            Control::Prague => Feedback::L4s,
            Control::Dctcp => Feedback::Accurate,
            _ if self.ecn => Feedback::Classic,
            _ => Feedback::Off,
        }
    }
}

/// Counters and estimates of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Round-trip time of the newest delivered segment (RFC 8985 §6.2).
    pub rtt: Option<Span>,
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Option<Span>,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Option<Span>,
    /// Minimum round-trip time.
    pub min_rtt: Option<Span>,
    /// Congestion window of the sender.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX` if there is none yet.
    pub ssthresh: Bytes,
    /// Payload in flight.
    pub in_flight: Bytes,
    /// Payload written and never sent.
    pub not_sent: Bytes,
    /// Total payload acknowledged.
    pub acked: Bytes,
    /// Newest delivery rate that was not limited by the application.
    pub delivery_rate: Option<Bandwidth>,
    /// Segments with payload or FIN that were sent, retransmissions included.
    pub sent: u64,
    /// Number of retransmitted segments.
    pub retransmits: u64,
    /// Total number of retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the window because of losses that acknowledgements revealed.
    pub recoveries: u64,
    /// Number of undone reductions.
    pub undone: u64,
    /// Number of tail loss probes.
    pub probes: u64,
    /// Segments that the peer reported as duplicates.
    pub spurious: u64,
    /// Acknowledgements with an echoed congestion mark.
    pub echoes: u64,
    /// Received segments whose packets were marked.
    pub marks: u64,
    /// Segments received as duplicates.
    pub duplicates: u64,
}
