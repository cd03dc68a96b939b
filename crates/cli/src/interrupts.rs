//! Signals that ask to end, for commands that hand them on to the runs that they have started.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;

/// Calls `act` at each of them from now on.
pub(crate) fn each(mut act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let failure = |e| Failure::machine(format!("cannot take signals: {e}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failure)?;
    let listen = move || signals.forever().for_each(|_| act());
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(failure)?;
    Ok(())
}
