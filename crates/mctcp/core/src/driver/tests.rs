use std::collections::{BTreeMap, VecDeque};

use base::Span;

use super::*;
use crate::Counted;
use crate::frame::PREAMBLE;

const RTT: Span = Span::from_millis(10);

/// A connection whose frames arrive at the next step if its path is up.
#[derive(Debug)]
struct Link {
    path: PathId,
    frames: [VecDeque<(u32, Frame<Counted>)>; 2],
    written: [u64; 2],
    acked: [u64; 2],
    closed: [bool; 2],
    ended: [bool; 2],
}

/// Two paths, of which the second is a backup.
struct Network {
    now: Time,
    is_up: [bool; 2],
    /// Whether SYN is answered; a path that returns does not answer earlier SYNs.
    answers: bool,
    open: BTreeMap<u32, PathId>,
    /// Closed sockets stay open until they are released.
    delays_close: bool,
}

impl Transport<Counted, Link> for Network {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self, path: PathId, key: u32, _number: u32) -> Option<Link> {
        self.open.insert(key, path);
        let frames = Default::default();
        let (written, acked, closed, ended) = ([0; 2], [0; 2], [false; 2], [false; 2]);
        Some(Link { path, frames, written, acked, closed, ended })
    }

    fn send(&mut self, link: &mut Link, side: usize, seq: u32, frame: Frame<Counted>) -> u64 {
        let preamble = if link.written[side] == 0 { PREAMBLE.len() } else { 0 };
        let length = (frame.wire_length() + preamble) as u64;
        link.written[side] += length;
        link.frames[side].push_back((seq, frame));
        length
    }

    fn flush(&mut self, _link: &mut Link, _side: usize) {}

    fn receive(&mut self, link: &mut Link, side: usize) -> Option<Input<Counted>> {
        if !self.is_up[usize::from(link.path.0)] {
            return None;
        }
        if let Some((seq, frame)) = link.frames[1 - side].pop_front() {
            return Some(Input::Frame(seq, frame));
        }
        link.acked[1 - side] = link.written[1 - side];
        let ends = link.closed[1 - side] && !link.ended[side];
        link.ended[side] |= ends;
        ends.then_some(Input::Ended(End::Finished))
    }

    fn room(&mut self, link: &mut Link, side: usize) -> u64 {
        (32_u64 << 10).saturating_sub(link.written[side] - link.acked[side])
    }

    fn info(&mut self, link: &mut Link, side: usize) -> Option<PathInfo> {
        Some(PathInfo {
            srtt: Some(RTT),
            cwnd: Bytes::new(32 << 10),
            in_flight: Bytes::new(link.written[side] - link.acked[side]),
            acked: Bytes::new(link.acked[side]),
            ..PathInfo::default()
        })
    }

    fn close(&mut self, link: &mut Link, side: usize, _abort: bool) {
        link.closed[side] = true;
    }

    fn is_closed(&mut self, link: &mut Link, side: usize) -> bool {
        link.closed[side] && !self.delays_close
    }

    fn release(&mut self, link: Link, status: SubflowStatus) -> [u64; 2] {
        assert_eq!((link.path, status.state), (status.path, "closed"));
        [0; 2]
    }

    fn produce(&mut self, _side: usize, _at: u64, bytes: u64) -> Counted {
        Counted(bytes as usize)
    }

    fn consume(&mut self, _side: usize, _payload: Counted) {}
}

struct Bench {
    network: Network,
    driver: Driver<Counted, Link>,
    stream: u32,
}

