//! `agent`, `cluster` and `run --cluster` in a build without the feature `cluster`.

use std::ffi::OsStr;
use std::process::ExitCode;

use serde_json::Value;

use crate::args::cluster::{Agent, Cluster};
use crate::args::measure::Agreement;
use crate::terminal::Terminal;
use crate::{Failure, Verdict};

pub(crate) mod spread {
    use std::path::Path;

    use lab::plan::Plan;

    use crate::Verdict;
    use crate::args::cluster::Spread;
    use crate::args::{Changes, Run};
    use crate::results::Output;
    use crate::terminal::Terminal;

    pub(crate) fn run(
        _: &Run,
        _: &Changes,
        _: &[Plan],
        _: &Output,
        _: &Path,
        _: &Terminal,
    ) -> Verdict {
        crate::needs_feature("cluster")
    }

    pub(crate) fn words(_: &Spread) -> Vec<String> {
        Vec::new()
    }
}

pub(crate) fn agent(_: &Agent, _: &Terminal) -> Verdict {
    crate::needs_feature("cluster")
}

pub(crate) fn cluster(_: &Cluster, _: &Terminal) -> Verdict {
    crate::needs_feature("cluster")
}

pub(crate) fn measure_agreement(_: &Agreement, _: &Terminal) -> Result<Value, Failure> {
    crate::needs_feature("cluster").map(|_| Value::Null)
}

pub(crate) fn shard(_: &OsStr) -> Option<ExitCode> {
    None
}
