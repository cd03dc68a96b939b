//! Events for others to read in protocols of their own.

pub mod bmp;
