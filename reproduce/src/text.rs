//! A figure in words for a terminal.

use std::fmt::Write as _;

use crate::{FigureResult, Status, Table};

/// Rows of a table that are shown; `results.json` has all.
const ROWS: usize = 40;

/// How a word is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A number and title of a figure.
    Head,
    /// As the paper says.
    Good,
    /// Not as the paper says, or not to be trusted.
    Bad,
    /// What is said on the side.
    Aside,
}

impl FigureResult {
    /// Verdict, claims, tables and notes; `paint` colours words.
    pub fn text(&self, paint: &dyn Fn(Tone, &str) -> String) -> String {
        let mut out = paint(Tone::Head, &format!("{}  {}", self.id, self.title));
        if self.short {
            out.push_str(&paint(Tone::Aside, "  (short)"));
        }
        out.push('\n');
        if let Some(error) = &self.error {
            let _ = writeln!(out, "  {} {error}", paint(Tone::Bad, "could not be made:"));
        }
        for claim in &self.evidence.claims {
            let (tone, word) =
                if claim.holds { (Tone::Good, "holds  ") } else { (Tone::Bad, "differs") };
            let mark = paint(tone, word);
            let _ = writeln!(out, "  {mark}  {}", claim.what);
            let (paper, here) = (paint(Tone::Aside, "paper:"), paint(Tone::Aside, "here:"));
            let _ = writeln!(out, "           {paper} {}   {here} {}", claim.paper, claim.ours);
        }
        for table in &self.evidence.tables {
            let _ = writeln!(out, "  {}", paint(Tone::Aside, &table.title));
            rows(&mut out, table, paint);
        }
        for note in &self.evidence.notes {
            let _ = writeln!(out, "  {} {note}", paint(Tone::Aside, "note:"));
        }
        if self.status == Status::Untrusted {
            let _ = writeln!(out, "  {}", paint(Tone::Bad, "a run was not trusted"));
        }
        out
    }
}

fn rows(out: &mut String, table: &Table, paint: &dyn Fn(Tone, &str) -> String) {
    let width = |column: usize| {
        let cells = table.rows.iter().take(ROWS).filter_map(|row| row.get(column));
        cells.chain(table.heads.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.heads.len()).map(width).collect();
    let line = |row: &[String]| -> String {
        let mut text = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // The first column says what the row is about, the others are numbers.
            let pad = " ".repeat(width - cell.chars().count());
            let cell = if index == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
            text.push_str(&cell);
        }
        text.trim_end().to_owned()
    };
    let _ = writeln!(out, "    {}", paint(Tone::Aside, &line(&table.heads)));
    for row in table.rows.iter().take(ROWS) {
        let _ = writeln!(out, "    {}", line(row));
    }
    if table.rows.len() > ROWS {
        let _ = writeln!(out, "    {} more are in results.json", table.rows.len() - ROWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evidence;

    #[test]
    fn a_figure_reads_from_verdict_to_notes() {
        let mut evidence = Evidence::default();
        evidence.claim("share of A", "1.5 Mbit/s", "1.5 Mbit/s", true);
        evidence.claim("share of B", "3.5 Mbit/s", "1.7 Mbit/s", false);
        let mut table = Table::new("Shares", &["flow", "Mbit/s"]);
        table.row(["A", "1.5"]);
        table.row(["B, long", "1.748"]);
        evidence.tables.push(table);
        evidence.note("with a window");
        let result = FigureResult {
            id: "3.5".to_owned(),
            title: "shares".to_owned(),
            evidence,
            ..FigureResult::default()
        };
        let text = result.text(&|_, word| word.to_owned());
        let wanted = "3.5  shares\n  holds    share of A\n           paper: 1.5 Mbit/s   here: 1.5 \
                      Mbit/s\n  differs  share of B\n           paper: 3.5 Mbit/s   here: 1.7 \
                      Mbit/s\n  Shares\n    flow     Mbit/s\n    A           1.5\n    B, long   \
                      1.748\n  note: with a window\n";
        assert_eq!(text, wanted);
    }
}
