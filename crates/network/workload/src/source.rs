//! Sources of datagrams: send times and payload sizes.

use base::{Bandwidth, Bytes, RandomStream, Time};

use crate::on_off::Periods;
use crate::traffic::{MAX_DATAGRAM, Pattern, exponential};

/// The datagrams of one flow, in order of time. It is empty or infinite.
#[derive(Clone, Debug)]
pub struct Source {
    pattern: Pattern,
    packet: u32,
    /// Whether there are no datagrams.
    silent: bool,
    start: Time,
    /// Time between datagrams.
    step: Step,
    /// Time from the start to the next datagram, counting only on time.
    due: u64,
    /// Of on-off traffic.
    periods: Option<Periods>,
    /// Index of the next datagram of the trace.
    index: usize,
    random: RandomStream,
}

/// A fraction of nanoseconds whose remainders are carried, so that rounding errors do not add up.
#[derive(Clone, Debug)]
struct Step {
    whole: u64,
    remainder: u64,
    carried: u64,
    divisor: u64,
}

impl Step {
    /// Transmission time of `packet` bytes at `rate`, which is positive. Times are rounded up.
    fn new(rate: Bandwidth, packet: u32) -> Self {
        let divisor = rate.bits_per_sec().max(1);
        let nanos = u128::from(packet) * 8_000_000_000;
        Self {
            whole: u64::try_from(nanos / u128::from(divisor)).unwrap_or(u64::MAX),
            remainder: (nanos % u128::from(divisor)) as u64,
            carried: divisor - 1,
            divisor,
        }
    }

    fn next(&mut self) -> u64 {
        let room = self.divisor - self.carried;
        if self.remainder >= room {
            self.carried = self.remainder - room;
            self.whole.saturating_add(1)
        } else {
            self.carried += self.remainder;
            self.whole
        }
    }

    /// The mean time, for a Poisson process.
    fn mean(&self) -> f64 {
        self.whole as f64 + self.remainder as f64 / self.divisor as f64
    }
}

impl Source {
    /// A source that starts at `start`, with datagrams of `packet` at `rate` unless the pattern is
    /// a trace. It is empty without a rate, a packet size or on time.
    pub fn new(
        pattern: Pattern,
        rate: Bandwidth,
        packet: Bytes,
        start: Time,
        random: RandomStream,
    ) -> Self {
        let packet = packet.count().min(MAX_DATAGRAM) as u32;
        let silent = match &pattern {
            Pattern::OnOff(on_off) => !on_off.on.is_positive(),
            Pattern::Trace(trace) => trace.datagrams.is_empty() || !trace.period.is_positive(),
            Pattern::Constant | Pattern::Poisson => false,
        };
        let idle = !matches!(pattern, Pattern::Trace(_)) && (packet == 0 || !rate.is_positive());
        let mut source = Self {
            pattern,
            packet,
            silent: silent || idle,
            start,
            step: Step::new(rate, packet),
            due: 0,
            periods: None,
            index: 0,
            random,
        };
        match source.pattern {
            Pattern::Poisson => source.due = exponential(source.step.mean(), &mut source.random),
            Pattern::OnOff(on_off) => {
                source.periods = Some(Periods::new(on_off, &mut source.random));
            }
            Pattern::Constant | Pattern::Trace(_) => {}
        }
        source
    }

    /// Time from the start, and payload, of the next datagram.
    fn following(&mut self) -> (u64, u32) {
        let due = self.due;
        match &self.pattern {
            Pattern::Constant => self.due = due.saturating_add(self.step.next()),
            Pattern::Poisson => {
                let gap = exponential(self.step.mean(), &mut self.random);
                self.due = due.saturating_add(gap);
            }
            Pattern::OnOff(_) => {
                self.due = due.saturating_add(self.step.next());
                let off = self.periods.as_mut().map(|it| it.off_time(due, &mut self.random));
                return (due.saturating_add(off.unwrap_or(0)), self.packet);
            }
            Pattern::Trace(trace) => {
                let (moment, size) = trace.datagrams[self.index];
                self.index += 1;
                if self.index == trace.datagrams.len() {
                    self.index = 0;
                    self.due = due.saturating_add(trace.period.as_nanos());
                }
                return (due.saturating_add(moment.as_nanos()), size.count() as u32);
            }
        }
        (due, self.packet)
    }
}

impl Iterator for Source {
    type Item = (Time, u32);

    fn next(&mut self) -> Option<(Time, u32)> {
        if self.silent {
            return None;
        }
        let (since_start, payload) = self.following();
        let at = self.start.as_nanos().checked_add(since_start).filter(|at| *at < u64::MAX)?;
        Some((Time::from_nanos(at), payload))
    }
}
