//! Tables of text.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets};

use crate::layout::{clean, shorten};

/// Columns are two spaces apart.
const GAP: usize = 2;
/// A column of texts is shortened to this width before a column is omitted.
const MIN_TEXT: usize = 14;
/// If no column can be omitted, texts are shortened to this width.
const MIN_WIDTH: usize = 4;

pub(crate) struct Grid<'a> {
    pub(crate) heads: &'a [&'a str],
    pub(crate) rows: &'a [Vec<String>],
    /// Columns of numbers: right-aligned, never shortened.
    pub(crate) numbers: Range<usize>,
    /// The rank of each column. A narrow terminal omits columns of the highest rank first, and
    /// never those of rank 0.
    pub(crate) ranks: &'a [u8],
}

/// Aligns rows under their headings, two spaces apart. Columns in `numbers` are right-aligned.
pub fn columns(heads: &[&str], rows: &[Vec<String>], numbers: Range<usize>) -> String {
    let cells = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect());
    draw(heads, &cells.collect::<Vec<_>>(), |index| numbers.contains(&index))
}

/// Like [`columns`], in at most `width` columns of the terminal: long texts are shortened, and if
/// that is not enough, the last columns are omitted.
pub fn columns_within(
    heads: &[&str],
    rows: &[Vec<String>],
    numbers: Range<usize>,
    width: usize,
) -> String {
    let ranks: Vec<u8> = (0..heads.len()).map(|index| u8::try_from(index).unwrap_or(255)).collect();
    Grid { heads, rows, numbers, ranks: &ranks }.lines(Some(width)).join("\n")
}

impl Grid<'_> {
    /// The headings and the rows, each in at most `width` columns; without a width, with all
    /// columns and whole texts.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let mut cells: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
        for column in self.numbers.clone() {
            align_units(&mut cells, column);
        }
        let Some(width) = width else {
            let text = draw(self.heads, &cells, |index| self.numbers.contains(&index));
            return text.lines().map(str::to_owned).collect();
        };
        let has_value = |row: &Vec<String>, index: usize| !matches!(&*row[index], "" | "–");
        let mut shown: Vec<usize> = (0..self.heads.len()).collect();
        shown.retain(|index| *index == 0 || cells.iter().any(|row| has_value(row, *index)));
        let widths = loop {
            if let Some(widths) = self.widths(&shown, &cells, width, MIN_TEXT) {
                break widths;
            }
            let last = shown.iter().enumerate().max_by_key(|(_, index)| self.ranks[**index]);
            let Some((at, _)) = last.filter(|(_, index)| self.ranks[**index] > 0) else {
                let widths = self.widths(&shown, &cells, width, MIN_WIDTH);
                break widths.unwrap_or_else(|| vec![width; shown.len()]);
            };
            shown.remove(at);
        };
        let pick = |row: &[String]| -> Vec<String> {
            let cells = shown.iter().zip(&widths);
            cells.map(|(index, width)| shorten(&row[*index], *width)).collect()
        };
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let heads = pick(&heads);
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let cells: Vec<Vec<String>> = cells.iter().map(|row| pick(row)).collect();
        let text = draw(&heads, &cells, |index| self.numbers.contains(&shown[index]));
        text.lines().map(|line| shorten(line, width)).collect()
    }

    /// The widths with which the columns fit, with texts of at least `min_text`; `None` if they
    /// do not fit.
    fn widths(
        &self,
        shown: &[usize],
        cells: &[Vec<String>],
        width: usize,
        min_text: usize,
    ) -> Option<Vec<usize>> {
        let length = |text: &str| text.chars().count();
        // Headings of numbers are shortened only if no column can be omitted.
        let min_head = if min_text == MIN_TEXT { usize::MAX } else { min_text };
        let (mut widths, mut mins) = (Vec::new(), Vec::new());
        for index in shown {
            let head = length(self.heads[*index]);
            let content = cells.iter().map(|row| length(&row[*index])).max().unwrap_or(0);
            let is_number = self.numbers.contains(index);
            widths.push(content.max(head));
            mins.push(if is_number { content.max(head.min(min_head)) } else { min_text });
        }
        let space = width.checked_sub(GAP * shown.len().saturating_sub(1))?;
        let mut excess = widths.iter().sum::<usize>().saturating_sub(space);
        while excess > 0 {
            let wide = (0..widths.len()).filter(|at| widths[*at] > mins[*at]);
            let widest = wide.max_by_key(|at| widths[*at])?;
            widths[widest] -= 1;
            excess -= 1;
        }
        Some(widths)
    }
}

