//! Reads tables in batches of rows. Run folders may come from untrusted sources, so the size of a
//! page is checked before its content is decompressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::{Column, Kind, Table};
use crate::{Error, files};

/// Maximum number of columns; the tables of this crate have fewer than 50.
const MAX_COLUMNS: usize = 256;
/// Maximum size of a page after decompression; pages of this crate have about 1 MB.
const MAX_PAGE_BYTES: u64 = 16 << 20;
/// Maximum size of a page header, which contains numbers, and the minimum and maximum of the page.
const MAX_PAGE_HEADER_BYTES: u64 = 1 << 20;
/// Maximum nesting of structures in the header of a page.
const MAX_PAGE_HEADER_DEPTH: usize = 4;

/// A table that is read in batches. One page of each column is in memory.
pub struct Reader {
    path: PathBuf,
    pages: Arc<Pages>,
    meta: ParquetMetaData,
    columns: Vec<Column>,
    /// The readers of the current row group, and the number of its remaining rows.
    group: Vec<ColumnReader>,
    group_rows: usize,
    next_group: usize,
}

impl Reader {
    /// Opens a table with columns of the kinds that this crate writes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = files::open(path).map_err(|e| Error::io("open", path, e))?;
        let failed = |e| Error::table(path, e);
        let meta = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(failed)?;
        let columns = columns(&meta).map_err(failed)?;
        let (path, pages) = (path.to_owned(), Arc::new(Pages(file)));
        Ok(Self { path, pages, meta, columns, group: Vec::new(), group_rows: 0, next_group: 0 })
    }

    /// The columns, without values.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of rows of the whole table.
    pub fn rows(&self) -> u64 {
        let rows = self.meta.row_groups().iter().map(|group| group.num_rows().max(0) as u64);
        rows.fold(0, u64::saturating_add)
    }

    /// Adds the next rows to a table with the same columns, at most `max`. Returns their number; 0
    /// at the end.
    pub fn read_into(&mut self, table: &mut Table, max: usize) -> Result<usize, Error> {
        self.read(table, max).map_err(|e| Error::table(&self.path, e))
    }

    fn read(&mut self, table: &mut Table, max: usize) -> Result<usize, ParquetError> {
        while self.group_rows == 0 {
            if self.next_group == self.meta.num_row_groups() {
                return Ok(0);
            }
            self.open_group()?;
        }
        let rows = max.min(self.group_rows);
        for (reader, column) in self.group.iter_mut().zip(&mut table.columns) {
            read_column(reader, rows, column)?;
        }
        self.group_rows -= rows;
        table.rows += rows;
        Ok(rows)
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.meta.row_group(self.next_group);
        let rows = usize::try_from(group.num_rows()).map_err(|_| general("negative row count"))?;
        let reader = |column| {
            let pages = SerializedPageReader::new(Arc::clone(&self.pages), column, rows, None)?;
            Ok(get_column_reader(column.column_descr_ptr(), Box::new(pages)))
        };
        self.group = group.columns().iter().map(reader).collect::<Result<_, ParquetError>>()?;
        self.group_rows = rows;
        self.next_group += 1;
        Ok(())
    }
}

fn general(text: impl Into<String>) -> ParquetError {
    ParquetError::General(text.into())
}

fn columns(meta: &ParquetMetaData) -> Result<Vec<Column>, ParquetError> {
    let meta = meta.file_metadata();
    let fields = meta.schema_descr().columns();
    if fields.is_empty() || fields.len() > MAX_COLUMNS {
        let text = format!("it has {} columns; expected 1 to {MAX_COLUMNS}", fields.len());
        return Err(general(text));
    }
    let unit = |name: &str| {
        let key = format!("unit.{name}");
        let pair = meta.key_value_metadata()?.iter().find(|pair| pair.key == key)?;
        pair.value.clone()
    };
    let column = |field: &parquet::schema::types::ColumnDescPtr| {
        let kind = match (field.physical_type(), field.max_def_level(), field.max_rep_level()) {
            (Physical::INT64, 0, 0) => Kind::Integer,
            (Physical::INT64, 1, 0) => Kind::Optional,
            (Physical::BYTE_ARRAY, 0, 0) => Kind::Text,
            (Physical::DOUBLE, 1, 0) => Kind::Real,
            _ => {
                return Err(general(format!("column {} has an unsupported type", field.name())));
            }
        };
        Ok(Column::new(field.name(), &unit(field.name()).unwrap_or_default(), kind))
    };
    fields.iter().map(column).collect()
}

