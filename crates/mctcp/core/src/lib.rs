//! MCTCP: one reliable byte stream over several ordinary TCP connections.
//!
//! **Problem.** A connection uses one path although its hosts have several. Multipath TCP (RFC
//! 8684) requires support in the kernels of both ends, and TCP options that middleboxes strip.
//! **Idea.** The signalling is part of the payload: the stream is split into frames with data
//! sequence numbers, each frame is sent over any of the connections (*subflows*), and the receiver
//! reassembles the stream. On the wire there is only ordinary TCP.
//!
//! | part | task |
//! |---|---|
//! | [`Session`] | one end of a stream: sequencing, acknowledgement, credit, reinjection, paths |
//! | [`acceptor`] | a listener's admission: distinguishes sessions from joins, verifies joins,
//! enforces limits |
//! | [`driver`] | drives the sessions of a flow's both ends over any transport |
//! | [`Scheduler`] | selects the subflow for the next frame |
//!
//! | frame | from | carries |
//! |---|---|---|
//! | HELLO, `HELLO_ACK` | client, server | nonces, limits, target; the session's number |
//! | JOIN, CHALLENGE, PROOF, REFUSE | either | a further subflow, and the proof that it belongs to
//! the session |
//! | DATA, FIN | either | payload and its data sequence number (DSN); the stream's length |
//! | WISH | either | width of the credit that would not limit the sender |
//! | DACK | either | next DSN expected, absolute credit, ranges received out of order |
//! | PING, PONG | either | probes |
//! | `ADD_ADDR`, `REMOVE_ADDR`, PRIO, `SF_CLOSE` | either | changes of paths |
//! | RESET | either | immediate end of the session |
//!
//! Based on M. Scharf and T.-R. Banniza, *MCTCP: A Multipath Transport Shim Layer*, GLOBECOM 2011.
//! Its frame formats were not published; ours differ (see [`frame`]). Terms are those of RFC 8684
//! where it defines them.
#![forbid(unsafe_code)]

pub mod acceptor;
pub mod driver;
mod error;
pub mod frame;
pub mod path;
pub mod payload;
pub mod pool;
pub mod scheduler;
pub mod secret;
pub mod session;
pub mod settings;

pub use acceptor::Acceptor;
pub use error::{Error, Reason, Result};
pub use frame::{Decoder, Frame};
pub use path::{PathId, PathInfo, SubflowId};
pub use payload::{Counted, Payload};
pub use scheduler::Scheduler;
pub use session::{Event, Output, Session};
pub use settings::Settings;
