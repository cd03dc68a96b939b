//! Two sessions face to face, over pipes with a delay.

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, Span, Time};

use super::*;
use crate::Counted;
use crate::frame::{Hello, HelloAck};

/// One direction of a subflow.
#[derive(Default)]
struct Pipe {
    inside: VecDeque<(Time, u32, Frame<Counted>)>,
    free: Time,
    /// Its sender has nothing more to say.
    finished: bool,
}

struct World {
    now: Time,
    ends: [Option<Session<Counted>>; 2],
    pipes: BTreeMap<(SubflowId, usize), Pipe>,
    /// One-way delay and rate of each path.
    paths: Vec<(Span, Bandwidth)>,
    of: BTreeMap<SubflowId, PathId>,
    pending: Vec<(Time, PathId)>,
    keys: Option<SessionKey>,
    read: [u64; 2],
    silent: Vec<PathId>,
    events: Vec<(usize, Event)>,
}

fn settings() -> Settings {
    Settings { autotune: false, ..Settings::default() }
}

impl World {
    fn new(paths: &[(u64, u64)]) -> Self {
        let opening = Opening { seed: [1; 32], target: "t".to_owned(), secret: None, proof: false };
        let mut client = Session::connect(settings(), opening);
        for at in 0..paths.len() {
            client.add_path(Time::ZERO, PathId(at as u16), Priority::default());
        }
        let path = |(ms, mbits): &(u64, u64)| {
            (Span::from_millis(*ms), Bandwidth::from_mbits_per_sec(*mbits))
        };
        Self {
            now: Time::ZERO,
            ends: [Some(client), None],
            pipes: BTreeMap::new(),
            paths: paths.iter().map(path).collect(),
            of: BTreeMap::new(),
            pending: Vec::new(),
            keys: None,
            read: [0; 2],
            silent: Vec::new(),
            events: Vec::new(),
        }
    }

    fn client(&mut self) -> &mut Session<Counted> {
        self.ends[0].as_mut().unwrap()
    }

    fn drain(&mut self, side: usize) {
        while let Some(session) = &mut self.ends[side] {
            while let Some(piece) = session.read(self.now) {
                self.read[side] += piece.0 as u64;
            }
            let Some(output) = session.poll() else { break };
            match output {
                Output::Connect(path) => {
                    let delay = self.paths[usize::from(path.0)].0;
                    if !self.silent.contains(&path) {
                        self.pending.push((self.now + delay + delay, path));
                    }
                }
                Output::Abandon(path) => self.pending.retain(|(_, known)| *known != path),
                Output::Send { subflow, path_seq, frame } => {
                    self.send(side, subflow, path_seq, frame);
                }
                Output::Close { subflow, abort: true } => {
                    self.pipes.remove(&(subflow, side));
                }
                // What is inside still arrives.
                Output::Close { subflow, abort: false } => {
                    self.pipes.entry((subflow, side)).or_default().finished = true;
                }
                Output::Inspect(subflow) => self.inspect(side, subflow),
                Output::Event(event) => self.events.push((side, event)),
            }
        }
    }

    fn send(&mut self, side: usize, subflow: SubflowId, path_seq: u32, frame: Frame<Counted>) {
        let path = self.of[&subflow];
        let (delay, rate) = self.paths[usize::from(path.0)];
        let pipe = self.pipes.entry((subflow, side)).or_default();
        pipe.free = pipe.free.max(self.now) + rate.time_for(Bytes::new(frame.wire_length() as u64));
        pipe.inside.push_back((pipe.free + delay, path_seq, frame));
        self.room(side, subflow);
    }

    /// A pipe takes what it sends within 20 ms.
    fn room(&mut self, side: usize, subflow: SubflowId) {
        let rate = self.paths[usize::from(self.of[&subflow].0)].1;
        let queued =
            self.pipes.get(&(subflow, side)).map_or(Span::ZERO, |p| p.free.since(self.now));
        let room = rate.bytes_in(Span::from_millis(20).saturating_sub(queued));
        if let Some(session) = &mut self.ends[side] {
            session.set_room(self.now, subflow, room);
        }
    }

