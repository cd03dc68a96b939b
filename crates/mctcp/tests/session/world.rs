//! The network between both ends, and the server's door.

mod pump;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use base::{RandomStream, Span, Time};
use bytes::Bytes;
use mctcp::acceptor::{Acceptor, ConnectionId, Limits, Verdict};
use mctcp::frame::{self, Frame, Priority};
use mctcp::session::{End as Ending, Event, Opening, Session};
use mctcp::{PathId, SubflowId};

use crate::end::End;
use crate::script::{Act, Script};
use crate::tcp::{Delivery, Link, Pipe, Step};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
const PSK: &[u8] = b"correct horse";

/// Whose a connection is at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Door(ConnectionId),
    Subflow(SubflowId),
    /// Closed: what still arrives is dropped.
    Nobody,
    /// Reset: what still arrives is answered with a reset.
    Reset,
}

struct Connection {
    path: usize,
    pipes: [Pipe; 2],
    owners: [Owner; 2],
    /// `path_seq` of the next frame that each end sends.
    sends: [u32; 2],
    told_room: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Act(usize),
    Opened { path: usize, attempt: u32 },
    Refused { path: usize, attempt: u32 },
    Tcp { connection: usize, from: usize, step: Step },
    Reset { connection: usize, to: usize },
}

/// A run.
pub(crate) struct World {
    pub(crate) now: Time,
    /// Steps since it last changed.
    steps: u32,
    script: Script,
    links: Vec<[Link; 2]>,
    refuses: Vec<bool>,
    /// The connection attempt that goes on, by path.
    attempts: Vec<Option<u32>>,
    attempt: u32,
    connections: Vec<Connection>,
    live: BTreeSet<usize>,
    agenda: BTreeMap<(Time, u64), Happening>,
    count: u64,
    dice: RandomStream,
    acceptor: Acceptor,
    pub(crate) client: End,
    pub(crate) server: Option<End>,
    number: u64,
    /// Frames on their way to an end that tests want to change: see [`World::tamper`].
    pub(crate) tamper: Option<Tamper>,
    pub(crate) events: Vec<(Time, usize, Event)>,
    pub(crate) arrivals: BTreeMap<u64, u64>,
}

/// Changes a frame before it is given to a side; `None` drops it.
pub(crate) type Tamper = Box<dyn FnMut(usize, Frame<Bytes>) -> Option<Frame<Bytes>>>;

impl World {
    pub(crate) fn new(script: &Script) -> Self {
        let link = |path: &crate::script::Path| Link {
            rate: path.rate,
            delay: path.delay,
            queue: path.queue,
            loss: path.loss,
            alive: true,
            free_at: Time::ZERO,
        };
        let opening = Opening {
            seed: [7; 32],
            target: "target".to_owned(),
            secret: script.psk.then(|| PSK.into()),
            proof: script.psk,
        };
        let [of_client, of_server] = &script.settings;
        let session = Session::connect(of_client.clone(), opening);
        let grants = frame::Limits {
            subflows: of_server.max_subflows,
            frame: of_server.max_frame.count() as u16,
            idle: of_server.idle.as_secs_f64() as u16,
            resume: of_server.resume.as_secs_f64() as u16,
            proof: script.psk,
        };
        let psk = script.psk.then(|| PSK.into());
        let mut world = Self {
            now: Time::ZERO,
            steps: 0,
            links: script.paths.iter().map(|path| [link(path), link(path)]).collect(),
            refuses: vec![false; script.paths.len()],
            attempts: vec![None; script.paths.len()],
            attempt: 0,
            connections: Vec::new(),
            live: BTreeSet::new(),
            agenda: BTreeMap::new(),
            count: 0,
            dice: RandomStream::new(script.seed, "network"),
            acceptor: Acceptor::new(Limits::default(), grants, 64 << 10, psk, [8; 32]),
            client: End::new(CLIENT, session, of_client, &script.applications[CLIENT]),
            server: None,
            number: 0,
            tamper: None,
            events: Vec::new(),
            arrivals: BTreeMap::new(),
            script: script.clone(),
        };
        for at in 0..script.acts.len() {
            world.plan(script.acts[at].0, Happening::Act(at));
        }
        for path in 0..script.paths.len() {
            world.add(path);
        }
        world.pump();
        world
    }

    fn plan(&mut self, at: Time, what: Happening) {
        self.count += 1;
        self.agenda.insert((at, self.count), what);
    }

    fn add(&mut self, path: usize) {
        let priority = Priority { backup: self.script.paths[path].backup, weight: 1 };
        self.client.session.add_path(self.now, PathId(path as u16), priority);
    }

