//! Moves the packets of a protocol's machines over the network.

use std::collections::{BTreeMap, VecDeque};

use base::{Bandwidth, RandomStream, Ratio, Span, Time};
use fabric::fifo::{self, Event, FifoLink, FifoNetwork};
use ratecontrol::{
    Destination as _, Fate, Link as _, Measured, Outbox, RateController, SessionId, Settings,
    Source, Towards, Visit,
};

use super::cast::{NEVER, NONE};
use super::trace::{Trace, What};

/// What wake-up calls are for: those below are of sources, by number.
const AGENDA: u64 = 1 << 32;
const MEASURE: u64 = 2 << 32;

/// What the driver's owner has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Members join or leave.
    Agenda,
    /// All data of a member has left its source.
    Sent(u32),
    /// All data of a member has arrived.
    Delivered(u32),
}

/// A session on one path. A member of the lab whose path changes has one after the other.
#[derive(Clone, Copy, Debug)]
struct Run<S> {
    source: S,
    /// When its source's timer is due, ns.
    due: u64,
    /// Whose it is.
    member: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not joined.
    Idle,
    /// It sends.
    Active,
    /// It has left; the protocol may have more to say.
    Leaving,
    /// Nothing of it will be sent any more.
    Gone,
}

/// What a machine has given another one at the same node.
enum Local<P> {
    /// A source's packet visits the first link.
    Visit(u32, P),
    /// A packet has come back to its source.
    Receive(u32, P),
}

/// A machine at its link.
#[derive(Debug)]
struct Post<L> {
    /// The directed link.
    link: u32,
    machine: L,
}

/// What links that look at their traffic have been told.
#[derive(Debug)]
struct Gauge {
    interval: Span,
    /// Bytes that had arrived, by machine.
    seen: Vec<u64>,
}

/// The machines of one protocol and the network between them.
pub(super) struct Driver<R: RateController> {
    protocol: R,
    settings: Settings,
    pub(super) net: FifoNetwork<R::Packet>,
    /// The machine of each directed link, [`NONE`] where no session ever crossed it.
    places: Vec<u32>,
    machines: Vec<Post<R::Link>>,
    runs: Vec<Run<R::Source>>,
    destinations: Vec<R::Destination>,
    /// Runs whose packets mean nothing any more; empty until [`Self::forget`].
    forgotten: Vec<bool>,
    /// Rates at which runs send that have not been assigned one yet, bit/s.
    carried: BTreeMap<u32, u64>,
    out: Outbox<R::Packet>,
    local: VecDeque<Local<R::Packet>>,
    gauge: Option<Gauge>,
    loss: Ratio,
    dice: RandomStream,
    pub(super) lost: u64,
    pub(super) trace: Trace,
    /// Members from this one on are flows with names.
    flows: u32,
    /// Data rates that flows were given: when, whose, wire bit/s. Whoever takes them empties it.
    pub(super) rated: Vec<(Time, u32, u64)>,
}

/// A link's rate as a capacity: zero is no limit.
pub(super) fn capacity(rate: Bandwidth) -> Bandwidth {
    let rate = rate.bits_per_sec();
    Bandwidth::from_bits_per_sec(if rate == 0 { ratecontrol::MOST_RATE } else { rate })
}

impl<R: RateController> Driver<R> {
    pub(super) fn try_new(
        settings: &Settings,
        net: FifoNetwork<R::Packet>,
        directions: usize,
        (seed, loss): (u64, Ratio),
    ) -> ratecontrol::Result<Self> {
        let protocol = R::try_new(settings)?;
        let gauge = protocol.interval().map(|interval| Gauge {
            interval: interval.max(Span::from_nanos(1)),
            seen: Vec::new(),
        });
        Ok(Self {
            protocol,
            settings: *settings,
            net,
            places: vec![NONE; directions],
            machines: Vec::new(),
            runs: Vec::new(),
            destinations: Vec::new(),
            forgotten: Vec::new(),
            carried: BTreeMap::new(),
            out: Outbox::default(),
            local: VecDeque::new(),
            gauge,
            loss,
            dice: RandomStream::new(seed, "control/loss"),
            lost: 0,
            trace: Trace::default(),
            flows: NONE,
            rated: Vec::new(),
        })
    }

    /// Notes the rates of members from this one on.
    pub(super) fn watch(&mut self, first: u32) {
        self.flows = first;
    }

