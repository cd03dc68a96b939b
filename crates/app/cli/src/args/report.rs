//! Arguments of `report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// One document for all runs, for CI; default: tables, and report.html in each folder
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// The lab file of the runs; `--format github` shows failures at its lines
    #[arg(long, value_name = "LAB")]
    pub(crate) lab: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Markdown, for a job summary
    Markdown,
    #[value(help = "JUnit XML, with one test per expectation, program and run")]
    Junit,
    /// Annotations of GitHub Actions, one line per failure
    Github,
}
