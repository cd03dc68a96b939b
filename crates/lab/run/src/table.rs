//! Tables of samples: Parquet files with units in their metadata.
//!
//! A Parquet file is readable only with its footer, which is written last: a killed run would lose
//! a table that grows in place. Rows are therefore written as small complete files into
//! `<table>.parts/`. They are joined into the table when the run ends, or when the next command
//! detects that the run was killed. Only the rows after the last part are lost.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::folder::write_atomic;
use crate::{Error, files};

mod reader;

pub use reader::Reader;

/// Rows per row group of a joined table.
const GROUP_ROWS: usize = 128 * 1024;
/// 10 to 24 bytes of memory each.
const MAX_VALUES: u64 = 1 << 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed 64-bit integers, so that data frames can subtract them without wrap-around. Values
    /// are from 0 to `i64::MAX`.
    Integer,
    /// The same, nullable.
    Optional,
    Text,
    /// Real numbers, nullable.
    Real,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

/// A column's name, unit and kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    /// Its unit; empty for text.
    pub unit: String,
    pub kind: Kind,
    integers: Vec<i64>,
    present: Vec<i16>,
    texts: Vec<ByteArray>,
    reals: Vec<f64>,
}

/// A value of a new row.
#[derive(Clone, Debug)]
pub enum Cell {
    Integer(u64),
    /// A number or null.
    Optional(Option<u64>),
    Text(ByteArray),
    /// A real number or null.
    Real(Option<f64>),
}

/// Rows in memory, stored by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: usize,
}

impl Column {
    pub fn new(name: &str, unit: &str, kind: Kind) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, kind, integers: vec![], present: vec![], texts: vec![], reals: vec![] }
    }

    /// The values of all rows. Invalid UTF-8 is replaced.
    pub fn values(&self) -> impl Iterator<Item = Value<'_>> {
        let (mut integers, mut reals) = (self.integers.iter(), self.reals.iter());
        let (mut present, mut texts) = (self.present.iter(), self.texts.iter());
        let is_nullable = matches!(self.kind, Kind::Optional | Kind::Real);
        std::iter::from_fn(move || {
            if is_nullable && *present.next()? != 1 {
                return Some(Value::Null);
            }
            match self.kind {
                Kind::Text => texts.next().map(|t| Value::Text(String::from_utf8_lossy(t.data()))),
                Kind::Integer | Kind::Optional => integers.next().map(|v| Value::Integer(*v)),
                Kind::Real => reals.next().map(|v| Value::Real(*v)),
            }
        })
    }

    fn clear(&mut self) {
        self.integers.clear();
        self.present.clear();
        self.texts.clear();
        self.reals.clear();
    }

    fn append(&mut self, other: &mut Self) {
        self.integers.append(&mut other.integers);
        self.present.append(&mut other.present);
        self.texts.append(&mut other.texts);
        self.reals.append(&mut other.reals);
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Integer | Kind::Optional => {
                (Physical::INT64, Some(LogicalType::integer(64, true)))
            }
            Kind::Real => (Physical::DOUBLE, None),
        };
        let repetition = match self.kind {
            Kind::Optional | Kind::Real => Repetition::OPTIONAL,
            Kind::Integer | Kind::Text => Repetition::REQUIRED,
        };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    }
}

