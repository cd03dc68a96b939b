//! `collect show`, `collect convert`, `collect check`.

use crate::args::collect::CollectVerb;
use crate::terminal::Terminal;
use crate::{Failure, Verdict};

pub(crate) fn archives(verb: &CollectVerb, _: &Terminal) -> Verdict {
    Err(Failure::usage(format!("not yet: {verb:?}")))
}
