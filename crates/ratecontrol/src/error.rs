//! What can't be.

use base::{Bandwidth, Bytes, Ratio, Span};

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// Input that no protocol can work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A session that wants nothing.
    #[error("a session demands {demand}; it must be positive")]
    Demand {
        /// What it demands.
        demand: Bandwidth,
    },
    /// Sums of rates would not fit 64 bits, or there is nothing to share.
    #[error("a link of {capacity}; rate control takes 1 bit/s to 2^56 bit/s")]
    Capacity {
        /// The link's capacity.
        capacity: Bandwidth,
    },
    /// A path without links, or longer than packets can describe.
    #[error("a path of {hops} links; rate control takes 1 to {most}")]
    Path {
        /// Links of the path.
        hops: usize,
        /// The most that fit.
        most: usize,
    },
    /// A path that crosses a link twice.
    #[error("the path crosses link {link} twice")]
    Loop {
        /// The link.
        link: u32,
    },
    /// A session that is unknown, or known already.
    #[error("session {session} {what}")]
    Session {
        /// Its number.
        session: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No link has this number.
    #[error("there is no link {link}")]
    NoSuchLink {
        /// Its number.
        link: u32,
    },
    /// A share of the rate for control packets that leaves none, or nothing for data.
    #[error("{share} of the rate for control packets; it must be above 0 % and at most 50 %")]
    Share {
        /// The share.
        share: Ratio,
    },
    /// Control packets that can't be.
    #[error("control packets of {size}; they take 1 B to 9,000 B")]
    PacketSize {
        /// The size.
        size: Bytes,
    },
    /// A link's delay is too long.
    #[error("a link with a delay of {delay}; it may be {most} at most")]
    Delay {
        /// The delay.
        delay: Span,
        /// The longest that is taken.
        most: Span,
    },
    /// A path over a link whose capacity is 0.
    #[error("link {link} of the path is down")]
    Down {
        /// The link.
        link: u32,
    },
    /// No demand has this number, or it has been removed.
    #[error("there is no demand {demand}")]
    NoSuchDemand {
        /// Its number.
        demand: u64,
    },
    /// A distributed run that took more effort than it may.
    #[error("rates have not settled after {cycles} cycles in {time} of virtual time")]
    Unsettled {
        /// Virtual time since the changes.
        time: Span,
        /// Control packets that came back to their sources meanwhile.
        cycles: u64,
    },
}
