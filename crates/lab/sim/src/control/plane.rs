//! The state machines of a protocol, and the control packets between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::{Bandwidth, Span, Time};
use ratecontrol::{
    Error, Fate, Link as _, Measured, Outbox, RateController, SessionId, Settings, Source as _,
    Towards, Visit, Visitor,
};

use crate::tickets::{Ticket, Tickets};

/// The links of a session's path, and the position of its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Directed links: twice the link's number, plus 1 for down.
    pub(super) links: Arc<[u32]>,
    /// Whether the router before the last link returns control packets on behalf of the host: they
    /// do not cross that link, but its state machine processes them.
    pub(super) short: bool,
}

/// A request of the state machines to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkRequest {
    /// Send a control packet over this direction of a link.
    Cross { link: u32, session: u32, ticket: Ticket },
    /// `API.Rate`.
    Rate { session: u32, rate: Bandwidth },
}

/// All state machines of a network, independent of the protocol.
pub(super) trait Plane {
    /// Whether the protocol supports a path of this many links.
    fn check(&self, hops: usize) -> Result<(), Error>;
    /// `API.Join`, with a number that no earlier session had.
    fn join(
        &mut self,
        now: Time,
        session: u32,
        route: Route,
        demand: Bandwidth,
    ) -> Result<(), Error>;
    /// `API.Change`.
    fn change(&mut self, now: Time, session: u32, demand: Bandwidth);
    /// `API.Leave`.
    fn leave(&mut self, now: Time, session: u32);
    /// A session's source fails without sending a Leave.
    fn abandon(&mut self, session: u32);
    /// A control packet has crossed its link.
    fn crossed(&mut self, now: Time, ticket: Ticket);
    fn set_capacity(&mut self, now: Time, link: u32, capacity: Bandwidth);
    /// Interval of the link measurements.
    fn interval(&self) -> Option<Span>;
    /// Links that sessions have crossed.
    fn links(&self) -> Vec<u32>;
    /// Passes on the measurement of a link.
    fn measure(&mut self, now: Time, link: u32, measured: &Measured);
    /// Resets everything: removes all sessions and link state, and ignores packets in flight.
    fn reset(&mut self);
    /// The next deadline, at which [`Self::on_wake`] must be called.
    fn next_wake(&self) -> Option<Time>;
    /// Handles deadlines up to `now`.
    fn on_wake(&mut self, now: Time);
    /// The next request, in the order of creation.
    fn poll(&mut self) -> Option<NetworkRequest>;
    /// Memory in bytes of sessions and packets.
    fn memory(&self) -> u64;
}

/// Builds the plane of a protocol.
pub(super) struct Build<'a> {
    pub(super) settings: &'a Settings,
    /// Capacities of both directions of all links.
    pub(super) capacities: Vec<Bandwidth>,
}

impl Visitor for Build<'_> {
    type Output = Result<Box<dyn Plane>, Error>;

    fn visit<R>(self) -> Self::Output
    where
        R: RateController,
    {
        Ok(Box::new(Machines {
            protocol: R::try_new(self.settings)?,
            links: self.capacities.iter().map(|_| None).collect(),
            capacities: self.capacities,
            sessions: BTreeMap::new(),
            tickets: Tickets::default(),
            wakes: BTreeSet::new(),
            work: VecDeque::new(),
            wishes: VecDeque::new(),
            outbox: Outbox::default(),
        }))
    }
}

struct Session<R: RateController> {
    source: R::Source,
    route: Route,
    wake: Option<Time>,
    /// The session is leaving: further rates are ignored.
    leaving: bool,
}

/// A control packet and its position: before link `visit.hop`, or before its destination if
/// `visit.hop` is the number of links.
struct PacketInTransit<P> {
    visit: Visit,
    links: Arc<[u32]>,
    short: bool,
    packet: P,
}

struct Machines<R: RateController> {
    protocol: R,
    capacities: Vec<Bandwidth>,
    links: Vec<Option<R::Link>>,
    sessions: BTreeMap<u32, Session<R>>,
    tickets: Tickets<PacketInTransit<R::Packet>>,
    wakes: BTreeSet<(Time, u32)>,
    /// Packets that need not cross a link to reach their next state machine.
    work: VecDeque<PacketInTransit<R::Packet>>,
    wishes: VecDeque<NetworkRequest>,
    outbox: Outbox<R::Packet>,
}

