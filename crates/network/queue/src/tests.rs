use base::{Bytes, RandomStream, Ratio, Span, Time};
use proptest::prelude::*;

use crate::{
    Discipline, DropReason, Ecn, Error, QueueConfig, QueueLimit, Queued, Slab, Verdicts, Waiting,
};

fn disciplines() -> Vec<Discipline> {
    let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
    let quantum = Bytes::new(1514);
    let (min, max) = (Bytes::new(5_000), Bytes::new(15_000));
    let weight = Ratio::from_parts_per_billion(200_000_000);
    let probability = Ratio::from_parts_per_billion(100_000_000);
    vec![
        Discipline::DropTail,
        Discipline::DropHead,
        Discipline::Red { min, max, probability, weight, harddrop: true },
        Discipline::CoDel { target, interval },
        Discipline::Fq { flows: 16, quantum },
        Discipline::FqCoDel { target, interval, flows: 16, quantum },
        Discipline::Pie { target, update: target, burst: Span::ZERO },
        Discipline::FqPie { target, update: target, burst: Span::ZERO, flows: 16, quantum },
        Discipline::DualPi2 { target, step: Span::from_millis(1) },
        Discipline::Sfq { flows: 16, quantum, perturb: None },
        Discipline::Sfq { flows: 16, quantum, perturb: Some(Span::from_millis(20)) },
        Discipline::Priority { bands: 3 },
        Discipline::Drr { quanta: vec![quantum, Bytes::new(300)] },
        Discipline::Policer { rate: "8 Mbit/s".parse().unwrap(), burst: Bytes::new(6_000) },
    ]
}

/// A queue of 20 packets without a known rate.
fn queue(discipline: Discipline, ecn: bool) -> Waiting {
    let config = QueueConfig { discipline, limit: QueueLimit::Packets(20), ecn };
    Waiting::new(&config, None, || RandomStream::new(7, "queue"))
}

/// An input of a queue: an arrival after some time, or a request of the transmitter.
#[derive(Clone, Debug)]
enum Step {
    Arrive { after: u64, size: u32, flow: u32, dscp: u8, ecn: Ecn },
    Send { after: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable), Just(Ecn::L4s)];
    let arrive = (0..3_000u64, 40..1_515u32, 0..40u32, 0..64u8, ecn)
        .prop_map(|(after, size, flow, dscp, ecn)| Step::Arrive { after, size, flow, dscp, ecn });
    let send = (0..3_000u64).prop_map(|after| Step::Send { after });
    proptest::collection::vec(prop_oneof![3 => arrive, 2 => send], 1..200)
}

/// Packets in a queue, and the test's own account of them.
struct Owner {
    queue: Waiting,
    slab: Slab<(u32, u32)>,
    verdicts: Verdicts,
    held: usize,
    bytes: u64,
    marks: u64,
}

impl Owner {
    fn new(queue: Waiting) -> Self {
        let (slab, verdicts) = (Slab::default(), Verdicts::default());
        Self { queue, slab, verdicts, held: 0, bytes: 0, marks: 0 }
    }

    fn give_up(&mut self, slot: crate::Slot) -> u32 {
        let (number, size) = self.slab.take(slot);
        self.held -= 1;
        self.bytes -= u64::from(size);
        number
    }

    fn balance(&mut self) {
        for (slot, _) in std::mem::take(&mut self.verdicts.dropped) {
            self.give_up(slot);
        }
        assert_eq!((self.queue.packets(), self.queue.bytes()), (self.held, self.bytes));
    }

    fn step(&mut self, now: Time, number: u32, step: &Step) {
        match *step {
            Step::Arrive { size, flow, dscp, ecn, .. } => {
                let slot = self.slab.put((number, size));
                self.held += 1;
                self.bytes += u64::from(size);
                let entry = Queued { since: now, slot, size, flow, dscp, ecn };
                self.queue.enqueue(now, entry, &mut self.verdicts);
            }
            Step::Send { .. } => {
                if let Some(entry) = self.queue.dequeue(now, &mut self.verdicts) {
                    self.marks += u64::from(entry.ecn == Ecn::Marked);
                    self.give_up(entry.slot);
                }
            }
        }
        self.balance();
    }
}

proptest! {
    /// Every packet leaves once, sent or dropped, and the queue's counters are always correct.
    #[test]
    fn books_balance_in_every_discipline(steps in steps(), ecn: bool) {
        for discipline in disciplines() {
            let mut owner = Owner::new(queue(discipline, ecn));
            let mut now = Time::ZERO;
            for (number, step) in steps.iter().enumerate() {
                let (Step::Arrive { after, .. } | Step::Send { after }) = step;
                now += Span::from_micros(*after);
                owner.step(now, number as u32, step);
            }
            // Another discipline takes over queued packets, even beyond its limit.
            let entries = owner.queue.drain();
            prop_assert_eq!(owner.queue.packets(), 0);
            let marked = entries.iter().filter(|entry| entry.ecn == Ecn::Marked).count() as u64;
            let one = QueueConfig { limit: QueueLimit::Packets(1), ..QueueConfig::default() };
            owner.queue = Waiting::new(&one, None, || RandomStream::new(7, "queue"));
            owner.queue.restore(entries);
            owner.balance();
            prop_assert_eq!(owner.marks + marked, owner.verdicts.marked);
            while owner.held > 0 {
                owner.step(now, 0, &Step::Send { after: 0 });
            }
            prop_assert!(owner.queue.dequeue(now, &mut owner.verdicts).is_none());
        }
    }
}