fn read_column(
    reader: &mut ColumnReader,
    rows: usize,
    into: &mut Column,
) -> Result<(), ParquetError> {
    let mut read = 0;
    while read < rows {
        let more = rows - read;
        let (records, ..) = match (&mut *reader, into.kind) {
            (ColumnReader::Int64ColumnReader(r), Kind::Integer) => {
                r.read_records(more, None, None, &mut into.integers)?
            }
            (ColumnReader::Int64ColumnReader(r), Kind::Optional) => {
                r.read_records(more, Some(&mut into.present), None, &mut into.integers)?
            }
            (ColumnReader::DoubleColumnReader(r), Kind::Real) => {
                r.read_records(more, Some(&mut into.present), None, &mut into.reals)?
            }
            (ColumnReader::ByteArrayColumnReader(r), Kind::Text) => {
                r.read_records(more, None, None, &mut into.texts)?
            }
            _ => return Err(general("column type changed between row groups")),
        };
        if records == 0 {
            return Err(general("fewer rows than in the metadata"));
        }
        read += records;
    }
    Ok(())
}

/// A file whose pages are checked before they are read.
struct Pages(File);

impl Length for Pages {
    fn len(&self) -> u64 {
        Length::len(&self.0)
    }
}

impl ChunkReader for Pages {
    type T = BufReader<File>;

    /// Called for the header of each page.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut header = self.0.get_read(start)?.take(MAX_PAGE_HEADER_BYTES);
        let size = page_bytes(&mut header)?;
        if size.is_none_or(|size| size > MAX_PAGE_BYTES) {
            return Err(general(format!("a page is larger than {MAX_PAGE_BYTES} B")));
        }
        self.0.get_read(start)
    }

    /// Called for the content of each page.
    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if length as u64 > MAX_PAGE_BYTES {
            return Err(general(format!("a page is larger than {MAX_PAGE_BYTES} B")));
        }
        self.0.get_bytes(start, length)
    }
}

/// Types of fields in Thrift's compact protocol.
mod thrift {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const I16: u8 = 4;
    pub(super) const I64: u8 = 6;
    pub(super) const BINARY: u8 = 8;
    pub(super) const STRUCT: u8 = 12;
}

/// The size of a page after decompression, from its header: field 2. `None` without this field,
/// or if it is negative.
fn page_bytes(header: &mut impl Read) -> Result<Option<u64>, ParquetError> {
    const FIELD: u8 = 2;
    let mut size = None;
    fields(header, 0, &mut |depth, field, value| {
        if (depth, field) == (0, FIELD) {
            // ZigZag: even numbers are positive.
            size = (value % 2 == 0).then_some(value / 2);
        }
    })?;
    Ok(size)
}

/// Calls `integer` for each integer of a structure with its depth and field. Identifiers must
/// increase, so a structure contains each field at most once.
fn fields(
    from: &mut impl Read,
    depth: usize,
    integer: &mut impl FnMut(usize, u8, u64),
) -> Result<(), ParquetError> {
    let mut field = 0_u8;
    loop {
        let byte = one_byte(from)?;
        let (delta, kind) = (byte >> 4, byte & 0x0f);
        if kind == thrift::STOP {
            return Ok(());
        }
        field = field.checked_add(delta).filter(|_| delta > 0).ok_or_else(unexpected)?;
        match kind {
            thrift::TRUE | thrift::FALSE => {}
            thrift::I16..=thrift::I64 => integer(depth, field, varint(from)?),
            thrift::BINARY => {
                let length = varint(from)?;
                if io::copy(&mut from.take(length), &mut io::sink())? != length {
                    return Err(unexpected());
                }
            }
            thrift::STRUCT if depth < MAX_PAGE_HEADER_DEPTH => fields(from, depth + 1, integer)?,
            _ => return Err(unexpected()),
        }
    }
}

fn unexpected() -> ParquetError {
    general("unexpected page header")
}

