//! Two sessions, a listener, and connections between them with any possible TCP event at any time.
//! An input of bytes decides.

use std::collections::{BTreeSet, VecDeque};
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr};

use base::{Bandwidth, Bytes, Span, Time};
use bytes::Bytes as Payload;
use mctcp::acceptor::{Acceptor, ConnectionId, Limits, Verdict};
use mctcp::frame::{self, Priority};
use mctcp::scheduler::SchedulerKind;
use mctcp::session::{End, Opening};
use mctcp::{
    Decoder, Event, Frame, Output, PathId, PathInfo, Reason, Session, Settings, SubflowId,
};

/// Number of bytes that an unrestricted connection accepts.
const ROOM_BYTES: u64 = 64 << 10;
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Owner of the server's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Acceptor(ConnectionId),
    Session,
    None,
}

/// Data that one end has sent and the other has not received.
#[derive(Debug, Default)]
struct Pipe {
    frames: VecDeque<(u32, Frame<Payload>)>,
    bytes: u64,
    delivered: u64,
    /// How the sender has ended it.
    end: Option<End>,
    /// Its receiver accepts no more data.
    is_closed: bool,
}

#[derive(Debug)]
struct Connection {
    subflow: SubflowId,
    owner: Owner,
    /// The client's and the server's.
    pipes: [Pipe; 2],
    room: u64,
    /// Number of frames that the listener has sent.
    answers: u32,
}

impl Connection {
    fn send(&mut self, side: usize, path_seq: u32, frame: Frame<Payload>) {
        let pipe = &mut self.pipes[side];
        if !pipe.is_closed && pipe.end.is_none() {
            pipe.bytes += frame.wire_length() as u64;
            pipe.frames.push_back((path_seq, frame));
        }
    }

    /// The listener sends a frame.
    fn answer(&mut self, frame: Frame<Payload>) {
        self.answers += 1;
        self.send(SERVER, self.answers - 1, frame);
    }

    /// One side closes; the other receives earlier data unless it is `abort`ed.
    fn close(&mut self, side: usize, abort: bool) {
        if side == SERVER {
            self.owner = Owner::None;
        }
        self.pipes[1 - side].is_closed = true;
        let pipe = &mut self.pipes[side];
        if abort {
            pipe.frames.clear();
            pipe.bytes = 0;
            pipe.end = Some(End::Failed);
        } else {
            pipe.end.get_or_insert(End::Finished);
        }
    }
}

/// Maximum number of consecutive deadlines at the same time.
const MAX_WAKES: u32 = 64;
const MAX_WRITE_BYTES: u64 = 1 << 20;

/// Decisions read from bytes.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from(self.byte()?) << 8 | u64::from(self.byte()?))
    }
}

struct World {
    now: Time,
    ends: [Option<Session<Payload>>; 2],
    acceptor: Acceptor,
    settings: Settings,
    proof: bool,
    connections: Vec<Connection>,
    connecting: BTreeSet<PathId>,
    written: [u64; 2],
    read: [u64; 2],
    finished: [bool; 2],
    /// The peer received frames that were never sent, or a failure has another legitimate reason.
    has_forged_frames: bool,
    may_fail: bool,
    wakes: u32,
}

/// The byte at a position of a side's stream.
fn byte_at(side: usize, at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16).wrapping_mul(2 * side as u64 + 3) as u8
}

impl World {
    fn new(script: &mut Script<'_>) -> Option<Self> {
        let choice = script.byte()?;
        let kinds = SchedulerKind::ALL;
        let settings = Settings {
            scheduler: kinds[usize::from(script.byte()?) % kinds.len()].0,
            max_subflows: 1 + choice % 8,
            max_frame: Bytes::new(if choice & 8 == 0 { 1024 } else { 16_384 }),
            send_buffer: Bytes::new(64 << 10),
            receive_buffer: Bytes::new(64 << 10),
            autotune: choice & 16 != 0,
            join_after: Bytes::new(4096),
            ..Settings::default()
        };
        let proof = choice & 32 != 0;
        let psk: Option<Box<[u8]>> = proof.then(|| b"between us"[..].into());
        let target = "example.org:80".to_owned();
        let opening = Opening { seed: [1; 32], target, secret: psk.clone(), proof };
        let grants = settings.limits(proof);
        let credit = settings.receive_buffer.count();
        Some(Self {
            now: Time::ZERO,
            ends: [Some(Session::connect(settings.clone(), opening)), None],
            acceptor: Acceptor::new(Limits::default(), grants, credit, psk, [2; 32]),
            settings,
            proof,
            connections: Vec::new(),
            connecting: BTreeSet::new(),
            written: [0; 2],
            read: [0; 2],
            finished: [false; 2],
            has_forged_frames: false,
            may_fail: false,
            wakes: 0,
        })
    }