impl<R: RateController> Machines<R> {
    /// Passes an event to a source and carries out its actions.
    fn tell<T>(
        &mut self,
        now: Time,
        id: u32,
        what: impl FnOnce(&mut R::Source, &mut Outbox<R::Packet>) -> T,
    ) -> Option<T> {
        let session = self.sessions.get_mut(&id)?;
        let mut out = std::mem::take(&mut self.outbox);
        let result = what(&mut session.source, &mut out);
        if let Some(at) = out.wake.take() {
            let at = at.max(now);
            if let Some(before) = session.wake.replace(at) {
                self.wakes.remove(&(before, id));
            }
            self.wakes.insert((at, id));
        }
        if let Some(rate) = out.rate.take()
            && !session.leaving
        {
            self.wishes.push_back(NetworkRequest::Rate { session: id, rate });
        }
        let (links, short) = (Arc::clone(&session.route.links), session.route.short);
        if std::mem::take(&mut out.gone) {
            self.abandon(id);
        }
        for sending in out.sends.drain(..) {
            let visit = Visit { session: SessionId(id), hop: 0, towards: Towards::Destination };
            let links = Arc::clone(&links);
            self.work.push_back(PacketInTransit { visit, links, short, packet: sending.packet });
        }
        self.outbox = out;
        Some(result)
    }

    /// Processes all pending packets that cross no link.
    fn settle(&mut self, now: Time) {
        while let Some(underway) = self.work.pop_front() {
            self.arrive(now, underway);
        }
    }

    /// Processes a packet at its next position.
    fn arrive(&mut self, now: Time, mut underway: PacketInTransit<R::Packet>) {
        let visit = underway.visit;
        let Some(link) = underway.links.get(usize::from(visit.hop)).copied() else {
            return self.reach_destination(now, &underway);
        };
        let mut out = std::mem::take(&mut self.outbox);
        let Some(machine) = self.machine(link) else { return };
        let fate = machine.visit(now, visit, &mut underway.packet, &mut out);
        self.emit(now, &mut out);
        self.outbox = out;
        match fate {
            Fate::Absorb => {}
            Fate::Forward => self.go_on(now, underway),
        }
    }

    fn reach_destination(&mut self, now: Time, underway: &PacketInTransit<R::Packet>) {
        let Visit { session, hop, .. } = underway.visit;
        if !self.sessions.contains_key(&session.0) {
            return;
        }
        let mut out = std::mem::take(&mut self.outbox);
        if let Some(answer) = R::answer(underway.packet) {
            out.send(session, hop, Towards::Source, answer);
        }
        self.emit(now, &mut out);
        self.outbox = out;
    }

    /// The state machine of a link, created on first use, since most links carry no session.
    fn machine(&mut self, link: u32) -> Option<&mut R::Link> {
        let entry = self.links.get_mut(link as usize)?;
        if entry.is_none() {
            *entry = self.protocol.link(self.capacities[link as usize]).ok();
        }
        entry.as_mut()
    }

    /// Sends the packets of a link or a destination.
    fn emit(&mut self, now: Time, out: &mut Outbox<R::Packet>) {
        for sending in out.sends.drain(..) {
            let Some(session) = self.sessions.get(&sending.session.0) else { continue };
            let visit =
                Visit { session: sending.session, hop: sending.hop, towards: sending.towards };
            let (links, short) = (Arc::clone(&session.route.links), session.route.short);
            self.go_on(now, PacketInTransit { visit, links, short, packet: sending.packet });
        }
    }

    /// Forwards a packet from the node where link `hop` starts.
    fn go_on(&mut self, now: Time, mut underway: PacketInTransit<R::Packet>) {
        let hop = usize::from(underway.visit.hop);
        let (crossed, next, direction) = match underway.visit.towards {
            Towards::Destination => (hop, hop + 1, 0),
            Towards::Source if hop > 0 => (hop - 1, hop - 1, 1),
            Towards::Source => {
                let id = underway.visit.session.0;
                self.tell(now, id, |source, out| source.receive(now, underway.packet, out));
                return;
            }
        };
        let Some(link) = underway.links.get(crossed).copied() else { return };
        let last = crossed + 1 == underway.links.len();
        // The protocol accepted a path of this length, so the number fits.
        underway.visit.hop = next as u8;
        if last && underway.short {
            self.work.push_back(underway);
        } else {
            let session = underway.visit.session.0;
            let ticket = self.tickets.put(now, underway);
            self.wishes.push_back(NetworkRequest::Cross {
                link: link ^ direction,
                session,
                ticket,
            });
        }
    }
}

