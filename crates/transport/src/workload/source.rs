//! Sources of datagrams: when each is sent, and how much it carries.

use base::{Bandwidth, Bytes, RandomStream, Span, Time};

use super::{Pattern, exponential, exponential_span};

/// Periods between two datagrams that are not drawn one by one.
const MANY: u64 = 100_000;

/// The datagrams of one flow, in order of time. Ends when all has been sent, or never.
#[derive(Clone, Debug)]
pub struct Source {
    pattern: Pattern,
    packet: u32,
    /// Payload left to send; `None`: no end.
    left: Option<u64>,
    start: Time,
    /// Time from datagram to datagram.
    step: Step,
    /// Since the start: when the next datagram is due, counting only time that is on.
    due: u64,
    /// Silence until now, and on-time until the next silence (exponential on-off).
    silent: u64,
    on_until: u64,
    /// Next datagram of the trace.
    index: usize,
    random: RandomStream,
}

/// A quotient of nanoseconds whose remainders are carried, so that no rounding adds up.
#[derive(Clone, Debug)]
struct Step {
    whole: u64,
    remainder: u64,
    carried: u64,
    divisor: u64,
}

impl Step {
    /// Time for `packet` bytes at `rate`, which is positive. Moments are rounded up.
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

    /// The mean, for a Poisson process.
    fn mean(&self) -> f64 {
        self.whole as f64 + self.remainder as f64 / self.divisor as f64
    }
}

impl Source {
    /// A source that starts at `start` and sends `size` in all (`None`: for ever), in datagrams
    /// of `packet` at `rate` unless the pattern is a trace. The last may be smaller. Without a
    /// rate, a packet size or on-time there is none.
    pub fn new(
        pattern: Pattern,
        rate: Bandwidth,
        packet: Bytes,
        size: Option<Bytes>,
        start: Time,
        random: RandomStream,
    ) -> Self {
        let packet = packet.count().min(super::LARGEST_DATAGRAM) as u32;
        let silent = match &pattern {
            Pattern::OnOff { on, .. } => !on.is_positive(),
            Pattern::Trace(trace) => trace.datagrams.is_empty() || !trace.period.is_positive(),
            Pattern::Constant | Pattern::Poisson => false,
        };
        let idle = !matches!(pattern, Pattern::Trace(_)) && (packet == 0 || !rate.is_positive());
        let mut source = Self {
            pattern,
            packet,
            left: if silent || idle { Some(0) } else { size.map(Bytes::count) },
            start,
            step: Step::new(rate, packet),
            due: 0,
            silent: 0,
            on_until: 0,
            index: 0,
            random,
        };
        match source.pattern {
            Pattern::Poisson => source.due = exponential(source.step.mean(), &mut source.random),
            Pattern::OnOff { on, exponential: true, .. } => {
                source.on_until = exponential_span(on, &mut source.random).as_nanos();
            }
            _ => {}
        }
        source
    }

    /// Time since the start and payload of the next datagram, before the limit on the total.
    fn following(&mut self) -> (u64, u32) {
        let due = self.due;
        match &self.pattern {
            Pattern::Constant => self.due = due.saturating_add(self.step.next()),
            Pattern::Poisson => {
                let gap = exponential(self.step.mean(), &mut self.random);
                self.due = due.saturating_add(gap);
            }
            Pattern::OnOff { on, off, exponential: false } => {
                self.due = due.saturating_add(self.step.next());
                let periods = due / on.as_nanos();
                return (due.saturating_add(periods.saturating_mul(off.as_nanos())), self.packet);
            }
            Pattern::OnOff { on, off, exponential: true } => {
                let (on, off) = (*on, *off);
                self.due = due.saturating_add(self.step.next());
                return (due.saturating_add(self.silence(due, on, off)), self.packet);
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

    /// How long the source has been off when it has been on for `due`.
    fn silence(&mut self, due: u64, on: Span, off: Span) -> u64 {
        // So many periods come to their mean; drawing each would take for ever.
        let many = due.saturating_sub(self.on_until) / on.as_nanos().max(1);
        if many > MANY {
            self.silent = self.silent.saturating_add(many.saturating_mul(off.as_nanos()));
            self.on_until += many * on.as_nanos();
        }
        while due >= self.on_until && self.on_until < u64::MAX {
            let off = exponential_span(off, &mut self.random);
            self.silent = self.silent.saturating_add(off.as_nanos());
            let on = exponential_span(on, &mut self.random);
            self.on_until = self.on_until.saturating_add(on.as_nanos().max(1));
        }
        self.silent
    }
}

impl Iterator for Source {
    type Item = (Time, u32);

    fn next(&mut self) -> Option<(Time, u32)> {
        if self.left == Some(0) {
            return None;
        }
        let (since_start, mut payload) = self.following();
        let at = self.start.as_nanos().checked_add(since_start).filter(|at| *at < u64::MAX)?;
        if let Some(left) = &mut self.left {
            payload = u64::from(payload).min(*left) as u32;
            *left -= u64::from(payload);
        }
        Some((Time::from_nanos(at), payload))
    }
}