    fn end(&mut self, side: usize) -> Option<&mut Session<Payload>> {
        self.ends[side].as_mut()
    }

    /// Executes the outputs of both ends and of the listener.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            for side in [CLIENT, SERVER] {
                while let Some(output) = self.end(side).and_then(Session::poll) {
                    busy = true;
                    self.execute(side, output);
                }
            }
            while let Some(verdict) = self.acceptor.poll() {
                busy = true;
                self.judge(verdict);
            }
            if !busy {
                break;
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let buffer = self.settings.receive_buffer.count();
        for session in self.ends.iter().flatten() {
            assert!(session.statistics().buffered <= buffer, "more is kept than was granted");
            assert!(session.subflows().count() <= 32);
        }
        match &self.ends[SERVER] {
            Some(server) if server.is_closed() => self.acceptor.finish(server.number()),
            Some(server) if server.failed().is_some() => self.acceptor.remove(server.number()),
            _ => {}
        }
    }

    fn execute(&mut self, side: usize, output: Output<Payload>) {
        match output {
            Output::Connect(path) => {
                assert!(self.connecting.insert(path), "{path:?} is being connected already");
            }
            Output::Abandon(path) => {
                self.connecting.remove(&path);
            }
            Output::Send { subflow, path_seq, frame } => {
                if let Frame::Data { payload, .. } = &frame {
                    assert!(
                        (1..=self.settings.max_frame.count()).contains(&(payload.len() as u64))
                    );
                }
                let Some(connection) = self.of(side, subflow) else {
                    panic!("{frame:?} on {subflow:?}, which side {side} has not");
                };
                connection.send(side, path_seq, frame);
            }
            Output::Close { subflow, abort } => {
                let Some(connection) = self.of(side, subflow) else { return };
                connection.close(side, abort);
            }
            Output::Inspect(subflow) => self.inspect(side, subflow),
            Output::Event(Event::Failed { reason, .. }) => {
                let legitimate = self.has_forged_frames || self.may_fail || self.is_late();
                assert!(legitimate, "side {side} failed: {reason}");
            }
            Output::Event(_) => {}
        }
    }

    /// The connection of a subflow that this side has not closed.
    fn of(&mut self, side: usize, subflow: SubflowId) -> Option<&mut Connection> {
        let own = |c: &&mut Connection| c.subflow == subflow && !c.pipes[1 - side].is_closed;
        self.connections
            .iter_mut()
            .filter(|c| side == CLIENT || c.owner == Owner::Session)
            .find(own)
    }

    fn inspect(&mut self, side: usize, subflow: SubflowId) {
        let Some(connection) = self.of(side, subflow) else { return };
        let pipe = &connection.pipes[side];
        let info = PathInfo {
            srtt: Some(Span::from_millis(20)),
            rtt_var: Some(Span::from_millis(2)),
            min_rtt: Some(Span::from_millis(20)),
            cwnd: Bytes::new(ROOM_BYTES),
            in_flight: Bytes::new(pipe.bytes),
            acked: Bytes::new(pipe.delivered),
            delivery_rate: Some(Bandwidth::from_mbits_per_sec(10)),
            ..PathInfo::default()
        };
        let now = self.now;
        if let Some(session) = self.end(side) {
            session.on_path_info(now, subflow, info);
        }
    }

    fn judge(&mut self, verdict: Verdict) {
        let now = self.now;
        let owner = Owner::Acceptor(verdict.connection());
        let Some(at) = self.connections.iter().position(|c| c.owner == owner) else { return };
        let subflow = self.connections[at].subflow;
        match verdict {
            Verdict::Send(_, frame) => self.connections[at].answer(frame),
            Verdict::Close(_) => self.connections[at].close(SERVER, false),
            Verdict::Open(_, hello, ack, key) => {
                if self.ends[SERVER].is_some() {
                    // The first one was dropped: this one gets no answer.
                    self.connections[at].close(SERVER, true);
                    self.acceptor.remove(ack.session);
                    return;
                }
                let settings = self.settings.clone();
                let session = Session::accept(now, settings, &hello, &ack, key, self.proof);
                self.ends[SERVER] = Some(session);
                self.connections[at].owner = Owner::Session;
            }
            Verdict::RepeatedHello(..) | Verdict::Joined(..) => {
                self.connections[at].owner = Owner::Session;
                let Some(session) = self.end(SERVER) else { return };
                let taken = match verdict {
                    Verdict::Joined(_, join) => session.attach(now, &join),
                    _ => session.attach_repeated_hello(now, subflow),
                };
                if !taken {
                    self.connections[at].close(SERVER, true);
                }
            }
        }
        self.give_room(at);
    }

    fn give_room(&mut self, at: usize) {
        let now = self.now;
        let connection = &self.connections[at];
        let subflow = connection.subflow;
        for side in [CLIENT, SERVER] {
            let connection = &self.connections[at];
            let room = connection.room.saturating_sub(connection.pipes[side].bytes);
            if self.of(side, subflow).is_some()
                && let Some(session) = self.end(side)
            {
                session.set_room(now, subflow, Bytes::new(room));
            }
        }
    }

    /// The next frame, or the end, of a direction arrives.
    fn deliver(&mut self, at: usize, from: usize) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(at) else { return };
        let (subflow, owner) = (connection.subflow, connection.owner);
        let pipe = &mut connection.pipes[from];
        if pipe.is_closed {
            pipe.frames.clear();
            pipe.bytes = 0;
            return;
        }
        let Some((path_seq, frame)) = pipe.frames.pop_front() else {
            if let Some(end) = pipe.end.take() {
                pipe.is_closed = true;
                connection.pipes[1 - from].end.get_or_insert(End::Finished);
                self.report_end(at, 1 - from, end);
                self.settle();
            }
            return;
        };
        let length = frame.wire_length() as u64;
        pipe.bytes -= length;
        pipe.delivered += length;
        match (from, owner) {
            (CLIENT, Owner::Acceptor(id)) => self.acceptor.on_frame(now, id, frame, None),
            (CLIENT, Owner::None) => {}
            _ => {
                if let Some(session) = self.end(1 - from) {
                    session.on_frame(now, subflow, path_seq, frame);
                }
                if from == CLIENT
                    && let Some(session) = &self.ends[SERVER]
                    && session.is_confirmed()
                {
                    self.acceptor.mark_confirmed(session.number());
                }
            }
        }
        self.give_room(at);
        // The next frame on the connection may have another owner.
        self.settle();
    }

    /// Reports the end of its connection to an end.
    fn report_end(&mut self, at: usize, side: usize, end: End) {
        let now = self.now;
        let connection = &mut self.connections[at];
        let (subflow, owner) = (connection.subflow, connection.owner);
        if side == SERVER {
            connection.owner = Owner::None;
        }
        match (side, owner) {
            (SERVER, Owner::Acceptor(id)) => self.acceptor.on_lost(now, id),
            (SERVER, Owner::None) => {}
            _ => {
                if let Some(session) = self.end(side) {
                    session.on_end(now, subflow, end);
                }
            }
        }
    }

    /// Breaks a connection: data in flight are lost.
    fn fail(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        for pipe in &mut connection.pipes {
            pipe.frames.clear();
            pipe.bytes = 0;
            if !pipe.is_closed {
                pipe.end = Some(End::Failed);
            }
        }
    }

    fn connect(&mut self, path: PathId) {
        let now = self.now;
        if !self.connecting.remove(&path) {
            return;
        }
        let Some(subflow) = self.end(CLIENT).and_then(|c| c.connected(now, path)) else { return };
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let id = self.acceptor.open(now, source);
        let mut connection = Connection {
            subflow,
            owner: id.map_or(Owner::None, Owner::Acceptor),
            pipes: <[Pipe; 2]>::default(),
            room: ROOM_BYTES,
            answers: 0,
        };
        if id.is_none() {
            connection.close(SERVER, true);
        }
        self.connections.push(connection);
        self.give_room(self.connections.len() - 1);
    }

    /// Whether handshakes and sessions have timed out.
    fn is_late(&self) -> bool {
        self.now >= Time::ZERO + Span::from_millis(2_000)
    }

    fn next_wake(&self) -> Option<Time> {
        let ends = self.ends.iter().flatten().filter_map(Session::next_wake);
        ends.chain(self.acceptor.next_wake()).min()
    }

    /// Advances the time and handles each deadline when it is due.
    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(wake) = self.next_wake().filter(|wake| *wake <= until) {
            self.wakes = if wake <= self.now { self.wakes + 1 } else { 0 };
            assert!(self.wakes < MAX_WAKES, "deadlines at {wake} without end");
            self.now = self.now.max(wake);
            let now = self.now;
            for session in self.ends.iter_mut().flatten() {
                if session.next_wake().is_some_and(|wake| wake <= now) {
                    session.on_wake(now);
                }
            }
            if self.acceptor.next_wake().is_some_and(|wake| wake <= now) {
                self.acceptor.on_wake(now);
            }
            self.settle();
        }
        self.now = until;
    }

    fn write(&mut self, side: usize, length: u64) {
        let (now, from) = (self.now, self.written[side]);
        let until = (from + length).min(MAX_WRITE_BYTES);
        if self.finished[side] || until == from {
            return;
        }
        let Some(session) = self.end(side) else { return };
        let payload: Payload = (from..until).map(|at| byte_at(side, at)).collect();
        let rest = session.write(now, payload).map_or(0, |rest| rest.len() as u64);
        self.written[side] = until - rest;
    }

    fn read(&mut self, side: usize, max_pieces: u64) {
        let now = self.now;
        for _ in 0..max_pieces {
            let Some(piece) = self.end(side).and_then(|session| session.read(now)) else { break };
            let from = self.read[side];
            self.read[side] += piece.len() as u64;
            if !self.has_forged_frames {
                let expected = (from..).map(|at| byte_at(1 - side, at));
                assert!(piece.iter().copied().zip(expected).all(|(a, b)| a == b), "wrong bytes");
                assert!(self.read[side] <= self.written[1 - side]);
            }
        }
    }

    fn finish(&mut self, side: usize) {
        let now = self.now;
        if let Some(session) = self.end(side) {
            session.finish(now);
            self.finished[side] = true;
        }
    }
}