    /// Makes room for so many sessions with so many links in all their paths.
    pub(super) fn reserve(&mut self, sessions: usize, hops: usize) {
        self.net.reserve(sessions, hops);
        self.runs.reserve_exact(sessions);
        self.destinations.reserve_exact(sessions);
    }

    /// The machine of a directed link; makes it if there is none. The flag says whether it did.
    pub(super) fn machine(&mut self, link: u32, rate: Bandwidth) -> ratecontrol::Result<bool> {
        let place = &mut self.places[link as usize];
        if *place != NONE {
            return Ok(false);
        }
        *place = self.machines.len() as u32;
        self.machines.push(Post { link, machine: self.protocol.link(capacity(rate))? });
        if let Some(gauge) = &mut self.gauge {
            gauge.seen.push(self.net.level(link).arrived.count());
        }
        Ok(true)
    }

    /// The machine of a directed link that has one.
    pub(super) fn place(&self, link: u32) -> u32 {
        self.places[link as usize]
    }

    /// A machine.
    #[cfg(test)]
    pub(super) fn link(&self, place: u32) -> &R::Link {
        &self.machines[place as usize].machine
    }

    /// A run for a member over a path whose links have machines. Tells its number.
    pub(super) fn add_run(&mut self, member: u32, path: &[u32]) -> crate::Result<u32> {
        let session = self.net.add_session(path)?;
        let hops = path.len() as u8;
        let id = SessionId(session);
        self.runs.push(Run {
            source: self.protocol.source(id, hops)?,
            due: NEVER,
            member,
            phase: Phase::Idle,
        });
        self.destinations.push(self.protocol.destination(id, hops));
        Ok(session)
    }

    /// Begins to measure links, if the protocol wants that.
    pub(super) fn start(&mut self) {
        if let Some(gauge) = &self.gauge {
            self.net.wake(self.net.now() + gauge.interval, MEASURE);
        }
    }

    pub(super) fn wake_for_agenda(&mut self, at: Time) {
        self.net.wake(at, AGENDA);
    }

    /// `API.Join`. A demand of nothing leaves the session without a rate.
    pub(super) fn join(&mut self, run: u32, demand: Bandwidth) {
        self.runs[run as usize].phase = Phase::Active;
        self.trace.note(self.net.now(), What::Join, run, demand.bits_per_sec());
        self.source(run, |source, now, out| {
            // The lab has refused demands of nothing.
            let _ = source.join(now, demand, out);
        });
        self.settle();
    }

    /// `API.Leave`. Nothing is sent from now on but what the protocol has to say.
    pub(super) fn leave(&mut self, run: u32) {
        if self.runs[run as usize].phase != Phase::Active {
            return;
        }
        self.runs[run as usize].phase = Phase::Leaving;
        self.trace.note(self.net.now(), What::Leave, run, 0);
        self.pace(run, Bandwidth::from_bits_per_sec(0));
        self.source(run, R::Source::leave);
        self.settle();
    }

    /// All links forget all sessions, and those that have joined are over. Whoever is still
    /// there joins by another run. `wires` are the links as they are.
    pub(super) fn forget(&mut self, wires: &[FifoLink]) {
        for post in &mut self.machines {
            // The protocol took this rate, or refused it when it changed.
            if let Ok(fresh) = self.protocol.link(capacity(wires[post.link as usize].rate)) {
                post.machine = fresh;
            }
        }
        self.forgotten.resize(self.runs.len(), false);
        for run in 0..self.runs.len() as u32 {
            let phase = &mut self.runs[run as usize].phase;
            if *phase == Phase::Idle {
                continue;
            }
            if std::mem::replace(phase, Phase::Gone) == Phase::Active {
                self.pace(run, Bandwidth::from_bits_per_sec(0));
            }
            self.forgotten[run as usize] = true;
        }
    }

    /// A run that has joined sends as another one did until it is assigned a rate.
    pub(super) fn carry_on(&mut self, run: u32, rate: u64) {
        self.carried.insert(run, rate);
        let data = self.settings.data_rate(Bandwidth::from_bits_per_sec(rate));
        self.pace(run, data);
    }

    /// The rate that a run is assigned or carries on with, bit/s.
    pub(super) fn rate(&self, run: u32) -> Option<u64> {
        let assigned = self.runs[run as usize].source.rate().map(Bandwidth::bits_per_sec);
        assigned.or_else(|| self.carried.get(&run).copied())
    }

