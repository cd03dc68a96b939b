//! Congestion controllers by name.

use std::fmt;
use std::str::FromStr;

use base::{Bandwidth, Bytes, Span, Time};

use super::{
    AckSample, Bbr, Bbr3, Cause, CongestionControl, Cubic, LostSegment, Reno, Scalable, Sent, Setup,
};
use crate::Error;
use crate::tcp::packed::{Packed, Packer, Unpacker, packed_choice};

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
    /// Data center TCP (RFC 8257).
    Dctcp,
    /// Prague, for L4S (draft-briscoe-iccrg-prague-congestion-control).
    Prague,
}

packed_choice!(Control { Reno, Cubic, Bbr, Bbr3, Dctcp, Prague });

impl Control {
    /// All congestion controllers.
    pub const ALL: [Self; 6] =
        [Self::Reno, Self::Cubic, Self::Bbr, Self::Bbr3, Self::Dctcp, Self::Prague];

    /// The name in lab files and in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Dctcp => "dctcp",
            Self::Prague => "prague",
        }
    }

    /// Whether it responds to the share of marked packets: it needs ECN with accurate feedback.
    pub const fn is_scalable(self) -> bool {
        matches!(self, Self::Dctcp | Self::Prague)
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
    /// DCTCP or Prague.
    Scalable(Box<Scalable>),
}

impl Controller {
    /// The controller called `control` for a new connection.
    pub fn new(control: Control, setup: &Setup) -> Self {
        match control {
            Control::Reno => Self::Reno(Reno::new(setup)),
            Control::Cubic => Self::Cubic(Cubic::new(setup)),
            Control::Bbr => Self::Bbr(Box::new(Bbr::new(setup))),
            Control::Bbr3 => Self::Bbr3(Box::new(Bbr3::new(setup))),
            Control::Dctcp => Self::Scalable(Box::new(Scalable::dctcp(setup))),
            Control::Prague => Self::Scalable(Box::new(Scalable::prague(setup))),
        }
    }
}

impl Controller {
    /// Whether it can be packed: BBR's model and RNG cannot.
    pub(in crate::tcp) const fn is_packable(&self) -> bool {
        matches!(self, Self::Reno(_) | Self::Cubic(_) | Self::Scalable(_))
    }
}

/// For controllers that can be packed.
impl Packed for Controller {
    fn pack(&self, to: &mut Packer) {
        let kind = match self {
            Self::Cubic(_) => 1,
            Self::Scalable(_) => 2,
            _ => 0,
        };
        to.number(kind);
        match self {
            Self::Reno(reno) => reno.pack(to),
            Self::Cubic(cubic) => cubic.pack(to),
            Self::Scalable(scalable) => scalable.pack(to),
            Self::Bbr(_) | Self::Bbr3(_) => {}
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        match from.number() {
            0 => Self::Reno(Reno::unpack(from)),
            1 => Self::Cubic(Cubic::unpack(from)),
            _ => Self::Scalable(Box::new(Scalable::unpack(from))),
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
            Controller::Scalable($law) => $call,
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
