//! Packets with implausible capture times.
//!
//! If the time of a packet differs from that of the previous packet by more than [`DISORDER`], the
//! next packet determines whether this step is real. It is real if the next packet is nearer in
//! time to the packet after the step than to the one before it: the capture paused, or its clock
//! was set. Otherwise the time of the packet is implausible, and replaced by that of the previous
//! packet. The time of the first packet is implausible if the two after it agree on another one.
//! So at most two packets are held, and packets without a step pass at once. A reading of the live
//! clock confirms a step like a packet. At the end of the input an unconfirmed step is implausible.

use base::{Span, Time};
use collector::Frame;

use super::frames::Frames;

/// Maximum step backward between unordered inputs. After a greater step in either direction the
/// clock was set, the capture paused, or one of the times is wrong.
pub(crate) const DISORDER: Span = Span::from_secs(3_600);

/// The time after `now` and an item of time `seen`.
#[inline]
pub(crate) fn later(now: Time, seen: Time) -> Time {
    if seen >= now || now.since(seen) > DISORDER { seen } else { now }
}

#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The latest confirmed time; `None` before the first one.
    last: Option<Time>,
    held: Frames,
    implausible: u64,
}

fn distance(one: Time, other: Time) -> u64 {
    one.as_nanos().abs_diff(other.as_nanos())
}

fn is_near(one: Time, other: Time) -> bool {
    distance(one, other) <= DISORDER.as_nanos()
}

impl Stamps {
    /// Number of packets with an implausible time.
    pub(super) const fn implausible(&self) -> u64 {
        self.implausible
    }

    /// Whether a packet of `time` follows the last one without a step.
    #[inline]
    pub(super) fn pass(&mut self, time: Time) -> bool {
        match self.last {
            Some(last) if self.held.is_empty() && is_near(last, time) => {
                self.last = Some(later(last, time));
                true
            }
            _ => false,
        }
    }

    /// Holds a packet that does not pass; returns the packets whose time it decides.
    #[cold]
    pub(super) fn hold(&mut self, frame: &Frame<'_>) -> Frames {
        let mut decided = self.decide(frame.time);
        if self.pass(frame.time) {
            decided.push(frame);
        } else {
            self.held.push(frame);
        }
        decided
    }

    /// Decides about the held packets, given the `next` time; returns them if it does.
    pub(super) fn decide(&mut self, next: Time) -> Frames {
        let nearer = |one, other| distance(next, one) < distance(next, other);
        let times = self.held.times().to_vec();
        match (self.last, &times[..]) {
            (Some(last), [held, ..]) => {
                let time = if nearer(*held, last) { *held } else { last };
                self.release(time)
            }
            (None, [first]) if is_near(*first, next) => self.release(*first),
            (None, [_, second]) if is_near(*second, next) => self.release(*second),
            (None, [first, second]) if nearer(*second, *first) => {
                // Nothing contradicts the first one.
                self.last = Some(*first);
                let (mut decided, rest) = self.held.split_first();
                self.held = rest;
                decided.append(&self.decide(next));
                decided
            }
            (None, [first, _]) => self.release(*first),
            _ => Frames::default(),
        }
    }

    /// Returns the first packet if no other one contradicts it.
    pub(super) fn first(&mut self) -> Frames {
        let first = self.held.times().first().copied();
        match (self.last, first) {
            (None, Some(first)) if self.held.times().len() == 1 => self.release(first),
            _ => Frames::default(),
        }
    }

    /// Returns the packets that nothing confirms.
    pub(super) fn finish(&mut self) -> Frames {
        match self.last {
            Some(last) => self.release(last),
            None => std::mem::take(&mut self.held),
        }
    }

    /// Takes the held packets, all of which have `time`.
    fn release(&mut self, time: Time) -> Frames {
        let mut held = std::mem::take(&mut self.held);
        self.implausible += held.set_times(time);
        self.last = Some(time);
        held
    }
}

#[cfg(test)]
mod tests {
    use collector::LinkType;

    use super::*;

    const HOUR: u64 = 3_600;
    const START: u64 = 1_700_000_000;
    /// A time in the year 2105, in seconds since 1970.
    const FAR: u64 = 4_260_000_000;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// The corrected times of packets with these times, in seconds, and the number of implausible
    /// times. The order of the packets must not change.
    fn corrected(times: &[u64]) -> (Vec<u64>, u64) {
        let mut stamps = Stamps::default();
        let (mut found, mut numbers) = (Vec::new(), Vec::new());
        let mut take = |frames: &Frames| {
            for frame in frames.iter() {
                found.push(frame.time.as_nanos() / 1_000_000_000);
                numbers.push(frame.data[0]);
            }
        };
        for (number, time) in times.iter().enumerate() {
            let data = [number as u8];
            let frame = Frame::whole(at(*time), LinkType::RAW, &data);
            if stamps.pass(frame.time) {
                let mut passed = Frames::default();
                passed.push(&frame);
                take(&passed);
            } else {
                take(&stamps.hold(&frame));
            }
            assert!(stamps.held.times().len() <= 2);
        }
        take(&stamps.finish());
        assert!(numbers.iter().copied().eq(0..times.len() as u8), "{numbers:?}");
        (found, stamps.implausible())
    }

    #[test]
    fn replaces_one_time_that_next_packet_refutes() {
        for wrong in [0, 1, START - 2 * HOUR, START + 2 * HOUR, FAR] {
            for place in 0..5 {
                let mut times = [START, START + 1, START + 2, START + 3, START + 4];
                let before = times[place.max(1) - 1];
                times[place] = wrong;
                let (found, implausible) = corrected(&times);
                times[place] = if place == 0 { times[1] } else { before };
                assert_eq!((found, implausible), (times.to_vec(), 1), "{wrong} {place}");
            }
        }
    }

    #[test]
    fn retains_times_after_pause_or_step_of_clock() {
        for then in [START + 24 * HOUR, START + 2 * HOUR, START - 24 * HOUR, 1, FAR] {
            let times = [START, START + 1, then, then + 1, then + 2];
            assert_eq!(corrected(&times), (times.to_vec(), 0), "{then}");
        }
        // Each packet follows a pause.
        let times: Vec<u64> = (0..6).map(|number| START + number * 3 * HOUR).collect();
        let (found, implausible) = corrected(&times);
        // Nothing confirms the last one.
        assert_eq!((found[..5].to_vec(), implausible), (times[..5].to_vec(), 1));
    }

    #[test]
    fn finds_wrong_time_beside_pause() {
        let day = START + 24 * HOUR;
        let times = [START, START + 1, FAR, day, day + 1];
        let expected = vec![START, START + 1, START + 1, day, day + 1];
        assert_eq!(corrected(&times), (expected, 1));
        let times = [START, START + 1, day, FAR, day + 1, day + 2];
        let expected = vec![START, START + 1, day, day, day + 1, day + 2];
        assert_eq!(corrected(&times), (expected, 1));
    }

    #[test]
    fn live_clock_confirms_step() {
        let data = [0];
        let frame = |seconds| Frame::whole(at(seconds), LinkType::RAW, &data);
        for (held, clock, expected) in
            [(START + 9 * HOUR, START + 9 * HOUR + 1, START + 9 * HOUR), (FAR, START + 1, START)]
        {
            let mut stamps = Stamps::default();
            assert!(stamps.hold(&frame(START)).is_empty());
            assert_eq!(stamps.decide(at(START)).times(), [at(START)]);
            assert!(stamps.hold(&frame(held)).is_empty());
            assert_eq!(stamps.decide(at(clock)).times(), [at(expected)]);
        }
    }
}