    /// The capacity of a directed link is another one.
    pub(super) fn set_capacity(&mut self, link: u32, rate: Bandwidth) {
        let place = self.places[link as usize];
        if place != NONE {
            let now = self.net.now();
            let machine = &mut self.machines[place as usize].machine;
            // What no protocol can take the lab has refused.
            let _ = machine.set_capacity(now, capacity(rate), &mut self.out);
            self.take_sends();
            self.settle();
        }
    }

    /// Runs up to `until`, or to the first news, for so many events at most. The flag says whether
    /// it got there.
    pub(super) fn advance(&mut self, until: Time, turns: &mut u64) -> (bool, Option<News>) {
        while *turns > 0 {
            *turns -= 1;
            let Some(event) = self.net.next(until) else { return (true, None) };
            self.read_ahead();
            match event {
                Event::Arrived { session, hop, towards, message, link } => {
                    self.on_arrived((session, hop, towards), link, message);
                }
                Event::Wake(AGENDA) => return (false, Some(News::Agenda)),
                Event::Wake(MEASURE) => self.measure(),
                Event::Wake(session) => self.on_wake(session as u32),
                Event::Sent { session } => {
                    let member = self.member(session);
                    return (false, member.map(News::Sent));
                }
                Event::Delivered { session } => {
                    self.trace.note(self.net.now(), What::Delivered, session, 0);
                    let member = self.runs[session as usize].member;
                    return (false, Some(News::Delivered(member)));
                }
            }
        }
        (false, None)
    }

    /// Whose run it is, if it still sends.
    fn member(&self, run: u32) -> Option<u32> {
        let run = &self.runs[run as usize];
        (run.phase == Phase::Active).then_some(run.member)
    }

    fn on_wake(&mut self, session: u32) {
        let now = self.net.now();
        let run = &mut self.runs[session as usize];
        if run.due == now.as_nanos() && run.phase != Phase::Gone {
            run.due = NEVER;
            self.source(session, R::Source::on_wake);
            self.settle();
        }
    }

    /// Reads what the next control packets need, so that the waits for it overlap.
    #[inline]
    fn read_ahead(&self) {
        let mut read = 0;
        for (session, hop, link) in self.net.upcoming() {
            match link {
                Some(link) => {
                    let place = self.places[link as usize];
                    read ^= self.machines.get(place as usize).map_or(0, |post| post.link);
                    if hop == 0 {
                        read ^= self.runs[session as usize].member;
                    }
                }
                None => read ^= self.runs[session as usize].member,
            }
        }
        std::hint::black_box(read);
    }

    #[inline]
    fn on_arrived(
        &mut self,
        (session, hop, towards): (u32, u8, fifo::Towards),
        link: Option<u32>,
        packet: R::Packet,
    ) {
        if self.loss.is_positive() && self.dice.chance(self.loss) {
            self.lost += 1;
            return;
        }
        if self.forgotten.get(session as usize) == Some(&true) {
            return;
        }
        let towards = match towards {
            fifo::Towards::Source => Towards::Source,
            fifo::Towards::Destination => Towards::Destination,
        };
        if let Some(link) = link {
            let visit = Visit { session: SessionId(session), hop, towards };
            self.visit(visit, link, packet);
        } else {
            let now = self.net.now();
            self.destinations[session as usize].receive(now, packet, &mut self.out);
            self.take_sends();
        }
        self.settle();
    }

    /// A packet visits a link's machine.
    #[inline]
    fn visit(&mut self, visit: Visit, link: u32, mut packet: R::Packet) {
        let Post { machine, .. } = &mut self.machines[self.places[link as usize] as usize];
        let fate = machine.visit(self.net.now(), visit, &mut packet, &mut self.out);
        if fate == Fate::Forward {
            self.pass_on(visit.session.0, visit.hop, visit.towards, packet);
        }
        if !self.out.sends.is_empty() {
            self.take_sends();
        }
    }

    /// A packet leaves the node where link `hop` starts; upstream it has no more to do with it.
    #[inline]
    fn pass_on(&mut self, session: u32, hop: u8, towards: Towards, packet: R::Packet) {
        // The lab bounds it.
        let size = self.settings.packet.count() as u32;
        match (towards, hop) {
            (Towards::Destination, _) => {
                self.net.send(session, hop, fifo::Towards::Destination, size, packet);
            }
            (Towards::Source, 0) => self.local.push_back(Local::Receive(session, packet)),
            (Towards::Source, _) => {
                self.net.send(session, hop - 1, fifo::Towards::Source, size, packet);
            }
        }
    }

