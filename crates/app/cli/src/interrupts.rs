//! Handlers of SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use run::Exit;

/// Calls `act` for each signal.
pub(crate) fn each(mut act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let failure = |e| Failure::machine(format!("cannot handle signals: {e}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failure)?;
    let listen = move || signals.forever().for_each(|_| act());
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(failure)?;
    Ok(())
}

pub(crate) fn count() -> Result<Arc<AtomicUsize>, Failure> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    each(move || {
        counted.fetch_add(1, SeqCst);
    })?;
    Ok(count)
}

/// A flag that is set by the first signal. The second signal exits immediately.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = i32::from(Exit::Interrupted.code());
        let second =
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop));
        second.map_err(|e| Failure::machine(format!("cannot handle signals: {e}")))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::machine(format!("cannot handle signals: {e}")))?;
    }
    Ok(stop)
}
