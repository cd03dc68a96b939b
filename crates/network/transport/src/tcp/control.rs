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
mod cubic;
mod hystart;
mod model;
mod rate;
mod reno;
#[cfg(test)]
mod tests;
mod window;

use std::fmt;
use std::str::FromStr;

use base::{Bandwidth, Bytes, Span, Time};

use super::packed::{Packed, Packer, Unpacker, packed_choice};
use crate::Error;

pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use cubic::Cubic;
pub use rate::{DeliveryRate, RateSample, SentMark};
pub use reno::Reno;

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
    /// Whether it echoes a mark of congestion (ECE).
    pub echoes_mark: bool,
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

/// The names of the controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Control {
    /// RFC 5681 with RFC 6582's and 6675's recovery, and RFC 9937's rate reduction.
    Reno,
    /// RFC 9438 with RFC 9406's slow start.
    #[default]
    Cubic,
    /// BBR, version 1 (ACM Queue 14(5), draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
}

packed_choice!(Control { Reno, Cubic, Bbr, Bbr3 });

impl Control {
    /// All congestion controllers.
    pub const ALL: [Self; 4] = [Self::Reno, Self::Cubic, Self::Bbr, Self::Bbr3];

    /// The name in lab files and in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Control {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|control| control.name() == text);
        known.ok_or_else(|| Error::UnknownControl { name: text.to_owned() })
    }
}

/// A controller of any kind; the most common ones need no indirection.
#[derive(Clone, Debug)]
pub enum Controller {
    /// Reno with proportional rate reduction.
    Reno(Reno),
    /// CUBIC with the slow start of RFC 9406.
    Cubic(Cubic),
    /// BBR in version 1.
    Bbr(Box<Bbr>),
    /// BBR in version 3.
    Bbr3(Box<Bbr3>),
}

impl Controller {
    /// The controller called `control` for a new connection.
    pub fn new(control: Control, setup: &Setup) -> Self {
        match control {
            Control::Reno => Self::Reno(Reno::new(setup)),
            Control::Cubic => Self::Cubic(Cubic::new(setup)),
            Control::Bbr => Self::Bbr(Box::new(Bbr::new(setup))),
            Control::Bbr3 => Self::Bbr3(Box::new(Bbr3::new(setup))),
        }
    }
}

impl Controller {
    /// Whether it can be packed: BBR's model and RNG cannot.
    pub(super) const fn is_packable(&self) -> bool {
        matches!(self, Self::Reno(_) | Self::Cubic(_))
    }
}

/// For controllers that can be packed.
impl Packed for Controller {
    fn pack(&self, to: &mut Packer) {
        matches!(self, Self::Cubic(_)).pack(to);
        match self {
            Self::Reno(reno) => reno.pack(to),
            Self::Cubic(cubic) => cubic.pack(to),
            Self::Bbr(_) | Self::Bbr3(_) => {}
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        if bool::unpack(from) {
            Self::Cubic(Cubic::unpack(from))
        } else {
            Self::Reno(Reno::unpack(from))
        }
    }
}

/// Calls a method of the controller.
macro_rules! law {
    ($self:ident, $law:ident => $call:expr) => {
        match $self {
            Controller::Reno($law) => $call,
            Controller::Cubic($law) => $call,
            Controller::Bbr($law) => $call,
            Controller::Bbr3($law) => $call,
        }
    };
}

impl CongestionControl for Controller {
    fn on_handshake(&mut self, now: Time, rtt: Span) {
        law!(self, law => law.on_handshake(now, rtt));
    }

    fn on_sent(&mut self, sent: &Sent) {
        law!(self, law => law.on_sent(sent));
    }

    fn on_ack(&mut self, ack: &AckSample) {
        law!(self, law => law.on_ack(ack));
    }

    fn on_lost(&mut self, lost: &LostSegment) {
        law!(self, law => law.on_lost(lost));
    }

    fn enter_recovery(&mut self, now: Time, cause: Cause, in_flight: Bytes) {
        law!(self, law => law.enter_recovery(now, cause, in_flight));
    }

    fn exit_recovery(&mut self, now: Time) {
        law!(self, law => law.exit_recovery(now));
    }

    fn on_timeout(&mut self, now: Time, in_flight: Bytes) {
        law!(self, law => law.on_timeout(now, in_flight));
    }

    fn undo(&mut self, now: Time) {
        law!(self, law => law.undo(now));
    }

    fn on_restart(&mut self, now: Time, idle: Span, rto: Span) {
        law!(self, law => law.on_restart(now, idle, rto));
    }

    fn cwnd(&self) -> Bytes {
        law!(self, law => law.cwnd())
    }

    fn ssthresh(&self) -> Bytes {
        law!(self, law => law.ssthresh())
    }

    fn pacing_rate(&self) -> Option<Bandwidth> {
        law!(self, law => law.pacing_rate())
    }

    fn send_quantum(&self) -> Bytes {
        law!(self, law => law.send_quantum())
    }
}