    /// Sends what a link or a destination wants sent.
    fn take_sends(&mut self) {
        let mut sends = std::mem::take(&mut self.out.sends);
        for sending in sends.drain(..) {
            self.pass_on(sending.session.0, sending.hop, sending.towards, sending.packet);
        }
        self.out.sends = sends;
    }

    /// Does what stays within nodes.
    #[inline]
    fn settle(&mut self) {
        while let Some(local) = self.local.pop_front() {
            match local {
                Local::Visit(session, packet) => {
                    let link = self.net.path(session)[0];
                    let (session, towards) = (SessionId(session), Towards::Destination);
                    self.visit(Visit { session, hop: 0, towards }, link, packet);
                }
                Local::Receive(session, packet) => {
                    if self.runs[session as usize].phase != Phase::Gone {
                        self.source(session, |source, now, out| source.receive(now, packet, out));
                    }
                }
            }
        }
    }

    /// Has a source do something, and does what it wants.
    #[inline]
    fn source(
        &mut self,
        session: u32,
        call: impl FnOnce(&mut R::Source, Time, &mut Outbox<R::Packet>),
    ) {
        let now = self.net.now();
        let run = &mut self.runs[session as usize];
        call(&mut run.source, now, &mut self.out);
        if let Some(at) = self.out.wake.take() {
            run.due = at.max(now).as_nanos();
            self.net.wake(at, u64::from(session));
        }
        if std::mem::take(&mut self.out.gone) {
            run.phase = Phase::Gone;
        }
        if let Some(rate) = self.out.rate.take()
            && run.phase == Phase::Active
        {
            if !self.carried.is_empty() {
                self.carried.remove(&session);
            }
            self.trace.note(now, What::Rate, session, rate.bits_per_sec());
            self.pace(session, self.settings.data_rate(rate));
        }
        for sending in self.out.sends.drain(..) {
            self.local.push_back(Local::Visit(sending.session.0, sending.packet));
        }
    }

    /// A run sends data at this rate.
    fn pace(&mut self, run: u32, rate: Bandwidth) {
        self.net.set_rate(run, rate);
        let member = self.runs[run as usize].member;
        if member >= self.flows {
            self.rated.push((self.net.now(), member, rate.bits_per_sec()));
        }
    }

    /// Tells all links what they carried.
    fn measure(&mut self) {
        let Some(gauge) = &mut self.gauge else { return };
        let now = self.net.now();
        for (Post { link, machine }, seen) in self.machines.iter_mut().zip(&mut gauge.seen) {
            let level = self.net.level(*link);
            let arrived = level.arrived.count();
            let measured = Measured {
                interval: gauge.interval,
                arrived: base::Bytes::new(arrived - std::mem::replace(seen, arrived)),
                backlog: level.backlog,
            };
            machine.measure(now, &measured);
        }
        self.net.wake(now + gauge.interval, MEASURE);
    }

    /// Links that have a machine.
    pub(super) fn links(&self) -> usize {
        self.machines.len()
    }

    /// What links hold for the protocol: the sums and the largest of numbers and bytes.
    pub(super) fn state(&self) -> ([u64; 2], [u64; 2]) {
        let states = self.machines.iter().map(|post| post.machine.state());
        states.fold(([0; 2], [0; 2]), |(sums, most), state| {
            let [numbers, bytes] = [state.numbers, state.bytes];
            ([sums[0] + numbers, sums[1] + bytes], [most[0].max(numbers), most[1].max(bytes)])
        })
    }

    /// Bytes of what sessions take here, machines of links not counted.
    pub(super) fn session_memory(&self) -> u64 {
        let runs = self.runs.capacity() * size_of::<Run<R::Source>>();
        let destinations = self.destinations.capacity() * size_of::<R::Destination>();
        self.net.session_memory() + (runs + destinations) as u64
    }

    /// Bytes of what links take here.
    pub(super) fn link_memory(&self) -> u64 {
        let machines = self.machines.capacity() * size_of::<Post<R::Link>>();
        (machines + self.places.len() * size_of::<u32>()) as u64
    }
}
