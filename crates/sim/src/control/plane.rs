//! The machines of a protocol, and what moves between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::{Bandwidth, Span, Time};
use ratecontrol::{
    Destination as _, Error, Fate, Link as _, Measured, Outbox, RateController, SessionId,
    Settings, Source as _, Towards, Visit, Visitor,
};

use super::tickets::{Ticket, Tickets};

/// The links of a session's path, and where its destination is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Directions of links: twice the link, and 1 for down.
    pub(super) links: Arc<[u32]>,
    /// Whether the router before the last link bounces, for a host that knows nothing: control
    /// packets don't cross that link, though its machine sees them.
    pub(super) short: bool,
}

/// What the machines want from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Send a control packet over this direction of a link.
    Cross { link: u32, session: u32, ticket: Ticket },
    /// `API.Rate`.
    Rate { session: u32, rate: Bandwidth },
}

/// All machines of a network, whatever the protocol.
pub(super) trait Plane {
    /// Whether a session over so many links can be.
    fn check(&self, hops: usize) -> Result<(), Error>;
    /// `API.Join`, with a number that no session had before.
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
    /// A session's source dies without a word.
    fn abandon(&mut self, session: u32);
    /// A control packet has crossed its link.
    fn crossed(&mut self, now: Time, ticket: Ticket);
    /// A link has another capacity.
    fn set_capacity(&mut self, now: Time, link: u32, capacity: Bandwidth);
    /// How often links are measured.
    fn interval(&self) -> Option<Span>;
    /// Links that have seen a session.
    fn links(&self) -> Vec<u32>;
    /// A link was measured.
    fn measure(&mut self, now: Time, link: u32, measured: &Measured);
    /// All begins anew: no session, no state at any link, and what is under way means nothing.
    fn reset(&mut self);
    /// When to call [`Self::on_wake`].
    fn next_wake(&self) -> Option<Time>;
    /// Deadlines up to `now` have come.
    fn on_wake(&mut self, now: Time);
    /// The next wish, in the order in which they came about.
    fn poll(&mut self) -> Option<Wish>;
    /// Bytes of what is kept for sessions and packets.
    fn memory(&self) -> u64;
}

/// Makes a plane of whichever protocol.
pub(super) struct Build<'a> {
    pub(super) settings: &'a Settings,
    /// Of both directions of all links.
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
    destination: R::Destination,
    route: Route,
    wake: Option<Time>,
    /// Whether it has been told to leave: rates mean nothing any more.
    leaving: bool,
}

/// A control packet and where it is: about to visit link `visit.hop`, or its destination if there
/// is none.
struct Underway<P> {
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
    tickets: Tickets<Underway<R::Packet>>,
    wakes: BTreeSet<(Time, u32)>,
    /// What has arrived without crossing a link.
    work: VecDeque<Underway<R::Packet>>,
    wishes: VecDeque<Wish>,
    outbox: Outbox<R::Packet>,
}

impl<R: RateController> Machines<R> {
    /// Tells a source something and does what it wants.
    fn tell<T>(
        &mut self,
        now: Time,
        id: u32,
        what: impl FnOnce(&mut R::Source, &mut Outbox<R::Packet>) -> T,
    ) -> Option<T> {
        let session = self.sessions.get_mut(&id)?;
        let mut out = std::mem::take(&mut self.outbox);
        let told = what(&mut session.source, &mut out);
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
            self.wishes.push_back(Wish::Rate { session: id, rate });
        }
        let (links, short) = (Arc::clone(&session.route.links), session.route.short);
        if std::mem::take(&mut out.gone) {
            self.abandon(id);
        }
        for sending in out.sends.drain(..) {
            let visit = Visit { session: SessionId(id), hop: 0, towards: Towards::Destination };
            let links = Arc::clone(&links);
            self.work.push_back(Underway { visit, links, short, packet: sending.packet });
        }
        self.outbox = out;
        Some(told)
    }

    /// Deals with all that needs no link to cross.
    fn settle(&mut self, now: Time) {
        while let Some(underway) = self.work.pop_front() {
            self.arrive(now, underway);
        }
    }

    /// A packet is where it was to go next.
    fn arrive(&mut self, now: Time, mut underway: Underway<R::Packet>) {
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

    fn reach_destination(&mut self, now: Time, underway: &Underway<R::Packet>) {
        let Some(session) = self.sessions.get_mut(&underway.visit.session.0) else { return };
        let mut out = std::mem::take(&mut self.outbox);
        session.destination.receive(now, underway.packet, &mut out);
        self.emit(now, &mut out);
        self.outbox = out;
    }

    /// The machine of a link; made when first needed, since most links see no session.
    fn machine(&mut self, link: u32) -> Option<&mut R::Link> {
        let entry = self.links.get_mut(link as usize)?;
        if entry.is_none() {
            *entry = self.protocol.link(self.capacities[link as usize]).ok();
        }
        entry.as_mut()
    }

    /// Sends what a link or a destination wants sent.
    fn emit(&mut self, now: Time, out: &mut Outbox<R::Packet>) {
        for sending in out.sends.drain(..) {
            let Some(session) = self.sessions.get(&sending.session.0) else { continue };
            let visit =
                Visit { session: sending.session, hop: sending.hop, towards: sending.towards };
            let (links, short) = (Arc::clone(&session.route.links), session.route.short);
            self.go_on(now, Underway { visit, links, short, packet: sending.packet });
        }
    }

    /// From the node where link `hop` starts, the packet goes its way.
    fn go_on(&mut self, now: Time, mut underway: Underway<R::Packet>) {
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
        // At most as many as the path that the protocol accepted.
        underway.visit.hop = next as u8;
        if last && underway.short {
            self.work.push_back(underway);
        } else {
            let session = underway.visit.session.0;
            let ticket = self.tickets.put(now, underway);
            self.wishes.push_back(Wish::Cross { link: link ^ direction, session, ticket });
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
        let destination = self.protocol.destination(SessionId(session), hops);
        let entry = Session { source, destination, route, wake: None, leaving: false };
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
        // What is refused is a demand of nothing, which nobody makes.
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
            // Upstream it visits the link that it has crossed backwards, downstream the next.
            self.work.push_back(underway);
            self.settle(now);
        }
    }

    fn set_capacity(&mut self, now: Time, link: u32, capacity: Bandwidth) {
        self.capacities[link as usize] = capacity;
        if let Some(machine) = self.links[link as usize].as_mut() {
            let mut out = std::mem::take(&mut self.outbox);
            // The plan's links have rates that protocols take.
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

    fn poll(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    fn memory(&self) -> u64 {
        let session = size_of::<Session<R>>() + 2 * size_of::<(Time, u32)>();
        (self.sessions.len() * session) as u64 + self.tickets.memory()
    }
}
