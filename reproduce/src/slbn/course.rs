//! What a run sampled of all its sessions, over time.

use run::record::{RateControl, Simulation};

use crate::{Result, Run};

/// How relative errors are spread, in %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// Mean of the amounts without sign.
    pub(super) amount: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// All sessions at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// Seconds since the start.
    pub(super) at: f64,
    pub(super) sessions: u64,
    /// Those among them that have a rate.
    pub(super) assigned: u64,
    /// Of the sessions that have a rate: assigned over fair, less one.
    pub(super) source: Option<Spread>,
    /// Of the links that limit sessions: sum of the rates over capacity, less one.
    pub(super) bottleneck: Option<Spread>,
    /// The share of these links that are more than 5 % over, in %.
    pub(super) over: Option<f64>,
    /// The largest queue since the last sample, in data packets.
    pub(super) queue: u64,
    /// The longest time that a link needed to send what waited for it, in ms.
    pub(super) queue_ms: f64,
}

/// A run: what was sampled of it, and what it came to.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// Its protocol, or what else tells it from others.
    pub(super) label: String,
    pub(super) moments: Vec<Moment>,
    pub(super) sum: RateControl,
    /// What simulating it took.
    pub(super) cost: Simulation,
}

impl Course {
    pub(super) fn read(run: &Run, label: impl Into<String>) -> Result<Self> {
        let table = run.table("control")?;
        let whole = |name| run.integers(&table, name);
        let at = whole("time_ns")?;
        let [sessions, assigned] = [whole("sessions")?, whole("assigned")?];
        let [queue, waited] = [whole("queue_max_packets")?, whole("queue_max_ns")?];
        let spread = |which: &str| -> Result<Vec<Option<Spread>>> {
            let column = |part| run.reals(&table, &format!("{which}_error_{part}"));
            let (mean, amount) = (column("mean")?, column("abs")?);
            let (low, high) = (column("p10")?, column("p90")?);
            let of = |row: usize| {
                let percent = |column: &[Option<f64>]| column[row].map(|value| value * 100.0);
                Some(Spread {
                    mean: percent(&mean)?,
                    amount: percent(&amount)?,
                    low: percent(&low)?,
                    high: percent(&high)?,
                })
            };
            Ok((0..mean.len()).map(of).collect())
        };
        let (source, bottleneck) = (spread("source")?, spread("bottleneck")?);
        let over = run.reals(&table, "bottlenecks_over")?;
        let number = |column: &[Option<u64>], row: usize| column[row].unwrap_or_default();
        let moment = |row| Moment {
            at: number(&at, row) as f64 / 1e9,
            sessions: number(&sessions, row),
            assigned: number(&assigned, row),
            source: source[row],
            bottleneck: bottleneck[row],
            over: over[row].map(|share| share * 100.0),
            queue: number(&queue, row),
            queue_ms: number(&waited, row) as f64 / 1e6,
        };
        let sum = run.record.control.clone().ok_or_else(|| run.missing("control".to_owned()))?;
        Ok(Self {
            label: label.into(),
            moments: (0..at.len()).map(moment).collect(),
            sum,
            cost: run.record.simulation.clone().unwrap_or_default(),
        })
    }

    /// The last sample up to a time, in seconds.
    pub(super) fn at(&self, time: f64) -> Option<&Moment> {
        self.moments.iter().rev().find(|moment| moment.at <= time + 1e-9)
    }

    /// Samples after `from` and up to `to`, in seconds.
    pub(super) fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Moment> {
        self.moments.iter().filter(move |moment| moment.at > from + 1e-9 && moment.at <= to + 1e-9)
    }

    /// A value's least, mean and most over samples that have one.
    pub(super) fn range(
        &self,
        (from, to): (f64, f64),
        value: impl Fn(&Moment) -> Option<f64>,
    ) -> Option<[f64; 3]> {
        let values: Vec<f64> = self.between(from, to).filter_map(value).collect();
        let of = crate::moments(&values);
        (of.count > 0).then_some([of.min, of.mean, of.max])
    }

    /// The largest queue between two times, in packets.
    pub(super) fn queue(&self, from: f64, to: f64) -> u64 {
        self.between(from, to).map(|moment| moment.queue).max().unwrap_or(0)
    }

    /// When the last sample was taken, in seconds.
    pub(super) fn end(&self) -> f64 {
        self.moments.last().map_or(0.0, |moment| moment.at)
    }

    /// By how much the mean amount of the errors at sources exceeds another run's at the same
    /// moment, where it does by the most: the moment, this run's error and the other's, in %.
    pub(super) fn worst_beside(&self, other: &Self) -> Option<(f64, f64, f64)> {
        let amount = |moment: &Moment| moment.source.map(|spread| spread.amount);
        let pair = |mine: &Moment| {
            let theirs = other.moments.iter().find(|theirs| (theirs.at - mine.at).abs() < 1e-6)?;
            Some((mine.at, amount(mine)?, amount(theirs)?))
        };
        let pairs = self.moments.iter().filter_map(pair);
        pairs.max_by(|a, b| (a.1 - a.2).total_cmp(&(b.1 - b.2)))
    }
}

/// The mean error at sources, in %.
pub(super) fn source(moment: &Moment) -> Option<f64> {
    moment.source.map(|spread| spread.mean)
}