    /// Runs until then, or until nothing is left to happen.
    pub(crate) fn run(&mut self, until: Time) {
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.go_on(next);
        }
        self.now = until;
    }

    /// Runs until both ends are over, at the latest until then; tells whether they are.
    pub(crate) fn finish(&mut self, until: Time) -> bool {
        while !self.is_over() {
            let Some(next) = self.next().filter(|next| *next <= until) else { return false };
            self.go_on(next);
        }
        true
    }

    fn go_on(&mut self, next: Time) {
        self.steps = if next > self.now { 0 } else { self.steps + 1 };
        assert!(self.steps < 10_000, "time stands still {}", self.tell());
        self.now = next.max(self.now);
        self.step();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.client.is_over() && self.server.as_ref().is_none_or(End::is_over)
    }

    fn next(&self) -> Option<Time> {
        let server = self.server.as_ref().and_then(|server| server.next_wake(self.now));
        let planned = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let wakes = [planned, self.client.next_wake(self.now), server, self.acceptor.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn step(&mut self) {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= self.now
        {
            let happening = entry.remove();
            self.happen(happening);
        }
        let now = self.now;
        if self.acceptor.next_wake().is_some_and(|at| at <= now) {
            self.acceptor.on_wake(now);
            self.verdicts();
        }
        for end in self.ends() {
            if end.session.next_wake().is_some_and(|at| at <= now) {
                end.session.on_wake(now);
            }
        }
        self.pump();
        match &self.server {
            Some(server) if server.session.is_closed() => self.acceptor.finish(self.number),
            Some(server) if server.session.failed().is_some() => self.acceptor.forget(self.number),
            _ => {}
        }
    }

    /// Goes on until the next time at which anything happens; tells whether there was one.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.go_on(next);
        true
    }

    /// All connections are reset.
    pub(crate) fn reset_all(&mut self) {
        (0..self.links.len()).for_each(|path| self.act(Act::Reset(path)));
        self.pump();
    }

    fn ends(&mut self) -> impl Iterator<Item = &mut End> {
        std::iter::once(&mut self.client).chain(self.server.as_mut())
    }

    pub(crate) fn end(&mut self, side: usize) -> Option<&mut End> {
        if side == CLIENT { Some(&mut self.client) } else { self.server.as_mut() }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Act(at) => {
                let act = self.script.acts[at].1;
                self.act(act);
            }
            Happening::Opened { path, attempt } if self.attempts[path] == Some(attempt) => {
                self.opened(path, attempt);
            }
            Happening::Refused { path, attempt } if self.attempts[path] == Some(attempt) => {
                self.attempts[path] = None;
                self.client.session.connect_failed(self.now, PathId(path as u16));
            }
            Happening::Opened { .. } | Happening::Refused { .. } => {}
            Happening::Tcp { connection, from, step } => self.tcp(connection, from, step),
            Happening::Reset { connection, to } => {
                if self.links[self.connections[connection].path][to].alive {
                    self.broken(connection, to);
                }
            }
        }
    }

    pub(crate) fn act(&mut self, act: Act) {
        let now = self.now;
        match act {
            Act::Kill(path) => self.links[path].iter_mut().for_each(|link| link.alive = false),
            Act::Revive(path) => self.links[path].iter_mut().for_each(|link| link.alive = true),
            Act::Refuse(path, refuse) => self.refuses[path] = refuse,
            Act::Loss(path, share) => {
                let loss = base::Ratio::from_parts_per_billion(u64::from(share) * 1_000_000);
                self.links[path].iter_mut().for_each(|link| link.loss = loss);
            }
            Act::Rate(path, rate) => {
                self.links[path].iter_mut().for_each(|link| link.rate = rate);
            }
            Act::Delay(path, delay) => {
                self.links[path].iter_mut().for_each(|link| link.delay = delay);
            }
            Act::Reset(path) => {
                let on_path = |at: &usize| self.connections[*at].path == path;
                for at in self.live.iter().copied().filter(on_path).collect::<Vec<_>>() {
                    self.broken(at, CLIENT);
                    self.broken(at, SERVER);
                }
            }
            Act::Remove(path) => self.client.session.remove_path(now, PathId(path as u16)),
            Act::Add(path) => self.add(path),
            Act::JoinNow => self.client.session.join_now(now),
            Act::StopReading(side, time) => {
                if let Some(end) = self.end(side) {
                    end.stop_reading(now + time);
                }
            }
            Act::Abort(side) => {
                if let Some(end) = self.end(side) {
                    end.session.abort(now, mctcp::Reason::Aborted);
                }
            }
            Act::Schedule(kind) => {
                self.ends().for_each(|end| end.session.set_scheduler(kind.build()));
            }
        }
    }

    /// The client opens a TCP connection.
    fn open(&mut self, path: usize) {
        self.attempt += 1;
        let attempt = self.attempt;
        assert!(self.attempts[path].is_none(), "two attempts on path {path}");
        self.attempts[path] = Some(attempt);
        let trip = self.links[path][CLIENT].delay + self.links[path][SERVER].delay;
        if self.refuses[path] {
            self.plan(self.now + trip, Happening::Refused { path, attempt });
        } else {
            self.plan(self.now + trip, Happening::Opened { path, attempt });
        }
    }

    fn opened(&mut self, path: usize, attempt: u32) {
        let [there, back] = &self.links[path];
        if !there.alive || !back.alive {
            // SYN is sent again after a second, as in RFC 6298 §2.
            self.plan(self.now + Span::from_secs(1), Happening::Opened { path, attempt });
            return;
        }
        let rtt = there.delay + back.delay;
        self.attempts[path] = None;
        let Some(subflow) = self.client.session.connected(self.now, PathId(path as u16)) else {
            return;
        };
        let source = IpAddr::V4(Ipv4Addr::new(10, 0, 0, path as u8));
        let door = self.acceptor.open(self.now, source);
        let server = door.map_or(Owner::Reset, Owner::Door);
        let at = self.connections.len();
        self.connections.push(Connection {
            path,
            pipes: [Pipe::new(rtt), Pipe::new(rtt)],
            owners: [Owner::Subflow(subflow), server],
            sends: [0, 0],
            told_room: [u64::MAX; 2],
        });
        self.live.insert(at);
    }

    fn tcp(&mut self, at: usize, from: usize, step: Step) {
        let now = self.now;
        let (mut steps, mut out) = (Vec::new(), Vec::new());
        let connection = &mut self.connections[at];
        let links = &mut self.links[connection.path];
        let pipe = &mut connection.pipes[from];
        if matches!(connection.owners[from], Owner::Reset) {
            return;
        }
        match step {
            Step::Arrive(_) if connection.owners[1 - from] == Owner::Reset => {
                let back = now + links[1 - from].delay;
                self.plan(back, Happening::Reset { connection: at, to: from });
                return;
            }
            Step::Arrive(segment) => {
                pipe.arrive(now, segment, &links[from], &mut out, &mut steps);
            }
            Step::Acknowledge { segment, in_order } => {
                let alive = links[1 - from].alive;
                pipe.acknowledge(now, (segment, in_order), alive, &mut steps);
            }
            Step::Retry(segment) => {
                pipe.retry(now, segment, &mut links[from], &mut self.dice, &mut steps);
            }
        }
        pipe.send(now, &mut links[from], &mut self.dice, &mut steps);
        self.plan_steps(at, from, steps);
        for delivery in out {
            self.deliver(at, 1 - from, delivery);
        }
    }

    fn plan_steps(&mut self, connection: usize, from: usize, steps: Vec<(Time, Step)>) {
        for (when, step) in steps {
            self.plan(when, Happening::Tcp { connection, from, step });
        }
    }

    /// Something has come in order at an end.
    fn deliver(&mut self, at: usize, to: usize, delivery: Delivery) {
        let now = self.now;
        let owner = self.connections[at].owners[to];
        let (path_seq, frame) = match (delivery, owner) {
            (Delivery::End, Owner::Door(door)) => {
                self.acceptor.on_lost(now, door);
                return self.close(at, to, false);
            }
            (Delivery::End, Owner::Subflow(subflow)) => {
                if let Some(end) = self.end(to) {
                    end.session.on_end(now, subflow, Ending::Finished);
                }
                return;
            }
            (Delivery::End, _) | (_, Owner::Nobody | Owner::Reset) => return,
            (Delivery::Frame(path_seq, frame), _) => (path_seq, frame),
        };
        let frame = match &mut self.tamper {
            Some(tamper) => tamper(to, frame),
            None => Some(frame),
        };
        let Some(frame) = frame else { return };
        match owner {
            Owner::Door(door) => {
                self.acceptor.on_frame(now, door, frame, None);
                self.verdicts();
            }
            Owner::Subflow(subflow) => {
                if let Some(end) = self.end(to) {
                    end.hears(&frame);
                    end.session.on_frame(now, subflow, path_seq, frame);
                    end.check();
                }
                if self.server.as_ref().is_some_and(|server| server.session.is_confirmed()) {
                    self.acceptor.confirm(self.number);
                }
            }
            Owner::Nobody | Owner::Reset => {}
        }
    }

    fn verdicts(&mut self) {
        let now = self.now;
        while let Some(verdict) = self.acceptor.poll() {
            let (Verdict::Send(id, _)
            | Verdict::Open(id, ..)
            | Verdict::Again(id, _)
            | Verdict::Joined(id, _)
            | Verdict::Close(id)) = &verdict;
            let id = *id;
            let owned = |at: &&usize| self.connections[**at].owners[SERVER] == Owner::Door(id);
            let Some(at) = self.live.iter().find(owned).copied() else { continue };
            match verdict {
                Verdict::Send(_, frame) => {
                    let path_seq = self.connections[at].sends[SERVER];
                    self.write(at, SERVER, path_seq, frame);
                }
                Verdict::Open(_, hello, ack, key) => {
                    self.number = ack.session;
                    let settings = &self.script.settings[SERVER];
                    let proof = self.script.psk;
                    let own = settings.clone();
                    let session = Session::accept(now, own, &hello, &ack, key, proof);
                    let application = &self.script.applications[SERVER];
                    let mut server = End::new(SERVER, session, settings, application);
                    server.hears(&Frame::Hello(hello.clone()));
                    assert!(self.server.is_none(), "a second session {}", self.tell());
                    self.server = Some(server);
                    self.connections[at].owners[SERVER] = Owner::Subflow(hello.subflow);
                }
                Verdict::Again(..) => self.again(at),
                Verdict::Joined(_, join) => {
                    self.connections[at].owners[SERVER] = Owner::Subflow(join.subflow);
                    let server = self.server.as_mut().expect("a session is joined");
                    if !server.session.attach(now, &join) {
                        self.close(at, SERVER, false);
                    }
                }
                Verdict::Close(_) => self.close(at, SERVER, false),
            }
        }
    }

    /// HELLO came again, on another connection.
    fn again(&mut self, at: usize) {
        let now = self.now;
        let Owner::Subflow(subflow) = self.connections[at].owners[CLIENT] else {
            return self.close(at, SERVER, true);
        };
        self.connections[at].owners[SERVER] = Owner::Subflow(subflow);
        let server = self.server.as_mut().expect("HELLO came before");
        if !server.session.attach_again(now, subflow) {
            self.close(at, SERVER, false);
        }
    }

    fn write(&mut self, at: usize, from: usize, path_seq: u32, frame: Frame<Bytes>) {
        let connection = &mut self.connections[at];
        assert_eq!(connection.sends[from], path_seq, "path_seq of {frame:?}");
        connection.sends[from] += 1;
        let length = frame.wire_length() as u64;
        let told = &mut connection.told_room[from];
        *told = told.saturating_sub(length);
        connection.pipes[from].write(length, Delivery::Frame(path_seq, frame));
        self.send(at, from);
    }

    fn send(&mut self, at: usize, from: usize) {
        let connection = &mut self.connections[at];
        let link = &mut self.links[connection.path][from];
        let mut steps = Vec::new();
        connection.pipes[from].send(self.now, link, &mut self.dice, &mut steps);
        self.plan_steps(at, from, steps);
    }

    /// An end closes its side.
    fn close(&mut self, at: usize, side: usize, abort: bool) {
        let connection = &mut self.connections[at];
        if abort {
            connection.owners[side] = Owner::Reset;
            let (to, delay) = (1 - side, self.links[connection.path][side].delay);
            if self.links[connection.path][side].alive {
                self.plan(self.now + delay, Happening::Reset { connection: at, to });
            }
        } else {
            connection.owners[side] = Owner::Nobody;
            connection.pipes[side].write(0, Delivery::End);
            self.send(at, side);
        }
        self.retire(at);
    }

    /// A connection is reset from outside.
    fn broken(&mut self, at: usize, to: usize) {
        let owner = std::mem::replace(&mut self.connections[at].owners[to], Owner::Reset);
        let now = self.now;
        match owner {
            Owner::Door(door) => self.acceptor.on_lost(now, door),
            Owner::Subflow(subflow) => {
                if let Some(end) = self.end(to) {
                    end.session.on_end(now, subflow, Ending::Failed);
                }
            }
            Owner::Nobody | Owner::Reset => {}
        }
        self.retire(at);
    }

    fn retire(&mut self, at: usize) {
        let gone = |owner: &Owner| matches!(owner, Owner::Nobody | Owner::Reset);
        if self.connections[at].owners.iter().all(gone) {
            self.live.remove(&at);
        }
    }

    pub(crate) fn end_of(&self, side: usize) -> Option<&End> {
        if side == CLIENT { Some(&self.client) } else { self.server.as_ref() }
    }

    /// Connections that an end has not closed.
    pub(crate) fn open_connections(&self) -> Vec<String> {
        let tell = |at: &usize| {
            let connection = &self.connections[*at];
            format!("{at} on path {}: {:?}", connection.path, connection.owners)
        };
        self.live.iter().map(tell).collect()
    }

    /// What is going on, for messages.
    pub(crate) fn tell(&self) -> String {
        let server = self.server.as_ref().map(End::tell);
        let events = &self.events[self.events.len().saturating_sub(12)..];
        format!(
            "at {}\nclient {}\nserver {}\nlately {events:?}",
            self.now,
            self.client.tell(),
            server.unwrap_or_default(),
        )
    }
}
