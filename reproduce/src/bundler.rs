//! Bundler: site-to-site control of Internet traffic.
//!
//! Each figure compares runs of one lab that differ in what its boxes are told: to observe (the
//! status quo), or to pace. `requests` reads how long requests took, `boxes` what boxes and
//! bottlenecks did over time, `wall` runs some of the labs on the wall clock too.

mod accuracy;
mod backlogged;
mod boxes;
mod elastic_cross;
mod faults;
mod harm;
mod internet;
mod laws;
mod load;
mod multipath;
mod phases;
mod policies;
mod rates;
mod requests;
mod sensitivity;
mod short_cross;
mod slowdowns;
mod steps;
mod two_bundles;
mod wall;

use crate::{Clock, Figure, Job, Paper, Result, Run, Stage};

/// The experiments, in the paper's order, and those that it lacks. Each is in a file of its own.
const FIGURES: &[Figure] = &[
    backlogged::FIGURE,
    accuracy::FIGURE,
    multipath::FIGURE,
    slowdowns::FIGURE,
    policies::FIGURE,
    phases::FIGURE,
    short_cross::FIGURE,
    elastic_cross::FIGURE,
    two_bundles::FIGURE,
    laws::LAWS,
    laws::HOSTS,
    load::FIGURE,
    internet::FIGURE,
    rates::FIGURE,
    steps::FIGURE,
    faults::FIGURE,
    harm::FIGURE,
    sensitivity::FIGURE,
];

pub(crate) const PAPER: Paper = Paper {
    name: "bundler",
    title: "Site-to-Site Internet Traffic Control",
    citation: "F. Cangialosi, A. Narayan, P. Goyal, R. Mittal, M. Alizadeh and \
               H. Balakrishnan, EuroSys 2021",
    figures: FIGURES,
};

/// The rate of the bottleneck in most labs.
const BOTTLENECK_MBITS: f64 = 96.0;

/// What a lab is run with.
#[derive(Clone, Debug)]
struct Case {
    /// What tells its runs from others.
    name: String,
    /// What it is called in print.
    label: String,
    set: Vec<(String, String)>,
}

impl Case {
    fn new(name: impl Into<String>, label: impl Into<String>) -> Self {
        Self { name: name.into(), label: label.into(), set: Vec::new() }
    }

    #[must_use]
    fn set(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((field.into(), value.into()));
        self
    }

    /// The same under another name.
    #[must_use]
    fn called(mut self, suffix: &str) -> Self {
        self.name = format!("{}-{suffix}", self.name);
        self
    }

    fn job(&self, lab: &'static str, clock: Clock, seed: u64) -> Job {
        let job = Job::new(lab, format!("{}-{seed}", self.name), clock);
        let job = job.set("lab.seed", seed.to_string());
        self.set.iter().fold(job, |job, (field, value)| job.set(field, value))
    }
}

/// The boxes look on.
fn status_quo() -> Case {
    Case::new("status-quo", "status quo").set("bundle.site.mode", "observe")
}

/// The boxes do as the lab says.
fn bundler() -> Case {
    Case::new("bundler", "Bundler")
}

/// Runs a lab once for each case and seed on the virtual clock; results by case.
fn runs(
    stage: &mut Stage<'_>,
    lab: &'static str,
    cases: &[Case],
    seeds: u64,
) -> Result<Vec<Vec<Run>>> {
    runs_on(stage, Clock::Virtual, lab, cases, seeds)
}

fn runs_on(
    stage: &mut Stage<'_>,
    clock: Clock,
    lab: &'static str,
    cases: &[Case],
    seeds: u64,
) -> Result<Vec<Vec<Run>>> {
    let mut jobs = Vec::new();
    for case in cases {
        jobs.extend((1..=seeds).map(|seed| case.job(lab, clock, seed)));
    }
    let mut all = stage.run(&jobs)?.into_iter();
    Ok(cases.iter().map(|_| all.by_ref().take(seeds as usize).collect()).collect())
}

/// A load in Mbit/s as a share of the bottleneck's rate.
fn load_share(mbits: f64) -> String {
    format!("{:.6} %", mbits / BOTTLENECK_MBITS * 100.0)
}

/// A ratio in print.
fn times(value: f64) -> String {
    format!("{value:.2} ×")
}