fn one_byte(from: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    from.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn varint(from: &mut impl Read) -> Result<u64, ParquetError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = one_byte(from)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(unexpected())
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::ParquetMetaDataWriter;

    use super::*;

    use crate::table::{Cell, write_group, writer};

    /// Rows with nulls, from `first` on.
    fn rows(first: u64, count: u64) -> Table {
        let names = [("n", Kind::Integer), ("o", Kind::Optional), ("t", Kind::Text)];
        let names = names.into_iter().chain([("r", Kind::Real)]);
        let columns = names.map(|(name, kind)| Column::new(name, "", kind)).collect();
        let mut table = Table::new(columns);
        for row in first..first + count {
            let optional = (row % 3 > 0).then_some(row);
            let text = row.to_string().as_str().into();
            let real = optional.map(|row| row as f64 / 7.0);
            let cells = [Cell::Optional(optional), Cell::Text(text), Cell::Real(real)];
            let [optional, text, real] = cells;
            table.push([Cell::Integer(row), optional, text, real]);
        }
        table
    }

    #[test]
    fn batches_contain_all_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("t.parquet");
        let mut writer = writer(File::create(&path).unwrap(), rows(0, 0).columns()).unwrap();
        for group in [rows(0, 5), rows(5, 1), rows(6, 20)] {
            write_group(&mut writer, &group).unwrap();
        }
        writer.close().unwrap();
        let table = Table::read(&path).unwrap();
        assert_eq!(table, rows(0, 26));
        for size in [1, 3, 7, 100] {
            let mut reader = Reader::open(&path).unwrap();
            assert_eq!(reader.rows(), 26);
            let mut joined = Table::new(reader.columns().to_vec());
            let mut batch = joined.clone();
            loop {
                batch.clear();
                match reader.read_into(&mut batch, size).unwrap() {
                    0 => break,
                    count => assert!(count <= size && count == batch.rows()),
                }
                joined.append(batch.clone());
            }
            assert_eq!(joined, table, "{size}");
        }
    }

    #[test]
    fn rejects_pages_that_expand_beyond_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("t.parquet");
        let mut table = Table::new(vec![Column::new("t", "", Kind::Text)]);
        table.push([Cell::Text("a".repeat(17 << 20).as_str().into())]);
        table.write(&path).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20);
        let error = Table::read(&path).unwrap_err();
        assert!(error.to_string().contains("larger"), "{error}");
    }

    #[test]
    fn rejects_tables_of_more_values_than_memory_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("t.parquet");
        rows(0, 5).write(&path).unwrap();
        let meta = Reader::open(&path).unwrap().meta;
        for claimed in [1 << 27, i64::MAX / 4] {
            let group = meta.row_group(0).clone().into_builder().set_num_rows(claimed);
            let groups = vec![group.build().unwrap(); 3];
            let meta = meta.clone().into_builder().set_row_groups(groups).build();
            let file = File::create(&path).unwrap();
            ParquetMetaDataWriter::new(file, &meta).finish().unwrap();
            let error = Table::read(&path).unwrap_err();
            assert!(error.to_string().contains("values; at most"), "{error}");
        }
    }

    fn size(header: &[u8]) -> Result<Option<u64>, ParquetError> {
        page_bytes(&mut &header[..])
    }

    #[test]
    fn reads_page_size_from_header() {
        // type 0, sizes 300 and 5, a data page header with a number, a boolean and statistics
        let header = b"\x15\x00\x15\xd8\x04\x15\x0a\x2c\x15\x02\x11\x1c\x18\x02ab\x00\x00\x00";
        assert_eq!(size(header).unwrap(), Some(300));
        for length in 0..header.len() {
            assert!(size(&header[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn rejects_page_headers_without_valid_size() {
        // The size is missing or negative.
        assert_eq!(size(b"\x15\x00\x25\x0a\x00").unwrap(), None);
        assert_eq!(size(b"\x15\x00\x15\x01\x00").unwrap(), None);
        // Field 2 occurs twice; the second has an absolute number.
        assert!(size(b"\x15\x00\x15\x02\x05\x04\xd8\x04\x00").is_err());
        // A list, nested structures, a number without end.
        assert!(size(b"\x15\x00\x15\x02\x19\x15\x00\x00").is_err());
        assert!(size(&[0x1c; 100]).is_err());
        assert!(size(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
    }
}
