//! Lab file to plan: read, checked as a whole, every mistake reported with its place.
//!
//! [`load`] and [`parse`] give one [`plan::Plan`] per combination of swept values, or all
//! [`Diagnostics`] at once. [`routes`] computes who forwards where.
#![forbid(unsafe_code)]

pub mod expect;
pub mod plan;
pub mod routes;
