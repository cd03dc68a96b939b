//! Published evaluations as labs: each figure is run, measured, and set beside what the paper
//! printed.
//!
//! A [`Paper`] is a list of [`Figure`]s. A figure gets a [`Stage`], runs labs on it (by this
//! program itself, as child processes that write run folders) or computes in process, and hands
//! back [`Evidence`]: claims with both values, plots, tables, notes. [`reproduce`] does so for the
//! figures that are asked for and keeps the results in one folder.
#![forbid(unsafe_code)]

mod bundler;
mod child;
mod cluster;
mod collector;
mod error;
mod evidence;
mod mctcp;
mod page;
mod paper;
mod points;
mod results;
mod run;
mod slbn;
mod splaynet;
mod stage;
mod statistics;
mod text;

pub use self::run::Run;
pub use error::Error;
pub use evidence::{Claim, Evidence, Plot, Table};
pub use paper::{Figure, File, Paper, papers};
pub use report::{Axis, Line, Style};
pub use results::{FigureResult, Ran, Results, Status};
pub use stage::{Clock, Job, Model, Options, Outcome, Progress, Stage, reproduce};
pub(crate) use statistics::{Moments, cdf, moments, quantile};
pub use text::Tone;

/// What a figure or a step of it comes to.
pub type Result<T> = std::result::Result<T, Error>;
