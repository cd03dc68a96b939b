//! Compiler from lab files to plans: reads and checks a file as a whole, and reports all
//! errors with their positions.
//!
//! [`load`] and [`parse`] return one [`plan::Plan`] per combination of swept values, or all
//! [`Diagnostics`] at once. [`routes`] computes forwarding tables. Every default is declared in the
//! tables of sections and keys, from which the schema and pages of the book are generated.
//!
//! Most files depend on each other: values of the tables in `fields` are types of `plan`, and
//! diagnostics and files, which read them, report in terms of the tables.
#![forbid(unsafe_code)]

#[macro_use]
mod fields;

mod code;
mod compile;
pub mod config;
mod diagnostic;
pub mod expect;
mod files;
pub mod live;
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
pub use compile::{matches_pattern, missing_program};
pub use diagnostic::{Diagnostic, Diagnostics, suggest};
pub use files::{leads_outside, open_regular, read_text};
pub use load::{Lab, Overrides, PatternMatch, load, parse, parse_with};
pub use reference::{errors_page, lab_file_page};
pub use resolved::resolved;
pub use schema::schema;
pub use template::{TEMPLATES, template};
