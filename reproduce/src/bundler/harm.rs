//! Settings that the paper does not have: where does a bundle do harm?
//!
//! A site with five bulk transfers, requests at a quarter of the rate and a ping loop. Every run is
//! paired with one of the same seed in which the boxes only observe.

use base::RandomStream;

use super::{Case, bundler, runs_on, status_quo, times, wall};
use crate::paper::lab_file;
use crate::statistics::{cdf, moments, quantile};
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table};

mod design;

pub(super) use design::{Setting, named};
use design::{checked, fixed, random};

pub(super) const FIGURE: Figure = Figure {
    id: "harm",
    title: "beyond the paper: settings in which control might do harm",
    takes: "3 h",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/harm.toml"), lab_file!("bundler/harm-cross.toml")],
    make,
};

/// Settings drawn at random in the full design, beside the fixed ones.
const RANDOM_SETTINGS: usize = 180;
/// A measure that is worse by more than this is harm.
const TOLERANCE: f64 = 0.05;
/// Seeds from which on a setting's own scatter counts. With fewer it is the median of all settings.
const MIN_SEEDS: usize = 4;
/// Quantile of the normal distribution, and of Student's with 4 degrees of freedom, at 97.5 %.
const NORMAL: f64 = 1.96;
const STUDENT: f64 = 2.78;
/// The median of the chi-square distribution with one degree of freedom, that of two seeds.
const MEDIAN_CHI_SQUARE: f64 = 0.455;
/// Settings that are printed: the worst.
const MAX_ROWS: usize = 40;

/// Segment size, and Cubic's constants (RFC 9438, section 4).
const SEGMENT_BYTES: f64 = 1500.0;
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// Seconds that Cubic takes after one loss until its window is again that of a path with a full
/// buffer of `buffer` bandwidth-delay products that `flows` share: RFC 9438, section 4.2.
///
/// It bounds what a bundle can keep beside flows that begin later. Without a bundle the windows are
/// this large when the other flows begin; a bundle with a short queue begins from 1 / (1 +
/// `buffer`) of them, and needs at least this time to catch up.
fn cubic_recovery_s(mbits: f64, round_trip_ms: f64, buffer: f64, flows: f64) -> f64 {
    let product = mbits * 1e3 * round_trip_ms / 8.0 / SEGMENT_BYTES;
    let window = (1.0 + buffer) * product / flows;
    ((1.0 - CUBIC_BETA) * window / CUBIC_C).cbrt()
}

/// What is compared. Ratios are Bundler over status quo, turned so that below 1 is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Bulk,
    Median,
    Tail,
}

impl Measure {
    pub(super) const EACH: [Self; 3] = [Self::Bulk, Self::Median, Self::Tail];

    const fn label(self) -> &'static str {
        match self {
            Self::Bulk => "bulk goodput",
            Self::Median => "requests, p50",
            Self::Tail => "requests, p99",
        }
    }

    fn of(self, run: &Run) -> Result<f64> {
        let requests = |nanos: u64| nanos as f64 / 1e6;
        let times = run.flow("requests")?.completion.as_ref();
        Ok(match self {
            Self::Bulk => run.flow("bulk")?.goodput_bit_per_s / 1e6,
            Self::Median => times.map_or(f64::INFINITY, |times| requests(times.p50_ns)),
            Self::Tail => times.map_or(f64::INFINITY, |times| requests(times.p99_ns)),
        })
    }

    /// The logarithm of the ratio, below 0 where Bundler is worse.
    fn gain(self, quo: f64, ours: f64) -> f64 {
        let ratio = (ours.max(1e-6) / quo.max(1e-6)).ln();
        if self == Self::Bulk { ratio } else { -ratio }
    }
}

/// A measure of a setting: status quo, Bundler, and the gain by seed.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    quo: f64,
    ours: f64,
    gains: Vec<f64>,
}

impl Compared {
    fn new(measure: Measure, quo: &[f64], ours: &[f64]) -> Self {
        let gains = quo.iter().zip(ours).map(|(quo, ours)| measure.gain(*quo, *ours)).collect();
        Self { quo: moments(quo).mean, ours: moments(ours).mean, gains }
    }

    pub(super) fn read(measure: Measure, quo: &[Run], ours: &[Run]) -> Result<Self> {
        let values = |runs: &[Run]| runs.iter().map(|run| measure.of(run)).collect::<Result<_>>();
        let (quo, ours): (Vec<f64>, Vec<f64>) = (values(quo)?, values(ours)?);
        Ok(Self::new(measure, &quo, &ours))
    }

    pub(super) fn gain(&self) -> f64 {
        moments(&self.gains).mean
    }

