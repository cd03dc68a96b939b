//! MCTCP on real sockets: streams and listeners for tokio.
//!
//! [`MctcpStream::connect`] opens a session over several paths, [`MctcpListener`] accepts them;
//! both give streams that are read and written like a TCP connection. Sequencing, schedulers and
//! proofs are those of the crate `mctcp`; here are sockets, TLS and time.
//!
//! | part | does |
//! |---|---|
//! | `driver` | the task that owns a session's sockets |
//! | `subflow`, `queue` | frames from and to one connection |
//! | `listener` | accepts connections, and tells sessions, joins and plain TCP apart |
//! | `stream`, `shared` | what applications have, and what they share with the driver |
//! | [`front`] | programs that know nothing of it: proxies, the server, standard input |
#![forbid(unsafe_code)]

mod clock;
mod config;
mod connections;
mod descriptors;
mod detached;
mod driver;
mod error;
pub mod front;
mod listener;
mod memory;
mod observer;
mod queue;
mod random;
mod shared;
mod socket;
mod stream;
mod subflow;

pub use config::{ClientTls, Config, Dial, Further, ListenerConfig, PathSpec};
pub use connections::Connections;
pub use detached::{Connecting, Runtime};
pub use error::{Error, Result};
pub use listener::{Accepted, ListenerStatistics, MctcpListener, Plain};
pub use observer::Observer;
pub use stream::{MctcpStream, SubflowInfo};
