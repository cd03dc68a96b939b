//! Columns for people.

use std::fmt::Write;

/// Lines with columns that are as wide as what is in them; numbers stand to the right.
pub(super) fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|name| name.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let is_number = |at: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(at)).filter(|cell| *cell != "-");
        cells.clone().next().is_some()
            && cells.all(|cell| cell.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let right: Vec<bool> = (0..head.len()).map(is_number).collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
            let space = " ".repeat(width - cell.chars().count());
            let (before, after) = if *right { (&*space, "") } else { ("", &*space) };
            line.extend([before, cell, after, "  "]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Octets as digits.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit() {
        let rows = [["a", "1", "x"], ["bbbb", "-", ""], ["c", "100", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = columns(&["name", "n", "note"], &rows);
        assert_eq!(text, "name    n  note\na       1  x\nbbbb    -\nc     100  y\n");
    }
}
