//! Moves the packets of a protocol's state machines over the network.

use std::collections::{BTreeMap, VecDeque};

use base::{Bandwidth, RandomStream, Ratio, Span, Time};
use fabric::fifo::{self, Event, FifoLink, FifoNetwork};
use ratecontrol::{
    Fate, Link as _, Measured, Outbox, RateController, SessionId, Settings, Source, Towards, Visit,
};

use super::table::{NEVER, NONE};
use crate::trace::{SessionEvent, Trace};

/// Wake-up key of the agenda; lower keys are sources, by run.
const AGENDA: u64 = 1 << 32;
const MEASURE: u64 = 2 << 32;

/// The result of an event: handled by the driver, or to be handled by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    Completely,
    /// Members join or leave.
    Agenda,
    /// All data of a member has left its source.
    Sent(u32),
    /// All data of a member has arrived.
    Delivered(u32),
}

/// A session on one path. A member of the lab whose path changes has several runs,
/// one after another.
#[derive(Clone, Copy, Debug)]
struct Run<S> {
    source: S,
    /// Deadline of its source's timer, ns.
    due: u64,
    member: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not joined.
    Idle,
    Active,
    /// It has left; the protocol may still send packets.
    Leaving,
    /// It will send nothing more.
    Gone,
}

/// A packet between two state machines at the same node.
enum Local<P> {
    /// A source's packet visits the first link.
    Visit(u32, P),
    /// A packet has returned to its source.
    Receive(u32, P),
}

#[derive(Debug)]
struct LinkMachine<L> {
    link: u32,
    machine: L,
}

/// The periodic measurement of links.
#[derive(Debug)]
struct Gauge {
    interval: Span,
    /// Bytes at the last measurement, by state machine.
    seen: Vec<u64>,
}

/// The state machines of one protocol and the network between them.
pub(super) struct Driver<R: RateController> {
    protocol: R,
    settings: Settings,
    pub(super) net: FifoNetwork<R::Packet>,
    /// Index of each directed link's state machine, [`NONE`] if no session has crossed it.
    places: Vec<u32>,
    machines: Vec<LinkMachine<R::Link>>,
    runs: Vec<Run<R::Source>>,
    /// Runs whose packets are ignored; empty until [`Self::forget`].
    forgotten: Vec<bool>,
    /// Rates in bit/s of runs that send before the protocol has assigned them a rate.
    carried: BTreeMap<u32, u64>,
    out: Outbox<R::Packet>,
    local: VecDeque<Local<R::Packet>>,
    gauge: Option<Gauge>,
    loss: Ratio,
    random: RandomStream,
    pub(super) lost: u64,
    pub(super) trace: Trace,
    /// Members from this one on are named flows.
    flows: u32,
    /// New data rates of flows: time, member, wire bit/s. The consumer empties it.
    pub(super) rated: Vec<(Time, u32, u64)>,
}

