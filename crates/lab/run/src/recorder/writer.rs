//! The files of a recorder.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::{Direction, Distribution, Span};
use parquet::data_type::ByteArray;
use serde::Serialize;

use super::{FLUSH_INTERVAL, Message, RecorderOptions};
use crate::folder::file_name;
use crate::sample::{bundle, control, shares, subflow, tcp};
use crate::table::{Cell, Column, Kind, Table, join_parts, write_part};
use crate::{DropReason, Error, FlowSample, Level, LinkSample, RunFolder, Transfer, files, pcapng};

/// Maximum number of rows of a part of a table.
const MAX_PART_ROWS: usize = 1 << 16;
/// Maximum age of the rows of a part.
const MAX_PART_AGE: Duration = Duration::from_secs(5);
/// Maximum number of buffered bytes per file.
const MAX_BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Writer {
    started_unix_ns: u64,
    links: Vec<ByteArray>,
    flows: Vec<ByteArray>,
    bundles: Vec<ByteArray>,
    nodes: Vec<ByteArray>,
    directions: [ByteArray; 2],
    link_samples: PartedTable,
    flow_samples: PartedTable,
    transfers: PartedTable,
    shares: PartedTable,
    control: PartedTable,
    sessions: PartedTable,
    bundle_samples: PartedTable,
    subflow_samples: PartedTable,
    tcp_events: PartedTable,
    captures: Vec<AppendFile>,
    log: AppendFile,
    packets: u64,
    flushed: Instant,
}

#[derive(Serialize)]
struct LogLine<'a> {
    time_ns: u64,
    level: Level,
    #[serde(skip_serializing_if = "str::is_empty")]
    member: &'a str,
    source: &'a str,
    text: &'a str,
}

impl Writer {
    pub(super) fn create(folder: &RunFolder, options: &RecorderOptions) -> Result<Self, Error> {
        let names = |names: &[String]| names.iter().map(|n| ByteArray::from(n.as_str())).collect();
        let capture = |name: &String| {
            let path = folder.file(&format!("{}.pcapng", file_name(name)));
            let mut file = AppendFile::create(path)?;
            pcapng::section_header(&mut file.buffer, "netarium");
            pcapng::interface_description(&mut file.buffer, name, "");
            file.flush()?;
            Ok(file)
        };
        Ok(Self {
            started_unix_ns: options.started_unix_ns,
            links: names(&options.links),
            flows: names(&options.flows),
            bundles: names(&options.bundles),
            nodes: names(&options.nodes),
            directions: Direction::BOTH.map(|d| ByteArray::from(d.as_str())),
            link_samples: PartedTable::new(folder.file("links.parquet"), link_columns(), true),
            flow_samples: PartedTable::new(folder.file("flows.parquet"), flow_columns(), true),
            transfers: PartedTable::new(
                folder.file("transfers.parquet"),
                transfer_columns(),
                false,
            ),
            shares: PartedTable::new(folder.file(shares::FILE), shares::columns(), false),
            control: PartedTable::new(folder.file(control::FILE), control::sample_columns(), false),
            sessions: PartedTable::new(
                folder.file(control::SESSIONS_FILE),
                control::session_columns(),
                false,
            ),
            bundle_samples: PartedTable::new(folder.file(bundle::FILE), bundle::columns(), false),
            subflow_samples: PartedTable::new(
                folder.file(subflow::FILE),
                subflow::columns(),
                false,
            ),
            tcp_events: PartedTable::new(folder.file(tcp::FILE), tcp::columns(), false),
            captures: options.captures.iter().map(capture).collect::<Result<_, Error>>()?,
            log: AppendFile::create(folder.file("log.jsonl"))?,
            packets: 0,
            flushed: Instant::now(),
        })
    }