    fn inspect(&mut self, side: usize, subflow: SubflowId) {
        let path = self.of[&subflow];
        let (delay, rate) = self.paths[usize::from(path.0)];
        let srtt = Some(delay + delay);
        let queued = self.pipes.get(&(subflow, side)).map_or(0, |pipe| pipe.inside.len());
        let silent = self.silent.contains(&path);
        let info = PathInfo {
            srtt,
            min_rtt: srtt,
            rtt_var: Some(Span::from_millis(1)),
            cwnd: rate.bytes_in(delay + delay),
            in_flight: Bytes::new(queued as u64),
            acked: Bytes::new(if silent { 0 } else { self.now.as_nanos() }),
            delivery_rate: Some(rate),
            ..PathInfo::default()
        };
        if let Some(session) = &mut self.ends[side] {
            session.on_path_info(self.now, subflow, info);
        }
    }

    /// Runs until a time, or until nothing is left to happen.
    fn run(&mut self, until: Time) {
        loop {
            self.drain(0);
            self.drain(1);
            let fronts = self.pipes.iter();
            let fronts = fronts.filter(|((s, _), _)| !self.silent.contains(&self.of[s]));
            let first = |pipe: &Pipe| match pipe.inside.front() {
                Some((at, ..)) => Some(*at),
                None => pipe.finished.then_some(pipe.free),
            };
            let arrival = fronts.filter_map(|(key, pipe)| Some((first(pipe)?, *key))).min();
            let wake = |side: usize| self.ends[side].as_ref()?.next_wake();
            let wakes = [0, 1].map(wake);
            let pending = self.pending.iter().map(|(at, _)| *at).min();
            let times = [arrival.map(|(at, _)| at), wakes[0], wakes[1], pending];
            let Some(next) = times.into_iter().flatten().min().filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            if let Some((at, (subflow, side))) = arrival
                && at <= self.now
            {
                self.deliver(subflow, side);
            }
            if let Some(at) = self.pending.iter().position(|(at, _)| *at <= self.now) {
                let (_, path) = self.pending.remove(at);
                let now = self.now;
                if let Some(id) = self.client().connected(now, path) {
                    self.of.insert(id, path);
                    self.room(0, id);
                }
            }
            for (side, wake) in wakes.into_iter().enumerate() {
                if wake.is_some_and(|at| at <= self.now) {
                    self.ends[side].as_mut().unwrap().on_wake(self.now);
                }
            }
        }
    }

    fn deliver(&mut self, subflow: SubflowId, from: usize) {
        let Some(pipe) = self.pipes.get_mut(&(subflow, from)) else { return };
        let now = self.now;
        let Some((_, path_seq, frame)) = pipe.inside.pop_front() else {
            pipe.finished = false;
            if let Some(session) = &mut self.ends[1 - from] {
                session.on_end(now, subflow, End::Finished);
            }
            return;
        };
        self.room(from, subflow);
        match frame {
            Frame::Hello(hello) => self.greet(&hello),
            Frame::Join(join) => {
                assert!(self.keys.as_ref().unwrap().is_token(join.index, &join.token));
                let nonce = [3; 16];
                let proof = self.keys.as_ref().unwrap().server_proof(&join.nonce, &nonce);
                let challenge = crate::frame::Challenge { nonce, proof };
                self.ends[0].as_mut().unwrap().on_frame(
                    now,
                    subflow,
                    0,
                    Frame::Challenge(challenge),
                );
                assert!(self.ends[1].as_mut().unwrap().attach(now, &join));
                self.room(1, subflow);
            }
            Frame::Proof(_) => {}
            frame => {
                if let Some(session) = &mut self.ends[1 - from] {
                    session.on_frame(now, subflow, path_seq, frame);
                }
            }
        }
    }

