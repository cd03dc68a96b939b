//! Random bytes from the operating system.

use std::fs::File;
use std::io::Read;

/// 32 unpredictable bytes.
///
/// # Panics
/// If the system provides none, because no key would be secure.
pub(crate) fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let filled = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut seed));
    filled.expect("/dev/urandom can be read");
    seed
}