impl Table {
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: 0 }
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number or the types of the cells do not match the columns.
    pub fn push<const N: usize>(&mut self, row: [Cell; N]) {
        assert_eq!(N, self.columns.len(), "one cell per column");
        for (column, cell) in self.columns.iter_mut().zip(row) {
            match (column.kind, cell) {
                (Kind::Integer, Cell::Integer(value)) => column.integers.push(signed(value)),
                (Kind::Optional, Cell::Optional(value)) => {
                    column.present.push(i16::from(value.is_some()));
                    column.integers.extend(value.map(signed));
                }
                (Kind::Text, Cell::Text(text)) => column.texts.push(text),
                (Kind::Real, Cell::Real(value)) => {
                    column.present.push(i16::from(value.is_some()));
                    column.reals.extend(value);
                }
                (kind, cell) => panic!("{} holds {kind:?}, not {cell:?}", column.name),
            }
        }
        self.rows += 1;
    }

    /// The values of a column of integers, `None` for null; `None` without such a column.
    pub fn integers(&self, name: &str) -> Option<Vec<Option<u64>>> {
        let column = self.column(name, &[Kind::Integer, Kind::Optional])?;
        let value = |value| if let Value::Integer(v) = value { Some(v as u64) } else { None };
        Some(column.values().map(value).collect())
    }

    /// The values of a column of real numbers, `None` for null; `None` without such a column.
    pub fn reals(&self, name: &str) -> Option<Vec<Option<f64>>> {
        let column = self.column(name, &[Kind::Real])?;
        let value = |value| if let Value::Real(v) = value { Some(v) } else { None };
        Some(column.values().map(value).collect())
    }

    /// The values of a column of texts; `None` without such a column.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        let column = self.column(name, &[Kind::Text])?;
        let value = |value| if let Value::Text(v) = value { Some(v.into_owned()) } else { None };
        Some(column.values().filter_map(value).collect())
    }

    fn column(&self, name: &str, kinds: &[Kind]) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name && kinds.contains(&c.kind))
    }

    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.rows = 0;
    }

    fn append(&mut self, mut other: Self) {
        for (column, more) in self.columns.iter_mut().zip(&mut other.columns) {
            column.append(more);
        }
        self.rows += other.rows;
    }

    fn same_columns(&self, other: &Self) -> bool {
        let names_and_kinds = |t: &Self| -> Vec<(String, Kind)> {
            t.columns.iter().map(|c| (c.name.clone(), c.kind)).collect()
        };
        names_and_kinds(self) == names_and_kinds(other)
    }

    /// Reads a whole table written by this crate. Columns of equal values are small in the file, so
    /// its size does not limit the memory: a table of too many values is an error.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut reader = Reader::open(path)?;
        let values = reader.rows().saturating_mul(reader.columns().len() as u64);
        if values > MAX_VALUES {
            let text = format!("it has {values} values; at most {MAX_VALUES} are read at once");
            return Err(Error::table(path, ParquetError::General(text)));
        }
        let mut table = Self::new(reader.columns().to_vec());
        while reader.read_into(&mut table, usize::MAX)? > 0 {}
        Ok(table)
    }

    /// Writes the table atomically: readers see either the old file or the new one.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let bytes = self.encode().map_err(|e| Error::table(path, e))?;
        write_atomic(path, &bytes)
    }

    /// Encodes a Parquet file with one row group.
    fn encode(&self) -> Result<Vec<u8>, ParquetError> {
        let mut writer = writer(Vec::new(), &self.columns)?;
        if self.rows > 0 {
            write_group(&mut writer, self)?;
        }
        writer.into_inner()
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn writer<W: std::io::Write + Send>(
    sink: W,
    columns: &[Column],
) -> Result<SerializedFileWriter<W>, ParquetError> {
    let fields = columns.iter().map(Column::schema).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("sample").with_fields(fields).build()?;
    let units = columns
        .iter()
        .filter(|c| !c.unit.is_empty())
        .map(|c| KeyValue::new(format!("unit.{}", c.name), c.unit.clone()))
        .collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(format!("netarium {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(units))
        .build();
    SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties))
}

fn write_group<W: std::io::Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    table: &Table,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in &table.columns {
        let Some(mut out) = group.next_column()? else { break };
        match column.kind {
            Kind::Integer => {
                out.typed::<Int64Type>().write_batch(&column.integers, None, None)?;
            }
            Kind::Optional => {
                let present = Some(column.present.as_slice());
                out.typed::<Int64Type>().write_batch(&column.integers, present, None)?;
            }
            Kind::Real => {
                let present = Some(column.present.as_slice());
                out.typed::<DoubleType>().write_batch(&column.reals, present, None)?;
            }
            Kind::Text => {
                out.typed::<ByteArrayType>().write_batch(&column.texts, None, None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    Ok(())
}

fn parts_folder(table: &Path) -> PathBuf {
    let mut name = table.as_os_str().to_owned();
    name.push(".parts");
    PathBuf::from(name)
}

/// Writes the next part of the table at `path`.
pub(crate) fn write_part(path: &Path, number: u32, rows: &Table) -> Result<(), Error> {
    let folder = parts_folder(path);
    files::create_folder(&folder).map_err(|e| Error::io("create", &folder, e))?;
    let part = folder.join(format!("{number:06}.parquet"));
    rows.write(&part)
}

/// Joins the parts of the table at `path` and removes them. Without parts it does nothing; on an
/// error the parts remain.
pub fn join_parts(path: &Path) -> Result<(), Error> {
    let folder = parts_folder(path);
    let failed = |e| Error::io("read", &folder, e);
    let entries = match fs::read_dir(&folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut parts = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    parts.retain(|part| part.extension().is_some_and(|e| e == "parquet"));
    parts.sort();
    join(&parts, path)?;
    fs::remove_dir_all(&folder).map_err(|e| Error::io("remove", &folder, e))
}

fn join(parts: &[PathBuf], target: &Path) -> Result<(), Error> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    let mut rows = Table::read(first)?;
    let write_error = |e| Error::io("write", target, e);
    let table_error = |e: ParquetError| Error::table(target, e);
    let replacement = files::Replacement::of(target).map_err(write_error)?;
    let mut writer = writer(replacement.file(), rows.columns()).map_err(table_error)?;
    for part in rest {
        if rows.rows() >= GROUP_ROWS {
            write_group(&mut writer, &rows).map_err(table_error)?;
            rows.clear();
        }
        let more = Table::read(part)?;
        if !rows.same_columns(&more) {
            let error = ParquetError::General(
                "its columns differ from those of the other parts".to_owned(),
            );
            return Err(Error::table(part, error));
        }
        rows.append(more);
    }
    if rows.rows() > 0 {
        write_group(&mut writer, &rows).map_err(table_error)?;
    }
    writer.close().map_err(table_error)?;
    replacement.file().sync_all().and_then(|()| replacement.commit()).map_err(write_error)
}
