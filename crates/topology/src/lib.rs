//! Networks as graphs: generators, importers, shortest paths and drawings.
#![forbid(unsafe_code)]

pub mod shortest;