/// The mean amount of the errors at sources, in %.
pub(super) fn amount(moment: &Moment) -> Option<f64> {
    moment.source.map(|spread| spread.amount)
}

/// The mean amount of the errors of all sessions, in %: one without a rate is off by all of its
/// fair rate.
pub(super) fn amount_of_all(moment: &Moment) -> Option<f64> {
    let without = moment.sessions.saturating_sub(moment.assigned) as f64;
    let off = moment.source.map_or(0.0, |spread| spread.amount * moment.assigned as f64);
    (moment.sessions > 0).then(|| without.mul_add(100.0, off) / moment.sessions as f64)
}

/// The sessions without a rate, in % of all.
pub(super) fn rateless(moment: &Moment) -> Option<f64> {
    let without = moment.sessions.saturating_sub(moment.assigned) as f64;
    (moment.sessions > 0).then(|| without * 100.0 / moment.sessions as f64)
}

/// The mean error at bottlenecks, in %.
pub(super) fn bottleneck(moment: &Moment) -> Option<f64> {
    moment.bottleneck.map(|spread| spread.mean)
}

#[cfg(test)]
pub(super) mod tests {
    use base::{Bytes, Span, Time};
    use run::sample::control::Errors;
    use run::{ControlSample, Recorder, RecorderOptions, RunFolder, RunRecord};

    use super::*;
    use crate::Clock;

    /// A course with samples every 100 ms: errors at sources and at bottlenecks in %, queues.
    pub(in crate::slbn) fn course(label: &str, samples: &[(f64, f64, u64)]) -> Course {
        let moment = |(index, (source, link, queue)): (usize, &(f64, f64, u64))| {
            let spread =
                |mean: f64| Spread { mean, amount: mean.abs(), low: mean - 5.0, high: mean + 5.0 };
            Moment {
                at: (index + 1) as f64 / 10.0,
                sessions: 10,
                assigned: 10,
                source: Some(spread(*source)),
                bottleneck: Some(spread(*link)),
                over: Some(0.0),
                queue: *queue,
                queue_ms: *queue as f64 / 100.0,
            }
        };
        Course {
            label: label.to_owned(),
            moments: samples.iter().enumerate().map(moment).collect(),
            sum: RateControl::default(),
            cost: Simulation::default(),
        }
    }

    #[test]
    fn samples_are_read_in_percent_and_gaps_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(dir.path(), "run").unwrap();
        let recorder = Recorder::start(&folder, &RecorderOptions::default()).unwrap();
        let errors = Errors { mean: -0.02, mean_abs: 0.05, p10: -0.11, p90: 0.3 };
        let sample = ControlSample {
            at: Time::from_nanos(20_000_000),
            interval: Span::from_millis(20),
            sessions: 8,
            assigned: 6,
            source: Some(errors),
            over: Some(0.25),
            queue_max_packets: 12,
            queue_max_bytes: Bytes::new(24_000),
            queue_max_time: Span::from_micros(1_920),
            ..ControlSample::default()
        };
        recorder.handle().control(sample);
        assert!(recorder.finish().error.is_none());
        let control = Some(RateControl { joined: 7, ..RateControl::default() });
        let record = RunRecord { control, ..RunRecord::default() };
        let name = "run".to_owned();
        let run = Run { name, clock: Clock::Virtual, model: None, tries: 1, record, folder };
        let course = Course::read(&run, "SLBN").unwrap();
        let moment = &course.moments[0];
        let source = moment.source.unwrap();
        assert!((source.mean + 2.0).abs() < 1e-9 && (source.high - 30.0).abs() < 1e-9);
        assert_eq!((moment.bottleneck, moment.over, moment.queue), (None, Some(25.0), 12));
        assert!((moment.at - 0.02).abs() < 1e-12 && (moment.queue_ms - 1.92).abs() < 1e-9);
        assert_eq!(course.sum.joined, 7);
        let all = amount_of_all(moment).unwrap();
        assert!((all - (6.0 * 5.0 + 2.0 * 100.0) / 8.0).abs() < 1e-9, "{all}");
        assert_eq!(rateless(moment), Some(25.0));
        let nobody = Moment { assigned: 0, source: None, ..*moment };
        assert_eq!(amount_of_all(&nobody), Some(100.0));
        assert_eq!(amount_of_all(&Moment { sessions: 0, ..nobody }), None);
    }

    #[test]
    fn the_worst_moment_beside_another_is_found() {
        let mine = course("a", &[(5.0, 0.0, 0), (-9.0, 0.0, 3), (1.0, 2.0, 1)]);
        let theirs = course("b", &[(6.0, 0.0, 0), (4.0, 0.0, 0), (1.0, 0.0, 0)]);
        assert_eq!(mine.worst_beside(&theirs), Some((0.2, 9.0, 4.0)));
        assert_eq!(mine.range((0.1, 0.3), source), Some([-9.0, -4.0, 1.0]));
        assert_eq!((mine.queue(0.0, 0.1), mine.queue(0.1, 0.3), mine.end()), (0, 3, 0.3));
        assert_eq!(mine.at(0.25).unwrap().queue, 3);
        assert!(mine.at(0.05).is_none());
    }
}
