//! Frames: what subflows carry.
//!
//! Each side of a connection begins with the preamble `b7 4d 43 01` (a byte that no text or TLS
//! begins with, `MC`, the version). Frames follow, in network byte order:
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 1 | type; types with bit 7 may be ignored by whoever does not know them |
//! | 1 | 1 | flags |
//! | 2 | 2 | length of what follows the header |
//! | 4 | 4 | `path_seq`: number of the frame on this connection and side, from 0 |
//! | 8 | 8 | number: a DSN, a session, a probe, by type |
//!
//! | type | frame | number | body |
//! |---|---|---|---|
//! | 01 | HELLO | early credit of the client | nonce 32, limits 8, subflow 4, target 1 + n, token 16 if a PROOF follows |
//! | 02 | `HELLO_ACK` | credit of the server | nonce 32, limits 8, session 8, proof 16 |
//! | 03 | JOIN | session | index 4, subflow 4, priority 2, nonce 16, token 16 |
//! | 04 | CHALLENGE | | nonce 16, proof 16 |
//! | 05 | PROOF | | proof 32 |
//! | 06 | REFUSE | reason | |
//! | 10 | DATA | DSN of the first byte | payload; flag 1: reinjected, flag 2: redundant |
//! | 11 | DACK | next DSN expected | credit 8, newest `path_seq` 4, delay in µs 4, ranges 16 each |
//! | 12 | PING | opaque | |
//! | 13 | PONG | that of the PING | |
//! | 14 | `ADD_ADDR` | | id 1, family 1, port 2, address 4 or 16 |
//! | 15 | `REMOVE_ADDR` | id | |
//! | 16 | PRIO | | priority 2 |
//! | 17 | `SF_CLOSE` | | |
//! | 18 | WISH | width of credit | |
//! | 19 | FIN | length of the stream | |
//! | 1a | RESET | reason | text, up to 128 B of UTF-8 |
//!
//! Limits are: most subflows 1, most payload of a frame 2, idle time in s 2, resume time in s 2,
//! flags 1 (1: a PROOF follows, which needs a pre-shared key). A priority is: flags 1 (1: backup),
//! weight 1.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::Range;

use crate::{Reason, SubflowId};

pub use decode::Decoder;

/// What each side of a connection begins with.
pub const PREAMBLE: [u8; 4] = [0xb7, b'M', b'C', 1];
/// Bytes of a frame's header.
pub const HEADER: usize = 16;
/// Most ranges of a DACK.
pub const MOST_RANGES: usize = 8;
/// The least that an end may grant as the most payload of a frame.
pub const SMALLEST_FRAME: u16 = 1024;
/// Longest target, in bytes.
pub const LONGEST_TARGET: usize = 255;
/// Longest text of a RESET, in bytes.
pub const LONGEST_TEXT: usize = 128;

/// Types and flags on the wire.
mod kind {
    pub(super) const HELLO: u8 = 0x01;
    pub(super) const HELLO_ACK: u8 = 0x02;
    pub(super) const JOIN: u8 = 0x03;
    pub(super) const CHALLENGE: u8 = 0x04;
    pub(super) const PROOF: u8 = 0x05;
    pub(super) const REFUSE: u8 = 0x06;
    pub(super) const DATA: u8 = 0x10;
    pub(super) const DACK: u8 = 0x11;
    pub(super) const PING: u8 = 0x12;
    pub(super) const PONG: u8 = 0x13;
    pub(super) const ADD_ADDR: u8 = 0x14;
    pub(super) const REMOVE_ADDR: u8 = 0x15;
    pub(super) const PRIO: u8 = 0x16;
    pub(super) const SF_CLOSE: u8 = 0x17;
    pub(super) const WISH: u8 = 0x18;
    pub(super) const FIN: u8 = 0x19;
    pub(super) const RESET: u8 = 0x1a;
    pub(super) const MAY_BE_IGNORED: u8 = 0x80;
    /// What an ignored frame is written as: no version gives it a meaning.
    pub(super) const IGNORED: u8 = 0xff;
    pub(super) const REINJECTED: u8 = 1;
    pub(super) const REDUNDANT: u8 = 2;
    pub(super) const PROOF_FOLLOWS: u8 = 1;
    pub(super) const BACKUP: u8 = 1;
    pub(super) const IPV4: u8 = 4;
    pub(super) const IPV6: u8 = 6;
}