    pub(super) fn take(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Link(sample) => {
                let name = name_of(&self.links, sample.link.index());
                let direction = self.directions[sample.direction.index()].clone();
                self.link_samples.rows.push(link_row(&sample, name, direction));
                self.link_samples.write_if_large()
            }
            Message::Flow(sample) => {
                let name = name_of(&self.flows, sample.flow.index());
                self.flow_samples.rows.push(flow_row(&sample, name));
                self.flow_samples.write_if_large()
            }
            Message::Transfer(transfer) => {
                let name = name_of(&self.flows, transfer.flow.index());
                self.transfers.rows.push(transfer_row(&transfer, name));
                self.transfers.write_if_large()
            }
            Message::Shares(samples) => samples.iter().try_for_each(|sample| {
                let from = name_of(&self.nodes, sample.from.index());
                let to = name_of(&self.nodes, sample.to.index());
                self.shares.rows.push(shares::row(sample, from, to));
                self.shares.write_if_large()
            }),
            Message::Control(sample) => {
                self.control.rows.push(control::sample_row(&sample));
                self.control.write_if_large()
            }
            Message::Bundle(sample) => {
                let name = name_of(&self.bundles, sample.bundle as usize);
                self.bundle_samples.rows.push(bundle::row(&sample, name));
                self.bundle_samples.write_if_large()
            }
            Message::Subflow(sample) => {
                let flow = name_of(&self.flows, sample.flow.index());
                let path = name_of(&self.links, sample.path.index());
                self.subflow_samples.rows.push(subflow::row(&sample, flow, path));
                self.subflow_samples.write_if_large()
            }
            Message::Tcp(event) => {
                let flow = name_of(&self.flows, event.flow.index());
                self.tcp_events.rows.push(tcp::row(&event, flow));
                self.tcp_events.write_if_large()
            }
            Message::Sessions(populations, rows) => {
                let names: Vec<ByteArray> =
                    populations.iter().map(|name| ByteArray::from(name.as_str())).collect();
                rows.iter().try_for_each(|row| {
                    let name = name_of(&names, row.population as usize);
                    self.sessions.rows.push(control::session_row(row, name));
                    self.sessions.write_if_large()
                })
            }
            Message::Packet { at, capture, outbound, comment, bytes, length } => {
                let Some(file) = self.captures.get_mut(capture.0 as usize) else { return Ok(()) };
                let unix_ns = self.started_unix_ns.saturating_add(at.as_nanos());
                let packet = (&*bytes, length);
                pcapng::enhanced_packet(&mut file.buffer, unix_ns, outbound, packet, comment);
                self.packets += 1;
                file.flush_if_large()
            }
            Message::Log { at, level, member, source, text } => {
                let (time_ns, member) = (at.as_nanos(), member.as_str());
                let line = LogLine { time_ns, level, member, source: &source, text: &text };
                serde_json::to_writer(&mut self.log.buffer, &line)
                    .map_err(|source| Error::Record { path: self.log.path.clone(), source })?;
                self.log.buffer.push(b'\n');
                self.log.flush_if_large()
            }
            Message::Batch(_) | Message::Finish => Ok(()),
        }
    }

    pub(super) fn flush_if_due(&mut self) -> Result<(), Error> {
        if self.flushed.elapsed() < FLUSH_INTERVAL {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.log.flush()?;
        self.captures.iter_mut().try_for_each(AppendFile::flush)?;
        self.tables().into_iter().try_for_each(PartedTable::write_if_due)
    }

    fn tables(&mut self) -> [&mut PartedTable; 9] {
        [
            &mut self.link_samples,
            &mut self.flow_samples,
            &mut self.transfers,
            &mut self.shares,
            &mut self.control,
            &mut self.sessions,
            &mut self.bundle_samples,
            &mut self.subflow_samples,
            &mut self.tcp_events,
        ]
    }

    /// Writes and syncs all files. Continues after an error and returns the first one.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        for file in self.captures.iter_mut().chain([&mut self.log]) {
            first = first.and(file.flush()).and(file.sync());
        }
        for table in self.tables() {
            let written = table.write();
            let joined = join_parts(&table.path);
            first = first.and(written).and(joined);
        }
        first
    }

    pub(super) const fn packets(&self) -> u64 {
        self.packets
    }
}

