//! Both ends, the server's acceptor, and the TCP connections between them on a test network.

mod pump;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use base::{Ratio, Time};
use bytes::Bytes;
use fabric::{Loss, Rate};
use mctcp::acceptor::{Acceptor, Limits, Verdict};
use mctcp::frame::{self, Frame, Priority};
use mctcp::session::{End as Ending, Event, Opening, Session};
use mctcp::{PathId, Reason};
use testnet::Testnet;
use transport::tcp::Segment;

use super::connection::{Connection, Delivery, Owner};
use super::end::End;
use super::script::{Act, Script};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
const PSK: &[u8] = b"correct horse";

/// A segment on a path, or a scheduled event.
#[derive(Clone, Copy, Debug)]
enum Message {
    Segment { connection: usize, segment: Segment },
    Act(usize),
    Refused { path: usize, attempt: u32 },
}

pub(crate) struct World {
    pub(crate) now: Time,
    script: Script,
    net: Testnet<Message>,
    refuses: Vec<bool>,
    /// Whether each path holds the data that TCP has acknowledged.
    holds: Vec<bool>,
    /// Held data: connection, receiving side, data.
    held: Vec<(usize, usize, Delivery)>,
    /// The current connection attempt of each path.
    attempts: Vec<Option<u32>>,
    attempt: u32,
    connections: Vec<Connection>,
    /// Connections that TCP has not closed at both ends.
    live: BTreeSet<usize>,
    acceptor: Acceptor,
    pub(crate) client: End,
    pub(crate) server: Option<End>,
    number: u64,
    /// Modifies frames before they are delivered.
    pub(crate) tamper: Option<Tamper>,
    pub(crate) events: Vec<(Time, usize, Event)>,
}

/// Modifies a frame before it is delivered to a side; `None` drops it.
pub(crate) type Tamper = Box<dyn FnMut(usize, Frame<Bytes>) -> Option<Frame<Bytes>>>;

