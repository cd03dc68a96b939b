//! Exports events in other protocols.

pub mod bmp;
