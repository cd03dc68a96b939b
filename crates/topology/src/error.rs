//! What can be wrong with parameters and files.

use base::QuantityError;

/// Why no graph could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A generator's parameter is out of bounds.
    #[error("{generator}: `{parameter}` is {value}, but must be {allowed}")]
    Parameter {
        /// The generator, as lab files name it.
        generator: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        allowed: String,
    },
    /// The parameters are fine one by one, but ask for too large a graph.
    #[error("{generator}: this makes {count} {what}; the limit is {limit}")]
    TooLarge {
        /// The generator, as lab files name it.
        generator: &'static str,
        /// `nodes` or `links`.
        what: &'static str,
        /// How many there would be (the largest number if even that does not fit).
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A file cannot be understood.
    #[error("line {line}, column {column}: {problem}")]
    Import {
        /// Line, counted from 1.
        line: u32,
        /// Column in characters, counted from 1.
        column: u32,
        /// What is wrong there.
        problem: Problem,
    },
}

/// What is wrong at a place of an imported file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something else should stand here.
    #[error("expected {expected}")]
    Expected {
        /// What.
        expected: &'static str,
    },
    /// The XML reader refuses the text.
    #[error("not well-formed XML: {message}")]
    Xml {
        /// The reader's words.
        message: String,
    },
    /// A number that is none, or out of its range.
    #[error("`{text}` is no {expected}")]
    Number {
        /// What was read.
        text: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A delay or rate that cannot be read.
    #[error("{field}: {source}")]
    Quantity {
        /// The field's name.
        field: &'static str,
        /// Why.
        source: QuantityError,
    },
    /// A column that the format does not know.
    #[error("unknown column `{name}`; columns are a, b, delay, rate, metric and name")]
    UnknownColumn {
        /// What was read.
        name: String,
    },
    /// A column that stands twice in the header, or misses.
    #[error("column `{name}` must stand in the header exactly once")]
    Column {
        /// The column.
        name: &'static str,
    },
    /// An element without something that it needs.
    #[error("this {element} has no `{field}`")]
    Missing {
        /// `node`, `edge`, …
        element: &'static str,
        /// What it lacks.
        field: &'static str,
    },
    /// A second node with the same id.
    #[error("there is already a node `{id}`")]
    DuplicateNode {
        /// The id.
        id: String,
    },
    /// An edge to a node that the file does not define.
    #[error("there is no node `{id}`")]
    UnknownNode {
        /// The id.
        id: String,
    },
    /// An edge from a node to itself.
    #[error("this edge leads from `{id}` to itself")]
    SelfLoop {
        /// The node's id.
        id: String,
    },
    /// Something of the format that no network has.
    #[error("{what} cannot be imported")]
    Unsupported {
        /// What.
        what: &'static str,
    },
    /// More than a limit allows.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The file defines no node.
    #[error("the file defines no node")]
    Empty,
    /// A count that the file states and does not keep.
    #[error("the file announces {announced} {what} and has {found}")]
    Count {
        /// Of what.
        what: &'static str,
        /// Stated.
        announced: u64,
        /// Counted.
        found: u64,
    },
}