fn name_of(names: &[ByteArray], index: usize) -> ByteArray {
    names.get(index).cloned().unwrap_or_else(|| ByteArray::from(index.to_string().as_str()))
}

/// A file that grows by whole entries. A failed write is undone.
struct AppendFile {
    path: PathBuf,
    file: File,
    length: u64,
    buffer: Vec<u8>,
}

impl AppendFile {
    fn create(path: PathBuf) -> Result<Self, Error> {
        let file = files::create_new(&path).map_err(|e| Error::io("create", &path, e))?;
        Ok(Self { path, file, length: 0, buffer: Vec::new() })
    }

    fn flush_if_large(&mut self) -> Result<(), Error> {
        if self.buffer.len() < MAX_BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let result = self.file.write_all(&self.buffer);
        if let Err(error) = result {
            // Truncation works on a full disk. The first error is reported.
            let _ = self.file.set_len(self.length);
            self.buffer.clear();
            return Err(Error::io("write", &self.path, error));
        }
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|e| Error::io("write", &self.path, e))
    }
}

/// A table that is written in parts.
struct PartedTable {
    path: PathBuf,
    rows: Table,
    part: u32,
    written: Instant,
    /// Whether the file is created even without rows.
    always: bool,
}

impl PartedTable {
    fn new(path: PathBuf, columns: Vec<Column>, always: bool) -> Self {
        Self { path, rows: Table::new(columns), part: 0, written: Instant::now(), always }
    }

    fn write_if_large(&mut self) -> Result<(), Error> {
        if self.rows.rows() < MAX_PART_ROWS { Ok(()) } else { self.write() }
    }

    fn write_if_due(&mut self) -> Result<(), Error> {
        if self.rows.rows() == 0 || self.written.elapsed() < MAX_PART_AGE {
            return Ok(());
        }
        self.write()
    }

    /// Writes a part. The first part is written even without rows if `always` is set.
    fn write(&mut self) -> Result<(), Error> {
        if self.rows.rows() > 0 || (self.part == 0 && self.always) {
            let path: &Path = &self.path;
            let result = write_part(path, self.part, &self.rows);
            self.rows.clear();
            self.part += 1;
            self.written = Instant::now();
            return result;
        }
        Ok(())
    }
}

fn link_columns() -> Vec<Column> {
    let mut columns = vec![
        Column::new("time_ns", "ns", Kind::Integer),
        Column::new("interval_ns", "ns", Kind::Integer),
        Column::new("link", "", Kind::Text),
        Column::new("direction", "", Kind::Text),
        Column::new("sent_packets", "packets", Kind::Integer),
        Column::new("sent_bytes", "B", Kind::Integer),
        Column::new("queue_packets", "packets", Kind::Integer),
        Column::new("queue_bytes", "B", Kind::Integer),
        Column::new("queue_max_bytes", "B", Kind::Integer),
        Column::new("queue_delay_max_ns", "ns", Kind::Optional),
        Column::new("marked", "packets", Kind::Integer),
    ];
    let drops = DropReason::ALL.map(|r| Column::new(r.column(), "packets", Kind::Integer));
    columns.extend(drops);
    columns
}

fn link_row(sample: &LinkSample, name: ByteArray, direction: ByteArray) -> [Cell; 20] {
    let drop = |reason: DropReason| Cell::Integer(sample.drops[reason.index()]);
    let [d0, d1, d2, d3, d4, d5, d6, d7, d8] = DropReason::ALL.map(drop);
    [
        Cell::Integer(sample.at.as_nanos()),
        Cell::Integer(sample.interval.as_nanos()),
        Cell::Text(name),
        Cell::Text(direction),
        Cell::Integer(sample.sent_packets),
        Cell::Integer(sample.sent_bytes),
        Cell::Integer(sample.queue_packets),
        Cell::Integer(sample.queue_bytes),
        Cell::Integer(sample.queue_max_bytes),
        Cell::Optional(sample.queue_delay_max.map(Span::as_nanos)),
        Cell::Integer(sample.marks),
        d0,
        d1,
        d2,
        d3,
        d4,
        d5,
        d6,
        d7,
        d8,
    ]
}

