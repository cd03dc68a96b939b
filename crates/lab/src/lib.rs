//! Lab file to plan: read, checked as a whole, every mistake reported with its place.
//!
//! [`load`] and [`parse`] give one [`plan::Plan`] per combination of swept values, or all
//! [`Diagnostics`] at once. [`routes`] computes who forwards where. Every default is in one of
//! the tables of sections and keys, from which the schema and the book's pages are made.
#![forbid(unsafe_code)]

mod code;
mod compile;
mod diagnostic;
pub mod expect;
mod fields;
mod files;
mod load;
pub mod plan;
mod reference;
mod resolved;
pub mod routes;
mod schema;
mod sweep;
mod template;
pub mod trace;
mod tree;
mod validate;

pub use code::Code;
pub use compile::missing_program;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use load::{Lab, Overrides, PatternMatch, load, parse, parse_with};
pub use reference::{errors_page, lab_file_page};
pub use resolved::resolved;
pub use schema::schema;
pub use template::{TEMPLATES, template};
