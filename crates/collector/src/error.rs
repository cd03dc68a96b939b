//! Why an input cannot be read.

/// What is wrong with an input as a whole. Damage within one is told by its reader instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are those of no capture.
    #[error("no capture: it begins with {magic:02x?}, which is neither pcap nor pcapng")]
    NoCapture {
        /// The first bytes.
        magic: [u8; 4],
    },
    /// A capture of another version of its format.
    #[error("{format} of version {version}, which is not known")]
    CaptureVersion {
        /// The format.
        format: &'static str,
        /// What the file says.
        version: u16,
    },
    /// A line of JSON that stands for no record or event.
    #[error("{field}: {wrong}")]
    Line {
        /// The member.
        field: &'static str,
        /// What is wrong with it, or that it is not there.
        wrong: &'static str,
    },
}