fn flow_columns() -> Vec<Column> {
    vec![
        Column::new("time_ns", "ns", Kind::Integer),
        Column::new("interval_ns", "ns", Kind::Integer),
        Column::new("flow", "", Kind::Text),
        Column::new("sent_bytes", "B", Kind::Integer),
        Column::new("received_bytes", "B", Kind::Integer),
        Column::new("rtt_ns", "ns", Kind::Optional),
        Column::new("cwnd_bytes", "B", Kind::Optional),
        Column::new("retransmits", "segments", Kind::Optional),
        Column::new("delay_p50_ns", "ns", Kind::Optional),
        Column::new("delay_p99_ns", "ns", Kind::Optional),
        Column::new("delay_max_ns", "ns", Kind::Optional),
        Column::new("lost", "datagrams", Kind::Optional),
        Column::new("latency_p50_ns", "ns", Kind::Optional),
        Column::new("latency_p99_ns", "ns", Kind::Optional),
        Column::new("latency_max_ns", "ns", Kind::Optional),
        Column::new("responses", "responses", Kind::Optional),
        Column::new("gap_ns", "ns", Kind::Optional),
        Column::new("reinjected_bytes", "B", Kind::Optional),
        Column::new("reorder_bytes", "B", Kind::Optional),
        Column::new("wait_max_ns", "ns", Kind::Optional),
    ]
}

fn flow_row(sample: &FlowSample, name: ByteArray) -> [Cell; 20] {
    let optional =
        |d: Option<Distribution>, pick: fn(Distribution) -> u64| Cell::Optional(d.map(pick));
    [
        Cell::Integer(sample.at.as_nanos()),
        Cell::Integer(sample.interval.as_nanos()),
        Cell::Text(name),
        Cell::Integer(sample.sent_bytes),
        Cell::Integer(sample.received_bytes),
        Cell::Optional(sample.rtt.map(Span::as_nanos)),
        Cell::Optional(sample.cwnd_bytes),
        Cell::Optional(sample.retransmits),
        optional(sample.delay, |d| d.p50_ns),
        optional(sample.delay, |d| d.p99_ns),
        optional(sample.delay, |d| d.max_ns),
        Cell::Optional(sample.lost),
        optional(sample.latency, |d| d.p50_ns),
        optional(sample.latency, |d| d.p99_ns),
        optional(sample.latency, |d| d.max_ns),
        Cell::Optional(sample.responses),
        Cell::Optional(sample.gap.map(Span::as_nanos)),
        Cell::Optional(sample.reinjected_bytes),
        Cell::Optional(sample.reorder_bytes),
        Cell::Optional(sample.wait_max.map(Span::as_nanos)),
    ]
}

fn transfer_columns() -> Vec<Column> {
    vec![
        Column::new("flow", "", Kind::Text),
        Column::new("start_ns", "ns", Kind::Integer),
        Column::new("size_bytes", "B", Kind::Integer),
        Column::new("completion_ns", "ns", Kind::Optional),
        Column::new("ideal_ns", "ns", Kind::Optional),
        Column::new("slowdown_milli", "thousandths", Kind::Optional),
        Column::new("retransmits", "segments", Kind::Optional),
    ]
}

fn transfer_row(transfer: &Transfer, name: ByteArray) -> [Cell; 7] {
    [
        Cell::Text(name),
        Cell::Integer(transfer.start.as_nanos()),
        Cell::Integer(transfer.size.count()),
        Cell::Optional(transfer.completion.map(Span::as_nanos)),
        Cell::Optional(transfer.ideal.map(Span::as_nanos)),
        Cell::Optional(transfer.slowdown_milli()),
        Cell::Optional(transfer.retransmits),
    ]
}
