//! How much each tuned constant of Bundler matters: it is halved and doubled.

use lab::plan::{BundleConstant, BundleConstants};

use super::harm::{Compared, Measure, Setting, named};
use super::{bundler, runs};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "sensitivity",
    title: "beyond the paper: each constant halved and doubled",
    takes: "2 h",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/harm.toml"), lab_file!("bundler/harm-cross.toml")],
    make,
};

/// Settings of `harm` in which the detectors and the guard have work to do.
const SETTINGS: [&str; 9] =
    ["alone", "loss-2", "loss-bursts", "jitter-5", "cubic", "site", "bbr", "on-off", "fast"];
const SHORT_SETTINGS: [&str; 4] = ["alone", "jitter-5", "cubic", "on-off"];
/// A smaller effect on every measure in every setting is none, in percent.
const NO_EFFECT: f64 = 1.0;
/// A larger mean effect needs attention, in percent.
const MAX_EFFECT: f64 = 20.0;

/// The effects of one value on the three measures, in percent, positive where it is better.
#[derive(Clone, Debug)]
struct Effect {
    mean: [f64; 3],
    /// The largest in any setting, by magnitude.
    max: f64,
}

impl Effect {
    /// `usual` and `changed` are the runs of each setting.
    fn read(usual: &[Vec<Run>], changed: &[Vec<Run>]) -> Result<Self> {
        let (mut mean, mut max) = ([0.0; 3], 0.0_f64);
        for (at, measure) in Measure::EACH.into_iter().enumerate() {
            for (before, after) in usual.iter().zip(changed) {
                let percent = 100.0 * Compared::read(measure, before, after)?.gain().exp_m1();
                mean[at] += percent;
                if percent.abs() > max.abs() {
                    max = percent;
                }
            }
            mean[at] /= usual.len().max(1) as f64;
        }
        Ok(Self { mean, max })
    }

    fn cell(&self) -> String {
        let [bulk, median, tail] = self.mean;
        format!("{bulk:+.1} / {median:+.1} / {tail:+.1}")
    }
}

/// Half or twice the value, within the constant's range; `None`: the value itself.
fn changed(constant: &BundleConstant, factor: f64) -> Option<f64> {
    let [min, max] = constant.range;
    let value = (factor * constant.value).clamp(min, max);
    ((value - constant.value).abs() > 0.0).then_some(value)
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let names = stage.size(&SETTINGS[..], &SHORT_SETTINGS[..]);
    let settings = named(names);
    let seeds = stage.size(3, 1);
    let seconds = stage.size("30 s", "15 s");
    let mut run = |constants: Option<(&str, f64)>| -> Result<Vec<Vec<Run>>> {
        let mut all = Vec::new();
        for Setting { name, lab, set } in &settings {
            let case = bundler().called(name).set("lab.duration", seconds);
            let case = case.set("flow.bulk.window", "100 MB");
            let case = set.iter().fold(case, |case, (field, value)| case.set(field, value));
            let case = match constants {
                Some((name, value)) => case
                    .called(&format!("{name}-{value}"))
                    .set("bundle.site.constants", format!("{name} = {value}")),
                None => case,
            };
            all.extend(runs(stage, lab, &[case], seeds)?);
        }
        Ok(all)
    };
    let usual = run(None)?;
    let mut rows = Vec::new();
    for constant in BundleConstants::LIST {
        let mut effect = |factor| -> Result<Option<Effect>> {
            let Some(value) = changed(constant, factor) else { return Ok(None) };
            Effect::read(&usual, &run(Some((constant.name, value)))?).map(Some)
        };
        rows.push((constant, [effect(0.5)?, effect(2.0)?]));
    }
    Ok(evidence(&rows, names))
}

fn evidence(rows: &[(&BundleConstant, [Option<Effect>; 2])], settings: &[&str]) -> Evidence {
    let mut evidence = Evidence::default();
    let heads = ["constant", "default", "range", "chosen by", "halved, %", "doubled, %", "max, %"];
    let mut table = Table::new(
        "Mean change of bulk goodput / requests p50 / p99, positive is better; the largest change \
         in a setting",
        &heads,
    );
    let (mut idle, mut large) = (Vec::new(), Vec::new());
    for (constant, effects) in rows {
        let known = || effects.iter().flatten();
        let max = known().map(|effect| effect.max).fold(
            0.0,
            |a: f64, b| {
                if b.abs() > a.abs() { b } else { a }
            },
        );
        if max.abs() < NO_EFFECT {
            idle.push(constant.name);
        }
        if known().any(|effect| effect.mean.iter().any(|mean| mean.abs() > MAX_EFFECT)) {
            large.push(constant.name);
        }
        let cell = |effect: &Option<Effect>| effect.as_ref().map_or("–".into(), Effect::cell);
        table.row([
            constant.name.to_owned(),
            format!("{} {}", constant.value, constant.unit).trim().to_owned(),
            format!("{} to {}", constant.range[0], constant.range[1]),
            constant.source.to_owned(),
            cell(&effects[0]),
            cell(&effects[1]),
            format!("{max:+.0}"),
        ]);
    }
    evidence.tables.push(table);
    evidence.claim(
        format!("constants whose halving or doubling changes a mean by more than {MAX_EFFECT} %"),
        "not in the paper (expected: at most 10 %)",
        format!("{} of {}: {}", large.len(), rows.len(), large.join(", ")),
        large.len() * 10 <= rows.len(),
    );
    evidence.note(format!(
        "{} constants change no measure by {NO_EFFECT} % in any setting: {}.",
        idle.len(),
        idle.join(", ")
    ));
    evidence.note(format!("Settings of `harm`: {}.", settings.join(", ")));
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_doubles_within_the_range() {
        let constant = BundleConstant {
            name: "guard.gain",
            doc: "",
            value: 0.8,
            unit: "",
            range: [0.3, 1.0],
            source: "",
        };
        assert_eq!(changed(&constant, 0.5), Some(0.4));
        assert_eq!(changed(&constant, 2.0), Some(1.0));
        assert_eq!(changed(&BundleConstant { range: [0.8, 1.0], ..constant }, 0.5), None);
    }
}
