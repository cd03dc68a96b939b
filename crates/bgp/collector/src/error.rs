//! Errors of inputs.

/// An error of a whole input. Damage within an input is reported by its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("not a capture: the first bytes {magic:02x?} are neither pcap nor pcapng")]
    NoCapture { magic: [u8; 4] },
    #[error("unknown version {version} of {format}")]
    CaptureVersion { format: &'static str, version: u16 },
}