impl Bench {
    /// A client that sends without end.
    fn new() -> Self {
        let setup = Setup::new(SchedulerKind::default(), 8, &[false, true], None);
        let setup = Arc::new(Setup { paths: setup.paths[..2].to_vec(), ..setup });
        let mut network = Network {
            now: Time::ZERO,
            is_up: [true; 2],
            answers: true,
            open: BTreeMap::new(),
            delays_close: false,
        };
        let mut driver = Driver::new(&setup, RandomStream::new(1, "sessions"));
        let stream = driver.connect(network.now, 0);
        driver.write(stream, 0, u64::MAX);
        driver.flush(&mut network, stream);
        Self { network, driver, stream }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.network.now += Span::from_millis(1);
            for (key, path) in self.network.open.clone() {
                if self.network.is_up[usize::from(path.0)] {
                    let connects = self.network.answers;
                    for side in [0, 1] {
                        self.driver.on_event(&mut self.network, key, side, connects);
                    }
                }
            }
            self.driver.on_wake(&mut self.network);
        }
    }

    /// Key, number, path and state of each subflow.
    fn subflows(&self) -> Vec<(u32, u16, &'static str)> {
        let (subflows, _) = self.driver.subflows(self.stream).unwrap();
        let status = subflows.map(|subflow| self.driver.status(subflow));
        status.map(|status| (status.number, status.path.0, status.state)).collect()
    }

    fn sent(&self) -> BTreeMap<u32, u64> {
        let (subflows, _) = self.driver.subflows(self.stream).unwrap();
        let status = subflows.map(|subflow| self.driver.status(subflow));
        status.map(|status| (status.number, status.sent)).collect()
    }

    /// The path of subflow 0 fails, until an attempt to replace the subflow is under way.
    fn with_attempt() -> (Self, u32) {
        let mut bench = Self::new();
        bench.run(1_000);
        assert_eq!(bench.subflows(), [(0, 0, "active"), (1, 1, "active")]);
        (bench.network.is_up[0], bench.network.answers) = (false, false);
        bench.run(2_000);
        let expected = [(0, 0, "stale"), (1, 1, "active"), (2, 0, "connecting")];
        assert_eq!(bench.subflows(), expected);
        let key = *bench.network.open.keys().next_back().unwrap();
        (bench, key)
    }
}

#[test]
fn path_return_ends_the_attempt_to_replace_its_subflow() {
    let (mut bench, key) = Bench::with_attempt();
    assert!(!bench.driver.subflow_mut(key).unwrap().is_up(0));
    bench.network.is_up[0] = true;
    bench.run(100);
    assert_eq!(bench.subflows(), [(0, 0, "active"), (1, 1, "active")]);
    let before = bench.sent();
    bench.network.answers = true;
    bench.run(1_000);
    assert_eq!(bench.subflows(), [(0, 0, "active"), (1, 1, "active")]);
    let after = bench.sent();
    assert!(after[&0] > before[&0] + (1 << 20), "the path is used: {before:?} {after:?}");
    assert!(after[&1] < before[&1] + (64 << 10), "the backup is not: {before:?} {after:?}");
}

#[test]
fn ignores_an_abandoned_attempt_that_succeeds() {
    let (mut bench, key) = Bench::with_attempt();
    bench.network.delays_close = true;
    bench.network.is_up[0] = true;
    bench.run(100);
    bench.network.answers = true;
    bench.run(1_000);
    let attempt = bench.driver.subflow_mut(key).unwrap();
    assert!(!attempt.is_up(0) && attempt.link.closed[0]);
    let expected = [(0, 0, "active"), (1, 1, "active"), (2, 0, "connecting")];
    assert_eq!(bench.subflows(), expected);
    assert_eq!(bench.driver.subflows.keys().len(), 3, "the path has no second subflow");
}

#[test]
fn successful_attempt_replaces_the_stale_subflow() {
    let (mut bench, _) = Bench::with_attempt();
    // The old connection waits for its retransmission timeout.
    bench.network.open.remove(&0);
    (bench.network.is_up[0], bench.network.answers) = (true, true);
    bench.run(100);
    let subflows = bench.subflows();
    let on_path: Vec<_> = subflows.iter().filter(|(_, path, _)| *path == 0).collect();
    assert!(matches!(on_path[..], [.., (2, 0, "active")]), "{subflows:?}");
    let before = bench.sent()[&2];
    bench.run(1_000);
    assert!(bench.sent()[&2] > before + (1 << 20));
}
