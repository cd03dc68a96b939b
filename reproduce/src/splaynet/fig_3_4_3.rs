//! Section 3.4.3: many topologies at once on one machine.

use crate::paper::lab_file;
use crate::{
    Axis, Clock, Error, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table,
    moments,
};

pub(super) const FIGURE: Figure = Figure {
    id: "3.4.3",
    title: "1, 2, 4, 8 … topologies at once, each of which sees what it sees alone",
    takes: "4 min",
    clocks: &[Clock::Wall],
    files: &[lab_file!("splaynet/concurrent.toml")],
    make,
};

/// Nobody has a machine for so many, and nobody wants to wait for them.
const MOST: usize = 512;
/// How often so many are tried before it is taken for a limit.
const ATTEMPTS: usize = 3;
/// Slow start is over by then.
const SETTLED_S: f64 = 3.0;
/// How far a copy's goodput may be from what one has alone.
const GOODPUT: f64 = 0.01;
/// How far its round trips may be from what they take alone, in milliseconds. Stalls of a machine
/// are as long.
const ROUND_TRIP_MS: f64 = 2.0;

/// What one copy got.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    goodput_mbit: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    lost: u64,
    /// p99.9 of the lateness of its packets.
    late_us: f64,
}

impl Seen {
    fn of(run: &Run) -> Result<Self> {
        let rate = run.flow_rate("bulk", 1.0)?;
        let settled: Vec<f64> =
            rate.into_iter().filter(|(at, _)| *at > SETTLED_S).map(|(_, rate)| rate).collect();
        let missing = |what: &str| Error::Missing {
            run: run.folder.path().display().to_string(),
            what: what.to_owned(),
        };
        let latency = run.flow("calls")?.latency.ok_or_else(|| missing("round trip"))?;
        let late = run.record.lateness.distribution.ok_or_else(|| missing("packet"))?;
        Ok(Self {
            goodput_mbit: moments(&settled).mean / 1e6,
            mean_ms: latency.mean_ns / 1e6,
            p50_ms: latency.p50_ns as f64 / 1e6,
            p99_ms: latency.p99_ns as f64 / 1e6,
            lost: run.flow("voice")?.lost_datagrams.unwrap_or_default(),
            late_us: late.p999_ns as f64 / 1e3,
        })
    }
}

/// So many copies at once.
#[derive(Clone, Debug, Default)]
struct Crowd {
    copies: usize,
    seen: Vec<Seen>,
    trusted: usize,
    /// Why one of them is not.
    reason: Option<String>,
    busy: f64,
    /// Labs that ran at the same time and are none of these.
    strangers: usize,
    /// How often they were tried.
    attempts: usize,
}

impl Crowd {
    fn of(runs: &[Run]) -> Result<Self> {
        let doubtful = runs.iter().filter(|run| !run.trusted());
        let mut reasons = doubtful.filter_map(|run| {
            let verdict = run.record.verdict.as_ref()?;
            Some(verdict.reasons.join("; "))
        });
        let loads = || runs.iter().filter_map(|run| run.record.load.as_ref());
        let others = loads().map(|load| load.other_labs as usize).max().unwrap_or(0);
        let mut seen = Vec::new();
        for run in runs {
            match Seen::of(run) {
                Ok(one) => seen.push(one),
                // Where the machine is overwhelmed, calls may get no answer at all.
                Err(Error::Missing { .. }) if !run.trusted() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            copies: runs.len(),
            seen,
            trusted: runs.iter().filter(|run| run.trusted()).count(),
            reason: reasons.next(),
            busy: loads().map(|load| load.busy).fold(0.0, f64::max),
            attempts: 1,
            strangers: (others + 1).saturating_sub(runs.len()),
        })
    }

    fn is_trusted(&self) -> bool {
        self.trusted == self.copies
    }

    /// The value of the copy that has least, the mean, and that of the copy that has most.
    fn range(&self, value: impl Fn(&Seen) -> f64) -> (f64, f64, f64) {
        let values: Vec<f64> = self.seen.iter().map(value).collect();
        let of = moments(&values);
        (of.min, of.mean, of.max)
    }

