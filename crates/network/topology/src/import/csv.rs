//! Edge lists: a header `a,b` with the optional columns `delay`, `rate`, `metric` and `name`, then
//! one link per line. Fields are separated by commas, or by semicolons or tabs as in the header.
//! Delays and rates have units. A field may be in double quotes (a quote inside is doubled) but
//! must not span lines; empty fields mean "unspecified"; empty lines and lines that begin with `#`
//! are skipped. All nodes are routers.

use std::borrow::Cow;

use super::assemble::{Assembly, Attribute};
use super::place::Place;
use super::place::check_length;
use crate::{Error, Graph, Problem};

/// Column names; the first two are required.
const COLUMNS: [&str; 6] = ["a", "b", "delay", "rate", "metric", "name"];

pub fn csv(text: &str) -> Result<Graph, Error> {
    check_length(text)?;
    let mut assembly = Assembly::default();
    let mut header: Option<(char, Vec<usize>)> = None;
    let mut end = Place::START;
    for (index, line) in text.lines().enumerate() {
        end = Place { line: u32::try_from(index + 1).unwrap_or(u32::MAX), column: 1 };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match &header {
            None => {
                let separator = [',', ';', '\t'].into_iter().find(|&c| line.contains(c));
                let separator = separator.unwrap_or(',');
                header = Some((separator, columns(end, &split(end, line, separator)?)?));
            }
            Some((separator, columns)) => {
                row(&mut assembly, end, columns, split(end, line, *separator)?)?;
            }
        }
    }
    if header.is_none() {
        return Err(end.error(Problem::Expected { expected: "a header such as `a,b,delay,rate`" }));
    }
    assembly.finish(end)
}

type Field<'a> = (Place, Cow<'a, str>);

/// Splits a line into fields; more fields than columns are an error.
fn split(mut place: Place, line: &str, separator: char) -> Result<Vec<Field<'_>>, Error> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        if fields.len() == COLUMNS.len() {
            let limit = COLUMNS.len() as u64;
            return Err(place.error(Problem::TooMany { what: "columns", limit }));
        }
        // A tab may be a separator.
        let is_blank = |c: char| c.is_whitespace() && c != separator;
        let blank = rest.len() - rest.trim_start_matches(is_blank).len();
        rest[..blank].chars().for_each(|character| place.step(character));
        rest = &rest[blank..];
        let (start, length, field) = if let Some(quoted) = rest.strip_prefix('"') {
            let Some(length) = closing_quote(quoted) else {
                return Err(place.error(Problem::Expected { expected: "a closing `\"`" }));
            };
            (place, length + 2, Cow::Owned(quoted[..length].replace("\"\"", "\"")))
        } else {
            let length = rest.find(separator).unwrap_or(rest.len());
            (place, length, Cow::Borrowed(rest[..length].trim_end()))
        };
        fields.push((start, field));
        rest[..length].chars().for_each(|character| place.step(character));
        let after = rest[length..].trim_start_matches(is_blank);
        rest[length..rest.len() - after.len()].chars().for_each(|c| place.step(c));
        match after.strip_prefix(separator) {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err(place.error(Problem::Expected { expected: "a separator" })),
        }
        place.step(separator);
    }
}

/// The position of the closing quote of a quoted field.
fn closing_quote(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('"')?;
        if !text[at + 1..].starts_with('"') {
            return Some(at);
        }
        from = at + 2;
    }
}

/// The column of each field, as an index in `COLUMNS`.
fn columns(line: Place, fields: &[Field<'_>]) -> Result<Vec<usize>, Error> {
    let mut columns = Vec::new();
    for (place, name) in fields {
        let Some(column) = COLUMNS.iter().position(|known| name.eq_ignore_ascii_case(known)) else {
            let name = super::assemble::shortened(name);
            return Err(place.error(Problem::UnknownColumn { name }));
        };
        if columns.contains(&column) {
            return Err(place.error(Problem::Column { name: COLUMNS[column] }));
        }
        columns.push(column);
    }
    for column in [0, 1] {
        if !columns.contains(&column) {
            return Err(line.error(Problem::Column { name: COLUMNS[column] }));
        }
    }
    Ok(columns)
}

fn row(
    assembly: &mut Assembly,
    line: Place,
    columns: &[usize],
    fields: Vec<Field<'_>>,
) -> Result<(), Error> {
    if let Some((place, _)) = fields.get(columns.len()) {
        return Err(place.error(Problem::Expected { expected: "no more fields than columns" }));
    }
    let mut ends = [None, None];
    let mut attributes: Vec<Attribute> = Vec::new();
    for (&column, (place, text)) in columns.iter().zip(fields) {
        if text.is_empty() {
            continue;
        }
        if column < 2 {
            ends[column] = Some(match assembly.find(place, &text) {
                Ok(node) => node,
                Err(_) => assembly.node(place, &text, &[])?,
            });
        } else {
            attributes.push((COLUMNS[column].to_owned(), text.into_owned(), place));
        }
    }
    let missing = |field| line.error(Problem::Missing { element: "link", field });
    let ends = [ends[0].ok_or_else(|| missing("a"))?, ends[1].ok_or_else(|| missing("b"))?];
    assembly.edge(line, ends, &attributes)
}