impl<R: RateController> Plane for Machines<R> {
    fn check(&self, hops: usize) -> Result<(), Error> {
        let hops = u8::try_from(hops).map_err(|_| Error::Path { hops, most: 255 })?;
        self.protocol.source(SessionId(0), hops).map(drop)
    }

    fn join(
        &mut self,
        now: Time,
        session: u32,
        route: Route,
        demand: Bandwidth,
    ) -> Result<(), Error> {
        self.check(route.links.len())?;
        let hops = route.links.len() as u8;
        let source = self.protocol.source(SessionId(session), hops)?;
        let entry = Session { source, route, wake: None, leaving: false };
        self.sessions.insert(session, entry);
        let joined = self.tell(now, session, |source, out| source.join(now, demand, out));
        if let Some(Err(refused)) = joined {
            self.abandon(session);
            return Err(refused);
        }
        self.settle(now);
        Ok(())
    }

    fn change(&mut self, now: Time, session: u32, demand: Bandwidth) {
        // The protocol rejects only a demand of zero, which no caller passes.
        let _ = self.tell(now, session, |source, out| source.change(now, demand, out));
        self.settle(now);
    }

    fn leave(&mut self, now: Time, session: u32) {
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.leaving = true;
        }
        self.tell(now, session, |source, out| source.leave(now, out));
        self.settle(now);
    }

    fn abandon(&mut self, session: u32) {
        if let Some(Session { wake: Some(at), .. }) = self.sessions.remove(&session) {
            self.wakes.remove(&(at, session));
        }
    }

    fn crossed(&mut self, now: Time, ticket: Ticket) {
        if let Some(underway) = self.tickets.take(ticket) {
            // Upstream, a packet visits the link that it has crossed backwards; downstream,
            // the next one.
            self.work.push_back(underway);
            self.settle(now);
        }
    }

    fn set_capacity(&mut self, now: Time, link: u32, capacity: Bandwidth) {
        self.capacities[link as usize] = capacity;
        if let Some(machine) = self.links[link as usize].as_mut() {
            let mut out = std::mem::take(&mut self.outbox);
            // The plan's link rates are valid for all protocols.
            let _ = machine.set_capacity(now, capacity, &mut out);
            self.emit(now, &mut out);
            self.outbox = out;
            self.settle(now);
        }
    }

    fn interval(&self) -> Option<Span> {
        self.protocol.interval()
    }

    fn links(&self) -> Vec<u32> {
        let seen = self.links.iter().enumerate().filter(|(_, machine)| machine.is_some());
        seen.map(|(link, _)| link as u32).collect()
    }

    fn measure(&mut self, now: Time, link: u32, measured: &Measured) {
        if let Some(machine) = self.links[link as usize].as_mut() {
            machine.measure(now, measured);
        }
    }

    fn reset(&mut self) {
        self.sessions.clear();
        self.wakes.clear();
        self.tickets.clear();
        self.wishes.clear();
        self.links.iter_mut().for_each(|machine| *machine = None);
    }

    fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }

    fn on_wake(&mut self, now: Time) {
        while let Some((at, session)) = self.wakes.first().copied()
            && at <= now
        {
            self.wakes.pop_first();
            if let Some(entry) = self.sessions.get_mut(&session) {
                entry.wake = None;
            }
            self.tell(now, session, |source, out| source.on_wake(now, out));
            self.settle(now);
        }
    }

    fn poll(&mut self) -> Option<NetworkRequest> {
        self.wishes.pop_front()
    }

    fn memory(&self) -> u64 {
        let session = size_of::<Session<R>>() + 2 * size_of::<(Time, u32)>();
        (self.sessions.len() * session) as u64 + self.tickets.memory()
    }
}
