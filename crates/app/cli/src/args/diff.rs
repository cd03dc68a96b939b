//! The arguments of `diff`.

use std::path::PathBuf;

use clap::Args;
use report::diff::Tolerance;

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Folder of a run or a set of runs, or a stored baseline
    pub(crate) before: PathBuf,
    /// The same, for comparison; not with --baseline and --save
    #[arg(required_unless_present_any = ["baseline", "save"])]
    #[arg(conflicts_with_all = ["baseline", "save"])]
    pub(crate) after: Option<PathBuf>,
    /// Compare these metrics, named as in expectations; `*` matches any text; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub(crate) metric: Vec<String>,
    /// Exit with 1 if a metric differs by more: '5 %', '*.delay.p99=2 ms', or only for a decrease
    /// 'flow.*.goodput=-5 %'; repeatable
    #[arg(long, value_name = "[PATTERN=]LIMIT", allow_hyphen_values = true)]
    pub(crate) tolerance: Vec<Tolerance>,
    /// Show all compared metrics, not only those that changed
    #[arg(long)]
    pub(crate) all: bool,
    /// Compare one run or set with this file, and exit with 1 if it differs
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Store the metrics of one run or set as a baseline
    #[arg(long, value_name = "FILE", conflicts_with_all = ["baseline", "tolerance", "all"])]
    pub(crate) save: Option<PathBuf>,
}
