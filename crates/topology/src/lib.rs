//! Networks as graphs: generators, importers, shortest paths and drawings.
//!
//! A [`Graph`] says what is connected and, where its source knows, how far and how fast; what it
//! leaves open the lab fills with its own defaults. Equal parameters and seeds give equal graphs.
#![forbid(unsafe_code)]

mod error;
pub mod generate;
mod graph;
pub mod import;
pub mod layout;
pub mod shortest;

pub use error::{Error, Problem};
pub use graph::{Class, Graph, Link, LinkSpec, MAX_LINKS, MAX_NODES, Node, Role};