/// Events that a script selects.
impl World {
    /// Executes the next step of the script; `None` at its end.
    fn step(&mut self, script: &mut Script<'_>) -> Option<()> {
        let (action, which) = (script.byte()?, usize::from(script.byte()?));
        let (side, at) = (which & 1, (which >> 1) % self.connections.len().max(1));
        let now = self.now;
        match action % 20 {
            0..=3 => (0..=action / 20).for_each(|_| self.deliver(at, side)),
            4 | 5 => self.pass(Span::from_millis(script.byte()?.into())),
            6 => self.pass(Span::from_millis(script.number()? % 4096)),
            7 | 8 => self.write(side, script.number()?),
            9 => self.read(side, which as u64 >> 1),
            10 => {
                let path = self.connecting.iter().nth(which % 8).copied();
                if let Some(path) = path {
                    self.connect(path);
                }
            }
            11 => self.fail_connecting(which),
            12 => self.fail(at),
            13 => {
                if let Some(connection) = self.connections.get_mut(at) {
                    connection.room = script.number()?;
                    self.give_room(at);
                }
            }
            14 => self.end(CLIENT)?.add_path(now, PathId(which as u16 % 12), priority(action)),
            15 if action > 200 => self.end(CLIENT)?.remove_path(now, PathId(which as u16 % 12)),
            15 => self.end(CLIENT)?.join_now(now),
            16 if which > 200 => self.finish(side),
            17 if action > 200 => self.deliver_garbage(at, side, script)?,
            18 if action > 200 => self.report_inconsistent_info(at, side, script)?,
            19 if action > 250 => {
                self.has_forged_frames = true;
                if let Some(session) = self.end(side) {
                    session.abort(now, Reason::Aborted);
                }
            }
            _ => {}
        }
        self.settle();
        Some(())
    }

