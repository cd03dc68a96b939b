//! The collector at work: files and interfaces in, archives on disk out. Threads, files and
//! sockets are here; what they carry is the `collector` crate's.
#![forbid(unsafe_code)]

pub mod archive;
pub mod board;
pub mod check;
pub mod convert;
mod error;
pub mod feed;
pub mod input;
pub mod job;
pub mod live;
pub mod pipeline;
pub mod query;
pub mod writer;

pub use archive::Archive;
pub use board::Board;
pub use error::Error;
pub use input::Input;
pub use pipeline::Pipeline;
pub use writer::Writer;

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
