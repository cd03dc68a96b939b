//! Arguments of `top`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Name or identifier of a running lab, or the folder of a run
    #[arg(value_name = "LAB|RUN")]
    pub(crate) run: String,
    /// Refuse changes of the lab
    #[arg(long)]
    pub(crate) read_only: bool,
}
