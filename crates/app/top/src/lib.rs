//! The live view in a terminal: `netarium top`.
//!
//! `App` is a state machine: keys and messages of [`run::live`] change it, and `draw::draw`
//! shows it. [`show`] connects it to a terminal and a lab, or to the folder of a finished run.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

mod app;
mod details;
mod draw;
mod driver;
mod form;
mod history;
mod rows;
mod style;
#[cfg(test)]
mod tests;

use app::App;
pub use driver::{Ended, Error, restore, show};
