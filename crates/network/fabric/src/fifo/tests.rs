//! The simple network compared with an event-by-event reference.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::{Bandwidth, Bytes, LinkId, RandomStream, Span, Time};
use proptest::prelude::*;

use super::{Data, Event, FifoLink, FifoNetwork, Level, Towards};
use crate::config::Rate;
use crate::pace::Pacer;

const SIZE: u64 = 2_000;

fn mbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

fn link(rate: Bandwidth, delay: Span) -> [FifoLink; 2] {
    [FifoLink { rate, delay }; 2]
}

fn packets(links: &[FifoLink]) -> FifoNetwork<u64> {
    FifoNetwork::try_new(links, Data::Packets { size: Bytes::new(SIZE) }).unwrap()
}

/// An action of the driver, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Rate { session: usize, rate: u64 },
    Control { session: usize, upstream: bool, size: u32 },
}

/// A reference network with an event for each packet and link, with the fabric's own pacers.
struct Plain {
    links: Vec<(FifoLink, Pacer, u64)>,
    paths: Vec<Vec<u32>>,
    /// Rate, next emission, deficit: by the definition of [`FifoNetwork::set_rate`].
    sources: Vec<(u64, Option<u64>, u128, u64)>,
    heap: BinaryHeap<Reverse<(u64, u8, u64, Todo)>>,
    sequence: u64,
    log: Vec<Seen>,
    arrived: Vec<u64>,
    /// Time of each link's last packet, and whether two packets have met at a link.
    taken: Vec<u64>,
    has_tie: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Todo {
    Step(Step),
    Emit(usize),
    Data(usize, usize),
    Control(usize, u8, bool, u32),
}

impl Plain {
    fn push(&mut self, at: u64, rank: u8, todo: Todo) {
        self.sequence += 1;
        self.heap.push(Reverse((at, rank, self.sequence, todo)));
    }

    fn take(&mut self, link: u32, at: u64, bytes: u32) -> u64 {
        self.has_tie |= std::mem::replace(&mut self.taken[link as usize], at) == at;
        let (properties, pacer, free) = &mut self.links[link as usize];
        self.arrived[link as usize] += u64::from(bytes);
        let start = Time::from_nanos(at.max(*free));
        *free = pacer.finish(start, bytes).as_nanos();
        *free + properties.delay.as_nanos()
    }

    fn run(&mut self, until: u64) {
        while let Some(Reverse((at, _, _, todo))) = self.heap.pop() {
            if at > until {
                break;
            }
            match todo {
                Todo::Step(Step::Rate { session, rate }) => {
                    let (old, next, deficit, rest) = &mut self.sources[session];
                    if let Some(next) = next {
                        *deficit = u128::from(*next - at) * u128::from(*old);
                    }
                    if rate != *old {
                        *next = (rate > 0).then(|| at + deficit.div_ceil(rate.into()) as u64);
                        (*old, *rest) = (rate, 0);
                        if let Some(next) = *next {
                            self.push(next, 1, Todo::Emit(session));
                        }
                    }
                }
                Todo::Step(Step::Control { session, upstream, size }) => {
                    let hop = if upstream { self.paths[session].len() as u8 } else { 0 };
                    self.control(session, hop, upstream, size, at);
                }
                Todo::Emit(session) => {
                    let (rate, next, _, rest) = &mut self.sources[session];
                    if *next == Some(at) {
                        let work = SIZE * 8_000_000_000 + *rest;
                        *next = Some(at + work / *rate);
                        *rest = work % *rate;
                        let next = at + work / *rate;
                        self.push(next, 1, Todo::Emit(session));
                        self.push(at, 0, Todo::Data(session, 0));
                    }
                }
                Todo::Data(session, hop) => {
                    let link = self.paths[session][hop];
                    let at = self.take(link, at, SIZE as u32);
                    if hop + 1 < self.paths[session].len() {
                        self.push(at, 0, Todo::Data(session, hop + 1));
                    }
                }
                Todo::Control(session, hop, upstream, size) => {
                    self.log.push((at, session, hop, upstream, u64::from(size)));
                    self.control(session, hop, upstream, size, at);
                }
            }
        }
    }