    fn greet(&mut self, hello: &Hello) {
        let key = SessionKey::derive(&[], &hello.nonce, &[2; 32]);
        let ack = HelloAck {
            nonce: [2; 32],
            credit: 0,
            limits: settings().limits(false),
            session: 7,
            proof: key.hello_ack_proof(),
        };
        self.keys = Some(key.clone());
        self.ends[1] = Some(Session::accept(self.now, settings(), hello, &ack, key, false));
        self.room(1, hello.subflow);
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

#[test]
fn two_paths_carry_the_sum() {
    let mut world = World::new(&[(10, 10), (10, 10)]);
    world.client().write(Time::ZERO, Counted(4 << 20));
    world.run(at(1_500));
    let expected = 2 * 10_000_000 / 8;
    assert!(world.read[1] > expected, "{} bytes", world.read[1]);
    let statistics = world.client().statistics();
    assert!(statistics.reinjected < 100_000, "{statistics:?}");
    assert_eq!(world.client().subflows().count(), 2);
}

#[test]
fn a_short_stream_stays_on_one_connection_and_ends_well() {
    let mut world = World::new(&[(10, 10), (10, 10)]);
    assert!(world.client().write(Time::ZERO, Counted(10_000)).is_none());
    world.client().finish(Time::ZERO);
    world.run(at(55));
    assert_eq!(world.read[1], 10_000);
    assert!(world.ends[1].as_ref().unwrap().read_finished());
    let now = world.now;
    world.ends[1].as_mut().unwrap().finish(now);
    world.run(at(1_000));
    assert!(world.client().is_closed() && world.ends[1].as_ref().unwrap().is_closed());
    assert_eq!(world.of.len(), 1);
}

#[test]
fn a_silent_path_is_replaced_by_the_other() {
    let mut world = World::new(&[(10, 10), (10, 10)]);
    world.client().write(Time::ZERO, Counted(4 << 20));
    world.run(at(1_000));
    world.silent.push(PathId(0));
    world.run(at(1_500));
    let before = world.read[1];
    world.run(at(2_500));
    assert!(world.read[1] > before + 1_000_000, "{} then {}", before, world.read[1]);
    assert!(world.events.contains(&(0, Event::SubflowStale(SubflowId(0)))));
    world.silent.clear();
    world.run(at(5_000));
    assert_eq!(world.read[1], 4 << 20);
    assert_eq!(world.client().subflows().filter(|s| s.state == SubflowState::Active).count(), 2);
}

#[test]
fn a_server_that_does_not_know_the_secret_is_left() {
    let secret: &[u8] = b"between us";
    let opening =
        Opening { seed: [1; 32], target: String::new(), secret: Some(secret.into()), proof: true };
    let mut client: Session<Counted> = Session::connect(settings(), opening);
    client.add_path(at(0), PathId(0), Priority::default());
    let subflow = client.connected(at(10), PathId(0)).unwrap();
    let hello = std::iter::from_fn(|| client.poll()).find_map(|output| match output {
        Output::Send { frame: Frame::Hello(hello), .. } => Some(hello),
        _ => None,
    });
    let nonce = [2; 32];
    let key = SessionKey::derive(b"another", &hello.unwrap().nonce, &nonce);
    let limits = settings().limits(true);
    let proof = key.hello_ack_proof();
    let ack = HelloAck { nonce, credit: 1 << 20, limits, session: 7, proof };
    client.on_frame(at(20), subflow, 0, Frame::HelloAck(ack));
    assert_eq!(client.failed(), Some(Reason::Authentication));
}

#[test]
fn paths_that_lose_the_greeting_are_not_taken_for_a_peer_that_does_not_answer() {
    let mut world = World::new(&[(10, 10), (10, 10)]);
    world.client().write(Time::ZERO, Counted(10_000));
    world.run(at(20));
    world.silent.extend([PathId(0), PathId(1)]);
    world.run(at(5_000));
    assert_eq!(world.client().failed(), None);
    world.silent.clear();
    world.run(at(6_000));
    assert!(world.client().is_established());
    assert_eq!(world.read[1], 10_000);
}