    fn variance(&self) -> f64 {
        let count = self.gains.len() as f64;
        moments(&self.gains).deviation.powi(2) * count / (count - 1.0).max(1.0)
    }

    /// Half the 95 % interval of the gain, where all settings together scatter by `variance`.
    fn half(&self, variance: f64) -> f64 {
        let own = self.gains.len() >= MIN_SEEDS;
        let (variance, quantile) =
            if own { (self.variance(), STUDENT) } else { (variance, NORMAL) };
        quantile * (variance / self.gains.len() as f64).sqrt()
    }

    /// Worse by more than the tolerance, whatever chance explains.
    fn harmful(&self, variance: f64) -> bool {
        self.gain() + self.half(variance) < (1.0 - TOLERANCE).ln()
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for clock in stage.clocks() {
        let settings = match clock {
            Clock::Virtual if stage.short() => fixed(),
            Clock::Virtual => {
                let mut stream = RandomStream::new(19, "bundler/harm");
                let random = (0..RANDOM_SETTINGS).map(|index| random(index, &mut stream));
                fixed().into_iter().chain(random).collect()
            }
            Clock::Wall => checked(),
        };
        let seeds = match clock {
            Clock::Virtual => stage.size(5, 2),
            Clock::Wall => stage.size(4, 2),
        };
        let mut compared = Vec::new();
        let mut processor_s = [0.0; 2];
        for setting in &settings {
            let set = |case: Case| {
                let case = case.called(&setting.name);
                let case = case.set("lab.duration", stage.size("30 s", "20 s"));
                let case = match clock {
                    // Kernels open windows by themselves.
                    Clock::Virtual => case.set("flow.bulk.window", "100 MB"),
                    Clock::Wall => case.set("lab.tolerance", wall::TOLERANCE),
                };
                setting.set.iter().fold(case, |case, (field, value)| case.set(field, value))
            };
            let cases = [set(status_quo()), set(bundler())];
            let all = runs_on(stage, clock, setting.lab, &cases, seeds)?;
            let each =
                Measure::EACH.iter().map(|measure| Compared::read(*measure, &all[0], &all[1]));
            compared.push(each.collect::<Result<Vec<Compared>>>()?);
            for (sum, runs) in processor_s.iter_mut().zip(&all) {
                let used = |run: &Run| run.record.host.cpu_s;
                *sum += runs.iter().map(used).sum::<f64>();
            }
        }
        compare(&mut evidence, clock, &settings, &compared);
        if clock == Clock::Wall {
            let [quo, ours] = processor_s.map(|sum| sum / (settings.len() as u64 * seeds) as f64);
            evidence.note(format!(
                "Processor time of a run {quo:.1} s with boxes that observe, {ours:.1} s with \
                 Bundler ({}).",
                of(clock)
            ));
        }
    }
    let [near, far] = [(33.0, 60.0, 2.0), (142.0, 89.0, 6.0)]
        .map(|(mbits, round_trip_ms, buffer)| cubic_recovery_s(mbits, round_trip_ms, buffer, 5.0));
    evidence.note(format!(
        "A bound for flows of others that begin later: five Cubic flows need {near:.1} s at 33 \
         Mbit/s, 60 ms and 2 bandwidth-delay products, and {far:.1} s at 142 Mbit/s, 89 ms and 6, \
         to return to the windows that they have without Bundler."
    ));
    evidence.note(
        "The interval of a setting follows from the scatter of its own seeds if there are at \
         least four, otherwise from the median scatter of all settings.",
    );
    Ok(evidence)
}

/// Where runs of this clock have their transports from.
const fn of(clock: Clock) -> &'static str {
    match clock {
        Clock::Virtual => "virtual clock",
        Clock::Wall => "wall clock, kernel TCP",
    }
}