    /// How far the copy that is farthest away is from what one had alone.
    fn off(&self, alone: &Seen, value: impl Fn(&Seen) -> f64) -> f64 {
        let off = self.seen.iter().map(|seen| (value(seen) - value(alone)).abs());
        off.fold(0.0, f64::max)
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut all = Evidence::default();
    for model in stage.models() {
        let mut of = made(stage, model)?;
        let with = |text: &mut String| *text = format!("{text} ({})", model.as_str());
        of.claims.iter_mut().for_each(|claim| with(&mut claim.what));
        of.plots.iter_mut().for_each(|plot| with(&mut plot.title));
        of.tables.iter_mut().for_each(|table| with(&mut table.title));
        all.claims.append(&mut of.claims);
        all.plots.append(&mut of.plots);
        all.tables.append(&mut of.tables);
        of.notes.retain(|note| !all.notes.contains(note));
        all.notes.append(&mut of.notes);
    }
    Ok(all)
}

/// The same for one model.
fn made(stage: &mut Stage<'_>, model: Model) -> Result<Evidence> {
    let most = stage.size(MOST, 4);
    let mut crowds: Vec<Crowd> = Vec::new();
    let mut refused = None;
    let mut copies = 1;
    while copies <= most && crowds.last().is_none_or(Crowd::is_trusted) {
        match gather(stage, model, copies) {
            Ok(crowd) => crowds.push(crowd),
            // The machine lacks something that so many need.
            Err(Error::Child { said, exit: run::Exit::Machine, .. }) if copies > 1 => {
                refused = Some((copies, said));
                break;
            }
            Err(error) => return Err(error),
        }
        copies *= 2;
    }
    let limit = crowds.iter().find(|crowd| !crowd.is_trusted()).cloned();
    let mut evidence = evidence(&crowds);
    if let Some((copies, said)) = refused {
        evidence.note(format!("{copies} at once could not be started: {said}."));
    } else if let Some(limit) = limit {
        if limit.copies > 1 {
            name_limit(&mut evidence, &limit);
        }
    } else {
        evidence.note(format!("The machine's limit is above {most} at once."));
    }
    Ok(evidence)
}

/// Runs so many copies at once; again where they are not trusted, because any machine may stall
/// once, and only a limit is met every time.
fn gather(stage: &mut Stage<'_>, model: Model, copies: usize) -> Result<Crowd> {
    let duration = stage.size("10 s", "5 s");
    let mut attempt = 1;
    loop {
        let job = |number: usize| {
            let word = model.as_str();
            let name = format!("{word}-{copies}-at-once-{number}-try-{attempt}");
            let job = Job::new("splaynet/concurrent.toml", name, Clock::Wall);
            job.set("lab.model", word).set("lab.duration", duration)
        };
        let jobs: Vec<Job> = (1..=copies).map(job).collect();
        let runs = stage.run_together_once(&jobs)?;
        let crowd = Crowd { attempts: attempt, ..Crowd::of(&runs)? };
        let last = attempt == ATTEMPTS;
        // That even one is too many says something about the machine, not about many.
        if !crowd.is_trusted() && (copies > 1 || !last) {
            stage.met_the_limit(&runs);
        }
        if crowd.is_trusted() || last {
            return Ok(crowd);
        }
        attempt += 1;
    }
}

/// The claim that the verdict says what the limit was.
fn name_limit(evidence: &mut Evidence, limit: &Crowd) {
    let reason = limit.reason.clone().unwrap_or_default();
    let named = reason.contains("busy") && reason.contains("other labs ran");
    evidence.claim(
        format!(
            "{} at once are too many: {} were not trusted in the last of {} tries",
            limit.copies,
            limit.copies - limit.trusted,
            limit.attempts
        ),
        "no limit is printed",
        format!("the verdict: {reason}"),
        named,
    );
}

fn evidence(crowds: &[Crowd]) -> Evidence {
    let mut evidence = Evidence::default();
    let heads = [
        "at once",
        "trusted",
        "tries",
        "machine busy",
        "goodput in Mbit/s: least, mean, most",
        "round trip in ms: p50",
        "p99, worst copy",
        "lost datagrams",
        "lateness p99.9 in µs, worst copy",
    ];
    let mut table = Table::new("What each copy sees", &heads);
    let alone = crowds.first().and_then(|crowd| crowd.seen.first()).copied().unwrap_or_default();
    for crowd in crowds {
        let (least, mean, most) = crowd.range(|seen| seen.goodput_mbit);
        table.row([
            crowd.copies.to_string(),
            format!("{} of {}", crowd.trusted, crowd.copies),
            crowd.attempts.to_string(),
            format!("{:.0} %", crowd.busy * 100.0),
            format!("{least:.3}, {mean:.3}, {most:.3}"),
            format!("{:.2}", crowd.range(|seen| seen.p50_ms).1),
            format!("{:.2}", crowd.range(|seen| seen.p99_ms).2),
            crowd.seen.iter().map(|seen| seen.lost).sum::<u64>().to_string(),
            format!("{:.0}", crowd.range(|seen| seen.late_us).2),
        ]);
        if crowd.copies > 1 && crowd.is_trusted() {
            claim(&mut evidence, crowd, &alone);
        }
    }
    for crowd in crowds.iter().filter(|crowd| crowd.strangers > 0) {
        let (copies, strangers) = (crowd.copies, crowd.strangers);
        evidence.note(format!(
            "While {copies} ran at once, so did {strangers} that are none of these: on a \
             machine of their own they would have had more of it."
        ));
    }
    evidence.tables.push(table);
    evidence.plots = plots(crowds, &alone);
    evidence
}

/// The claim that so many copies see what one sees alone.
fn claim(evidence: &mut Evidence, crowd: &Crowd, alone: &Seen) {
    let goodput = crowd.off(alone, |seen| seen.goodput_mbit) / alone.goodput_mbit;
    let mean = crowd.off(alone, |seen| seen.mean_ms);
    let p99 = crowd.off(alone, |seen| seen.p99_ms);
    evidence.claim(
        format!("each of {} at once, against what it sees alone", crowd.copies),
        "the same as alone, if placement regards the machines",
        format!(
            "goodput within {:.2} %, mean round trip within {mean:.3} ms, p99 within {p99:.3} ms",
            goodput * 100.0
        ),
        goodput <= GOODPUT && mean <= ROUND_TRIP_MS && p99 <= ROUND_TRIP_MS,
    );
}

fn plots(crowds: &[Crowd], alone: &Seen) -> Vec<Plot> {
    let most = crowds.iter().map(|crowd| crowd.copies).max().unwrap_or(1).max(2) as f64;
    let points = |value: &dyn Fn(&Crowd) -> f64| -> Vec<(f64, f64)> {
        crowds.iter().map(|crowd| (crowd.copies as f64, value(crowd))).collect()
    };
    let reference = |value: f64| {
        let line = Line::new("alone", vec![(1.0, value), (most, value)]);
        line.style(Style::Reference)
    };
    let x = || Axis::log("topologies at once").from(1.0).to(most);
    let each = |value: fn(&Seen) -> f64| -> Vec<(f64, f64)> {
        let of = |crowd: &Crowd| -> Vec<(f64, f64)> {
            crowd.seen.iter().map(|seen| (crowd.copies as f64, value(seen))).collect()
        };
        crowds.iter().flat_map(of).collect()
    };
    let dots = |label: &str, value| Line::new(label, each(value)).style(Style::Dots);
    let goodput = Plot::new("Goodput of each copy", x(), Axis::linear("Mbit/s").from(0.0))
        .line(dots("each copy", |seen| seen.goodput_mbit))
        .line(reference(alone.goodput_mbit));
    let trips = Plot::new("Round trips of each copy", x(), Axis::linear("ms").from(0.0))
        .line(dots("p99 of each copy", |seen| seen.p99_ms))
        .line(Line::new("p50, mean of copies", points(&|crowd| crowd.range(|seen| seen.p50_ms).1)))
        .line(reference(alone.p50_ms));
    let late = Plot::new("Lateness of packets, p99.9", x(), Axis::log("µs"))
        .line(dots("each copy", |seen| seen.late_us));
    vec![goodput, trips, late]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(goodput_mbit: f64, p99_ms: f64) -> Seen {
        Seen { goodput_mbit, mean_ms: 24.5, p50_ms: 24.4, p99_ms, lost: 0, late_us: 50.0 }
    }

    fn crowd(seen: &[Seen], trusted: usize, reason: Option<&str>) -> Crowd {
        let reason = reason.map(str::to_owned);
        Crowd {
            copies: seen.len(),
            seen: seen.to_vec(),
            trusted,
            reason,
            busy: 0.5,
            strangers: 1,
            attempts: 1,
        }
    }

    #[test]
    fn the_copy_that_is_farthest_away_decides() {
        let alone = crowd(&[seen(9.4, 26.0)], 1, None);
        let same = crowd(&[seen(9.4, 26.1), seen(9.38, 26.5)], 2, None);
        let evidence_of = evidence(&[alone.clone(), same]);
        assert!(evidence_of.claims.iter().all(|claim| claim.holds), "{evidence_of:?}");
        assert!(evidence_of.notes[1].contains("While 2 ran at once, so did 1 that"));
        assert_eq!((evidence_of.claims.len(), evidence_of.plots.len()), (1, 3));
        for other in [seen(9.2, 26.0), seen(9.4, 29.0)] {
            let crowd = crowd(&[seen(9.4, 26.0), other], 2, None);
            let evidence_of = evidence(&[alone.clone(), crowd]);
            assert!(!evidence_of.claims[0].holds, "{evidence_of:?}");
        }
    }

    #[test]
    fn a_limit_must_be_named() {
        let reason = "packets left late; the machine's 2 CPUs were 99 % busy, 7 other labs ran";
        for (reason, holds) in [(reason, true), ("packets left late", false)] {
            let limit = crowd(&[seen(9.0, 60.0); 8], 3, Some(reason));
            let mut evidence = evidence(std::slice::from_ref(&limit));
            assert!(evidence.claims.is_empty(), "an untrusted crowd claims nothing");
            name_limit(&mut evidence, &limit);
            assert_eq!(evidence.claims[0].holds, holds);
            assert!(evidence.claims[0].what.contains("5 were not trusted"));
        }
    }
}