#[test]
fn a_shorter_limit_spares_what_waits_already() {
    let mut owner = Owner::new(queue(Discipline::DropTail, false));
    let arrival = Step::Arrive { after: 0, size: 100, flow: 0, dscp: 0, ecn: Ecn::NotCapable };
    (0..5).for_each(|number| owner.step(Time::ZERO, number, &arrival));
    owner.queue.set_limit(QueueLimit::Bytes(Bytes::new(450)));
    let slot = owner.slab.put((9, 50));
    let since = Time::ZERO;
    let entry = Queued { since, slot, size: 50, flow: 0, dscp: 0, ecn: Ecn::NotCapable };
    owner.queue.enqueue(Time::ZERO, entry, &mut owner.verdicts);
    assert_eq!(owner.verdicts.dropped, [(slot, DropReason::QueueFull)]);
    assert_eq!(owner.queue.packets(), 5);
}

#[test]
fn configurations_out_of_range_are_named_and_work_all_the_same() {
    let span = Span::from_millis(5);
    let quantum = Bytes::ZERO;
    let wrong = [
        (Discipline::Drr { quanta: Vec::new() }, Error::NoClasses),
        (Discipline::Priority { bands: 0 }, Error::Bands),
        (Discipline::Priority { bands: 9 }, Error::Bands),
        (Discipline::Sfq { flows: 0, quantum, perturb: None }, Error::Flows),
        (Discipline::Fq { flows: 8, quantum }, Error::Flows),
        (Discipline::FqCoDel { target: span, interval: span, flows: 8, quantum }, Error::Flows),
    ];
    for (discipline, error) in wrong {
        let config = QueueConfig { discipline, ..QueueConfig::default() };
        assert_eq!(config.check(), Err(error));
        let mut owner = Owner::new(queue(config.discipline.clone(), false));
        let arrival = Step::Arrive { after: 0, size: 40, flow: 3, dscp: 46, ecn: Ecn::NotCapable };
        owner.step(Time::ZERO, 0, &arrival);
        owner.step(Time::ZERO, 0, &Step::Send { after: 0 });
        assert_eq!(owner.held, 0, "{config:?}");
    }
    for discipline in disciplines() {
        let config = QueueConfig { discipline, ..QueueConfig::default() };
        assert_eq!(config.check(), Ok(()), "{config:?}");
    }
}

/// 1 s of idle time resets the average queue, whether the rate is given or estimated.
#[test]
fn red_forgets_a_long_queue_while_idle() {
    let (min, max) = (Bytes::new(5_000), Bytes::new(15_000));
    let weight = Ratio::from_parts_per_billion(2_000_000);
    let probability = Ratio::from_parts_per_billion(1_000);
    let discipline = Discipline::Red { min, max, probability, weight, harddrop: true };
    let config = QueueConfig { discipline, limit: QueueLimit::Packets(100), ecn: false };
    // One packet of 1,000 B per millisecond.
    for rate in [None, Some("8 Mbit/s".parse().unwrap())] {
        let red = Waiting::new(&config, rate, || RandomStream::new(7, "queue"));
        let mut owner = Owner::new(red);
        let arrival = Step::Arrive { after: 0, size: 1000, flow: 0, dscp: 0, ecn: Ecn::NotCapable };
        let mut now = Time::ZERO;
        let early = |owner: &mut Owner, now| {
            let before = owner.held;
            owner.step(now, 0, &arrival);
            owner.held == before
        };
        while !early(&mut owner, now) || owner.held < 30 {
            now += Span::from_micros(500);
            early(&mut owner, now);
            now += Span::from_micros(500);
            owner.step(now, 0, &Step::Send { after: 0 });
        }
        while owner.held > 0 {
            now += Span::from_millis(1);
            owner.step(now, 0, &Step::Send { after: 0 });
        }
        now += Span::from_secs(1);
        assert!((0..10).all(|_| !early(&mut owner, now)), "{rate:?}: {:?}", owner.queue);
    }
}

#[test]
fn slots_are_used_again() {
    let mut slab = Slab::default();
    let (first, second) = (slab.put("first"), slab.put("second"));
    let memory = slab.memory();
    assert_eq!(slab.take(first), "first");
    let third = slab.copy(second);
    assert_eq!(third, first);
    *slab.get_mut(third) = "third";
    assert_eq!((*slab.get(second), *slab.get(third)), ("second", "third"));
    assert!(slab.memory() >= memory);
}

/// A flow that becomes active is sent first until it has used a quantum, once.
#[test]
fn fq_sends_new_flows_first_for_one_quantum() {
    let mut owner =
        Owner::new(queue(Discipline::Fq { flows: 16, quantum: Bytes::new(3000) }, false));
    let arrive = |owner: &mut Owner, flow| {
        let ecn = Ecn::NotCapable;
        let arrival = Step::Arrive { after: 0, size: 1000, flow, dscp: 0, ecn };
        owner.step(Time::ZERO, flow, &arrival);
    };
    let next = |owner: &mut Owner| {
        let entry = owner.queue.dequeue(Time::ZERO, &mut owner.verdicts).unwrap();
        owner.give_up(entry.slot)
    };
    (0..6).for_each(|_| arrive(&mut owner, 1));
    let bulk: Vec<_> = (0..4).map(|_| next(&mut owner)).collect();
    assert_eq!(bulk, [1; 4]);
    (0..4).for_each(|_| arrive(&mut owner, 2));
    // Three packets of the new flow, then the rest of the old flow's quantum.
    let mixed: Vec<_> = (0..6).map(|_| next(&mut owner)).collect();
    assert_eq!(mixed, [2, 2, 2, 1, 1, 2]);
    // An emptied flow has no second turn as a new flow.
    arrive(&mut owner, 2);
    (0..3).for_each(|_| arrive(&mut owner, 3));
    let last: Vec<_> = (0..4).map(|_| next(&mut owner)).collect();
    assert_eq!(last, [3, 3, 3, 2]);
}
