//! MCTCP on real sockets: streams and listeners for tokio.
//!
//! [`MctcpStream::connect`] opens a session over several paths, [`MctcpListener`] accepts sessions;
//! both return streams that are read and written like a TCP connection. The crate `mctcp` has the
//! protocol, this one has sockets and time. [`Encryption`] wraps the connections; TLS is in the
//! crate `mctcp_proxy`.
//!
//! | part | task |
//! |---|---|
//! | `driver` | the task that owns a session's sockets |
//! | `subflow`, `queue` | frames from and to one connection |
//! | `listener` | accepts connections; distinguishes sessions, joins and plain TCP |
//! | `stream`, `shared` | the interface for applications, and the state shared with the driver |
//!
//! `driver`, `listener`, `stream` and `socket` depend on each other through the state that the
//! application and the driver's task share.
#![forbid(unsafe_code)]

mod config;
mod connections;
pub mod descriptors;
mod detached;
mod driver;
mod encryption;
mod error;
mod listener;
mod queue;
mod shared;
mod socket;
mod stream;
mod subflow;
mod system;

pub use config::{Config, Dial, Further, ListenerConfig, PathSpec};
pub use connections::{Connections, Registered, connect as connect_socket};
pub use detached::{Connecting, Runtime};
pub use encryption::{Encrypted, EncryptedStream, Encryption, Handshake};
pub use error::{Error, Result};
pub use listener::{Accepted, ListenerStatistics, MctcpListener, Plain};
pub use stream::{MctcpStream, Observer, SubflowInfo};
