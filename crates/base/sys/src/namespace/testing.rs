//! New namespaces for the tests of this crate, where the system permits them.

use super::{Kinds, in_thread, make_mounts_private, unshare};
use crate::Result;

/// Runs `work` in a thread after `prepare`; `None` and a note if the system does not permit it.
fn in_new<T: Send>(
    test: &str,
    prepare: impl FnOnce() -> Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> Option<T> {
    let ran = in_thread(|| prepare().map(|()| work()));
    ran.inspect_err(|error| {
        assert!(error.is_denied(), "{error}");
        eprintln!("SKIPPED {test}: {error}");
    })
    .ok()
}

/// Runs `work` in a new network namespace.
pub(crate) fn in_new_net<T: Send>(test: &str, work: impl FnOnce() -> T + Send) -> Option<T> {
    in_new(test, || unshare(Kinds::NET), work)
}

/// Runs `work` in a new mount namespace, whose mounts are private.
pub(crate) fn in_new_mounts<T: Send>(test: &str, work: impl FnOnce() -> T + Send) -> Option<T> {
    in_new(test, || unshare(Kinds::MOUNT).and_then(|()| make_mounts_private()), work)
}
