//! Protocol errors, and the reason codes that the peer receives.

use thiserror::Error;

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason for the end of a session or subflow; on the wire in RESET and REFUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Reason {
    /// The application aborted the session.
    Aborted = 0,
    /// The peer broke the protocol.
    Protocol = 1,
    /// The peer sent data beyond its credit.
    Credit = 2,
    /// A limit was reached: sessions, subflows, unproven joins.
    Limit = 3,
    /// The target does not exist, does not respond or is not allowed.
    Target = 4,
    /// A proof or token was invalid.
    Authentication = 5,
    /// A join's token was used before.
    Replayed = 6,
    /// A join has the number of an unknown session.
    UnknownSession = 7,
    /// No subflow for the resume time, or no frame for the idle time.
    Timeout = 8,
    /// The session has ended, and both ends have received everything.
    Finished = 9,
}

/// Errors in received bytes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are not an MCTCP preamble: an ordinary TCP service, or none.
    #[error("not an MCTCP peer: its first bytes are {found:02x?}")]
    Preamble {
        /// The first bytes of the connection.
        found: [u8; 4],
    },
    /// An unsupported version.
    #[error("MCTCP version {version} is not supported; expected 1")]
    Version {
        /// Version of the peer.
        version: u8,
    },
    /// An unknown frame type that must not be ignored.
    #[error("unknown frame type {kind:#04x} at byte {at} of the connection")]
    UnknownFrame {
        /// Type byte of the frame.
        kind: u8,
        /// Offset of the frame.
        at: u64,
    },
    /// A frame whose length does not match its type, or exceeds the negotiated limit.
    #[error("frame type {kind:#04x} at byte {at} has an invalid length of {length} B")]
    Length {
        /// Type byte of the frame.
        kind: u8,
        /// Length in bytes from the header.
        length: usize,
        /// Offset of the frame.
        at: u64,
    },
    /// A field with an invalid value.
    #[error("field `{field}` of frame type {kind:#04x} at byte {at} has an invalid value")]
    Field {
        /// Type byte of the frame.
        kind: u8,
        /// Name of the field.
        field: &'static str,
        /// Offset of the frame.
        at: u64,
    },
    /// A frame that is not allowed in this state.
    #[error("unexpected {what}")]
    Unexpected {
        /// Name of the frame and the condition.
        what: &'static str,
    },
    /// A frame is missing on a connection, or was received twice.
    #[error("received frame {found} of a subflow; expected frame {expected}")]
    PathSequence {
        /// The received `path_seq`.
        found: u32,
        /// The expected number.
        expected: u32,
    },
    /// The peer exceeded its credit.
    #[error("the peer sent data up to byte {end}; its credit ends at byte {credit}")]
    Credit {
        /// End of the data: the last DSN plus one.
        end: u64,
        /// DSN at which the credit ends.
        credit: u64,
    },
    /// The peer's stream has more gaps than any scheduler causes.
    #[error("more than {pieces} separate pieces of out-of-order data")]
    Fragments {
        /// Limit of the number of pieces after gaps.
        pieces: usize,
    },
    /// A proof, token or key is wrong.
    #[error("authentication failed: the peer's proof is wrong")]
    Authentication,
}

impl Error {
    /// Reason to send to the peer.
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
    /// The reason with this number; unknown numbers of later versions are [`Self::Protocol`].
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
            Self::Aborted => "aborted by the application",
            Self::Protocol => "protocol violation",
            Self::Credit => "more data than the credit allows",
            Self::Limit => "a limit was reached",
            Self::Target => "the target cannot be reached",
            Self::Authentication => "authentication failed",
            Self::Replayed => "replayed join",
            Self::UnknownSession => "unknown session",
            Self::Timeout => "timeout: no subflow was usable",
            Self::Finished => "the session has ended normally",
        })
    }
}