    fn control(&mut self, session: usize, hop: u8, upstream: bool, size: u32, at: u64) {
        let path = &self.paths[session];
        let place = usize::from(hop);
        let (link, next) = if upstream {
            let Some(next) = hop.checked_sub(1) else { return };
            (path[place - 1] ^ 1, next)
        } else {
            let Some(link) = path.get(place) else { return };
            (*link, hop + 1)
        };
        let at = self.take(link, at, size);
        self.push(at, 2, Todo::Control(session, next, upstream, size));
    }
}

/// Links, paths, and timed actions.
type Instance = (Vec<FifoLink>, Vec<Vec<u32>>, Vec<(u64, Step)>);

/// An arrived control packet: time, session, hop, whether upstream, and contents.
type Seen = (u64, usize, u8, bool, u64);

/// A random tree of routers with hosts, with short and long links, and sessions between hosts.
fn instance(seed: u64) -> Instance {
    let mut rng = RandomStream::new(seed, "fifo");
    let routers = 2 + rng.below(6) as usize;
    let (mut links, mut parents) = (Vec::new(), vec![(0, 0)]);
    // Odd rates and delays, so that two packets meet at the same nanosecond only by chance.
    for node in 1..routers + 8 {
        let host = node >= routers;
        let parent = rng.below(node.min(routers) as u64) as usize;
        let (rate, delay) = if host {
            (100_000_000 - rng.below(999_983), 1_000 + rng.below(7_919))
        } else {
            (80_000_000 + rng.below(99_999_989), 300_000 + rng.below(9_699_690))
        };
        let rate = Bandwidth::from_bits_per_sec(rate);
        links.extend(link(rate, Span::from_nanos(delay)));
        parents.push((parent, 2 * (node as u32 - 1)));
    }
    let up = |mut node: usize| {
        let mut way = Vec::new();
        while node != 0 {
            way.push((node, parents[node].1));
            node = parents[node].0;
        }
        way
    };
    let mut paths = Vec::new();
    for _ in 0..=rng.below(12) {
        let [a, b] = [(); 2].map(|()| routers + rng.below(8) as usize);
        if a == b {
            continue;
        }
        let (mut rise, mut fall) = (up(a), up(b));
        while rise.last().is_some() && rise.last() == fall.last() {
            rise.pop();
            fall.pop();
        }
        let down = fall.iter().rev().map(|(_, link)| link + 1);
        paths.push(rise.iter().map(|(_, link)| *link).chain(down).collect::<Vec<_>>());
    }
    let mut steps = Vec::new();
    for session in 0..paths.len() {
        for _ in 0..rng.below(8) {
            let rate = [0, 1_000_003, 20_000_003, 60_000_011, 150_000_001][rng.below(5) as usize];
            steps.push((rng.below(60_000_000), Step::Rate { session, rate }));
        }
        for _ in 0..rng.below(12) {
            let (upstream, size) = (rng.below(2) == 0, 64 + rng.below(8) as u32);
            let step = Step::Control { session, upstream, size };
            steps.push((rng.below(60_000_000), step));
        }
    }
    steps.sort_unstable();
    (links, paths, steps)
}

const UNTIL: u64 = 90_000_000;

fn plain(seed: u64) -> Plain {
    let (links, paths, steps) = instance(seed);
    let mut plain = Plain {
        arrived: vec![0; links.len()],
        taken: vec![u64::MAX; links.len()],
        has_tie: false,
        sources: vec![(0, None, 0, 0); paths.len()],
        links: links
            .into_iter()
            .map(|link| (link, Pacer::new(&Rate::Constant(link.rate)), 0))
            .collect(),
        paths,
        heap: BinaryHeap::new(),
        sequence: 0,
        log: Vec::new(),
    };
    for (at, step) in steps {
        plain.push(at, 3, Todo::Step(step));
    }
    plain.run(UNTIL);
    plain
}

/// Drives the simple network through the same steps.
fn lean(seed: u64) -> (Vec<Seen>, Vec<u64>) {
    let (links, paths, steps) = instance(seed);
    let mut net: FifoNetwork<u64> = packets(&links);
    for path in &paths {
        net.add_session(path).unwrap();
    }
    let mut log = Vec::new();
    for (token, (at, _)) in steps.iter().enumerate() {
        net.wake(Time::from_nanos(*at), token as u64);
    }
    while let Some(event) = net.next(Time::from_nanos(UNTIL)) {
        match event {
            Event::Wake(token) => match steps[token as usize].1 {
                Step::Rate { session, rate } => {
                    net.set_rate(session as u32, Bandwidth::from_bits_per_sec(rate));
                }
                Step::Control { session, upstream: false, size } => {
                    net.send(session as u32, 0, Towards::Destination, size, size.into());
                }
                Step::Control { session, size, .. } => {
                    let hop = paths[session].len() as u8 - 1;
                    net.send(session as u32, hop, Towards::Source, size, size.into());
                }
            },
            Event::Arrived { session, hop, towards, message, link } => {
                let path = net.path(session);
                assert_eq!(link, path.get(usize::from(hop)).copied());
                let upstream = towards == Towards::Source;
                let at = net.now().as_nanos();
                log.push((at, session as usize, hop, upstream, message));
                let hops = paths[session as usize].len() as u8;
                let size = message as u32;
                match towards {
                    Towards::Destination if hop < hops => {
                        net.send(session, hop, towards, size, message);
                    }
                    Towards::Source if hop > 0 => {
                        net.send(session, hop - 1, towards, size, message);
                    }
                    _ => {}
                }
            }
            Event::Sent { .. } | Event::Delivered { .. } => panic!("no session ends"),
        }
    }
    let arrived = (0..links.len() as u32).map(|link| net.level(link).arrived.count()).collect();
    // Each hop is one event or one arrival in a batch; other events are steps and emissions.
    assert!(net.events() >= log.len() as u64, "{} events", net.events());
    (log, arrived)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn batches_give_the_times_of_an_event_for_each_packet(seed in any::<u64>()) {
        let plain = plain(seed);
        // The order of two simultaneous packets at a link depends on their paths.
        prop_assume!(!plain.has_tie);
        let (log, arrived) = lean(seed);
        prop_assert_eq!(log, plain.log);
        prop_assert_eq!(arrived, plain.arrived);
    }
}

/// Sums the counters of a session's links and events.
fn drain(net: &mut FifoNetwork<u64>, until: Time) -> Vec<(u64, Event<u64>)> {
    let mut log = Vec::new();
    while let Some(event) = net.next(until) {
        log.push((net.now().as_nanos(), event));
    }
    log
}

#[test]
fn a_finite_session_ends_when_its_last_packet_arrives() {
    let links = [
        link(mbits(100), Span::from_micros(1)),
        link(mbits(10), Span::from_millis(5)),
        link(mbits(100), Span::from_micros(1)),
    ];
    for data in [Data::Packets { size: Bytes::new(SIZE) }, Data::Fluid] {
        let mut net: FifoNetwork<u64> = FifoNetwork::try_new(&links.concat(), data).unwrap();
        let session = net.add_session(&[0, 2, 4]).unwrap();
        net.set_amount(session, Bytes::new(100 * SIZE));
        net.set_rate(session, mbits(8));
        let log = drain(&mut net, Time::from_nanos(1_000_000_000));
        let [(sent, Event::Sent { .. }), (delivered, Event::Delivered { .. })] = log[..] else {
            panic!("{log:?}");
        };
        // 100 packets are sent in 99 spacings of 2 ms; a fluid needs 100. Transmission on the three
        // links takes 160 us, 1.6 ms and 160 us, which a fluid does not have.
        let (first, rest) = match data {
            Data::Packets { .. } => (198_000_000, 1_920_000 + 5_002_000),
            Data::Fluid => (200_000_000, 5_002_000),
        };
        assert_eq!((sent, delivered - sent), (first, rest), "{data:?}");
        assert_eq!(net.level(4).arrived, Bytes::new(100 * SIZE));
    }
}

#[test]
fn queues_of_fluids_and_packets_agree() {
    // Two sessions of 8 Mbit/s on a link of 10: the excess is 6 Mbit/s, for 0.5 s.
    let mut links = vec![link(mbits(100), Span::from_micros(1)); 2];
    links.push(link(mbits(10), Span::from_millis(5)));
    links.push(link(mbits(100), Span::from_micros(1)));
    for data in [Data::Packets { size: Bytes::new(500) }, Data::Fluid] {
        let mut net: FifoNetwork<u64> = FifoNetwork::try_new(&links.concat(), data).unwrap();
        for first in [0, 2] {
            let session = net.add_session(&[first, 4, 6]).unwrap();
            net.set_rate(session, mbits(8));
            net.wake(Time::from_nanos(500_000_000), session.into());
        }
        for (_, event) in drain(&mut net, Time::from_nanos(500_000_000)) {
            let Event::Wake(session) = event else { panic!("{event:?}") };
            net.set_rate(session as u32, Bandwidth::from_bits_per_sec(0));
        }
        drain(&mut net, Time::from_nanos(500_200_000));
        let Level { peak, backlog, .. } = net.take_level(4);
        // 6 Mbit/s x 0.5 s = 375 kB, ± two packets.
        assert!(peak.count().abs_diff(375_000) < 1_200, "{data:?}: {peak}");
        assert!(backlog.count().abs_diff(375_000) < 1_500, "{data:?}: {backlog}");
        // 375 kB at 10 Mbit/s take 300 ms.
        drain(&mut net, Time::from_nanos(800_300_000));
        assert!(net.level(4).backlog.count() < 1_000, "{data:?}");
        assert_eq!(net.take_level(6).peak.count(), 0, "{data:?}: the next link is faster");
    }
}

#[test]
fn loses_packets_on_a_failing_link() {
    let links = [
        link(mbits(100), Span::from_micros(1)),
        link(mbits(100), Span::from_millis(5)),
        link(mbits(100), Span::from_micros(1)),
    ]
    .concat();
    let mut net = packets(&links);
    let session = net.add_session(&[0, 2, 4]).unwrap();
    net.set_amount(session, Bytes::new(20 * SIZE));
    net.set_rate(session, mbits(16));
    net.send(session, 1, Towards::Destination, 64, 7);
    // One packet per millisecond; each is on the second link from 0.16 to 5.3
    // ms after its departure.
    drain(&mut net, Time::from_nanos(8_000_000));
    net.set_up(LinkId(1), false);
    drain(&mut net, Time::from_nanos(10_500_000));
    net.set_up(LinkId(1), true);
    let log = drain(&mut net, Time::from_nanos(100_000_000));
    assert_eq!(log.len(), 2, "sent and delivered: {log:?}");
    // Those of 3 to 7 ms were on it, those of 8 to 10 ms arrived while it was down.
    assert_eq!(net.level(4).arrived, Bytes::new(12 * SIZE));
    net.set_up(LinkId(0), false);
    net.send(session, 0, Towards::Destination, 64, 8);
    assert_eq!(drain(&mut net, Time::from_nanos(200_000_000)), []);
}

#[test]
fn links_of_fluids_count_control_packets_exactly() {
    let links = [link(mbits(100), Span::from_micros(1)), link(mbits(100), Span::from_millis(1))];
    let mut net: FifoNetwork<u64> = FifoNetwork::try_new(&links.concat(), Data::Fluid).unwrap();
    let session = net.add_session(&[0, 2]).unwrap();
    // A packet is not a multiple of the unit in which fluids are counted.
    for number in 0..100_000 {
        net.send(session, 1, Towards::Source, 64, number);
    }
    let Level { arrived, control, .. } = net.level(3);
    assert_eq!((arrived, control), (Bytes::new(6_400_000), Bytes::new(6_400_000)));
}

#[test]
fn changes_of_fluids_that_overtake_others_leave_nothing_behind() {
    let links = [
        link(mbits(100), Span::from_micros(1)),
        link(mbits(10), Span::from_millis(5)),
        link(mbits(100), Span::from_micros(1)),
    ];
    let mut net: FifoNetwork<u64> = FifoNetwork::try_new(&links.concat(), Data::Fluid).unwrap();
    let [first, second] = [0; 2].map(|_| net.add_session(&[0, 2, 4]).unwrap());
    net.set_rate(first, mbits(90));
    drain(&mut net, Time::from_nanos(500_000_000));
    // Its start is queued behind 4 s of the first one's data; its end arrives at an empty queue.
    net.set_rate(second, mbits(8));
    drain(&mut net, Time::from_nanos(600_000_000));
    net.set_up(LinkId(1), false);
    for session in [first, second] {
        net.set_rate(session, Bandwidth::from_bits_per_sec(0));
    }
    drain(&mut net, Time::from_nanos(10_000_000_000));
    let before = net.level(4).arrived;
    drain(&mut net, Time::from_nanos(20_000_000_000));
    assert_eq!(net.level(4).arrived, before);
}

#[test]
fn links_far_slower_than_windows_hold_packets_back_in_little_memory() {
    // Windows of a microsecond; 625 packets take 1,000 s.
    let links = [
        link(mbits(100), Span::from_micros(1)),
        link(Bandwidth::from_bits_per_sec(10_000), Span::from_micros(1)),
        link(mbits(100), Span::from_micros(1)),
    ];
    let mut net = packets(&links.concat());
    let session = net.add_session(&[0, 2, 4]).unwrap();
    net.set_amount(session, Bytes::new(625 * SIZE));
    net.set_rate(session, mbits(100));
    drain(&mut net, Time::from_nanos(100_100_000));
    assert_eq!(net.level(2).backlog.count().div_ceil(SIZE), 625);
    assert!(net.memory() < 16 << 20, "{}", net.memory());
    let log = drain(&mut net, Time::from_nanos(1_001_000_000_000));
    assert_eq!(log.len(), 1, "delivered: {log:?}");
    assert_eq!(net.level(4).arrived, Bytes::new(625 * SIZE));
}

#[test]
fn rejects_invalid_networks() {
    let one = [FifoLink { rate: mbits(1), delay: Span::ZERO }];
    assert!(FifoNetwork::<u64>::try_new(&one, Data::Fluid).is_err());
    let size = Bytes::ZERO;
    assert!(FifoNetwork::<u64>::try_new(&[], Data::Packets { size }).is_err());
    let mut net = packets(&link(mbits(1), Span::ZERO));
    assert!(net.add_session(&[]).is_err());
    assert!(net.add_session(&[2]).is_err());
    assert!(net.add_session(&[0; 256]).is_err());
}

#[test]
fn changes_precede_arrivals_and_wakes_follow_them_at_equal_times() {
    let links = [link(mbits(0), Span::from_millis(1)), link(mbits(0), Span::from_millis(1))];
    let mut net = packets(&links.concat());
    let session = net.add_session(&[0, 2]).unwrap();
    net.set_amount(session, Bytes::new(2 * SIZE));
    net.set_rate(session, mbits(16));
    let at = Time::from_nanos(2_000_000);
    net.wake(at, 5);
    net.send(session, 0, Towards::Destination, 64, 7);
    // The second packet is sent at 1 ms and reaches the second link at 2 ms, at the
    // time of the change.
    drain(&mut net, Time::from_nanos(at.as_nanos() - 1));
    net.advance_before(at);
    net.set_link(2, &FifoLink { rate: mbits(0), delay: Span::from_millis(10) });
    net.send(session, 0, Towards::Destination, 64, 8);
    let mut log = Vec::new();
    while let Some(event) = net.next(Time::from_nanos(100_000_000)) {
        log.push((net.now().as_nanos() / 1_000, event));
    }
    let wake = log.iter().position(|(at, event)| (*at, event) == (2_000, &Event::Wake(5)));
    let sent = log.iter().position(|(_, event)| matches!(event, Event::Sent { .. }));
    assert!(sent < wake, "{log:?}");
    let delivered = log.iter().find(|(_, event)| matches!(event, Event::Delivered { .. }));
    assert_eq!(delivered.map(|(at, _)| *at), Some(12_000), "{log:?}");
}
