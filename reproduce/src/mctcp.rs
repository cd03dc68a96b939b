//! MCTCP: one stream over several TCP connections.
//!
//! Each experiment is one lab that differs in who carries the stream: MCTCP, the kernel's MPTCP
//! (wall clock only), or one TCP connection on one of the paths. `grid` runs them, `course` reads
//! what came of a run, `verdict` sets it beside what it must reach.

mod applications;
mod course;
mod delays;
mod grid;
mod losses;
mod outages;
mod poor;
mod random;
mod requests;
mod schedule;
mod schedulers;
mod subflows;
mod sums;
mod topologies;
mod unequal;
mod verdict;

use crate::{Figure, Paper};

/// The seed's figures, what MCTCP must reach, and the questions that the seed left open.
const FIGURES: &[Figure] = &[
    schedule::TEN,
    schedule::TWENTY,
    schedule::UNLIMITED,
    schedule::BESIDE_UDP,
    losses::FIGURE,
    delays::FIGURE,
    sums::FIGURE,
    unequal::FIGURE,
    outages::FIGURE,
    random::FIGURE,
    requests::FIGURE,
    subflows::FIGURE,
    poor::FIGURE,
    schedulers::FIGURE,
    topologies::FIGURE,
    applications::FIGURE,
];

pub(crate) const PAPER: Paper = Paper {
    name: "mctcp",
    title: "Performance Evaluation of Multipath TCP Linux Implementations",
    citation: "A. Singh, C. Görg, A. Timm-Giel, M. Scharf and T.-R. Banniza, EuroView 2011",
    figures: FIGURES,
};
