//! What a figure hands back.

use serde::{Deserialize, Serialize};

/// A plot of points over any axis.
pub use report::Figure as Plot;

/// What a figure shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What the paper says beside what was measured.
    pub claims: Vec<Claim>,
    /// The figure itself, and what goes with it.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// Numbers beyond the claims.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// What a reader must know: deviations, conditions.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A statement of the paper and what came of it here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is compared, with clock and model where there are several.
    pub what: String,
    /// The paper's value, with its unit.
    pub paper: String,
    /// Ours, with its unit.
    pub ours: String,
    /// Whether ours bears out the paper's.
    pub holds: bool,
}

/// Numbers in rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What they are.
    pub title: String,
    /// Heads of the columns, with units.
    pub heads: Vec<String>,
    /// A cell for each head; the first says what the row is about.
    pub rows: Vec<Vec<String>>,
}

impl Evidence {
    /// Adds a claim.
    pub fn claim(
        &mut self,
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
    ) {
        let (what, paper, ours) = (what.into(), paper.into(), ours.into());
        self.claims.push(Claim { what, paper, ours, holds });
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { title: title.into(), heads, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}
