//! MCTCP: one reliable byte stream over several ordinary TCP connections.
//!
//! **Problem.** A connection uses one path although its hosts have several. Multipath TCP
//! (RFC 8684) needs the kernels of both ends and TCP options that middleboxes strip. **Idea.** The
//! signalling goes into the payload: the stream is cut into frames with data sequence numbers,
//! each frame travels over any of the connections (*subflows*), and the receiver puts them
//! together. Nothing but ordinary TCP is on the wire.
//!
//! | actor | does |
//! |---|---|
//! | [`Session`] | one end of a stream: sequencing, acknowledgement, credit, reinjection, paths |
//! | [`acceptor`] | a listener's doorkeeper: tells new sessions from joins, proves joins, limits |
//! | [`Scheduler`] | which subflow takes the next frame |
//!
//! | frame | from | carries |
//! |---|---|---|
//! | HELLO, `HELLO_ACK` | client, server | nonces, limits, target; the session's number |
//! | JOIN, CHALLENGE, PROOF, REFUSE | either | a further subflow and the proof that it is meant |
//! | DATA, FIN | either | payload and its data sequence number (DSN); the stream's length |
//! | WISH | either | the width of credit that would not hold the sender up |
//! | DACK | either | next DSN expected, absolute credit, what came out of order |
//! | PING, PONG | either | probes |
//! | `ADD_ADDR`, `REMOVE_ADDR`, PRIO, `SF_CLOSE` | either | paths come, go, change |
//! | RESET | either | the end of the session at once |
//!
//! After M. Scharf and T.-R. Banniza, *MCTCP: A Multipath Transport Shim Layer*, GLOBECOM 2011,
//! whose frames were never published; those here are our own (see [`frame`]). Terms are those of
//! RFC 8684 where it has them.
#![forbid(unsafe_code)]

pub mod acceptor;
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