fn compare(
    evidence: &mut Evidence,
    clock: Clock,
    settings: &[Setting],
    compared: &[Vec<Compared>],
) {
    let each = |at: usize| compared.iter().map(move |row| &row[at]);
    // The median: few settings beside elastic traffic scatter more than all others together.
    let variances = [0, 1, 2].map(|at| {
        let variances: Vec<f64> = each(at).map(Compared::variance).collect();
        quantile(&variances, 0.5).unwrap_or_default() / MEDIAN_CHI_SQUARE
    });
    let heads = ["setting", "bulk, Mbit/s", "ratio", "p50, ms", "ratio", "p99, ms", "ratio"];
    let title = format!(
        "Status quo → Bundler ({}), means of the seeds, the worst settings first; ratios are \
         geometric means with 95 % intervals",
        of(clock)
    );
    let mut table = Table::new(title, &heads);
    let worst = |row: &[Compared]| row.iter().map(Compared::gain).fold(f64::INFINITY, f64::min);
    let mut order: Vec<usize> = (0..settings.len()).collect();
    order.sort_by(|a, b| worst(&compared[*a]).total_cmp(&worst(&compared[*b])));
    for index in order.into_iter().take(MAX_ROWS) {
        let mut cells = vec![settings[index].name.clone()];
        for (at, one) in compared[index].iter().enumerate() {
            let sign = if Measure::EACH[at] == Measure::Bulk { 1.0 } else { -1.0 };
            let bound = |by: f64| ((one.gain() + by) * sign).exp();
            let half = one.half(variances[at]) * sign;
            cells.push(format!("{:.1} → {:.1}", one.quo, one.ours));
            cells.push(format!("{:.2} ({:.2}–{:.2})", bound(0.0), bound(-half), bound(half)));
        }
        table.row(cells);
    }
    evidence.tables.push(table);
    let x = Axis::linear("Bundler over status quo, better to the right").from(0.0).to(3.0);
    let mut plot = Plot::new(
        format!("Harm and benefit ({})", of(clock)),
        x,
        Axis::linear("% of the settings").from(0.0),
    );
    for (at, measure) in Measure::EACH.iter().enumerate() {
        let harmed = |index: &usize| compared[*index][at].harmful(variances[at]);
        let names: Vec<&str> =
            (0..settings.len()).filter(harmed).map(|index| settings[index].name.as_str()).collect();
        let found = if names.is_empty() {
            "none".to_owned()
        } else {
            format!("{}: {}", names.len(), names.join(", "))
        };
        evidence.claim(
            format!(
                "settings of {} in which {} is worse by more than 5 %, {}",
                settings.len(),
                measure.label(),
                of(clock)
            ),
            "not in the paper (expected: none)",
            found,
            names.is_empty(),
        );
        let ratios: Vec<f64> = each(at).map(|one| one.gain().exp()).collect();
        plot.lines.push(Line::new(measure.label(), cdf(&ratios)).style(Style::Line));
        let median = quantile(&ratios, 0.5).unwrap_or_default();
        evidence.note(format!(
            "{}, {}: median ratio {} (above 1 is better).",
            of(clock),
            measure.label(),
            times(median)
        ));
    }
    evidence.plots.push(plot);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str) -> Setting {
        Setting { name: name.to_owned(), lab: "bundler/harm.toml", set: Vec::new() }
    }

    #[test]
    fn reports_harm_beyond_chance_only() {
        let row = |bulk: [f64; 2]| {
            let bulk = Compared::new(Measure::Bulk, &[10.0, 10.0], &bulk);
            let same = |measure| Compared::new(measure, &[50.0, 52.0], &[50.0, 52.0]);
            vec![bulk, same(Measure::Median), same(Measure::Tail)]
        };
        let settings = ["even", "slow", "noisy"].map(setting);
        let rows = [row([10.0, 10.0]), row([7.0, 7.1]), row([9.0, 9.9])];
        let mut evidence = Evidence::default();
        compare(&mut evidence, Clock::Virtual, &settings, &rows);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [false, true, true]);
        assert_eq!(evidence.claims[0].ours, "1: slow");
    }

    #[test]
    fn cubic_needs_seconds_to_refill_a_deep_buffer() {
        // 1,474 segments for each flow.
        let far = cubic_recovery_s(142.0, 89.0, 6.0, 5.0);
        assert!((10.2..10.5).contains(&far), "{far}");
        assert!(cubic_recovery_s(33.0, 60.0, 2.0, 5.0) < 5.0);
    }

    #[test]
    fn longer_requests_are_harm() {
        let slower = Compared::new(Measure::Tail, &[100.0; 5], &[120.0; 5]);
        assert!(slower.harmful(0.0));
        let faster = Compared::new(Measure::Tail, &[120.0; 5], &[100.0; 5]);
        assert!(!faster.harmful(0.0));
    }

    #[test]
    fn the_design_repeats_itself_and_has_distinct_names() {
        let draw = || {
            let mut stream = RandomStream::new(19, "bundler/harm");
            (0..RANDOM_SETTINGS).map(|index| random(index, &mut stream)).collect::<Vec<_>>()
        };
        let drawn = draw();
        assert_eq!(drawn, draw());
        let mut names: Vec<String> =
            drawn.into_iter().chain(fixed()).map(|setting| setting.name).collect();
        assert!(names.len() >= 200, "{}", names.len());
        names.sort();
        names.dedup();
        assert!(names.len() >= 200);
    }
}
