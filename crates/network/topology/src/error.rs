//! Errors in parameters and files.

use base::QuantityError;

/// The reason why no graph could be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A generator's parameter is out of bounds.
    #[error("{generator}: `{parameter}` is {value}, but must be {allowed}")]
    Parameter {
        /// The generator's name in lab files.
        generator: &'static str,
        parameter: &'static str,
        value: String,
        /// The permitted values.
        allowed: String,
    },
    /// Each parameter is valid, but the graph would be too large.
    #[error("{generator}: this makes at least {count} nodes and links; the limit is {limit}")]
    TooLarge {
        /// The generator's name in lab files.
        generator: &'static str,
        /// The resulting number (the maximum of the type if it does not fit). Of random links only
        /// those up to the limit are counted.
        count: u64,
        limit: u64,
    },
    #[error("line {line}, column {column}: {problem}")]
    Import {
        /// Line number, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: u32,
        problem: Problem,
    },
}

impl Error {
    /// The error with its place, but without text of the file, which may be secret: a lab that
    /// someone else has written can name any file as its topology.
    #[must_use]
    pub fn without_text(self) -> Self {
        match self {
            Self::Import { line, column, problem } => {
                Self::Import { line, column, problem: problem.without_text() }
            }
            other => other,
        }
    }
}

/// An error at a place of an imported file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error("expected {expected}")]
    Expected { expected: &'static str },
    /// The XML parser rejects the text.
    #[error("not well-formed XML: {message}")]
    Xml { message: String },
    /// An invalid number, or one out of range.
    #[error("`{text}` is no {expected}")]
    Number {
        text: String,
        /// The expected kind of number.
        expected: &'static str,
    },
    #[error("{field}: {source}")]
    Quantity { field: &'static str, source: QuantityError },
    #[error("unknown column `{name}`; columns are a, b, delay, rate, metric and name")]
    UnknownColumn { name: String },
    /// A column that occurs twice in the header, or is missing.
    #[error("column `{name}` must be in the header exactly once")]
    Column { name: &'static str },
    /// An element without a required field.
    #[error("this {element} has no `{field}`")]
    Missing {
        /// `node`, `edge`, …
        element: &'static str,
        field: &'static str,
    },
    /// A second node with the same id.
    #[error("there is already a node `{id}`")]
    DuplicateNode { id: String },
    /// An edge refers to a node that the file does not define.
    #[error("unknown node `{id}`")]
    UnknownNode { id: String },
    /// An edge to a node that contains nodes.
    #[error("`{id}` is a group of nodes, and no edge ends at a group")]
    Group { id: String },
    /// A feature of the format that is not supported.
    #[error("{what} cannot be imported")]
    Unsupported { what: &'static str },
    #[error("more than {limit} {what}")]
    TooMany { what: &'static str, limit: u64 },
    /// The file defines no node.
    #[error("the file defines no node")]
    Empty,
    /// A count in the file that differs from the number of items.
    #[error("the header announces {announced} {what}, but the file has {found}")]
    Count { what: &'static str, announced: u64, found: u64 },
}

impl Problem {
    fn without_text(self) -> Self {
        let expected = match self {
            Self::Xml { .. } => "well-formed XML",
            Self::Number { expected, .. } => expected,
            Self::Quantity { field, .. } => field,
            Self::UnknownColumn { .. } => "the name of a column",
            Self::DuplicateNode { .. } => "an id that no other node has",
            Self::UnknownNode { .. } => "the id of a node",
            Self::Group { .. } => "nodes that contain no nodes",
            Self::Count { .. } => "as many items as in the header",
            Self::Expected { .. }
            | Self::Column { .. }
            | Self::Missing { .. }
            | Self::Unsupported { .. }
            | Self::TooMany { .. }
            | Self::Empty => return self,
        };
        Self::Expected { expected }
    }
}
