//! `export`: tables of runs for other programs.

use std::io::{self, Write};

use report::ExportError;
use run::record::Status;
use run::table::{Column, Kind, Reader};
use run::{Exit, RunFolder, RunRecord};
use serde_json::{Value, json};

use crate::args::export::{Export, Format};
use crate::files::{NewFile, cannot_write};
use crate::terminal::{Lines, Terminal};
use crate::{Failure, Verdict, repeat, results};

pub(crate) fn export(args: &Export, terminal: &Terminal) -> Verdict {
    let (folder, record) = results::open(&args.run)?;
    let tables = folder.tables().map_err(|e| unreadable(&e))?;
    let Some(name) = &args.table else { return list(&folder, &tables, terminal) };
    let name = name.strip_suffix(".parquet").unwrap_or(name);
    if !tables.iter().any(|table| table == name) {
        return Err(missing(name, &tables, &record));
    }
    let mut reader = Reader::open(&folder.table(name)).map_err(|e| unreadable(&e))?;
    let format = args.format.unwrap_or(if terminal.json { Format::Json } else { Format::Csv });
    let Some(path) = &args.output else {
        let (out, is_terminal) = terminal.stream();
        return match write(&mut reader, format, out, is_terminal)? {
            Ok(()) => Ok(Exit::Ok),
            // The reader needs no more rows.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
            Err(error) => Err(error.into()),
        };
    };
    let mut file = NewFile::create(path)?;
    let is_terminal = file.is_terminal();
    write(&mut reader, format, &mut file, is_terminal)?.map_err(|e| cannot_write(path, &e))?;
    file.commit()?;
    terminal.note(format!("wrote {}: {} rows", path.display(), reader.rows()));
    Ok(Exit::Ok)
}

/// Writes a table. The inner result is that of the output.
fn write(
    reader: &mut Reader,
    format: Format,
    out: impl Write,
    is_terminal: bool,
) -> Result<io::Result<()>, Failure> {
    if format == Format::Arrow && is_terminal {
        return Err(Failure::usage("the Arrow format is binary; it is not written to a terminal")
            .help("write it to a file with --output, or to a pipe"));
    }
    let mut lines = Lines::new(out, is_terminal, format == Format::Json);
    let format = match format {
        Format::Csv => report::Format::Csv,
        Format::Json => report::Format::JsonLines,
        Format::Arrow => report::Format::Arrow,
    };
    match report::export(reader, format, &mut lines) {
        Ok(()) => Ok(lines.flush()),
        Err(ExportError::Write(error)) => Ok(Err(error)),
        Err(ExportError::Read(error)) => {
            // The rows before the damaged ones; the first error is reported.
            let _ = lines.flush();
            Err(unreadable(&error))
        }
        Err(error) => Err(Failure::machine(error)),
    }
}

fn unreadable(error: &run::Error) -> Failure {
    Failure::machine(format!("cannot read the run: {error}"))
}

fn missing(name: &str, tables: &[String], record: &RunRecord) -> Failure {
    let failure = Failure::usage(format!("the run has no table `{name}`"));
    match tables {
        [] if record.status == Status::Running => {
            failure.help("the run is not finished; its tables are complete at its end")
        }
        [] => failure.help("the run has no tables"),
        tables => failure.help(format!("tables: {}", tables.join(", "))),
    }
}

/// The name of the type of a column, and whether it may be null.
fn kind(column: &Column) -> (&'static str, bool) {
    match column.kind {
        Kind::Integer => ("int64", false),
        Kind::Optional => ("int64", true),
        Kind::Real => ("float64", true),
        Kind::Text => ("text", false),
    }
}

fn list(folder: &RunFolder, tables: &[String], terminal: &Terminal) -> Verdict {
    let open = |name| Ok((name, Reader::open(&folder.table(name))?));
    let tables = tables.iter().map(|name| open(name)).collect::<Result<Vec<(&str, Reader)>, _>>();
    let tables = tables.map_err(|e| unreadable(&e))?;
    if terminal.json {
        let column = |column: &Column| {
            let (kind, is_nullable) = kind(column);
            json!({"name": column.name, "type": kind, "nullable": is_nullable,
                "unit": Some(&column.unit).filter(|unit| !unit.is_empty())})
        };
        let table = |(name, reader): &(&str, Reader)| {
            let columns: Vec<Value> = reader.columns().iter().map(column).collect();
            json!({"name": name, "rows": reader.rows(), "columns": columns})
        };
        terminal.object(&json!({
            "schema": "netarium.tables/1",
            "folder": folder.path(),
            "tables": tables.iter().map(table).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Ok);
    }
    let mut rows = Vec::new();
    for (name, reader) in &tables {
        for (index, column) in reader.columns().iter().enumerate() {
            let (name, count) = match index {
                0 => ((*name).to_owned(), reader.rows().to_string()),
                _ => (String::new(), String::new()),
            };
            let (kind, is_nullable) = kind(column);
            let kind = if is_nullable { format!("{kind} or null") } else { kind.to_owned() };
            rows.push(vec![name, count, column.name.clone(), kind, column.unit.clone()]);
        }
    }
    terminal.data(terminal.table(&["TABLE", "ROWS", "COLUMN", "TYPE", "UNIT"], &rows))?;
    let run = repeat::quote_path(folder.path());
    terminal.note(format!("export one with: netarium export {run} TABLE"));
    Ok(Exit::Ok)
}
