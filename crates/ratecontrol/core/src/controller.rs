//! The interface between protocols and the drivers that transport their packets.

use std::fmt::Debug;

use base::{Bandwidth, Bytes, Span, Time};

use crate::{Result, Settings};

/// A session: traffic of one source to one destination over one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// Which end of its session's path a packet travels to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Towards {
    /// Downstream, towards the session's destination.
    Destination,
    /// Upstream, towards the session's source.
    Source,
}

/// A packet's visit to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The packet's session.
    pub session: SessionId,
    /// Index of the link in the session's path, from 0.
    pub hop: u8,
    /// Direction of the packet.
    pub towards: Towards,
}

/// Result of a packet's visit to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet travels on.
    Forward,
    /// The packet ends here.
    Absorb,
}

/// A packet sent by a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending<P> {
    /// The packet's session.
    pub session: SessionId,
    /// Index in the session's path of the sending link; 0 for sources, the number of links for
    /// destinations. Downstream the packet next crosses this link, without a further visit to it;
    /// upstream it crosses the previous link, in the opposite direction.
    pub hop: u8,
    /// Direction of the packet.
    pub towards: Towards,
    /// The packet to send.
    pub packet: P,
}

/// Outputs of a state machine. The driver empties it after each call.
#[derive(Clone, Debug)]
pub struct Outbox<P> {
    /// Packets to send, in order. Packets that sources send downstream visit link 0 first.
    pub sends: Vec<Sending<P>>,
    /// `API.Rate`: from now on the session sends at this rate.
    pub rate: Option<Bandwidth>,
    /// New deadline of the source's only timer.
    pub wake: Option<Time>,
    /// Whether the session has left: none of its packets will be sent any more.
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

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.rate.is_none() && self.wake.is_none() && !self.gone
    }
}

/// Measurement of all traffic at a link, data and control, for protocols that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Time since the last measurement.
    pub interval: Span,
    /// Bytes that arrived for the link in the interval.
    pub arrived: Bytes,
    /// Bytes queued for the link now.
    pub backlog: Bytes,
}

/// Size of a protocol's state at a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Number of values that the protocol stores and changes at the link, without constants
    /// (capacity, timer periods).
    pub numbers: u64,
    /// Their size in memory in bytes, including all allocations of tables.
    pub bytes: u64,
}

/// A rate control protocol.
pub trait RateController: Sized + 'static {
    /// Content of its control packets.
    type Packet: Copy + Debug + 'static;
    /// State machine at a session's source.
    type Source: Source<Self::Packet>;
    /// State machine at one direction of a link.
    type Link: Link<Self::Packet>;

    /// The protocol with these settings.
    ///
    /// # Errors
    /// As [`Settings::check`].
    fn try_new(settings: &Settings) -> Result<Self>;

    /// The source of a session whose path has `hops` links. It sends nothing before it joins.
    ///
    /// # Errors
    /// [`crate::Error::Path`] if packets cannot describe so many links.
    fn source(&self, session: SessionId, hops: u8) -> Result<Self::Source>;

    /// One direction of a link.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] if sums could overflow, or the capacity is 0.
    fn link(&self, capacity: Bandwidth) -> Result<Self::Link>;

    /// The answer of a session's destination, which is stateless; `None` for packets
    /// that end there.
    fn answer(packet: Self::Packet) -> Option<Self::Packet> {
        Some(packet)
    }

    /// Interval at which links measure their traffic; `None` for protocols that use
    /// only control packets.
    fn interval(&self) -> Option<Span> {
        None
    }
}

/// Source of a session. The four calls of the SLBN paper's API are [`Source::join`],
/// [`Source::leave`], [`Source::change`] and, in the other direction, [`Outbox::rate`].
pub trait Source<P> {
    /// `API.Join`: the session starts with `demand`. This is the first call, and is made only once.
    ///
    /// # Errors
    /// [`crate::Error::Demand`] if the demand is 0; then nothing has changed.
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<P>) -> Result<()>;

    /// `API.Change`: sets another demand.
    ///
    /// # Errors
    /// As [`Source::join`].
    fn change(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<P>) -> Result<()>;

    /// `API.Leave`: the session ends. The source stays until [`Outbox::gone`].
    fn leave(&mut self, now: Time, out: &mut Outbox<P>);

    /// Processes a returned packet.
    fn receive(&mut self, now: Time, packet: P, out: &mut Outbox<P>);

    /// Handles the deadline from [`Outbox::wake`].
    fn on_wake(&mut self, now: Time, out: &mut Outbox<P>);

    /// The assigned rate, if there is one.
    fn rate(&self) -> Option<Bandwidth>;
}

/// The sending end of one direction of a link.
pub trait Link<P> {
    /// Processes a passing packet, which may be changed.
    fn visit(&mut self, now: Time, visit: Visit, packet: &mut P, out: &mut Outbox<P>) -> Fate;

    /// Processes a measurement of the link since the last call, every [`RateController::interval`].
    fn measure(&mut self, now: Time, measured: &Measured) {
        let _ = (now, measured);
    }

    /// Changes the link's capacity.
    ///
    /// # Errors
    /// As [`RateController::link`]; then the capacity does not change.
    fn set_capacity(&mut self, now: Time, capacity: Bandwidth, out: &mut Outbox<P>) -> Result<()>;

    /// Size of its state.
    fn state(&self) -> State;
}
