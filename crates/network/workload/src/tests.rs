//! The state machines over a transport that delivers data immediately.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Bytes, RandomStream, Span, Time};

use super::*;

#[derive(Default)]
struct Instant {
    now: Time,
    /// By how much each wake-up is late.
    late: Span,
    max_connections: usize,
    tags: BTreeMap<u32, u32>,
    opened: u32,
    most_open: usize,
    events: VecDeque<Event>,
    reports: Vec<Report>,
}

impl Instant {
    fn deliver(&mut self, connection: u32, side: Side, bytes: u64) {
        let event = Event { bytes, ..Event::new(connection, side, self.now) };
        self.events.push_back(event);
    }

    /// Runs a flow to its end.
    fn run(&mut self, flow: &mut impl Workload) -> Progress {
        loop {
            let progress = match self.events.pop_front() {
                Some(event) => flow.on_event(self, &event),
                None => match flow.next_wake() {
                    Some(at) => {
                        self.now = self.now.max(at) + self.late;
                        flow.on_wake(self)
                    }
                    None => return Progress::Going,
                },
            };
            if progress != Progress::Going {
                return progress;
            }
        }
    }

    fn count(&self, is_counted: impl Fn(&Report) -> bool) -> usize {
        self.reports.iter().filter(|report| is_counted(report)).count()
    }
}

impl Transport for Instant {
    fn now(&self) -> Time {
        self.now
    }

    fn random(&self, purpose: &str) -> RandomStream {
        RandomStream::new(1, purpose)
    }

    fn max_connections(&self) -> usize {
        self.max_connections
    }

    fn connect(&mut self, tag: u32, payload: Option<u64>) -> u32 {
        self.opened += 1;
        self.tags.insert(self.opened, tag);
        self.most_open = self.most_open.max(self.tags.len());
        let established = Event::new(self.opened, Side::Client, self.now);
        self.events.push_back(Event { established: true, ..established });
        if let Some(bytes) = payload {
            self.deliver(self.opened, Side::Server, bytes);
        }
        self.opened
    }

    fn tag(&mut self, connection: u32) -> Option<u32> {
        self.tags.get(&connection).copied()
    }

    fn set_tag(&mut self, connection: u32, tag: u32) {
        self.tags.insert(connection, tag);
    }

    fn request(&mut self, connection: u32, _number: u32, bytes: u64) {
        self.deliver(connection, Side::Server, bytes);
    }

    fn respond(&mut self, connection: u32, bytes: u64) {
        self.deliver(connection, Side::Client, bytes);
    }

    fn release(&mut self, connection: u32) -> bool {
        self.tags.remove(&connection);
        true
    }

    fn reset(&mut self, connection: u32) {
        self.tags.remove(&connection);
    }

    fn retransmits(&mut self, _connection: u32) -> Option<u64> {
        None
    }

    fn report(&mut self, report: Report) {
        self.reports.push(report);
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

#[test]
fn rpc_keeps_its_interval_and_count() {
    let spec = Rpc {
        request: Sizes::Fixed(Bytes::new(100)),
        response: Sizes::Exponential(Bytes::new(1000)),
        count: Some(5),
        interval: Span::from_millis(10),
        think: Think::Fixed(Span::from_millis(2)),
    };
    let mut transport = Instant { max_connections: 1, ..Instant::default() };
    let mut late = Instant { late: Span::from_millis(3), ..Instant::default() };
    let mut delayed = RpcFlow::open(&Arc::new(spec.clone()), &mut late);
    assert_eq!(late.run(&mut delayed), Progress::Done(at(43)), "only the last request is late");
    let mut flow = RpcFlow::open(&Arc::new(spec), &mut transport);
    assert_eq!(transport.run(&mut flow), Progress::Done(at(40)));
    assert_eq!(transport.count(|report| matches!(report, Report::Response(_))), 5);
}

#[test]
fn transfers_wait_for_a_connection() {
    let spec = Transfers {
        sizes: Sizes::Fixed(Bytes::new(10)),
        arrivals: Arrivals::Every(Span::ZERO),
        count: Some(9),
    };
    let mut transport = Instant { max_connections: 2, ..Instant::default() };
    let mut flow = TransfersFlow::open(&Arc::new(spec), &mut transport);
    assert_eq!(flow.on_wake(&mut transport), Progress::Going);
    assert_eq!(flow.next_wake(), None, "both connections are in use");
    assert_eq!(transport.run(&mut flow), Progress::Done(at(0)));
    assert_eq!((transport.opened, transport.most_open), (9, 2));
    let whole = |report: &Report| matches!(report, Report::Transfer(end) if end.duration.is_some());
    assert_eq!(transport.count(whole), 9);
}

#[test]
fn closed_loop_transfers_follow_each_other() {
    let spec = Transfers {
        sizes: Sizes::Fixed(Bytes::new(10)),
        arrivals: Arrivals::Closed(Think::Fixed(Span::from_millis(3))),
        count: Some(4),
    };
    let mut transport = Instant { max_connections: 9, ..Instant::default() };
    let mut flow = TransfersFlow::open(&Arc::new(spec), &mut transport);
    assert_eq!(transport.run(&mut flow), Progress::Done(at(9)));
    assert_eq!(transport.most_open, 1);
}

#[test]
fn requests_queue_behind_busy_connections() {
    let spec = Requests {
        request: Sizes::Fixed(Bytes::new(10)),
        response: Sizes::Fixed(Bytes::new(50)),
        arrivals: Arrivals::Every(Span::from_millis(1)),
        count: Some(20),
        streams: 1,
    };
    let mut transport = Instant { max_connections: 3, ..Instant::default() };
    let mut flow = RequestsFlow::open(&Arc::new(spec), &mut transport);
    // All requests arrive before the first is answered.
    transport.now = at(19);
    assert_eq!(flow.on_wake(&mut transport), Progress::Going);
    assert_eq!(transport.most_open, 3);
    assert_eq!(transport.run(&mut flow), Progress::Done(at(19)));
    let whole = |report: &Report| matches!(report, Report::Request(end) if end.duration.is_some());
    assert_eq!((transport.count(whole), transport.opened), (20, 3));
}
