//! Congestion control: what an endpoint tells, and what it asks.
//!
//! For each acknowledgement the endpoint updates its scoreboard, then calls in this order
//! [`on_lost`](CongestionControl::on_lost) for every segment newly deemed lost,
//! [`enter_recovery`](CongestionControl::enter_recovery),
//! [`undo`](CongestionControl::undo) or [`exit_recovery`](CongestionControl::exit_recovery) where
//! the state changes, and last [`on_ack`](CongestionControl::on_ack). It may send while
//! `in flight + length <= cwnd`. Proportional rate reduction is part of the control: the window
//! that it shows in recovery already follows it.

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

/// What a connection's congestion control starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Largest payload of a segment, in bytes.
    pub mss: u32,
    /// Initial window, in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Seeds what a control draws (the phase in which BBR starts to probe).
    pub seed: u64,
    /// HyStart++ (RFC 9406) in the first slow start of Reno; CUBIC has it anyway.
    pub hystart: bool,
    /// Alternative backoff with ECN (RFC 8511): Reno and CUBIC reduce less upon a mark than upon a
    /// loss.
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
    /// When.
    pub now: Time,
    /// Payload of the segment.
    pub length: Bytes,
    /// Payload in flight with this segment.
    pub in_flight: Bytes,
}

/// What one acknowledgement told.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it came.
    pub now: Time,
    /// How far it moved the cumulative acknowledgement.
    pub acked: Bytes,
    /// Payload newly delivered: acknowledged, cumulatively or selectively, for the first time.
    pub delivered: Bytes,
    /// Payload newly deemed lost.
    pub lost: Bytes,
    /// Round-trip time of a segment that was sent once; `None` where there is none.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time (RFC 6298), this sample included.
    pub srtt: Option<Span>,
    /// Payload in flight before the acknowledgement came.
    pub prior_in_flight: Bytes,
    /// Payload in flight now (RFC 6675's pipe: neither delivered nor deemed lost).
    pub in_flight: Bytes,
    /// Whether it echoes a mark of congestion (ECE).
    pub echoes_mark: bool,
    /// Delivery rate; `None` when nothing was newly delivered.
    pub rate: Option<RateSample>,
}

/// A segment newly deemed lost.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// When it was found out.
    pub now: Time,
    /// Its payload.
    pub length: Bytes,
    /// Payload in flight when it was sent, itself included.
    pub sent_in_flight: Bytes,
    /// Payload deemed lost since it was sent, itself included.
    pub lost: Bytes,
    /// Whether the application limited the sender when it was sent.
    pub app_limited: bool,
}

/// Why a sender slows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A loss was found by acknowledgements.
    Loss,
    /// The receiver echoed a mark (RFC 3168).
    Mark,
}

/// How a sender adapts to the path.
pub trait CongestionControl {
    /// The handshake took this long, from the segment that was answered to the answer.
    fn on_handshake(&mut self, _now: Time, _rtt: Span) {}

    /// Payload was sent, new or again.
    fn on_sent(&mut self, sent: &Sent);

    /// An acknowledgement came, during recovery too.
    fn on_ack(&mut self, ack: &AckSample);

    /// A segment was deemed lost, whatever the means.
    fn on_lost(&mut self, _lost: &LostSegment) {}

    /// A window of reduction begins: fast recovery, or the response to a mark. It ends with
    /// `exit_recovery`, `undo` or `on_timeout`. A loss within the response to a mark begins no
    /// second reduction. `in_flight` is what was in flight before this acknowledgement.
    fn enter_recovery(&mut self, now: Time, cause: Cause, in_flight: Bytes);

    /// Everything that was outstanding when recovery (also that after a timeout) began has been
    /// acknowledged.
    fn exit_recovery(&mut self, now: Time);

    /// The retransmission timer ran out, and everything in flight is deemed lost. `in_flight` is
    /// what was in flight before.
    fn on_timeout(&mut self, now: Time, in_flight: Bytes);

    /// The last reduction was in error: its losses were none (DSACK, F-RTO).
    fn undo(&mut self, now: Time);

    /// Sending is about to resume with nothing in flight, `idle` after the last transmission.
    /// Called before the window is asked for.
    fn on_restart(&mut self, _now: Time, _idle: Span, _rto: Span) {}

    /// Congestion window.
    fn cwnd(&self) -> Bytes;

    /// Slow-start threshold; `Bytes::MAX` before there is one.
    fn ssthresh(&self) -> Bytes;

    /// Rate at which to space segments; `None`: as fast as the window allows.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        None
    }

    /// Payload that a paced sender may send back to back.
    fn send_quantum(&self) -> Bytes {
        Bytes::MAX
    }
}

/// The names of the controls that there are.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Reno, Self::Cubic, Self::Bbr, Self::Bbr3];

    /// As the lab file and the kernel write it.
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

/// A control of any kind, without indirection for those that most flows use.
#[derive(Clone, Debug)]
pub enum Controller {
    /// Reno.
    Reno(Reno),
    /// CUBIC.
    Cubic(Cubic),
    /// BBR.
    Bbr(Box<Bbr>),
    /// BBRv3.
    Bbr3(Box<Bbr3>),
}

impl Controller {
    /// The control called `control` for a new connection.
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
    /// Whether it is of a kind that is packed: BBR's model and dice are not.
    pub(super) const fn is_packable(&self) -> bool {
        matches!(self, Self::Reno(_) | Self::Cubic(_))
    }
}

/// For those that are packable.
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

/// Calls a method of whichever control there is.
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