/// Aligns the units of a column of quantities, so that their digits end at the same place.
fn align_units(cells: &mut [Vec<String>], column: usize) {
    let unit = |cell: &str| {
        let (number, unit) = cell.split_once(' ')?;
        let is_quantity = number.starts_with(|c: char| c.is_ascii_digit()) && !unit.contains(' ');
        is_quantity.then(|| unit.chars().count())
    };
    let widest = cells.iter().filter_map(|row| unit(&row[column])).max().unwrap_or(0);
    for row in cells {
        if let Some(width) = unit(&row[column]) {
            row[column].extend(std::iter::repeat_n('\u{a0}', widest - width));
        }
    }
}

fn draw(heads: &[&str], rows: &[Vec<String>], is_number: impl Fn(usize) -> bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, GAP as u16));
        if is_number(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string().replace('\u{a0}', " ");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The width that tables of metrics fit.
const MAX_WIDTH: usize = 80;
/// The first column is at least this wide.
const MIN_NAME_WIDTH: usize = 24;

/// [`columns`] whose first column has names of metrics. Names that do not fit the width continue in
/// the next row after a dot.
pub(crate) fn fitted(heads: &[&str], rows: &[Vec<String>], numbers: Range<usize>) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str()).chain([heads[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let others: usize = (1..heads.len()).map(|column| GAP + width(column)).sum();
    let limit = MAX_WIDTH.saturating_sub(others).max(MIN_NAME_WIDTH);
    let mut split = Vec::with_capacity(rows.len());
    for row in rows {
        let mut parts = parts(&row[0], limit);
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            let empty = std::iter::repeat_n(String::new(), heads.len() - 1);
            split.push(std::iter::once(part).chain(empty).collect());
        }
        split.push(std::iter::once(last).chain(row[1..].iter().cloned()).collect());
    }
    columns(heads, &split, numbers)
}

/// Parts of a name with at most `limit` characters. All but the first are indented.
fn parts(name: &str, limit: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut indent = "";
    let mut rest: Vec<char> = name.chars().collect();
    loop {
        let room = limit - indent.len();
        if rest.len() <= room {
            parts.push(indent.chars().chain(rest).collect());
            return parts;
        }
        let dot = rest[..room].iter().rposition(|c| *c == '.');
        let tail = rest.split_off(dot.map_or(room, |at| at + 1));
        parts.push(indent.chars().chain(rest).collect());
        (indent, rest) = ("  ", tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_columns() {
        let rows = [["a", "1", "x"], ["bbbb", "-", ""], ["µ", "100", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = columns(&["name", "n", "note"], &rows, 1..2);
        assert_eq!(text, "name    n  note\na       1  x\nbbbb    -\nµ     100  y");
        let indented = columns(&["a", "b"], &[vec!["  x".to_owned(), "y".to_owned()]], 0..0);
        assert_eq!(indented, "a    b\n  x  y");
    }

    #[test]
    fn names_of_metrics_fit_the_width() {
        let long = "link.a-long-name-between-routers.down.utilisation.mean";
        let rows = [long, "flow.a.goodput.mean", &"x".repeat(100)];
        let rows = rows.map(|name| vec![name.to_owned(), "9.41 Mbit/s".to_owned(), "1".repeat(30)]);
        let text = fitted(&["metric", "before", "after"], &rows, 1..3);
        assert!(text.lines().all(|line| line.chars().count() <= MAX_WIDTH), "{text}");
        let names: String =
            text.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
        assert!(names.contains(long) && names.contains(&"x".repeat(100)), "{text}");
        assert!(text.contains("\n  down.utilisation.mean  "), "{text}");
    }

    fn rows(rows: &[[&str; 4]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    #[test]
    fn digits_of_quantities_end_at_the_same_place() {
        let rows = rows(&[["a", "9.66 Mbit/s", "48.9 ms", "x"], ["b", "310 bit/s", "0 s", "y"]]);
        let grid =
            Grid { heads: &["", "rate", "wait", ""], rows: &rows, numbers: 1..3, ranks: &[0; 4] };
        let lines = grid.lines(Some(80));
        assert_eq!(lines[1], "a  9.66 Mbit/s  48.9 ms  x");
        assert_eq!(lines[2], "b   310 bit/s      0 s   y");
    }

    #[test]
    fn narrow_table_shortens_texts_then_omits_columns_of_high_rank() {
        let rows =
            rows(&[["a-very-long-name-of-a-link", "12345678", "–", "some words of a command"]]);
        let heads = ["name", "count", "restarts", "command"];
        let grid = Grid { heads: &heads, rows: &rows, numbers: 1..3, ranks: &[0, 0, 2, 1] };
        let line = |width| grid.lines(Some(width)).swap_remove(1);
        assert_eq!(line(80), "a-very-long-name-of-a-link  12345678  some words of a command");
        assert_eq!(line(45), "a-very-long-name…  12345678  some words of a…");
        assert_eq!(line(30), "a-very-long-name-of…  12345678");
        assert_eq!(line(16), "a-ver…  12345678");
        assert!(grid.lines(None)[0].contains("restarts"));
    }
}
