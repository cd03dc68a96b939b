//! The collector at work: files and interfaces in, archives on disk out. Threads, files and
//! sockets are here; what they carry is the `collector` crate's.
#![forbid(unsafe_code)]

pub mod archive;
mod error;

pub use archive::Archive;
pub use error::Error;

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
