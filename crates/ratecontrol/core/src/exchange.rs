//! An ideal network for control packets only: each crossing of a link takes a fixed time, there are
//! no queues, and no losses unless configured.
//!
//! [`Exchange`] runs the state machines of any [`RateController`]. It is used to test protocols, to
//! compare them with the oracle ([`Exchange::fair_rates`]), and by callers that need rates but have
//! no packets to transport.
//!
//! **Order.** Events are processed in the order of time, then of scheduling: runs with equal calls
//! are equal. Commands for the same time are executed in the order of the calls.
//!
//! **Data.** No data packets are sent. For protocols that measure links
//! ([`RateController::interval`]), each session is a fluid at its assigned rate: a link's load is
//! the integral of the rates of its sessions, and its queue grows by the excess over its capacity.

mod faults;
mod fluid;
mod queue;
#[cfg(test)]
mod tests;

use base::{Bandwidth, RandomStream, Ratio, Span, Time};

use crate::{
    Error, Fate, Link as _, Outbox, RateController, Result, SessionId, Settings, Source as _,
    Towards, Visit, bounds,
};
use fluid::Fluid;
use queue::Queue;

/// One direction of a link for control packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Capacity that the protocol shares.
    pub capacity: Bandwidth,
    /// Delay of downstream packets.
    pub delay: Span,
    /// Delay of returning packets, in the opposite direction.
    pub back: Span,
}

impl Wire {
    /// A link with the same delay in both directions.
    pub const fn new(capacity: Bandwidth, delay: Span) -> Self {
        Self { capacity, delay, back: delay }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that state machines sent.
    pub packets: u64,
    /// Crossings of links, in both directions.
    pub crossings: u64,
    /// Packets that returned to sources.
    pub cycles: u64,
    /// Packets lost on links.
    pub lost: u64,
}

struct Place<L> {
    machine: L,
    wire: Wire,
    up: bool,
    /// Number of outages: packets in flight during an outage do not arrive.
    outages: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Scheduled,
    Present,
    Leaving,
    Gone,
}

struct Session<S> {
    source: S,
    first: u32,
    hops: u8,
    stage: Stage,
    demand: Bandwidth,
    rate: Option<Bandwidth>,
    wake: Option<Time>,
    cycles: u64,
    joins: Time,
    leaves: Option<Time>,
}

#[derive(Clone, Copy)]
enum Event<P> {
    Join(u32),
    Change(u32, Bandwidth),
    Leave(u32),
    Wake(u32),
    /// It crossed a link that had `outages` outages when it entered.
    Crossed {
        session: u32,
        hop: u8,
        towards: Towards,
        outages: u32,
        packet: P,
    },
    /// It was sent by a link at the source's own node.
    Returned(u32, P),
}

/// The network, its sessions, and the state machines of a protocol.
pub struct Exchange<R: RateController> {
    protocol: R,
    now: Time,
    queue: Queue<Event<R::Packet>>,
    links: Vec<Place<R::Link>>,
    sessions: Vec<Session<R::Source>>,
    paths: Vec<u32>,
    outbox: Outbox<R::Packet>,
    fluid: Option<Fluid>,
    loss: Option<(Ratio, RandomStream)>,
    counters: Counters,
}

impl<R: RateController> Exchange<R> {
    /// A network of these unidirectional links, numbered from 0.
    ///
    /// # Errors
    /// As [`Settings::check`] and [`RateController::link`].
    pub fn try_new(settings: &Settings, wires: &[Wire]) -> Result<Self> {
        let protocol = R::try_new(settings)?;
        let links = wires
            .iter()
            .map(|wire| {
                let machine = protocol.link(wire.capacity)?;
                Ok(Place { machine, wire: *wire, up: true, outages: 0 })
            })
            .collect::<Result<Vec<_>>>()?;
        let fluid = protocol.interval().map(|interval| Fluid::new(interval, links.len()));
        Ok(Self {
            protocol,
            now: Time::ZERO,
            queue: Queue::new(),
            links,
            sessions: Vec::new(),
            paths: Vec::new(),
            outbox: Outbox::default(),
            fluid,
            loss: None,
            counters: Counters::default(),
        })
    }

    /// From now on each crossing of a link loses the packet with this probability.
    pub fn lose(&mut self, probability: Ratio, seed: u64) {
        self.loss = Some((probability, RandomStream::new(seed, "exchange/loss")));
    }

