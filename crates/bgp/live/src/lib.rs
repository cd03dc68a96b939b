//! The collector with files, interfaces, threads and sockets around the sans-IO `collector` crate.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

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

pub type Result<T> = std::result::Result<T, Error>;
