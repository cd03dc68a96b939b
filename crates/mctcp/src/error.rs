//! What can go wrong, and how it is told to the peer.

use thiserror::Error;

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a session or a subflow ended; on the wire in RESET and REFUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Reason {
    /// The application gave up.
    Aborted = 0,
    /// The peer broke the protocol.
    Protocol = 1,
    /// The peer sent beyond its credit.
    Credit = 2,
    /// A limit was reached: sessions, subflows, unproven joins.
    Limit = 3,
    /// The target does not exist, does not answer or is not allowed.
    Target = 4,
    /// A proof or token was wrong.
    Authentication = 5,
    /// A join's token was used before.
    Replayed = 6,
    /// No session of that number.
    UnknownSession = 7,
    /// All subflows were lost for too long, or nothing was heard.
    Timeout = 8,
    /// The session has ended, and well: both ends have everything.
    Finished = 9,
}

/// What is wrong with what the peer sent.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are not ours: an ordinary TCP service, or none.
    #[error("not an MCTCP peer: it began with {found:02x?}")]
    Preamble {
        /// What came.
        found: [u8; 4],
    },
    /// A version that this end does not speak.
    #[error("version {version} of MCTCP, this end speaks 1")]
    Version {
        /// The peer's.
        version: u8,
    },
    /// A frame that must be understood and is not.
    #[error("unknown frame type {kind:#04x} at byte {at} of the connection")]
    UnknownFrame {
        /// Its type.
        kind: u8,
        /// Where it begins.
        at: u64,
    },
    /// A frame whose length does not fit its type, or is beyond the agreed limit.
    #[error("frame type {kind:#04x} at byte {at} has a length of {length}")]
    Length {
        /// Its type.
        kind: u8,
        /// Its length.
        length: usize,
        /// Where it begins.
        at: u64,
    },
    /// A field with a value that makes no sense.
    #[error("field `{field}` of frame type {kind:#04x} at byte {at} makes no sense")]
    Field {
        /// The frame's type.
        kind: u8,
        /// The field.
        field: &'static str,
        /// Where the frame begins.
        at: u64,
    },
    /// A frame that may not come now.
    #[error("{what} in a state in which it may not come")]
    Unexpected {
        /// The frame.
        what: &'static str,
    },
    /// A frame is missing on a connection, or came twice.
    #[error("frame {found} on a subflow where {expected} is next")]
    PathSequence {
        /// Its number.
        found: u32,
        /// The number that should have come.
        expected: u32,
    },
    /// The peer sent more than it was allowed to.
    #[error("byte {end} sent, credit ends at {credit}")]
    Credit {
        /// One after the last byte sent.
        end: u64,
        /// The credit.
        credit: u64,
    },
    /// The peer's stream has more holes than any scheduler makes.
    #[error("{pieces} pieces of the stream wait for others")]
    Fragments {
        /// The limit.
        pieces: usize,
    },
    /// A proof, token or key is wrong.
    #[error("the peer's proof is wrong")]
    Authentication,
}

impl Error {
    /// What to tell the peer.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Credit { .. } => Reason::Credit,
            Self::Authentication => Reason::Authentication,
            Self::Fragments { .. } => Reason::Limit,
            _ => Reason::Protocol,
        }
    }
}

impl Reason {
    /// The reason of this number; those that later versions may add count as [`Self::Protocol`].
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Aborted,
            2 => Self::Credit,
            3 => Self::Limit,
            4 => Self::Target,
            5 => Self::Authentication,
            6 => Self::Replayed,
            7 => Self::UnknownSession,
            8 => Self::Timeout,
            9 => Self::Finished,
            _ => Self::Protocol,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Aborted => "the application gave up",
            Self::Protocol => "the protocol was broken",
            Self::Credit => "more was sent than the credit allows",
            Self::Limit => "a limit was reached",
            Self::Target => "the target cannot be reached",
            Self::Authentication => "the proof was wrong",
            Self::Replayed => "the join was used before",
            Self::UnknownSession => "there is no such session",
            Self::Timeout => "all subflows were lost for too long",
            Self::Finished => "the session has ended well",
        })
    }
}