/// A link's rate as a capacity: a rate of zero means unlimited.
pub(super) fn capacity(rate: Bandwidth) -> Bandwidth {
    let rate = rate.bits_per_sec();
    Bandwidth::from_bits_per_sec(if rate == 0 { ratecontrol::MAX_RATE } else { rate })
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
            forgotten: Vec::new(),
            carried: BTreeMap::new(),
            out: Outbox::default(),
            local: VecDeque::new(),
            gauge,
            loss,
            random: RandomStream::new(seed, "control/loss"),
            lost: 0,
            trace: Trace::default(),
            flows: NONE,
            rated: Vec::new(),
        })
    }

    /// Records the rates of members from this one on.
    pub(super) fn watch(&mut self, first: u32) {
        self.flows = first;
    }

    /// Reserves memory for `sessions` sessions with `hops` links in all their paths.
    pub(super) fn reserve(&mut self, sessions: usize, hops: usize) {
        self.net.reserve(sessions, hops);
        self.runs.reserve_exact(sessions);
    }

    /// The index of a directed link's state machine, which is created if it does not exist. The
    /// flag is set if it was created.
    pub(super) fn machine(&mut self, link: u32, rate: Bandwidth) -> ratecontrol::Result<bool> {
        let place = &mut self.places[link as usize];
        if *place != NONE {
            return Ok(false);
        }
        *place = self.machines.len() as u32;
        self.machines.push(LinkMachine { link, machine: self.protocol.link(capacity(rate))? });
        if let Some(gauge) = &mut self.gauge {
            gauge.seen.push(self.net.level(link).arrived.count());
        }
        Ok(true)
    }

    /// The index of the state machine of a directed link that has one.
    pub(super) fn place(&self, link: u32) -> u32 {
        self.places[link as usize]
    }

    #[cfg(test)]
    pub(super) fn link(&self, place: u32) -> &R::Link {
        &self.machines[place as usize].machine
    }

    /// Adds a run for a member over a path whose links have state machines. Returns its number.
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
        Ok(session)
    }

    /// Starts the measurement of links, if the protocol uses it.
    pub(super) fn start(&mut self) {
        if let Some(gauge) = &self.gauge {
            self.net.wake(self.net.now() + gauge.interval, MEASURE);
        }
    }

    pub(super) fn wake_for_agenda(&mut self, at: Time) {
        self.net.wake(at, AGENDA);
    }

    /// `API.Join`. With a demand of zero the session gets no rate.
    pub(super) fn join(&mut self, run: u32, demand: Bandwidth) {
        self.runs[run as usize].phase = Phase::Active;
        self.trace.note(self.net.now(), SessionEvent::Join as u8, run, demand.bits_per_sec());
        self.source(run, |source, now, out| {
            // The lab file's checks reject a demand of zero.
            let _ = source.join(now, demand, out);
        });
        self.settle();
    }

    /// `API.Leave`. From now on the run sends only the protocol's packets.
    pub(super) fn leave(&mut self, run: u32) {
        if self.runs[run as usize].phase != Phase::Active {
            return;
        }
        self.runs[run as usize].phase = Phase::Leaving;
        self.trace.note(self.net.now(), SessionEvent::Leave as u8, run, 0);
        self.pace(run, Bandwidth::from_bits_per_sec(0));
        self.source(run, R::Source::leave);
        self.settle();
    }

    /// Resets all links and ends all runs that have joined. A session that continues needs a new
    /// run. `wires` are the present links.
    pub(super) fn forget(&mut self, wires: &[FifoLink]) {
        for post in &mut self.machines {
            // The protocol accepted this rate, or rejected it when it changed.
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

    /// A joined run sends at the rate of its predecessor until it is assigned one.
    pub(super) fn carry_on(&mut self, run: u32, rate: u64) {
        self.carried.insert(run, rate);
        let data = self.settings.data_rate(Bandwidth::from_bits_per_sec(rate));
        self.pace(run, data);
    }

    /// The rate that a run is assigned, or else that of its predecessor, bit/s.
    pub(super) fn rate(&self, run: u32) -> Option<u64> {
        let assigned = self.runs[run as usize].source.rate().map(Bandwidth::bits_per_sec);
        assigned.or_else(|| self.carried.get(&run).copied())
    }

    /// Changes the capacity of a directed link.
    pub(super) fn set_capacity(&mut self, link: u32, rate: Bandwidth) {
        let place = self.places[link as usize];
        if place != NONE {
            let now = self.net.now();
            let machine = &mut self.machines[place as usize].machine;
            // The lab file's checks reject invalid capacities.
            let _ = machine.set_capacity(now, capacity(rate), &mut self.out);
            self.take_sends();
            self.settle();
        }
    }

    /// Handles the next event up to and including `until`; `None` without any.
    pub(super) fn on_arrival(&mut self, until: Time) -> Option<Handled> {
        let event = self.net.next(until)?;
        self.read_ahead();
        match event {
            Event::Arrived { session, hop, towards, message, link } => {
                self.on_arrived((session, hop, towards), link, message);
            }
            Event::Wake(AGENDA) => return Some(Handled::Agenda),
            Event::Wake(MEASURE) => self.measure(),
            Event::Wake(session) => self.on_wake(session as u32),
            Event::Sent { session } => {
                return Some(self.member(session).map_or(Handled::Completely, Handled::Sent));
            }
            Event::Delivered { session } => {
                self.trace.note(self.net.now(), SessionEvent::Delivered as u8, session, 0);
                return Some(Handled::Delivered(self.runs[session as usize].member));
            }
        }
        Some(Handled::Completely)
    }

    /// The member of a run that still sends.
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

    /// Prefetches the data of the next control packets, so that cache misses overlap.
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
        if self.loss.is_positive() && self.random.chance(self.loss) {
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
            if let Some(answer) = R::answer(packet) {
                self.out.send(SessionId(session), hop, Towards::Source, answer);
            }
            self.take_sends();
        }
        self.settle();
    }

    /// Passes a packet to a link's state machine.
    #[inline]
    fn visit(&mut self, visit: Visit, link: u32, mut packet: R::Packet) {
        let LinkMachine { machine, .. } = &mut self.machines[self.places[link as usize] as usize];
        let fate = machine.visit(self.net.now(), visit, &mut packet, &mut self.out);
        if fate == Fate::Forward {
            self.pass_on(visit.session.0, visit.hop, visit.towards, packet);
        }
        if !self.out.sends.is_empty() {
            self.take_sends();
        }
    }

    /// Forwards a packet from the node where link `hop` starts; upstream, the packet has already
    /// visited that link.
    #[inline]
    fn pass_on(&mut self, session: u32, hop: u8, towards: Towards, packet: R::Packet) {
        // The lab file's checks limit it.
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

    /// Sends the packets of a link or a destination.
    fn take_sends(&mut self) {
        let mut sends = std::mem::take(&mut self.out.sends);
        for sending in sends.drain(..) {
            self.pass_on(sending.session.0, sending.hop, sending.towards, sending.packet);
        }
        self.out.sends = sends;
    }

    /// Processes packets that stay within a node.
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

    /// Calls a source and carries out its actions.
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
            self.trace.note(now, SessionEvent::Rate as u8, session, rate.bits_per_sec());
            self.pace(session, self.settings.data_rate(rate));
        }
        for sending in self.out.sends.drain(..) {
            self.local.push_back(Local::Visit(sending.session.0, sending.packet));
        }
    }

    /// Sets the data rate of a run.
    fn pace(&mut self, run: u32, rate: Bandwidth) {
        self.net.set_rate(run, rate);
        let member = self.runs[run as usize].member;
        if member >= self.flows {
            self.rated.push((self.net.now(), member, rate.bits_per_sec()));
        }
    }

    /// Reports to all links the bytes that they have carried.
    fn measure(&mut self) {
        let Some(gauge) = &mut self.gauge else { return };
        let now = self.net.now();
        for (LinkMachine { link, machine }, seen) in self.machines.iter_mut().zip(&mut gauge.seen) {
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

    /// Number of links with a state machine.
    pub(super) fn links(&self) -> usize {
        self.machines.len()
    }

    /// Protocol state of links: sums and maxima of the number of entries and of bytes.
    pub(super) fn state(&self) -> ([u64; 2], [u64; 2]) {
        let states = self.machines.iter().map(|post| post.machine.state());
        states.fold(([0; 2], [0; 2]), |(sums, most), state| {
            let [numbers, bytes] = [state.numbers, state.bytes];
            ([sums[0] + numbers, sums[1] + bytes], [most[0].max(numbers), most[1].max(bytes)])
        })
    }

    /// Memory of sessions in bytes, without that of links.
    pub(super) fn session_memory(&self) -> u64 {
        let runs = self.runs.capacity() * size_of::<Run<R::Source>>();
        self.net.session_memory() + runs as u64
    }

    pub(super) fn link_memory(&self) -> u64 {
        let machines = self.machines.capacity() * size_of::<LinkMachine<R::Link>>();
        (machines + self.places.len() * size_of::<u32>()) as u64
    }
}
