//! Tables of run folders from elsewhere: any file is read or rejected, in memory for a batch and
//! a page of each column, and each column has a value for each row. Odd inputs change bytes of a
//! table: offset in the file (2 bytes), new value.

use std::fs;
use std::sync::LazyLock;

use run::table::{Cell, Column, Kind, Reader, Table};

const BATCH_ROWS: usize = 1000;
/// Row groups of a damaged file may claim any number of rows.
const MAX_BATCHES: usize = 20;

/// The bytes of a table with a column of each kind.
static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let kinds = [("i", Kind::Integer), ("o", Kind::Optional), ("t", Kind::Text), ("r", Kind::Real)];
    let mut table = Table::new(kinds.map(|(name, kind)| Column::new(name, "B", kind)).to_vec());
    for row in 0..40_u32 {
        let number = (row % 3 > 0).then_some(u64::from(row));
        let text = Cell::Text(row.to_string().as_str().into());
        let real = Cell::Real(number.map(|_| f64::from(row)));
        table.push([Cell::Integer(7), Cell::Optional(number), text, real]);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.parquet");
    table.write(&path).expect("a table");
    fs::read(path).expect("the file")
});

pub(crate) fn target(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let mut bytes = rest.to_vec();
    if kind & 1 == 1 {
        bytes.clone_from(&TABLE);
        for &[high, low, value] in rest.as_chunks().0 {
            let at = usize::from(u16::from_be_bytes([high, low])) % bytes.len();
            bytes[at] = value;
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.parquet");
    fs::write(&path, bytes).expect("a file");
    let Ok(mut reader) = Reader::open(&path) else { return };
    let mut batch = Table::new(reader.columns().to_vec());
    for _ in 0..MAX_BATCHES {
        batch.clear();
        let Ok(rows @ 1..) = reader.read_into(&mut batch, BATCH_ROWS) else { break };
        assert!(rows <= BATCH_ROWS && rows == batch.rows());
        assert!(batch.columns().iter().all(|column| column.values().count() == rows));
    }
}