    fn fail_connecting(&mut self, which: usize) {
        let now = self.now;
        if let Some(path) = self.connecting.iter().nth(which % 8).copied() {
            self.connecting.remove(&path);
            self.may_fail = true;
            if let Some(client) = self.end(CLIENT) {
                client.connect_failed(now, path);
            }
        }
    }

    /// Delivers a frame that the peer would never send.
    fn deliver_garbage(&mut self, at: usize, from: usize, script: &mut Script<'_>) -> Option<()> {
        self.has_forged_frames = true;
        let length = usize::from(script.byte()?).min(script.0.len());
        let mut bytes = frame::PREAMBLE.to_vec();
        bytes.extend(&script.0[..length]);
        script.0 = &script.0[length..];
        let mut decoder = Decoder::new(1024);
        let read = (&bytes[..]).read(decoder.space()).expect("a slice can be read");
        decoder.advance(read);
        let now = self.now;
        let connection = self.connections.get_mut(at)?;
        let subflow = connection.subflow;
        let next = connection.pipes[from].frames.front().map_or(0, |(path_seq, _)| *path_seq);
        for _ in 0..4 {
            match decoder.next_frame() {
                Ok(Some((path_seq, frame))) => {
                    let pipe = &mut self.connections[at].pipes[from];
                    pipe.bytes += frame.wire_length() as u64;
                    // With an expected number it is processed further.
                    let path_seq = if path_seq < 0x8000_0000 { next } else { path_seq };
                    pipe.frames.push_front((path_seq, frame));
                    self.deliver(at, from);
                }
                Ok(None) => break,
                Err(error) => {
                    if let Some(session) = self.end(1 - from) {
                        session.on_error(now, subflow, &error);
                    }
                    break;
                }
            }
            self.settle();
        }
        Some(())
    }

