//! Frames: the content of subflows.
//!
//! Each direction of a connection starts with the preamble `b7 4d 43 01` (a byte with which neither
//! text nor TLS starts, `MC`, the version). Frames follow, in network byte order:
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 1 | type; unknown types with bit 7 are ignored |
//! | 1 | 1 | flags |
//! | 2 | 2 | length after the header |
//! | 4 | 4 | `path_seq`: number of the frame in this direction of the connection, from 0 |
//! | 8 | 8 | number: a DSN, a session or a probe, depending on the type |
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
//! | 13 | PONG | number of the PING | |
//! | 14 | `ADD_ADDR` | | id 1, family 1, port 2, address 4 or 16 |
//! | 15 | `REMOVE_ADDR` | id | |
//! | 16 | PRIO | | priority 2 |
//! | 17 | `SF_CLOSE` | | |
//! | 18 | WISH | requested width of the credit in bytes | |
//! | 19 | FIN | length of the stream | |
//! | 1a | RESET | reason | text, up to 128 B of UTF-8 |
//!
//! Limits are: max subflows 1, max payload per frame 2, idle timeout in s 2, resume timeout in s 2,
//! flags 1 (1: a PROOF follows, which requires a pre-shared key). A priority is: flags 1 (1:
//! backup), weight 1.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::Range;

use crate::{Reason, SubflowId};

pub use decode::Decoder;

/// First bytes of each direction of a connection.
pub const PREAMBLE: [u8; 4] = [0xb7, b'M', b'C', 1];
/// Bytes of a frame's header.
pub const HEADER: usize = 16;
/// Maximum number of ranges in a DACK.
pub const MAX_RANGES: usize = 8;
/// Minimum of [`Limits::frame`] in bytes: payloads of this length are always accepted.
pub const MIN_FRAME_LIMIT: u16 = 1024;
/// Maximum length of a target in bytes.
pub const MAX_TARGET_BYTES: usize = 255;
/// Maximum length of the text of a RESET in bytes.
pub const MAX_TEXT_BYTES: usize = 128;

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
    /// Type written for ignored frames: no version assigns it.
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
    /// The server's answer to HELLO.
    HelloAck(HelloAck),
    /// The client's first frame on further connections.
    Join(Join),
    /// The server's answer to JOIN.
    Challenge(Challenge),
    /// The client's proof that it has the session's key: after CHALLENGE, and after `HELLO_ACK` if
    /// a pre-shared key requires it.
    Proof([u8; 32]),
    /// A JOIN or HELLO is rejected.
    Refuse(Reason),
    /// Data of the stream.
    Data {
        /// DSN of the first byte.
        dsn: u64,
        /// Bytes of the stream.
        payload: P,
        /// Whether it is a copy, and the reason.
        copy: Copy,
    },
    /// Acknowledges data, and grants credit.
    Dack(Dack),
    /// A probe, to be answered at once.
    Ping(u64),
    /// Answer to a PING, with its number.
    Pong(u64),
    /// An additional address of the server.
    AddAddress {
        /// Identifier of the address.
        id: u8,
        /// Address and port of the listener.
        address: SocketAddr,
    },
    /// Withdraws an address of the sender.
    RemoveAddress(u8),
    /// Changes the priority of the subflow that carries this frame.
    Priority(Priority),
    /// Announces the close of the subflow that carries this frame: no more data follow on it.
    Close,
    /// Requests a wider credit: the width in bytes that would not limit the sender (similar to
    /// `DATA_BLOCKED`, RFC 9000 §19.12).
    Wish(u64),
    /// End of the stream in this direction, with its length. FIN takes one sequence number.
    Fin {
        /// Length of the stream in bytes.
        length: u64,
    },
    /// Ends the session.
    Reset {
        /// The cause of the end.
        reason: Reason,
        /// Text for humans, up to [`MAX_TEXT_BYTES`].
        text: String,
    },
    /// An unknown frame that may be ignored.
    Ignored,
}

/// Whether a piece of the stream is a copy, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// Sent for the first time.
    First,
    /// Another subflow has not delivered it in time.
    Reinjected,
    /// Several subflows carry it intentionally.
    Redundant,
}

/// The first frame of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's nonce.
    pub nonce: [u8; 32],
    /// Identifier of the subflow, chosen by the client; 0 on its first connection.
    pub subflow: SubflowId,
    /// DSN up to which the server may send immediately.
    pub credit: u64,
    /// The client's limits.
    pub limits: Limits,
    /// The requested target: `host:port` at a proxy, a service's name, or empty.
    pub target: String,
    /// Shows that the client has the pre-shared key (see [`crate::secret::hello_token`]): set if
    /// `limits.proof`, otherwise zeros.
    pub token: [u8; 16],
}

/// The server's answer to HELLO.
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
    /// Shows that the server has the session's key.
    pub proof: [u8; 16],
}

/// Limits of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent subflows.
    pub subflows: u8,
    /// Maximum payload per frame.
    pub frame: u16,
    /// Idle timeout of the session in seconds.
    pub idle: u16,
    /// Time in seconds for which a session without subflows is kept.
    pub resume: u16,
    /// Whether a PROOF is required (server), or will follow (client).
    pub proof: bool,
}

/// The first frame of a further subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Number of the session.
    pub session: u64,
    /// Number of the join; each is valid once.
    pub index: u32,
    /// Identifier of the subflow, chosen by the client.
    pub subflow: SubflowId,
    /// Priority of the subflow.
    pub priority: Priority,
    /// The client's nonce.
    pub nonce: [u8; 16],
    /// Shows that the client has the session's key.
    pub token: [u8; 16],
}

/// The server's answer to JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The server's nonce.
    pub nonce: [u8; 16],
    /// Shows that the server has the session's key.
    pub proof: [u8; 16],
}

/// Priority of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Whether it carries data only while no regular subflow works.
    pub backup: bool,
    /// Its share under the weighted scheduler, at least 1.
    pub weight: u8,
}

impl Default for Priority {
    fn default() -> Self {
        Self { backup: false, weight: 1 }
    }
}

/// Acknowledgement of data, and credit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dack {
    /// The next expected DSN; the stream's length plus one after FIN was received in order.
    pub next: u64,
    /// DSN up to which the peer may send.
    pub credit: u64,
    /// `path_seq` of the newest frame received on this subflow, if any.
    pub path_seq: u32,
    /// Time since the newest DATA was received on any subflow, in microseconds.
    pub delay_us: u32,
    /// Received ranges beyond `next`, ascending, up to [`MAX_RANGES`].
    pub ranges: Vec<Range<u64>>,
}