    /// Adds a session that joins at `at` (now if that is in the past) with `demand`.
    ///
    /// # Errors
    /// [`Error::Path`] for a path that is empty or too long, [`Error::NoSuchLink`],
    /// [`Error::Loop`], [`Error::Demand`]. The session then does not exist.
    pub fn join(&mut self, at: Time, path: &[u32], demand: Bandwidth) -> Result<SessionId> {
        bounds::demand(demand)?;
        let hops = self.check_path(path)?;
        let id = SessionId(self.sessions.len() as u32);
        let source = self.protocol.source(id, hops)?;
        let at = at.max(self.now);
        self.sessions.push(Session {
            source,
            first: self.paths.len() as u32,
            hops,
            stage: Stage::Scheduled,
            demand,
            rate: None,
            wake: None,
            cycles: 0,
            joins: at,
            leaves: None,
        });
        self.paths.extend_from_slice(path);
        self.queue.push(at, Event::Join(id.0));
        Ok(id)
    }

    /// Changes the demand of the session at `at`.
    ///
    /// # Errors
    /// [`Error::Demand`], and [`Error::Session`] if it is unknown or not present at that time.
    pub fn change(&mut self, at: Time, session: SessionId, demand: Bandwidth) -> Result<()> {
        bounds::demand(demand)?;
        let at = self.check_present(at, session)?;
        self.queue.push(at, Event::Change(session.0, demand));
        Ok(())
    }

    /// Ends the session at `at`.
    ///
    /// # Errors
    /// [`Error::Session`] if it is unknown or not present at that time.
    pub fn leave(&mut self, at: Time, session: SessionId) -> Result<()> {
        let at = self.check_present(at, session)?;
        self.sessions[session.0 as usize].leaves = Some(at);
        self.queue.push(at, Event::Leave(session.0));
        Ok(())
    }

    /// Changes a link's capacity now.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Capacity`]; then nothing has changed.
    pub fn set_capacity(&mut self, link: u32, capacity: Bandwidth) -> Result<()> {
        let place = self.links.get_mut(link as usize).ok_or(Error::NoSuchLink { link })?;
        let old = place.wire.capacity;
        let mut out = std::mem::take(&mut self.outbox);
        let done = place.machine.set_capacity(self.now, capacity, &mut out);
        if done.is_ok() {
            place.wire.capacity = capacity;
            if let Some(fluid) = &mut self.fluid {
                fluid.advance_link(link, self.now, old);
            }
            self.emit(&mut out);
        }
        self.outbox = out;
        done
    }