impl World {
    pub(crate) fn new(script: &Script) -> Self {
        let links: Vec<_> = script
            .paths
            .iter()
            .map(|path| {
                let mut link = testnet::link(path.rate, path.delay, path.queue);
                link.loss = Loss::Bernoulli(path.loss);
                link
            })
            .collect();
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
            net: Testnet::new(script.seed, &links),
            refuses: vec![false; script.paths.len()],
            holds: vec![false; script.paths.len()],
            held: Vec::new(),
            attempts: vec![None; script.paths.len()],
            attempt: 0,
            connections: Vec::new(),
            live: BTreeSet::new(),
            acceptor: Acceptor::new(Limits::default(), grants, 64 << 10, psk, [8; 32]),
            client: End::new(CLIENT, session, of_client, &script.applications[CLIENT]),
            server: None,
            number: 0,
            tamper: None,
            events: Vec::new(),
            script: script.clone(),
        };
        for at in 0..script.acts.len() {
            world.net.schedule(script.acts[at].0, Message::Act(at));
        }
        for path in 0..script.paths.len() {
            world.add(path);
        }
        world.pump();
        world
    }

    fn add(&mut self, path: usize) {
        let priority = Priority { backup: self.script.paths[path].backup, weight: 1 };
        self.client.session.add_path(self.now, PathId(path as u16), priority);
    }

    /// Runs until this time, or until no event is left.
    pub(crate) fn run(&mut self, until: Time) {
        while self.advance_until(until) {}
        self.now = until;
    }

    /// Runs until both ends are done, at most until this time; returns whether they are.
    pub(crate) fn finish(&mut self, until: Time) -> bool {
        while !self.is_over() {
            if !self.advance_until(until) {
                return false;
            }
        }
        true
    }

    pub(crate) fn is_over(&self) -> bool {
        self.client.is_over() && self.server.as_ref().is_none_or(End::is_over)
    }

    fn next_wake(&self) -> Option<Time> {
        let server = self.server.as_ref().and_then(|server| server.next_wake(self.now));
        let wakes = [self.client.next_wake(self.now), server, self.acceptor.next_wake()];
        let tcp = self.live.iter().filter_map(|at| self.connections[*at].next_wake());
        wakes.into_iter().flatten().chain(tcp).min()
    }

    /// Processes the next event; returns whether there was one.
    pub(crate) fn advance(&mut self) -> bool {
        self.advance_until(Time::MAX)
    }

    fn advance_until(&mut self, until: Time) -> bool {
        let Some(event) = self.net.step(self.next_wake(), until) else { return false };
        self.now = self.net.now();
        match event {
            testnet::Event::Arrival {
                message: Message::Segment { connection, segment },
                to,
                ..
            } => {
                let reset = self.connections[connection].receive(self.now, to, &segment);
                if let Some(segment) = reset {
                    self.transmit(connection, to, segment);
                }
                self.progress(connection, to);
                self.flush(connection);
            }
            testnet::Event::Timer(message) => self.on_timer(message),
            testnet::Event::Arrival { .. } => {}
            testnet::Event::Deadline => self.on_wake(),
        }
        self.pump();
        match &self.server {
            Some(server) if server.session.is_closed() => self.acceptor.finish(self.number),
            Some(server) if server.session.failed().is_some() => self.acceptor.remove(self.number),
            _ => {}
        }
        true
    }

    fn on_wake(&mut self) {
        let now = self.now;
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        for at in self.live.iter().copied().collect::<Vec<_>>() {
            if is_due(self.connections[at].next_wake()) {
                for side in [CLIENT, SERVER] {
                    self.connections[at].tcp[side].on_wake(now);
                    self.progress(at, side);
                }
                self.flush(at);
            }
        }
        if is_due(self.acceptor.next_wake()) {
            self.acceptor.on_wake(now);
            self.verdicts();
        }
        for end in self.ends() {
            if is_due(end.session.next_wake()) {
                end.session.on_wake(now);
            }
        }
    }

    /// All connections are reset.
    pub(crate) fn reset_all(&mut self) {
        (0..self.refuses.len()).for_each(|path| self.act(Act::Reset(path)));
        self.pump();
    }

    fn ends(&mut self) -> impl Iterator<Item = &mut End> {
        std::iter::once(&mut self.client).chain(self.server.as_mut())
    }

    pub(crate) fn end(&mut self, side: usize) -> Option<&mut End> {
        if side == CLIENT { Some(&mut self.client) } else { self.server.as_mut() }
    }

    fn on_timer(&mut self, message: Message) {
        match message {
            Message::Act(at) => {
                let act = self.script.acts[at].1;
                self.act(act);
            }
            Message::Refused { path, attempt } if self.attempts[path] == Some(attempt) => {
                self.attempts[path] = None;
                self.client.session.connect_failed(self.now, PathId(path as u16));
            }
            Message::Refused { .. } | Message::Segment { .. } => {}
        }
    }

    pub(crate) fn act(&mut self, act: Act) {
        let now = self.now;
        match act {
            Act::Kill(path) => self.net.set_up(path, false),
            Act::Revive(path) => self.net.set_up(path, true),
            Act::Hold(path, holds) => {
                self.holds[path] = holds;
                for (at, to, delivery) in std::mem::take(&mut self.held) {
                    self.deliver(at, to, delivery);
                }
            }
            Act::Refuse(path, refuse) => self.refuses[path] = refuse,
            Act::Loss(path, share) => {
                let loss = Ratio::from_parts_per_billion(u64::from(share) * 1_000_000);
                self.net.configure(path, |link| link.loss = Loss::Bernoulli(loss));
            }
            Act::Rate(path, rate) => {
                self.net.configure(path, |link| link.rate = Rate::Constant(rate));
            }
            Act::Delay(path, delay) => self.net.configure(path, |link| link.delay = delay),
            Act::Reset(path) => {
                let on_path = |at: &usize| self.connections[*at].path == path;
                for at in self.live.iter().copied().filter(on_path).collect::<Vec<_>>() {
                    self.on_reset(at, CLIENT);
                    self.on_reset(at, SERVER);
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
                    end.session.abort(now, Reason::Aborted);
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
        if self.refuses[path] {
            let delay = self.net.config(path).delay;
            self.net.schedule(self.now + delay + delay, Message::Refused { path, attempt });
            return;
        }
        self.connections.push(Connection::open(self.now, path));
        let at = self.connections.len() - 1;
        self.live.insert(at);
        self.flush(at);
    }

    /// The client cancels a connection attempt.
    fn abandon(&mut self, path: usize) {
        self.attempts[path] = None;
        let connecting = |at: &&usize| {
            let connection = &self.connections[**at];
            connection.path == path && connection.owners[CLIENT] == Owner::Handshake
        };
        if let Some(at) = self.live.iter().find(connecting).copied() {
            self.connections[at].reset(CLIENT);
            self.flush(at);
        }
    }

    /// TCP's handshake is complete at an end.
    fn connected(&mut self, at: usize, side: usize) {
        let (now, path) = (self.now, self.connections[at].path);
        let owner = if side == CLIENT {
            self.attempts[path] = None;
            self.client.session.connected(now, PathId(path as u16)).map(Owner::Subflow)
        } else {
            let source = IpAddr::V4(Ipv4Addr::new(10, 0, 0, path as u8));
            self.acceptor.open(now, source).map(Owner::Pending)
        };
        match owner {
            Some(owner) => self.connections[at].owners[side] = owner,
            None => drop(self.connections[at].reset(side)),
        }
    }

    /// Passes data of TCP to an end.
    fn progress(&mut self, at: usize, side: usize) {
        let connection = &self.connections[at];
        let handshake = connection.owners[side] == Owner::Handshake;
        if handshake && connection.tcp[side].is_established() {
            self.connected(at, side);
        }
        while let Some(delivery) = self.connections[at].next_delivery(side) {
            self.deliver(at, side, delivery);
        }
        let ended = self.connections[at].tcp[side].ended();
        if ended.is_some_and(|end| end != transport::tcp::End::Finished) {
            self.on_reset(at, side);
        }
    }

    /// Sends the segments of both ends.
    fn flush(&mut self, at: usize) {
        for side in [CLIENT, SERVER] {
            while let Some(transmit) = self.connections[at].tcp[side].poll_transmit(self.now) {
                self.transmit(at, side, transmit.segment);
            }
        }
        if self.connections[at].is_over() {
            self.live.remove(&at);
        }
    }

    fn transmit(&mut self, at: usize, from: usize, segment: Segment) {
        let bytes = u32::from(segment.length) + segment.header_bytes();
        let message = Message::Segment { connection: at, segment };
        self.net.send(self.connections[at].path, from, bytes, message);
    }

    /// Processes data received in order at an end.
    fn deliver(&mut self, at: usize, to: usize, delivery: Delivery) {
        let now = self.now;
        if self.holds[self.connections[at].path] {
            self.held.push((at, to, delivery));
            return;
        }
        let owner = self.connections[at].owners[to];
        let (path_seq, frame) = match (delivery, owner) {
            (Delivery::End, Owner::Pending(id)) => {
                self.acceptor.on_lost(now, id);
                return self.close(at, to, false);
            }
            (Delivery::End, Owner::Subflow(subflow)) => {
                if let Some(end) = self.end(to) {
                    end.session.on_end(now, subflow, Ending::Finished);
                }
                return;
            }
            (Delivery::End, _) | (_, Owner::Handshake | Owner::Closed | Owner::Reset) => return,
            (Delivery::Frame(path_seq, frame), _) => (path_seq, frame),
        };
        let frame = match &mut self.tamper {
            Some(tamper) => tamper(to, frame),
            None => Some(frame),
        };
        let Some(frame) = frame else { return };
        match owner {
            Owner::Pending(id) => {
                self.acceptor.on_frame(now, id, frame, None);
                self.verdicts();
            }
            Owner::Subflow(subflow) => {
                if let Some(end) = self.end(to) {
                    end.on_received(&frame);
                    end.session.on_frame(now, subflow, path_seq, frame);
                    end.check();
                }
                if self.server.as_ref().is_some_and(|server| server.session.is_confirmed()) {
                    self.acceptor.mark_confirmed(self.number);
                }
            }
            Owner::Handshake | Owner::Closed | Owner::Reset => {}
        }
    }

    fn verdicts(&mut self) {
        let now = self.now;
        while let Some(verdict) = self.acceptor.poll() {
            let owner = Owner::Pending(verdict.connection());
            let owned = |at: &&usize| self.connections[**at].owners[SERVER] == owner;
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
                    server.on_received(&Frame::Hello(hello.clone()));
                    assert!(self.server.is_none(), "a second session {}", self.describe());
                    self.server = Some(server);
                    self.connections[at].owners[SERVER] = Owner::Subflow(hello.subflow);
                }
                Verdict::RepeatedHello(..) => self.repeat_hello(at),
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

    /// Handles a repeated HELLO on another connection.
    fn repeat_hello(&mut self, at: usize) {
        let now = self.now;
        let Owner::Subflow(subflow) = self.connections[at].owners[CLIENT] else {
            return self.close(at, SERVER, true);
        };
        self.connections[at].owners[SERVER] = Owner::Subflow(subflow);
        let server = self.server.as_mut().expect("HELLO came before");
        if !server.session.attach_repeated_hello(now, subflow) {
            self.close(at, SERVER, false);
        }
    }

    fn write(&mut self, at: usize, from: usize, path_seq: u32, frame: Frame<Bytes>) {
        self.connections[at].write(from, path_seq, frame);
        self.flush(at);
    }

    /// An end closes its side.
    fn close(&mut self, at: usize, side: usize, abort: bool) {
        let connection = &mut self.connections[at];
        if abort {
            connection.reset(side);
        } else {
            connection.owners[side] = Owner::Closed;
            connection.tcp[side].finish();
        }
        self.flush(at);
    }

    /// Handles a reset: the owner at an end loses its connection.
    fn on_reset(&mut self, at: usize, to: usize) {
        let (now, path) = (self.now, self.connections[at].path);
        match self.connections[at].reset(to) {
            Owner::Pending(id) => self.acceptor.on_lost(now, id),
            Owner::Subflow(subflow) => {
                if let Some(end) = self.end(to) {
                    end.session.on_end(now, subflow, Ending::Failed);
                }
            }
            Owner::Handshake if to == CLIENT => {
                self.attempts[path] = None;
                self.client.session.connect_failed(now, PathId(path as u16));
            }
            Owner::Handshake | Owner::Closed | Owner::Reset => {}
        }
        self.flush(at);
    }

    pub(crate) fn end_of(&self, side: usize) -> Option<&End> {
        if side == CLIENT { Some(&self.client) } else { self.server.as_ref() }
    }

    pub(crate) fn failure(&self, side: usize) -> Option<Reason> {
        self.end_of(side).and_then(|end| end.session.failed())
    }

    /// Whether both ends have closed and read all data of the other.
    pub(crate) fn is_complete(&self) -> bool {
        [CLIENT, SERVER].into_iter().all(|side| {
            let writes = self.script.applications[1 - side].writes;
            let is_complete = |end: &End| end.done && end.read == writes && end.session.is_closed();
            self.end_of(side).is_some_and(is_complete)
        })
    }

    pub(crate) fn server_read(&self) -> u64 {
        self.server.as_ref().map_or(0, |server| server.read)
    }

    /// Maximum time between two reads of the server, in seconds.
    pub(crate) fn max_read_gap_s(&self) -> f64 {
        self.server.as_ref().map_or(0.0, |server| server.max_read_gap_s)
    }

    pub(crate) fn has_event(&self, side: usize, event: Event) -> bool {
        self.events.iter().any(|(_, at, it)| (*at, *it) == (side, event))
    }

    /// Connections that an end has not closed.
    pub(crate) fn open_connections(&self) -> Vec<String> {
        let describe = |at: &usize| {
            let connection = &self.connections[*at];
            format!("{at} on path {}: {:?}", connection.path, connection.owners)
        };
        let owned = |owner: &Owner| matches!(owner, Owner::Pending(_) | Owner::Subflow(_));
        let is_open = |at: &&usize| self.connections[**at].owners.iter().any(owned);
        self.live.iter().filter(is_open).map(describe).collect()
    }

    /// Current state, for messages.
    pub(crate) fn describe(&self) -> String {
        let server = self.server.as_ref().map(End::describe);
        let events = &self.events[self.events.len().saturating_sub(12)..];
        format!(
            "at {}\nclient {}\nserver {}\nlately {events:?}",
            self.now,
            self.client.describe(),
            server.unwrap_or_default(),
        )
    }
}
