//! Errors of invalid input.

use base::{Bandwidth, Bytes, Ratio};

/// A result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Invalid input for all protocols.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A session without demand.
    #[error("the demand of a session is {demand}; it must be positive")]
    Demand {
        /// The rejected demand.
        demand: Bandwidth,
    },
    /// Sums of rates would exceed 64 bits, or the capacity is 0.
    #[error("the capacity of a link is {capacity}; expected 1 bit/s to 2^56 bit/s")]
    Capacity {
        /// The link's capacity.
        capacity: Bandwidth,
    },
    /// A path without links, or longer than packets can describe.
    #[error("a path has {hops} links; expected 1 to {most}")]
    Path {
        /// Number of links in the path.
        hops: usize,
        /// Maximum number of links in a path.
        most: usize,
    },
    /// A path that crosses a link twice.
    #[error("the path crosses link {link} twice")]
    Loop {
        /// The number of the link.
        link: u32,
    },
    /// A session that is unknown, or already exists.
    #[error("session {session} {what}")]
    Session {
        /// The number of the session.
        session: u32,
        /// Why the session is rejected, as the predicate of the message.
        what: &'static str,
    },
    /// No link has this number.
    #[error("unknown link {link}")]
    NoSuchLink {
        /// The number of the link.
        link: u32,
    },
    /// With this share, either control packets or data would have no rate.
    #[error("the share of control packets is {share}; it must be above 0 % and at most 50 %")]
    Share {
        /// The requested share.
        share: Ratio,
    },
    /// An invalid size of control packets.
    #[error("the size of control packets is {size}; expected 1 B to 9,000 B")]
    PacketSize {
        /// The requested size.
        size: Bytes,
    },
}
