//! Arrow's streaming format: messages in `FlatBuffers`, each followed by its buffers. Written
//! here, because the library for all types and features of the format is much larger.
//!
//! Fields have the names and numbers of `Message.fbs` and `Schema.fbs` of Arrow.

use std::io::{self, Write};

use flatbuffers::{
    FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset, field_index_to_field_offset as slot,
};
use run::table::{Column, Kind, Table, Value};

type Builder = FlatBufferBuilder<'static>;
type Object = WIPOffset<TableFinishedWIPOffset>;

/// Begins a message; a length of 0 ends the stream.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Buffers and messages begin at multiples of this.
const ALIGNMENT: usize = 8;

const METADATA_VERSION_5: i16 = 4;
const HEADER_SCHEMA: u8 = 1;
const HEADER_RECORD_BATCH: u8 = 3;
const TYPE_INT: u8 = 2;
const TYPE_FLOATING_POINT: u8 = 3;
const TYPE_UTF8: u8 = 5;
const PRECISION_DOUBLE: i16 = 2;

/// Writes the schema. The unit of a column is in its metadata as `unit`, and as in Parquet in the
/// metadata of the table as `unit.NAME`.
pub(super) fn schema(columns: &[Column], out: &mut impl Write) -> io::Result<()> {
    let mut to = Builder::new();
    let fields: Vec<_> = columns.iter().map(|column| field(&mut to, column)).collect();
    let fields = to.create_vector(&fields);
    let units = columns.iter().filter(|column| !column.unit.is_empty());
    let units: Vec<_> =
        units.map(|c| key_value(&mut to, &format!("unit.{}", c.name), &c.unit)).collect();
    let units = to.create_vector(&units);
    let start = to.start_table();
    to.push_slot_always(slot(1), fields);
    to.push_slot_always(slot(2), units);
    let schema = to.end_table(start);
    message(to, HEADER_SCHEMA, schema, 0, out)
}

pub(super) fn end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&CONTINUATION)?;
    out.write_all(&[0; 4])
}

fn field(to: &mut Builder, column: &Column) -> Object {
    let name = to.create_string(&column.name);
    let unit = (!column.unit.is_empty()).then(|| key_value(to, "unit", &column.unit));
    let metadata = to.create_vector(unit.as_slice());
    let children = to.create_vector::<Object>(&[]);
    let is_nullable = matches!(column.kind, Kind::Optional | Kind::Real);
    let start = to.start_table();
    let kind = match column.kind {
        Kind::Integer | Kind::Optional => {
            to.push_slot_always(slot(0), 64_i32);
            to.push_slot_always(slot(1), true);
            TYPE_INT
        }
        Kind::Real => {
            to.push_slot_always(slot(0), PRECISION_DOUBLE);
            TYPE_FLOATING_POINT
        }
        Kind::Text => TYPE_UTF8,
    };
    let parameters = to.end_table(start);
    let start = to.start_table();
    to.push_slot_always(slot(0), name);
    to.push_slot_always(slot(1), is_nullable);
    to.push_slot_always(slot(2), kind);
    to.push_slot_always(slot(3), parameters);
    to.push_slot_always(slot(5), children);
    to.push_slot_always(slot(6), metadata);
    to.end_table(start)
}

fn key_value(to: &mut Builder, key: &str, value: &str) -> Object {
    let (key, value) = (to.create_string(key), to.create_string(value));
    let start = to.start_table();
    to.push_slot_always(slot(0), key);
    to.push_slot_always(slot(1), value);
    to.end_table(start)
}

/// Writes the head of a message, which `body_bytes` of buffers follow.
fn message(
    mut to: Builder,
    kind: u8,
    header: Object,
    body_bytes: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let start = to.start_table();
    to.push_slot_always(slot(0), METADATA_VERSION_5);
    to.push_slot_always(slot(1), kind);
    to.push_slot_always(slot(2), header);
    to.push_slot_always(slot(3), body_bytes as i64);
    let root = to.end_table(start);
    to.finish_minimal(root);
    let data = to.finished_data();
    out.write_all(&CONTINUATION)?;
    let bytes = data.len().next_multiple_of(ALIGNMENT);
    out.write_all(&(bytes as u32).to_le_bytes())?;
    out.write_all(data)?;
    pad(data.len(), out)
}

