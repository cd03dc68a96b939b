//! Networks as graphs: generators, importers, shortest paths and drawings.
//!
//! A [`Graph`] has nodes and links and, if its source contains them, delays and rates; the lab's
//! defaults complete it. Equal parameters and seeds give equal graphs.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

mod error;
pub mod generate;
mod graph;
pub mod import;
pub mod layout;
pub mod shortest;

pub use error::{Error, Problem};
pub use graph::{Class, Graph, Link, LinkSpec, MAX_ELEMENTS, Node, Role, Unused};
