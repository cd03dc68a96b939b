//! `reproduce` in a build without the feature `reproduce`.

use crate::Verdict;
use crate::args::Reproduce;
use crate::terminal::Terminal;

pub(crate) fn reproduce(_: &Reproduce, _: &Terminal) -> Verdict {
    crate::needs_feature("reproduce")
}
