use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

/// The reference order, by (time, sequence).
#[derive(Default)]
struct Reference {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    added: u32,
}

/// Both queues side by side.
#[derive(Default)]
struct Pair {
    queue: EventQueue<u32>,
    reference: Reference,
    taken: u64,
}

impl Pair {
    fn add(&mut self, at: u64) {
        self.queue.push(Time::from_nanos(at), self.reference.added);
        self.reference.heap.push(Reverse((at, self.reference.added)));
        self.reference.added += 1;
        self.compare();
    }

    fn take(&mut self, until: u64) -> bool {
        let expected = match self.reference.heap.peek() {
            Some(Reverse((at, _))) if *at <= until => self.reference.heap.pop(),
            _ => None,
        };
        let found = self.queue.pop_until(Time::from_nanos(until));
        let found = found.map(|(at, event)| Reverse((at.as_nanos(), event)));
        assert_eq!(found, expected);
        if let Some(Reverse((at, _))) = found {
            self.taken = at;
        }
        self.compare();
        found.is_some()
    }

    fn drain(&mut self) {
        while self.take(u64::MAX) {}
        assert!(self.queue.is_empty());
    }

    fn compare(&self) {
        assert_eq!(self.queue.len(), self.reference.heap.len());
        let next = self.queue.next_time().map(Time::as_nanos);
        assert_eq!(next, self.reference.heap.peek().map(|Reverse((at, _))| *at));
    }
}

/// The next operation; increments are relative to the time of the last removed event.
#[derive(Clone, Debug)]
enum Step {
    Add(u64),
    Burst(u64, usize),
    Take(usize),
    TakeUntil(u64),
    Drain,
}

/// Times of every order of magnitude, many of them equal, up to the maximum.
fn increment() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..4_u64,
        3 => (0..64_u32, any::<u64>()).prop_map(|(bits, any)| any >> bits),
        3 => (0..20_u64).prop_map(|n| n * 1_000),
        2 => prop_oneof![Just(12_000_u64), Just(25_000_000), Just(1 << 36)],
        1 => Just(u64::MAX),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => increment().prop_map(Step::Add),
        3 => (increment(), 1..200_usize).prop_map(|(ahead, count)| Step::Burst(ahead, count)),
        6 => (1..60_usize).prop_map(Step::Take),
        2 => increment().prop_map(Step::TakeUntil),
        1 => Just(Step::Drain),
    ]
}

proptest! {
    #[test]
    fn order_is_by_time_then_sequence(steps in proptest::collection::vec(step(), 1..120)) {
        let mut pair = Pair::default();
        for step in steps {
            let from = pair.taken;
            match step {
                Step::Add(ahead) => pair.add(from.saturating_add(ahead)),
                Step::Burst(ahead, count) => {
                    for n in 0..count as u64 {
                        // Spread over the whole range, later ones partly before earlier ones.
                        let share = (n * 0x9e37_79b9 % 97) * (ahead / 96);
                        pair.add(from.saturating_add(share));
                    }
                }
                Step::Take(count) => {
                    for _ in 0..count {
                        pair.take(u64::MAX);
                    }
                }
                Step::TakeUntil(ahead) => while pair.take(from.saturating_add(ahead)) {},
                Step::Drain => pair.drain(),
            }
        }
        pair.drain();
    }

    /// Each removed event adds another, as links do: the queue is never empty.
    #[test]
    fn order_holds_while_the_number_of_events_stays(
        pending in 1..400_usize,
        increments in proptest::collection::vec(increment(), 1..12),
        seed in any::<u64>(),
    ) {
        let mut pair = Pair::default();
        for n in 0..pending as u64 {
            pair.add(n * 17 % 5_000);
        }
        let mut state = seed | 1;
        for _ in 0..3_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let increment = increments[(state >> 33) as usize % increments.len()];
            pair.take(u64::MAX);
            pair.add(pair.taken.saturating_add(increment));
        }
        pair.drain();
    }
}

#[test]
fn the_ends_of_time_are_times() {
    let mut pair = Pair::default();
    for at in [u64::MAX, 0, u64::MAX, 1 << 63, 0, u64::MAX - 1] {
        pair.add(at);
    }
    assert!(!pair.take(0) || pair.taken == 0);
    pair.drain();
    pair.add(u64::MAX);
    pair.drain();
}

#[test]
fn an_event_may_come_before_what_the_wheel_holds() {
    let mut pair = Pair::default();
    pair.add(5);
    pair.add(1_000_000_000);
    assert!(pair.take(5) && !pair.take(1_000));
    for at in [1_000, 7, 999_999_999, 7, 5] {
        pair.add(at);
    }
    pair.drain();
}

/// Adds and removes `steps` times; returns the maximum size of the front.
fn hold(queue: &mut EventQueue<u32>, steps: usize, increment: impl Fn(usize) -> u64) -> usize {
    let mut most = 0;
    for step in 0..steps {
        let (at, event) = queue.pop_until(Time::MAX).unwrap();
        queue.push(Time::from_nanos(at.as_nanos() + increment(step)), event);
        most = most.max(queue.front.len());
    }
    most
}

#[test]
fn memory_is_reused_and_the_front_stays_short() {
    let increments: [fn(usize) -> u64; 4] = [
        |step| [12_000, 25_000_000][step % 2],
        |step| (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 38,
        |step| (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (32 + step % 32),
        |_| 1_000_000,
    ];
    for increment in increments {
        for pending in [10, 1_000, 20_000] {
            let mut queue = EventQueue::default();
            for n in 0..pending {
                queue.push(Time::from_nanos(u64::from(n) * 997 % 1_000_000), n);
            }
            hold(&mut queue, 200_000, increment);
            let (chunks, memory) = (queue.wheel.chunks(), queue.memory());
            let most = hold(&mut queue, 200_000, increment);
            // The size of buckets varies slightly; the cost of an event does not.
            assert!(queue.wheel.chunks() <= chunks + chunks / 4 + 4, "{pending} pending");
            assert!(queue.memory() <= 2 * memory, "{pending} pending");
            assert!(most <= FULL + SMALL, "{pending} pending: {most} in front");
        }
    }
}

#[test]
fn a_far_event_does_not_make_the_front_grow() {
    let mut queue = EventQueue::default();
    for n in 0..2 {
        queue.push(Time::from_nanos(n), 0);
    }
    queue.push(Time::from_nanos(1 << 50), 1);
    hold(&mut queue, 100_000, |_| 3);
    assert!(queue.front.memory() <= 4_096, "{} B", queue.front.memory());
}

#[test]
fn many_events_at_one_instant_are_first_in_first_out() {
    let mut pair = Pair::default();
    pair.add(0);
    pair.take(0);
    for _ in 0..10_000 {
        pair.add(77);
    }
    for _ in 0..30_000 {
        pair.take(77);
        pair.add(77);
    }
    pair.drain();
}
