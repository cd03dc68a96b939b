//! The interface between an endpoint and its congestion controller.
//!
//! For each acknowledgement the endpoint updates its scoreboard, then calls in this order
//! [`on_lost`](CongestionControl::on_lost) for every segment newly deemed lost,
//! [`enter_recovery`](CongestionControl::enter_recovery), [`undo`](CongestionControl::undo) or
//! [`exit_recovery`](CongestionControl::exit_recovery) if the state changes, and finally
//! [`on_ack`](CongestionControl::on_ack). It may send while `in flight + length <= cwnd`.
//! Proportional rate reduction is part of the controller: its window in recovery already follows
//! it.

pub mod bbr;
pub mod bbr3;
mod controller;
mod cubic;
mod hystart;
mod model;
mod rate;
mod reno;
mod scalable;
#[cfg(test)]
mod tests;
mod window;

use base::{Bandwidth, Bytes, Span, Time};

pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use controller::{Control, Controller};
pub use cubic::Cubic;
pub use rate::{DeliveryRate, RateSample, SentMark};
pub use reno::Reno;
pub use scalable::Scalable;

/// Parameters of a connection's congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Maximum payload of a segment, in bytes.
    pub mss: u32,
    /// Initial window, in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Seed of a controller's random decisions (the phase in which BBR starts to probe).
    pub seed: u64,
    /// HyStart++ (RFC 9406) in the first slow start of Reno; CUBIC always uses it.
    pub hystart: bool,
    /// Alternative backoff with ECN (RFC 8511): Reno and CUBIC reduce less after a mark
    /// than after a loss.
    pub abe: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { mss: 1448, initial_window: 10, seed: 0, hystart: false, abe: false }
    }
}

/// A transmission of payload.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time of the acknowledgement or transmission.
    pub now: Time,
    /// Payload of the segment.
    pub length: Bytes,
    /// Payload in flight with this segment.
    pub in_flight: Bytes,
}

/// The information in one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Time of its arrival.
    pub now: Time,
    /// Newly acknowledged bytes, cumulatively.
    pub acked: Bytes,
    /// Payload newly delivered: acknowledged, cumulatively or selectively, for the first time.
    pub delivered: Bytes,
    /// Payload newly deemed lost.
    pub lost: Bytes,
    /// Round-trip time of a segment that was sent once, if there is one.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time (RFC 6298), this sample included.
    pub srtt: Option<Span>,
    /// Payload in flight before the acknowledgement.
    pub prior_in_flight: Bytes,
    /// Payload in flight now (RFC 6675's pipe: neither delivered nor deemed lost).
    pub in_flight: Bytes,
    /// Segments newly delivered.
    pub segments: u32,
    /// Packets that it newly reports as marked; at most 1 without accurate ECN.
    pub marked: u32,
    /// Delivery rate; `None` if nothing was newly delivered.
    pub rate: Option<RateSample>,
}

/// A segment newly deemed lost.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// Time of detection.
    pub now: Time,
    /// Payload bytes of the segment.
    pub length: Bytes,
    /// Payload in flight when it was sent, itself included.
    pub sent_in_flight: Bytes,
    /// Payload deemed lost since it was sent, itself included.
    pub lost: Bytes,
    /// Whether the application limited the sender when it was sent.
    pub app_limited: bool,
}

/// The reason for a reduction of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Acknowledgements revealed a loss.
    Loss,
    /// The receiver echoed a mark (RFC 3168).
    Mark,
}

/// The congestion controller of a sender.
pub trait CongestionControl {
    /// The round-trip time of the handshake, from the answered segment to the answer.
    fn on_handshake(&mut self, _now: Time, _rtt: Span) {}

    /// Handles payload that was sent or retransmitted.
    fn on_sent(&mut self, sent: &Sent);

    /// Handles an acknowledgement, also during recovery.
    fn on_ack(&mut self, ack: &AckSample);

    /// Handles a segment that was deemed lost, by any means of detection.
    fn on_lost(&mut self, _lost: &LostSegment) {}

    /// Begins a reduction: fast recovery, or the response to a mark. It ends with `exit_recovery`,
    /// `undo` or `on_timeout`. A loss within the response to a mark begins no second reduction.
    /// `in_flight` is the payload in flight before this acknowledgement.
    fn enter_recovery(&mut self, now: Time, cause: Cause, in_flight: Bytes);

    /// Ends recovery: everything that was outstanding at its start has been acknowledged. Also
    /// called for recovery after a timeout.
    fn exit_recovery(&mut self, now: Time);

    /// Handles the expiry of the retransmission timer: everything in flight is deemed lost.
    /// `in_flight` is the payload in flight before.
    fn on_timeout(&mut self, now: Time, in_flight: Bytes);

    /// Undoes the last reduction, which was spurious: there was no loss (DSACK, F-RTO).
    fn undo(&mut self, now: Time);

    /// Handles the end of an idle time: sending resumes with nothing in flight, `idle` after the
    /// last transmission. Called before the window is read.
    fn on_restart(&mut self, _now: Time, _idle: Span, _rto: Span) {}

    /// The congestion window in bytes.
    fn cwnd(&self) -> Bytes;

    /// Slow-start threshold; `Bytes::MAX` if there is none yet.
    fn ssthresh(&self) -> Bytes;

    /// Pacing rate of segments; `None`: as fast as the window allows.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        None
    }

    /// Maximum burst of a paced sender, in bytes of payload.
    fn send_quantum(&self) -> Bytes {
        Bytes::MAX
    }
}
