//! SLBN: scalable max-min fair rates for explicit congestion control.
//!
//! `exp_1a` to `exp_2b` are the paper's experiments, the others go beyond it. `course` reads what a
//! run sampled of all sessions, `completion` when sessions were done, `accuracy` has the plots and
//! claims that several of the figures share.

mod accuracy;
mod churn;
mod completion;
mod course;
mod exp_1a;
mod exp_1b;
mod exp_2a;
mod exp_2b;
mod failure;
mod loss;
mod million;
mod state;

use course::Course;

use crate::{Clock, Figure, Job, Paper, Result, Stage};

/// The experiments, in the paper's order, and those that it lacks. Each is in a file of its own.
const FIGURES: &[Figure] = &[
    exp_1a::FIGURE,
    exp_1b::FIGURE,
    exp_2a::FIGURE,
    exp_2b::FIGURE,
    churn::FIGURE,
    loss::FIGURE,
    failure::FIGURE,
    million::FIGURE,
    state::FIGURE,
];

pub(crate) const PAPER: Paper = Paper {
    name: "slbn",
    title: "SLBN: A Scalable Max-min Fair Algorithm for Rate-Based Explicit Congestion Control",
    citation: "A. Mozo, J. L. López-Presa and A. Fernández Anta, IEEE NCA 2012",
    figures: FIGURES,
};

/// A protocol: its name in labs and in print.
type Rival = (&'static str, &'static str);

const SLBN: Rival = ("slbn", "SLBN");
const EPOCHS: Rival = ("slbn-epochs", "SLBN with epochs");
const BFYZ: Rival = ("bfyz", "BFYZ");
const ERICA: Rival = ("erica", "ERICA");
const RCP: Rival = ("rcp", "RCP");
const PIQI: Rival = ("piqi-rcp", "PIQI-RCP");
const COBB: Rival = ("cobb-gouda", "Cobb-Gouda");
const BNECK: Rival = ("b-neck", "B-Neck");

/// A lab under a protocol, in the size that is asked for.
fn job(stage: &Stage<'_>, lab: &'static str, rival: Rival) -> Job {
    let job = Job::new(lab, rival.0, Clock::Virtual).set("control.protocol", rival.0);
    if stage.short() { smaller(job) } else { job }
}

/// The same lab on 110 routers, with data as rates.
fn smaller(job: Job) -> Job {
    job.set("lab.model", "fluid")
        .set("generate.1.transit_domains", "2")
        .set("generate.1.transit_routers", "5")
        .set("generate.1.domain_links", "0.5")
}

/// Runs jobs, each of a protocol, as many at once as there are cores.
fn courses(stage: &mut Stage<'_>, jobs: &[(Rival, Job)]) -> Result<Vec<Course>> {
    let own: Vec<Job> = jobs.iter().map(|(_, job)| job.clone()).collect();
    let runs = stage.run(&own)?;
    runs.iter().zip(jobs).map(|(run, (rival, _))| Course::read(run, rival.1)).collect()
}

/// The same one after the other: for runs that fill the memory, or whose cost is measured.
fn courses_in_turn(stage: &mut Stage<'_>, jobs: &[(Rival, Job)]) -> Result<Vec<Course>> {
    let mut courses = Vec::new();
    for job in jobs {
        courses.append(&mut self::courses(stage, std::slice::from_ref(job))?);
    }
    Ok(courses)
}

/// The course of a protocol.
fn of(courses: &[Course], rival: Rival) -> Option<&Course> {
    courses.iter().find(|course| course.label == rival.1)
}