/// A frame without its `path_seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<P> {
    /// The client's first frame on its first connection.
    Hello(Hello),
    /// The server's answer.
    HelloAck(HelloAck),
    /// The client's first frame on further connections.
    Join(Join),
    /// The server's answer.
    Challenge(Challenge),
    /// The client's proof that it knows the session's key: after CHALLENGE, and after `HELLO_ACK`
    /// where a pre-shared key asks for it.
    Proof([u8; 32]),
    /// A join, or a HELLO, is not granted.
    Refuse(Reason),
    /// A piece of the stream.
    Data {
        /// DSN of its first byte.
        dsn: u64,
        /// The piece.
        payload: P,
        /// Why it is sent.
        copy: Copy,
    },
    /// What has arrived.
    Dack(Dack),
    /// To be answered at once.
    Ping(u64),
    /// The answer.
    Pong(u64),
    /// A further address of the server.
    AddAddress {
        /// Its number.
        id: u8,
        /// Where it listens.
        address: SocketAddr,
    },
    /// An address of the sender is gone.
    RemoveAddress(u8),
    /// How the subflow on which it comes is to be used from now on.
    Priority(Priority),
    /// Nothing but acknowledgements and controls follows on this subflow, which is to end.
    Close,
    /// A credit that is so many bytes wide would not hold the sender up (`DATA_BLOCKED` of RFC 9000
    /// §19.12 is alike).
    Wish(u64),
    /// The stream of this direction ends with this length. It takes one number of the sequence.
    Fin {
        /// Bytes of the stream.
        length: u64,
    },
    /// The session is over.
    Reset {
        /// Why.
        reason: Reason,
        /// Why in words, up to [`LONGEST_TEXT`].
        text: String,
    },
    /// A frame that may be ignored and is.
    Ignored,
}

/// Why a piece of the stream is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// For the first time.
    First,
    /// Another subflow has not delivered it.
    Reinjected,
    /// Several subflows carry it on purpose.
    Redundant,
}

/// HELLO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's nonce.
    pub nonce: [u8; 32],
    /// The client's name for the subflow: 0 on its first connection.
    pub subflow: SubflowId,
    /// DSN up to which the server may send at once.
    pub credit: u64,
    /// The client's limits.
    pub limits: Limits,
    /// What the client wants to talk to: `host:port` at a proxy, a service's name, or nothing.
    pub target: String,
    /// Shows that the client knows the pre-shared key (see [`crate::secret::hello_token`]): sent
    /// if `limits.proof`, otherwise zeros.
    pub token: [u8; 16],
}

/// `HELLO_ACK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloAck {
    /// The server's nonce.
    pub nonce: [u8; 32],
    /// DSN up to which the client may send.
    pub credit: u64,
    /// The server's limits.
    pub limits: Limits,
    /// The session's number.
    pub session: u64,
    /// Shows that the server knows the session's key.
    pub proof: [u8; 16],
}

/// What one end takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most subflows at once.
    pub subflows: u8,
    /// Most payload of a frame.
    pub frame: u16,
    /// Seconds of silence after which the session is lost.
    pub idle: u16,
    /// Seconds for which a session without subflows is kept.
    pub resume: u16,
    /// Whether a PROOF is asked for, or will follow.
    pub proof: bool,
}

/// JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The session.
    pub session: u64,
    /// Counts the client's joins; each is good once.
    pub index: u32,
    /// The client's name for the subflow.
    pub subflow: SubflowId,
    /// How to use it.
    pub priority: Priority,
    /// The client's nonce.
    pub nonce: [u8; 16],
    /// Shows that the client knows the session's key.
    pub token: [u8; 16],
}

/// CHALLENGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The server's nonce.
    pub nonce: [u8; 16],
    /// Shows that the server knows the session's key.
    pub proof: [u8; 16],
}

/// How a subflow is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Only while there is no other.
    pub backup: bool,
    /// Its share under the weighted scheduler, at least 1.
    pub weight: u8,
}

impl Default for Priority {
    fn default() -> Self {
        Self { backup: false, weight: 1 }
    }
}

/// DACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dack {
    /// The next DSN expected; one more than the stream's length once FIN has come in order.
    pub next: u64,
    /// DSN up to which the peer may send.
    pub credit: u64,
    /// `path_seq` of the newest frame that came on this subflow, if any has.
    pub path_seq: u32,
    /// How long ago that was, in microseconds.
    pub delay_us: u32,
    /// What came beyond `next`, ascending, up to [`MOST_RANGES`].
    pub ranges: Vec<Range<u64>>,
}
