//! Handlers of SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use run::Exit;

/// Calls `act` for each signal.
pub(crate) fn each(act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    each_of(&[SIGINT, SIGTERM, SIGHUP], act)
}

/// Calls `act` for each of these signals.
pub(crate) fn each_of(
    signals: &[i32],
    mut act: impl FnMut() + Send + 'static,
) -> Result<(), Failure> {
    let mut signals = Signals::new(signals).map_err(|e| failure(&e))?;
    let listen = move || signals.forever().for_each(|_| act());
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .map_err(|e| failure(&e))?;
    Ok(())
}

fn failure(error: &std::io::Error) -> Failure {
    Failure::machine(format!("cannot handle signals: {error}"))
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
    flag_of(&[SIGINT, SIGTERM, SIGHUP])
}

/// The flag of [`flag`] for SIGINT and SIGTERM, and a flag that each SIGHUP sets.
pub(crate) fn flags() -> Result<(Arc<AtomicBool>, Arc<AtomicBool>), Failure> {
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).map_err(|e| failure(&e))?;
    Ok((flag_of(&[SIGINT, SIGTERM])?, reload))
}

fn flag_of(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let code = i32::from(Exit::Interrupted.code());
    for signal in signals {
        signal_hook::flag::register_conditional_shutdown(*signal, code, Arc::clone(&stop))
            .map_err(|e| failure(&e))?;
        signal_hook::flag::register(*signal, Arc::clone(&stop)).map_err(|e| failure(&e))?;
    }
    Ok(stop)
}
