//! `netarium export`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef};
use arrow_ipc::reader::StreamReader;
use run::table::{Cell as TableCell, Column, Kind, Table, Value};

use super::cell::Cell;

/// Links, flows and transfers; 10 transfers do not complete.
const TRANSFERS: &str = "[lab]\nname = \"many\"\nduration = \"2 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    [[flow]]\nname = \"web\"\nfrom = \"a\"\nto = \"b\"\nsize = \"10 kB\"\n\
    arrivals = { every = \"2 ms\" }\ncount = 900\n";

/// Real numbers, also null.
const SESSIONS: &str = "[lab]\nname = \"shared\"\nduration = \"1 s\"\n[[generate]]\n\
    kind = \"ring\"\nrouters = 4\n[control]\nprotocol = \"slbn\"\n\
    [[sessions]]\nname = \"s\"\nrouters = \"r*\"\ncount = 20\nstart = [\"200 ms\", \"500 ms\"]\n";

/// Runs a lab and returns its folder.
fn sim(cell: &Cell, lab: &str) -> PathBuf {
    cell.write("lab.toml", lab);
    let printed = cell.netarium(&["sim", "lab.toml", "--no-report"]);
    assert_eq!(printed.code, Some(0), "{}{}", printed.out, printed.err);
    cell.runs("runs").remove(0)
}

/// The bytes of a table on standard output.
fn bytes(cell: &Cell, run: &str, table: &str, format: &str) -> Vec<u8> {
    let child = cell.start(&["export", run, table, "--format", format]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The fields of a CSV file (RFC 4180), and whether each was quoted.
fn parse_csv(csv: &str) -> Vec<Vec<(String, bool)>> {
    let (mut rows, mut row, mut field, mut is_quoted) = (vec![], vec![], String::new(), false);
    let mut rest = csv.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                is_quoted = true;
                while let Some(c) = rest.next() {
                    match c {
                        '"' if rest.next_if_eq(&'"').is_none() => break,
                        c => field.push(c),
                    }
                }
            }
            ',' => row.push((std::mem::take(&mut field), std::mem::take(&mut is_quoted))),
            '\r' => {
                assert_eq!(rest.next(), Some('\n'));
                row.push((std::mem::take(&mut field), std::mem::take(&mut is_quoted)));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty(), "the last line has an end");
    rows
}

#[track_caller]
fn assert_csv_equals(csv: &str, table: &Table) {
    let rows = parse_csv(csv);
    let names: Vec<&str> = rows[0].iter().map(|(name, _)| &**name).collect();
    let expected: Vec<&str> = table.columns().iter().map(|c| &*c.name).collect();
    assert_eq!(names, expected);
    assert_eq!(rows.len() - 1, table.rows());
    for (index, column) in table.columns().iter().enumerate() {
        for (value, row) in column.values().zip(&rows[1..]) {
            let (field, is_quoted) = &row[index];
            match value {
                Value::Null => assert!(field.is_empty() && !is_quoted),
                Value::Integer(number) => assert_eq!(field.parse(), Ok(number)),
                Value::Real(number) => assert_eq!(field.parse(), Ok(number)),
                Value::Text(text) => assert_eq!(**field, *text),
            }
        }
    }
}

#[track_caller]
fn assert_json_lines_equal(lines: &str, table: &Table) {
    let rows: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), table.rows());
    for column in table.columns() {
        for (value, row) in column.values().zip(&rows) {
            let expected = match value {
                Value::Null => serde_json::Value::Null,
                Value::Integer(number) => number.into(),
                Value::Real(number) => number.into(),
                Value::Text(text) => text.into(),
            };
            assert_eq!(row[&column.name], expected, "{}", column.name);
        }
    }
}

/// Whether an array of Arrow has these values.
#[track_caller]
fn assert_array_equals(array: &ArrayRef, kind: Kind, values: &[Value]) {
    assert_eq!(array.len(), values.len());
    for (row, value) in values.iter().enumerate() {
        assert_eq!(array.is_null(row), *value == Value::Null);
        match (kind, value) {
            (Kind::Integer | Kind::Optional, Value::Integer(number)) => {
                assert_eq!(array.as_primitive::<Int64Type>().value(row), *number);
            }
            (Kind::Real, Value::Real(number)) => {
                let found = array.as_primitive::<Float64Type>().value(row);
                assert_eq!(found.to_bits(), number.to_bits());
            }
            (Kind::Text, Value::Text(text)) => {
                assert_eq!(array.as_string::<i32>().value(row), *text);
            }
            (_, value) => assert_eq!(*value, Value::Null),
        }
    }
}