fn pad(length: usize, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; ALIGNMENT][..length.next_multiple_of(ALIGNMENT) - length])
}

pub(super) fn batch(table: &Table, out: &mut impl Write) -> io::Result<()> {
    let rows = table.rows();
    let sizes = table.columns().iter().map(|column| Sizes::of(column, rows));
    let sizes = sizes.collect::<io::Result<Vec<_>>>()?;
    let mut to = Builder::new();
    let nodes = sizes.iter().map(|size| (rows, size.nulls)).collect();
    let nodes = pairs(&mut to, nodes);
    let mut offset = 0;
    let mut buffers = Vec::new();
    for length in sizes.iter().flat_map(|size| &size.buffers) {
        buffers.push((offset, *length));
        offset += length.next_multiple_of(ALIGNMENT);
    }
    let buffers = pairs(&mut to, buffers);
    let start = to.start_table();
    to.push_slot_always(slot(0), rows as i64);
    to.push_slot_always(slot(1), nodes);
    to.push_slot_always(slot(2), buffers);
    let header = to.end_table(start);
    message(to, HEADER_RECORD_BATCH, header, offset, out)?;
    table.columns().iter().zip(&sizes).try_for_each(|(column, sizes)| sizes.write(column, out))
}

/// A vector of structures of two 64-bit integers: `FieldNode` or `Buffer`.
fn pairs(
    to: &mut Builder,
    pairs: Vec<(usize, usize)>,
) -> WIPOffset<flatbuffers::Vector<'static, i64>> {
    let count = pairs.len();
    to.start_vector::<i64>(2 * count);
    // Builds from the end of the buffer to its start.
    for (first, second) in pairs.into_iter().rev() {
        to.push(second as i64);
        to.push(first as i64);
    }
    to.end_vector(count)
}

/// The number of nulls of a column, and the bytes of its buffers: bits of valid rows (none if all
/// are valid), then offsets and texts, or numbers.
struct Sizes {
    nulls: usize,
    buffers: Vec<usize>,
}

impl Sizes {
    fn of(column: &Column, rows: usize) -> io::Result<Self> {
        let nulls = column.values().filter(|value| *value == Value::Null).count();
        let valid = if nulls > 0 { rows.div_ceil(8) } else { 0 };
        if column.kind != Kind::Text {
            return Ok(Self { nulls, buffers: vec![valid, 8 * rows] });
        }
        let text_bytes = column.values().map(|value| text(&value).len()).sum();
        if i32::try_from(text_bytes).is_err() {
            let error = format!("the texts of column {} are too long", column.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(Self { nulls, buffers: vec![valid, 4 * (rows + 1), text_bytes] })
    }

    fn write(&self, column: &Column, out: &mut impl Write) -> io::Result<()> {
        if self.nulls > 0 {
            let mut bits = vec![0_u8; self.buffers[0]];
            for (row, value) in column.values().enumerate() {
                bits[row / 8] |= u8::from(value != Value::Null) << (row % 8);
            }
            out.write_all(&bits)?;
            pad(bits.len(), out)?;
        }
        if column.kind != Kind::Text {
            return column.values().try_for_each(|value| match value {
                Value::Real(number) => out.write_all(&number.to_le_bytes()),
                Value::Integer(number) => out.write_all(&number.to_le_bytes()),
                Value::Null | Value::Text(_) => out.write_all(&[0; 8]),
            });
        }
        let mut end = 0_u32;
        out.write_all(&end.to_le_bytes())?;
        for value in column.values() {
            end += text(&value).len() as u32;
            out.write_all(&end.to_le_bytes())?;
        }
        pad(self.buffers[1], out)?;
        column.values().try_for_each(|value| out.write_all(text(&value).as_bytes()))?;
        pad(self.buffers[2], out)
    }
}

fn text<'a>(value: &'a Value) -> &'a str {
    if let Value::Text(text) = value { text } else { "" }
}
