//! Labs on the wall clock: real programs in namespaces, packets through the fabric.
#![forbid(unsafe_code)]

pub mod registry;