#[track_caller]
fn assert_arrow_equals(stream: &[u8], table: &Table) {
    let reader = StreamReader::try_new(stream, None).unwrap();
    let schema = reader.schema();
    for (field, column) in schema.fields().iter().zip(table.columns()) {
        assert_eq!(*field.name(), column.name);
        let unit = Some(&column.unit).filter(|unit| !unit.is_empty());
        assert_eq!(field.metadata().get("unit"), unit, "{}", column.name);
        assert_eq!(schema.metadata().get(&format!("unit.{}", column.name)), unit);
        let is_nullable = matches!(column.kind, Kind::Optional | Kind::Real);
        assert_eq!(field.is_nullable(), is_nullable, "{}", column.name);
    }
    let columns: Vec<Vec<Value>> = table.columns().iter().map(|c| c.values().collect()).collect();
    let mut start = 0;
    for batch in reader {
        let batch = batch.unwrap();
        let end = start + batch.num_rows();
        for (index, array) in batch.columns().iter().enumerate() {
            assert_array_equals(array, table.columns()[index].kind, &columns[index][start..end]);
        }
        start = end;
    }
    assert_eq!(start, table.rows());
}

#[test]
fn exports_every_table_in_every_format() {
    let (mut kinds, mut nulls) = (Vec::new(), 0);
    for lab in [TRANSFERS, SESSIONS] {
        let cell = Cell::new();
        let run = sim(&cell, lab);
        let folder = run.to_str().unwrap();
        let (code, list) = cell.json(&["export", folder, "--json"]);
        assert_eq!((code, &list["schema"]), (Some(0), &"netarium.tables/1".into()));
        let names = list["tables"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|table| table["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"links") && names.is_sorted(), "{names:?}");
        for name in names {
            let table = Table::read(&run.join(format!("{name}.parquet"))).unwrap();
            kinds.extend(table.columns().iter().map(|column| column.kind));
            let values = table.columns().iter().flat_map(Column::values);
            nulls += values.filter(|value| *value == Value::Null).count();
            let text = |format| String::from_utf8(bytes(&cell, folder, name, format)).unwrap();
            assert_csv_equals(&text("csv"), &table);
            assert_json_lines_equal(&text("json"), &table);
            assert_arrow_equals(&bytes(&cell, folder, name, "arrow"), &table);
        }
    }
    for kind in [Kind::Integer, Kind::Optional, Kind::Real, Kind::Text] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
    assert!(nulls > 0);
}

/// A table of several batches with special values, in a run folder.
fn special(run: &std::path::Path) -> Table {
    let columns = [
        Column::new("time, ns", "ns", Kind::Integer),
        Column::new("optional", "B", Kind::Optional),
        Column::new("text", "", Kind::Text),
        Column::new("real", "1", Kind::Real),
    ];
    let mut table = Table::new(columns.to_vec());
    let reals = [0.1, -1e300, 5e-324, f64::MAX, 1.0];
    let texts = ["", "plain", "a,b", "\"", "two\r\nlines", "\u{1b}[31m\u{202e}", "ü"];
    for row in 0..3_000_usize {
        table.push([
            TableCell::Integer(row as u64),
            TableCell::Optional((row % 3 > 0).then_some(i64::MAX as u64)),
            TableCell::Text(texts[row % texts.len()].into()),
            TableCell::Real((row % 7 > 0).then_some(reals[row % reals.len()])),
        ]);
    }
    table.write(&run.join("special.parquet")).unwrap();
    table
}

#[test]
fn exports_several_batches_of_special_values() {
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    let (folder, table) = (run.to_str().unwrap(), special(&run));
    let text = |format| String::from_utf8(bytes(&cell, folder, "special", format)).unwrap();
    assert_csv_equals(&text("csv"), &table);
    let json = text("json");
    assert!(json.contains(r"\u202e") && !json.contains('\u{202e}'), "{}", &json[..500]);
    assert_json_lines_equal(&json, &table);
    assert_arrow_equals(&bytes(&cell, folder, "special.parquet", "arrow"), &table);
    // With --json, rows are JSON unless there is a format.
    let rows = cell.netarium(&["export", folder, "special", "--json"]);
    assert_eq!((rows.code, rows.out), (Some(0), json));
    let rows = cell.netarium(&["export", folder, "special", "--json", "--format", "csv"]);
    assert_eq!((rows.code, rows.out), (Some(0), text("csv")));
}

#[test]
fn lists_tables_with_their_columns() {
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    let printed = cell.netarium(&["export", run.to_str().unwrap()]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let row = printed.out.lines().find(|line| line.starts_with("transfers ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["transfers", "900", "flow", "text"]);
    let row = printed.out.lines().find(|line| line.contains("completion_ns")).unwrap();
    assert!(row.contains("int64 or null") && row.trim_end().ends_with("ns"), "{row}");
    assert!(printed.err.contains("netarium export "), "{}", printed.err);
    let (_, list) = cell.json(&["export", run.to_str().unwrap(), "--json"]);
    let tables = list["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["name"] == "transfers").unwrap();
    assert_eq!(table["rows"], 900);
    let column = serde_json::json!(
        {"name": "completion_ns", "type": "int64", "nullable": true, "unit": "ns"}
    );
    assert!(table["columns"].as_array().unwrap().contains(&column), "{table}");
}

#[test]
fn output_replaces_files_and_links() {
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    let folder = run.to_str().unwrap();
    let csv = String::from_utf8(bytes(&cell, folder, "links", "csv")).unwrap();
    cell.write("outside", "kept");
    symlink(cell.path("outside"), cell.path("links.csv")).unwrap();
    for _ in 0..2 {
        let printed = cell.netarium(&["export", folder, "links", "--output", "links.csv"]);
        assert_eq!((printed.code, &*printed.out), (Some(0), ""), "{}", printed.err);
        assert!(printed.err.starts_with("wrote links.csv: "), "{}", printed.err);
        assert!(!cell.path("links.csv").is_symlink());
        assert_eq!(fs::read_to_string(cell.path("links.csv")).unwrap(), csv);
    }
    assert_eq!(fs::read_to_string(cell.path("outside")).unwrap(), "kept");
    let printed = cell.netarium(&["export", folder, "links", "--output", "none/links.csv"]);
    assert_eq!(printed.code, Some(4));
    assert!(printed.err.contains("cannot write none/links.csv"), "{}", printed.err);
    let printed = cell.netarium(&["export", folder, "links", "--output", "/dev/full"]);
    assert_eq!(printed.code, Some(4));
    assert!(printed.err.contains("cannot write /dev/full"), "{}", printed.err);
}

#[test]
fn damaged_table_keeps_existing_output() {
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    let folder = run.to_str().unwrap();
    cell.write("flows.csv", "old");
    let flows = run.join("flows.parquet");
    let sound = fs::read(&flows).unwrap();
    let mut damaged = sound.clone();
    // The pages of the first column.
    damaged[4..60].fill(0xff);
    let texts: [&[u8]; 3] = [b"PAR1 not really", &damaged, b""];
    for bytes in texts {
        fs::write(&flows, bytes).unwrap();
        let printed = cell.netarium(&["export", folder, "flows", "--output", "flows.csv"]);
        assert_eq!(printed.code, Some(4), "{}", printed.err);
        assert!(printed.err.contains("flows.parquet"), "{}", printed.err);
        assert_eq!(fs::read_to_string(cell.path("flows.csv")).unwrap(), "old");
    }
    fs::rename(&flows, cell.path("outside.parquet")).unwrap();
    fs::write(cell.path("outside.parquet"), sound).unwrap();
    symlink(cell.path("outside.parquet"), &flows).unwrap();
    for args in [&["export", folder, "flows"][..], &["export", folder]] {
        let printed = cell.netarium(args);
        assert_eq!((printed.code, &*printed.out), (Some(4), ""), "{args:?}");
        assert!(printed.err.contains("symbolic link"), "{}", printed.err);
    }
}

#[test]
fn rejects_invalid_export_arguments() {
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    let folder = run.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["export", folder, "link"], "help: tables: flows, links, transfers"),
        (&["export", folder, "../many/links"], "no table"),
        (&["export", "nowhere"], "nowhere"),
        (&["export", folder, "--format", "csv"], "<TABLE>"),
        (&["export", folder, "links", "--format", "xml"], "csv"),
    ];
    for (args, message) in cases {
        let printed = cell.netarium(args);
        assert_eq!((printed.code, &*printed.out), (Some(2), ""), "{args:?}");
        assert!(printed.err.contains(message), "{args:?}: {}", printed.err);
    }
    let (code, error) = cell.json(&["export", folder, "link", "--json"]);
    assert_eq!((code, &error["schema"]), (Some(2), &"netarium.error/1".into()));
    for name in ["flows", "links", "transfers"] {
        fs::remove_file(run.join(format!("{name}.parquet"))).unwrap();
    }
    let printed = cell.netarium(&["export", folder, "links"]);
    assert!(printed.code == Some(2) && printed.err.contains("has no tables"), "{}", printed.err);
}

/// A terminal gets visible control characters, and no binary data.
#[test]
fn terminal_receives_only_text() {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    special(&run);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let controller = openpt(flags).unwrap();
    unlockpt(&controller).unwrap();
    // While it is open, reading waits for output; afterwards it fails.
    let peer = ioctl_tiocgptpeer(&controller, flags).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count) = rustix::io::read(&controller, &mut part) {
            text.extend_from_slice(&part[..count]);
        }
        text
    });
    let export = ["export", run.to_str().unwrap(), "special", "--output", &name];
    let printed = cell.netarium(&[&export[..], &["--format", "arrow"]].concat());
    assert_eq!(printed.code, Some(2), "{}", printed.err);
    assert!(printed.err.contains("binary"), "{}", printed.err);
    assert_eq!(cell.netarium(&export).code, Some(0));
    drop(peer);
    let text = reader.join().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\n2999,") && text.contains(r"\x1b[31m\u{202e}"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn closed_pipe_is_not_an_error() {
    let cell = Cell::new();
    let run = sim(&cell, TRANSFERS);
    let mut child = cell.start(&["export", run.to_str().unwrap(), "transfers"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
