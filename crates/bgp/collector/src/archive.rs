//! The archive: events as MRT records.

mod record;

pub use record::{Recorder, Settings};