    /// TCP reports inconsistent values.
    fn report_inconsistent_info(
        &mut self,
        at: usize,
        side: usize,
        script: &mut Script<'_>,
    ) -> Option<()> {
        let subflow = self.connections.get(at)?.subflow;
        let info = PathInfo {
            srtt: Some(Span::from_micros(script.number()?)).filter(|span| span.is_positive()),
            cwnd: Bytes::new(script.number()?),
            in_flight: Bytes::new(script.number()?),
            notsent: Bytes::new(script.number()?),
            acked: Bytes::new(script.number()?),
            delivery_rate: Some(Bandwidth::from_bits_per_sec(script.number()?)),
            ..PathInfo::default()
        };
        let now = self.now;
        self.end(side)?.on_path_info(now, subflow, info);
        Some(())
    }

    /// Removes all faults: all written data arrive, and both ends close.
    fn remove_faults(&mut self) {
        let now = self.now;
        if let Some(client) = self.end(CLIENT) {
            (0..2).for_each(|id| client.add_path(now, PathId(id), Priority::default()));
        }
        self.settle();
        for round in 0..4_000_u64 {
            let done = |session: &Session<_>| session.is_closed() || session.failed().is_some();
            if self.ends.iter().flatten().all(done) {
                break;
            }
            while let Some(path) = self.connecting.first().copied() {
                self.connect(path);
            }
            for at in 0..self.connections.len() {
                self.connections[at].room = ROOM_BYTES;
                for from in [CLIENT, SERVER] {
                    let length = self.connections[at].pipes[from].frames.len();
                    (0..=length).for_each(|_| self.deliver(at, from));
                }
                self.give_room(at);
            }
            for side in [CLIENT, SERVER] {
                self.read(side, u64::MAX);
                if !self.finished[side] {
                    self.finish(side);
                }
            }
            self.settle();
            self.pass(Span::from_millis(if round < 1_000 { 10 } else { 100 }));
        }
    }
}

fn priority(choice: u8) -> Priority {
    Priority { backup: choice & 0x80 != 0, weight: 1 + choice % 4 }
}

/// Executes `script`, then runs until everything has ended.
pub(crate) fn run(script: &[u8]) {
    let mut script = Script(script);
    let Some(mut world) = World::new(&mut script) else { return };
    if let Some(client) = world.end(CLIENT) {
        (0..2).for_each(|id| client.add_path(Time::ZERO, PathId(id), Priority::default()));
    }
    world.settle();
    while world.step(&mut script).is_some() {}
    let late = world.is_late();
    world.remove_faults();
    let [client, server] = &world.ends;
    for (side, session) in [(CLIENT, client), (SERVER, server)] {
        let Some(session) = session else { continue };
        assert!(session.is_closed() || session.failed().is_some(), "side {side} never ends");
        if session.is_closed() && !world.has_forged_frames {
            assert_eq!(world.read[side], world.written[1 - side], "side {side} misses bytes");
        }
        let may_fail = late || world.has_forged_frames || world.may_fail;
        assert!(session.is_closed() || may_fail, "side {side} failed: {:?}", session.failed());
    }
}