    /// Takes a link down or up now. When it goes down, packets on it in both directions are lost,
    /// and so are packets that arrive while it is down.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`].
    pub fn set_up(&mut self, link: u32, up: bool) -> Result<()> {
        let place = self.links.get_mut(link as usize).ok_or(Error::NoSuchLink { link })?;
        if place.up && !up {
            place.outages += 1;
        }
        place.up = up;
        Ok(())
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The session's assigned rate; `None` before the first one and after it left.
    pub fn rate(&self, session: SessionId) -> Option<Bandwidth> {
        self.sessions.get(session.0 as usize).and_then(|session| session.rate)
    }

    /// Number of packets that returned to the session's source.
    pub fn cycles(&self, session: SessionId) -> u64 {
        self.sessions.get(session.0 as usize).map_or(0, |session| session.cycles)
    }

    /// Whether the session's source has reported its end.
    pub fn is_gone(&self, session: SessionId) -> bool {
        self.sessions.get(session.0 as usize).is_some_and(|session| session.stage == Stage::Gone)
    }

    /// The sessions that have joined and not left, in the order of their numbers.
    pub fn present(&self) -> impl Iterator<Item = SessionId> {
        let present = |session: &Session<_>| session.stage == Stage::Present;
        let all = self.sessions.iter().enumerate();
        all.filter(move |(_, session)| present(session)).map(|(id, _)| SessionId(id as u32))
    }

    /// A link's state machine, for inspection.
    pub fn link(&self, link: u32) -> Option<&R::Link> {
        self.links.get(link as usize).map(|place| &place.machine)
    }

    /// Number of links.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// The oracle's rates for the present sessions in bit/s.
    pub fn fair_rates(&self) -> Vec<(SessionId, f64)> {
        let capacity = |place: &Place<_>| {
            if place.up { place.wire.capacity.bits_per_sec() as f64 } else { 0.0 }
        };
        let present: Vec<SessionId> = self.present().collect();
        let flows = present.iter().map(|id| {
            let session = &self.sessions[id.0 as usize];
            let path = self.path(session).to_vec();
            sharing::Demand { path, weight: 1.0, cap: session.demand.bits_per_sec() as f64 }
        });
        let problem = sharing::Problem {
            capacities: self.links.iter().map(capacity).collect(),
            flows: flows.collect(),
        };
        present.into_iter().zip(problem.solve()).collect()
    }

    /// Whether no events are left, except measurements.
    pub fn is_quiet(&self) -> bool {
        self.queue.peek().is_none()
    }

    /// Runs until `until`.
    ///
    /// # Errors
    /// The error of a state machine at a scheduled time.
    pub fn run_until(&mut self, until: Time) -> Result<()> {
        while self.next_cycle(until)?.is_some() {}
        Ok(())
    }

    /// Runs until a packet has returned to a source, at most until `until`; returns its session.
    ///
    /// # Errors
    /// As [`Exchange::run_until`].
    pub fn next_cycle(&mut self, until: Time) -> Result<Option<SessionId>> {
        loop {
            let next = self.queue.peek().unwrap_or(Time::MAX);
            if self.measure_before(next.min(until)) {
                continue;
            }
            if next > until || self.queue.peek().is_none() {
                self.now = self.now.max(until);
                return Ok(None);
            }
            self.now = next;
            if let Some(session) = self.happen()? {
                return Ok(Some(SessionId(session)));
            }
        }
    }

    /// Passes measurements to the links if they are due by `until`.
    fn measure_before(&mut self, until: Time) -> bool {
        let Some(fluid) = self.fluid.as_mut().filter(|fluid| fluid.due() <= until) else {
            return false;
        };
        self.now = fluid.due();
        for (link, place) in self.links.iter_mut().enumerate() {
            let measured = fluid.measure(link as u32, self.now, place.wire.capacity);
            place.machine.measure(self.now, &measured);
        }
        fluid.measured();
        true
    }

    /// Processes the next event; returns the session whose source received a packet.
    fn happen(&mut self) -> Result<Option<u32>> {
        let Some(event) = self.queue.pop() else { return Ok(None) };
        match event {
            Event::Join(session) => {
                let demand = self.sessions[session as usize].demand;
                self.sessions[session as usize].stage = Stage::Present;
                self.tell(session, |source, now, out| source.join(now, demand, out))?;
            }
            Event::Change(session, _) | Event::Leave(session)
                if self.sessions[session as usize].stage == Stage::Gone => {}
            Event::Change(session, demand) => {
                self.tell(session, |source, now, out| source.change(now, demand, out))?;
                self.sessions[session as usize].demand = demand;
            }
            Event::Leave(session) => {
                self.sessions[session as usize].stage = Stage::Leaving;
                self.assign(session, None);
                self.tell(session, |source, now, out| {
                    source.leave(now, out);
                    Ok(())
                })?;
            }
            Event::Wake(session) => {
                let known = &mut self.sessions[session as usize];
                if known.wake == Some(self.now) {
                    known.wake = None;
                    self.tell(session, |source, now, out| {
                        source.on_wake(now, out);
                        Ok(())
                    })?;
                }
            }
            Event::Crossed { session, hop, towards, outages, packet } => {
                let visit = Visit { session: SessionId(session), hop, towards };
                return self.crossed(visit, outages, packet);
            }
            Event::Returned(session, packet) => return self.returned(session, packet),
        }
        Ok(None)
    }

    fn crossed(&mut self, visit: Visit, outages: u32, packet: R::Packet) -> Result<Option<u32>> {
        let session = &self.sessions[visit.session.0 as usize];
        let crossed = match visit.towards {
            Towards::Destination => visit.hop - 1,
            Towards::Source => visit.hop,
        };
        let link = &self.links[self.paths[session.first as usize + crossed as usize] as usize];
        if link.outages != outages {
            self.counters.lost += 1;
            return Ok(None);
        }
        if visit.hop == self.sessions[visit.session.0 as usize].hops {
            let mut out = std::mem::take(&mut self.outbox);
            if let Some(answer) = R::answer(packet) {
                out.send(visit.session, visit.hop, Towards::Source, answer);
            }
            self.emit(&mut out);
            self.outbox = out;
            return Ok(None);
        }
        self.visit(visit, packet)
    }

    /// Handles a packet at the node where a link of its path starts.
    fn visit(&mut self, visit: Visit, mut packet: R::Packet) -> Result<Option<u32>> {
        let session = &self.sessions[visit.session.0 as usize];
        let link = self.paths[session.first as usize + visit.hop as usize];
        let mut out = std::mem::take(&mut self.outbox);
        let machine = &mut self.links[link as usize].machine;
        let fate = machine.visit(self.now, visit, &mut packet, &mut out);
        self.emit(&mut out);
        self.outbox = out;
        match (fate, visit.towards) {
            (Fate::Absorb, _) => {}
            (Fate::Forward, Towards::Source) if visit.hop == 0 => {
                return self.returned(visit.session.0, packet);
            }
            (Fate::Forward, _) => self.cross(visit, packet),
        }
        Ok(None)
    }

    /// Sends a packet from the node where link `hop` starts over its next link.
    fn cross(&mut self, from: Visit, packet: R::Packet) {
        let Visit { session, hop, towards } = from;
        let (crossed, hop) = match towards {
            Towards::Destination => (hop, hop + 1),
            Towards::Source => (hop - 1, hop - 1),
        };
        let first = self.sessions[session.0 as usize].first as usize;
        let link = self.paths[first + crossed as usize];
        let place = &self.links[link as usize];
        self.counters.crossings += 1;
        let lost = self.loss.as_mut().is_some_and(|(loss, rng)| rng.chance(*loss));
        if lost || !place.up {
            self.counters.lost += 1;
            return;
        }
        let delay = match towards {
            Towards::Destination => place.wire.delay,
            Towards::Source => place.wire.back,
        };
        let (session, outages) = (session.0, place.outages);
        self.queue
            .push(self.now + delay, Event::Crossed { session, hop, towards, outages, packet });
    }

    fn returned(&mut self, session: u32, packet: R::Packet) -> Result<Option<u32>> {
        if self.sessions[session as usize].stage == Stage::Gone {
            return Ok(None);
        }
        self.counters.cycles += 1;
        self.sessions[session as usize].cycles += 1;
        self.tell(session, |source, now, out| {
            source.receive(now, packet, out);
            Ok(())
        })?;
        Ok(Some(session))
    }

    /// Sends the packets of links and destinations.
    fn emit(&mut self, out: &mut Outbox<R::Packet>) {
        for sending in out.sends.drain(..) {
            self.counters.packets += 1;
            if sending.hop == 0 && sending.towards == Towards::Source {
                self.queue.push(self.now, Event::Returned(sending.session.0, sending.packet));
            } else {
                let (session, hop, towards) = (sending.session, sending.hop, sending.towards);
                self.cross(Visit { session, hop, towards }, sending.packet);
            }
        }
    }

    /// Calls a source and executes its outputs.
    fn tell(
        &mut self,
        session: u32,
        what: impl FnOnce(&mut R::Source, Time, &mut Outbox<R::Packet>) -> Result<()>,
    ) -> Result<()> {
        let mut out = std::mem::take(&mut self.outbox);
        let done = what(&mut self.sessions[session as usize].source, self.now, &mut out);
        let known = &mut self.sessions[session as usize];
        if let Some(wake) = out.wake.take() {
            known.wake = Some(wake);
            self.queue.push(wake.max(self.now), Event::Wake(session));
        }
        if std::mem::take(&mut out.gone) {
            known.stage = Stage::Gone;
        }
        let rate = out.rate.take().filter(|_| known.stage == Stage::Present);
        if rate.is_some() {
            self.assign(session, rate);
        }
        for sending in out.sends.drain(..) {
            self.counters.packets += 1;
            let visit = Visit { hop: 0, towards: Towards::Destination, session: sending.session };
            self.visit(visit, sending.packet)?;
        }
        self.outbox = out;
        done
    }

    fn assign(&mut self, session: u32, rate: Option<Bandwidth>) {
        let known = &mut self.sessions[session as usize];
        let old = std::mem::replace(&mut known.rate, rate);
        if let Some(fluid) = self.fluid.as_mut().filter(|_| old != rate) {
            let first = known.first as usize;
            for link in &self.paths[first..first + known.hops as usize] {
                let capacity = self.links[*link as usize].wire.capacity;
                fluid.advance_link(*link, self.now, capacity);
                fluid.change_load(*link, old.unwrap_or_default(), rate.unwrap_or_default());
            }
        }
    }

    fn path(&self, session: &Session<R::Source>) -> &[u32] {
        &self.paths[session.first as usize..][..session.hops as usize]
    }

    fn check_path(&self, path: &[u32]) -> Result<u8> {
        let most = usize::from(u8::MAX);
        let hops = path.len();
        let fits = u8::try_from(hops).ok().filter(|hops| *hops > 0 && *hops < u8::MAX);
        let hops = fits.ok_or(Error::Path { hops, most: most - 1 })?;
        for (place, &link) in path.iter().enumerate() {
            if link as usize >= self.links.len() {
                return Err(Error::NoSuchLink { link });
            }
            if path[..place].contains(&link) {
                return Err(Error::Loop { link });
            }
        }
        Ok(hops)
    }

    /// The time of a command to a session, if the session is present then.
    fn check_present(&self, at: Time, session: SessionId) -> Result<Time> {
        let wrong = |what| Err(Error::Session { session: session.0, what });
        let Some(known) = self.sessions.get(session.0 as usize) else {
            return wrong("is unknown");
        };
        let at = at.max(self.now);
        if at < known.joins {
            return wrong("has not joined then");
        }
        if known.leaves.is_some_and(|leaves| leaves <= at) {
            return wrong("has left then");
        }
        Ok(at)
    }
}
