//! Tables of text columns.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

/// Rows below their headers in columns, two spaces apart; numbers right-aligned.
pub(crate) fn columns(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        let cells = rows.iter().map(|row| row[index].as_str()).filter(|cell| *cell != "-");
        let mut cells = cells.peekable();
        if cells.peek().is_some()
            && cells.all(|cell| cell.bytes().all(|byte| byte.is_ascii_digit()))
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

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
    fn fits_columns() {
        let rows = [["a", "1", "x"], ["bbbb", "-", ""], ["c", "100", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = columns(&["name", "n", "note"], &rows);
        assert_eq!(text, "name    n  note\na       1  x\nbbbb    -\nc     100  y\n");
    }
}
