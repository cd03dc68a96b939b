//! Tables of runs for other programs: CSV, JSON Lines and Arrow. One batch of rows is in memory.

mod arrow;

use std::io::{self, Write};

use run::table::{Column, Reader, Table, Value};
use serde_json::Value as Json;

const BATCH_ROWS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180, with a header. Null is an empty field, an empty text is `""`.
    Csv,
    /// One object per row.
    JsonLines,
    /// Arrow's streaming format.
    Arrow,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    #[error(transparent)]
    Read(#[from] run::Error),
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes the remaining rows of a table. Each line of text is one write.
pub fn export(
    reader: &mut Reader,
    format: Format,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    match format {
        Format::Csv => out.write_all(&csv_header(reader.columns()))?,
        Format::Arrow => arrow::schema(reader.columns(), out)?,
        Format::JsonLines => {}
    }
    let mut table = Table::new(reader.columns().to_vec());
    while reader.read_into(&mut table, BATCH_ROWS)? > 0 {
        match format {
            Format::Csv => lines(&table, out, csv_line)?,
            Format::JsonLines => {
                let keys = table.columns().iter();
                let keys: Vec<_> = keys.map(|c| Json::from(c.name.as_str()).to_string()).collect();
                lines(&table, out, |row, line| json_line(&keys, row, line))?;
            }
            Format::Arrow => arrow::batch(&table, out)?,
        }
        table.clear();
    }
    if format == Format::Arrow {
        arrow::end(out)?;
    }
    Ok(())
}

fn lines(
    table: &Table,
    out: &mut impl Write,
    mut encode: impl FnMut(&[Value], &mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let mut columns: Vec<_> = table.columns().iter().map(Column::values).collect();
    let mut line = Vec::new();
    for _ in 0..table.rows() {
        let row: Vec<_> =
            columns.iter_mut().map(|column| column.next().unwrap_or(Value::Null)).collect();
        line.clear();
        encode(&row, &mut line)?;
        out.write_all(&line)?;
    }
    Ok(())
}

fn csv_header(columns: &[Column]) -> Vec<u8> {
    let names: Vec<_> = columns.iter().map(|c| Value::Text(c.name.as_str().into())).collect();
    let mut line = Vec::new();
    // Writing to a vector cannot fail.
    let _ = csv_line(&names, &mut line);
    line
}

fn csv_line(row: &[Value], line: &mut Vec<u8>) -> io::Result<()> {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        match value {
            Value::Null => {}
            Value::Integer(number) => write!(line, "{number}")?,
            // The shortest text that reads back as the same number.
            Value::Real(number) => write!(line, "{number:?}")?,
            Value::Text(text) if text.is_empty() || text.contains(['"', ',', '\r', '\n']) => {
                write!(line, "\"{}\"", text.replace('"', "\"\""))?;
            }
            Value::Text(text) => line.extend_from_slice(text.as_bytes()),
        }
    }
    line.extend_from_slice(b"\r\n");
    Ok(())
}

/// `keys`: the names of the columns as JSON.
fn json_line(keys: &[String], row: &[Value], line: &mut Vec<u8>) -> io::Result<()> {
    for (index, (key, value)) in keys.iter().zip(row).enumerate() {
        line.push(if index == 0 { b'{' } else { b',' });
        line.extend_from_slice(key.as_bytes());
        line.push(b':');
        match value {
            Value::Null => line.extend_from_slice(b"null"),
            Value::Integer(number) => serde_json::to_writer(&mut *line, number)?,
            // JSON has no infinity: it becomes null.
            Value::Real(number) => serde_json::to_writer(&mut *line, number)?,
            Value::Text(text) => serde_json::to_writer(&mut *line, text.as_ref())?,
        }
    }
    line.extend_from_slice(b"}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Value<'_> {
        Value::Text(value.into())
    }

    #[test]
    fn csv_quotes_fields_as_in_rfc_4180() {
        let row = [
            text("plain"),
            text("a,b"),
            text("say \"x\""),
            text("two\r\nlines"),
            text(""),
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.1),
            Value::Real(1e300),
            Value::Real(f64::NAN),
        ];
        let mut line = Vec::new();
        csv_line(&row, &mut line).unwrap();
        let expected = "plain,\"a,b\",\"say \"\"x\"\"\",\"two\r\nlines\",\"\",,\
                        -9223372036854775808,0.1,1e300,NaN\r\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn json_lines_are_objects() {
        let keys = ["a\"b", "n", "r", "i", "none"].map(|key| Json::from(key).to_string());
        let row = [
            text("x\u{1b}\n"),
            Value::Integer(i64::MAX),
            Value::Real(0.1),
            Value::Real(f64::INFINITY),
            Value::Null,
        ];
        let mut line = Vec::new();
        json_line(&keys, &row, &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        let expected =
            r#"{"a\"b":"x\u001b\n","n":9223372036854775807,"r":0.1,"i":null,"none":null}"#;
        assert_eq!(line, format!("{expected}\n"));
        serde_json::from_str::<Json>(&line).unwrap();
    }
}
