//! The seam between protocols and whoever moves their packets.

use std::fmt::Debug;

use base::{Bandwidth, Bytes, Span, Time};

use crate::{Result, Settings};

/// A session: traffic of one source to one destination over one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// Which end of its session's path a packet travels to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Towards {
    /// Downstream.
    Destination,
    /// Upstream.
    Source,
}

/// A packet's visit to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Whose packet it is.
    pub session: SessionId,
    /// The link's place in the session's path, from 0.
    pub hop: u8,
    /// Where the packet goes.
    pub towards: Towards,
}

/// What becomes of a packet that has visited a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It travels on.
    Forward,
    /// It ends here.
    Absorb,
}

/// A packet that a machine sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending<P> {
    /// Whose packet it is.
    pub session: SessionId,
    /// The place in the session's path of the link that sends it; 0 from sources. Destinations
    /// give the number of links. Downstream the packet next crosses this link (the machine that
    /// sends it has had its say), upstream the one before it, in the opposite direction.
    pub hop: u8,
    /// Where it goes.
    pub towards: Towards,
    /// The packet.
    pub packet: P,
}

/// What a machine wants done. The driver empties it after each call.
#[derive(Clone, Debug)]
pub struct Outbox<P> {
    /// Packets to send, in order. What sources send downstream visits link 0 first.
    pub sends: Vec<Sending<P>>,
    /// `API.Rate`: from now on the session sends at this rate.
    pub rate: Option<Bandwidth>,
    /// The source's one timer, set anew.
    pub wake: Option<Time>,
    /// Whether the session has left for good: nothing of it will be sent any more.
    pub gone: bool,
}

impl<P> Default for Outbox<P> {
    fn default() -> Self {
        Self { sends: Vec::new(), rate: None, wake: None, gone: false }
    }
}

impl<P> Outbox<P> {
    /// Sends a packet.
    pub fn send(&mut self, session: SessionId, hop: u8, towards: Towards, packet: P) {
        self.sends.push(Sending { session, hop, towards, packet });
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.rate.is_none() && self.wake.is_none() && !self.gone
    }
}

/// What a link saw of all traffic, data and control, for protocols that look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Time since the last measurement.
    pub interval: Span,
    /// Bytes that arrived for the link meanwhile.
    pub arrived: Bytes,
    /// Bytes that wait for the transmitter now.
    pub backlog: Bytes,
}

/// What a link holds for a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Numbers that the protocol keeps at the link and changes, constants (capacity, timers'
    /// periods) not counted.
    pub numbers: u64,
    /// Bytes in memory that they take, tables with all that they allocated included.
    pub bytes: u64,
}

/// A rate control protocol.
pub trait RateController: Sized + 'static {
    /// What its control packets carry.
    type Packet: Copy + Debug + 'static;
    /// Its source.
    type Source: Source<Self::Packet>;
    /// Its link.
    type Link: Link<Self::Packet>;
    /// Its destination.
    type Destination: Destination<Self::Packet>;

    /// The protocol with these settings.
    ///
    /// # Errors
    /// As [`Settings::check`].
    fn try_new(settings: &Settings) -> Result<Self>;

    /// The source of a session whose path has `hops` links. Nothing is sent before it joins.
    ///
    /// # Errors
    /// [`crate::Error::Path`] if packets can't describe so many links.
    fn source(&self, session: SessionId, hops: u8) -> Result<Self::Source>;

    /// One direction of a link.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] if sums could overflow, or it is 0.
    fn link(&self, capacity: Bandwidth) -> Result<Self::Link>;

    /// The destination of a session whose path has `hops` links.
    fn destination(&self, session: SessionId, hops: u8) -> Self::Destination;

    /// How often links are to be told what they carry; `None` for protocols that look at control
    /// packets alone.
    fn interval(&self) -> Option<Span> {
        None
    }
}

/// Where a session starts. The four calls of the SLBN paper's API are [`Source::join`],
/// [`Source::leave`], [`Source::change`] and, the other way, [`Outbox::rate`].
pub trait Source<P> {
    /// `API.Join`: the session starts and wants `demand`. Called once, first.
    ///
    /// # Errors
    /// [`crate::Error::Demand`] if it wants nothing; nothing has happened then.
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<P>) -> Result<()>;

    /// `API.Change`: it wants another rate.
    ///
    /// # Errors
    /// As [`Source::join`].
    fn change(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<P>) -> Result<()>;

    /// `API.Leave`: it ends. The source stays until [`Outbox::gone`].
    fn leave(&mut self, now: Time, out: &mut Outbox<P>);

    /// A packet has come back.
    fn receive(&mut self, now: Time, packet: P, out: &mut Outbox<P>);

    /// The time that it asked for with [`Outbox::wake`] has come.
    fn on_wake(&mut self, now: Time, out: &mut Outbox<P>);

    /// The assigned rate, once there is one.
    fn rate(&self) -> Option<Bandwidth>;
}

/// The sending end of one direction of a link.
pub trait Link<P> {
    /// A packet passes. It may be changed.
    fn visit(&mut self, now: Time, visit: Visit, packet: &mut P, out: &mut Outbox<P>) -> Fate;

    /// What the link carried since it was last told, every [`RateController::interval`].
    fn measure(&mut self, now: Time, measured: &Measured) {
        let _ = (now, measured);
    }

    /// The link's capacity changes.
    ///
    /// # Errors
    /// As [`RateController::link`]; the capacity stays then.
    fn set_capacity(&mut self, now: Time, capacity: Bandwidth, out: &mut Outbox<P>) -> Result<()>;

    /// What it holds.
    fn state(&self) -> State;
}

/// Where a session ends.
pub trait Destination<P> {
    /// A packet has arrived.
    fn receive(&mut self, now: Time, packet: P, out: &mut Outbox<P>);
}
