//! Arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Run folder
    pub(crate) run: PathBuf,
    /// Name of the table, such as links; without a name, list the tables with their columns
    pub(crate) table: Option<String>,
    /// Format; default: csv, with --json: json
    #[arg(long, requires = "table")]
    pub(crate) format: Option<Format>,
    /// File to write; default: standard output
    #[arg(short, long, value_name = "FILE", requires = "table")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[value(help = "CSV (RFC 4180) with a header; null is an empty field")]
    Csv,
    /// Arrow's streaming format, with units in the metadata of the fields
    Arrow,
    /// JSON Lines, one object per row
    Json,
}
