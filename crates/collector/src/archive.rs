//! The archive: what happened, as MRT records.

mod record;

pub use record::{Recorder, Settings};
