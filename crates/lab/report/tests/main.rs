//! Reports of synthetic runs.

mod page;
mod terminal;
