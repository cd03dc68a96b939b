//! Bytes that nobody can guess.

use tokio_rustls::rustls::crypto::ring;

/// 32 bytes of the operating system.
///
/// # Panics
/// If it has none: then no key is safe.
pub(crate) fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let filled = ring::default_provider().secure_random.fill(&mut seed);
    filled.expect("the operating system gives random bytes");
    seed
}
