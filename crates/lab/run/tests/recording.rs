//! Tests of whole recordings, also after a kill and on a full disk.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base::{Bytes, Direction, FlowId, Histogram, LinkId, NodeId, Span, Time};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::Int64Type;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use run::record::{SCHEMA, Status};
use run::sample::shares;
use run::table::Table;
use run::{
    CaptureId, DropReason, Error, FlowKind, FlowSample, Level, LinkSample, PacketRecord, Recorder,
    RecorderOptions, RunFolder, RunRecord, ShareSample, Transfer,
};

const STARTED_UNIX_NS: u64 = 1_800_000_000_123_456_789;

fn options() -> RecorderOptions {
    RecorderOptions {
        started_unix_ns: STARTED_UNIX_NS,
        links: vec!["a-r".to_owned(), "r-b".to_owned()],
        flows: vec!["a-b".to_owned()],
        captures: vec!["a.eth0".to_owned()],
        ..RecorderOptions::default()
    }
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn link_sample(step: u64) -> LinkSample {
    let mut sample = LinkSample::empty(
        ms(step * 100),
        Span::from_millis(100),
        LinkId((step % 2) as u32),
        Direction::BOTH[(step / 2 % 2) as usize],
    );
    sample.sent_bytes = step * 1000;
    sample.queue_delay_max = step.is_multiple_of(3).then(|| Span::from_micros(step));
    sample.drops[DropReason::Loss.index()] = step % 5;
    sample
}

/// An IPv4 UDP packet with eight bytes of payload.
fn udp_packet() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0x66, 0xc1, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend([0x30, 0x39, 0, 53, 0, 16, 0, 0]);
    packet.extend([7; 8]);
    packet
}

fn capture(recorder: &Recorder, at: Time, outbound: bool, dropped: Option<DropReason>) {
    let (capture, bytes, length) = (CaptureId(0), &*udp_packet(), 36);
    recorder.handle().packet(&PacketRecord { at, capture, outbound, dropped, bytes, length });
}

#[test]
fn tables_contain_recorded_samples() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "demo").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    let handle = recorder.handle();
    for step in 0..1000 {
        handle.link(link_sample(step));
    }
    let mut delays = Histogram::new();
    delays.record(5_000_000);
    let mut flow = FlowSample::empty(ms(100), Span::from_millis(100), FlowId(0));
    flow.received_bytes = 4242;
    flow.delay = delays.distribution();
    handle.flow(flow);
    let report = recorder.finish();
    assert!(report.error.is_none(), "{:?}", report.error);
    assert_eq!((report.records_lost, report.capture_drops), (0, 0));

    let links = Table::read(&folder.file("links.parquet")).unwrap();
    assert_eq!(links.rows(), 1000);
    let expected: Vec<_> = (0..1000).map(|step| Some(step * 1000)).collect();
    assert_eq!(links.integers("sent_bytes").unwrap(), expected);
    let delays: Vec<_> = (0..1000).map(|s| (s % 3 == 0).then_some(s * 1000)).collect();
    assert_eq!(links.integers("queue_delay_max_ns").unwrap(), delays);
    assert_eq!(links.texts("link").unwrap()[..3], ["a-r", "r-b", "a-r"]);
    assert_eq!(links.texts("direction").unwrap()[..3], ["up", "up", "down"]);
    assert_eq!(links.integers("dropped_loss").unwrap()[3..6], [Some(3), Some(4), Some(0)]);
    let time = links.columns().iter().find(|c| c.name == "time_ns").unwrap();
    assert_eq!(time.unit, "ns");

    let flows = Table::read(&folder.file("flows.parquet")).unwrap();
    assert_eq!(flows.integers("received_bytes").unwrap(), [Some(4242)]);
    assert_eq!(flows.integers("delay_p50_ns").unwrap(), [Some(5_000_000)]);
    assert_eq!(flows.integers("rtt_ns").unwrap(), [None]);
    assert!(!folder.file("links.parquet.parts").exists());
}

/// Unsigned columns wrap around where a data frame subtracts them: `time_ns - time_ns.shift(-1)`.
#[test]
fn tables_have_signed_columns_and_older_unsigned_ones_are_readable() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "signed").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    recorder.handle().link(link_sample(1));
    assert!(recorder.finish().error.is_none());
    let unsigned = LogicalType::integer(64, false);
    let types = |path: &Path| {
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
        columns.into_iter().map(|column| column.logical_type_ref().cloned()).collect::<Vec<_>>()
    };
    for name in ["links.parquet", "flows.parquet"] {
        let found = types(&folder.file(name));
        assert!(found.contains(&Some(LogicalType::integer(64, true))), "{name}: {found:?}");
        assert!(!found.contains(&Some(unsigned.clone())), "{name}: {found:?}");
    }

    let old = parent.path().join("old.parquet");
    let column = Type::primitive_type_builder("time_ns", Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(unsigned.clone()))
        .build();
    let fields = vec![Arc::new(column.unwrap())];
    let schema = Type::group_type_builder("sample").with_fields(fields).build().unwrap();
    let file = fs::File::create(&old).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[7, 5], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    assert_eq!(types(&old), [Some(unsigned)]);
    let table = Table::read(&old).unwrap();
    assert_eq!(table.integers("time_ns").unwrap(), [Some(7), Some(5)]);
}

#[test]
fn table_contains_recorded_transfers() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "transfers").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    let transfer = Transfer {
        flow: FlowId(0),
        start: ms(5),
        size: Bytes::new(1_000_000),
        completion: Some(Span::from_millis(30)),
        ideal: Some(Span::from_millis(20)),
        retransmits: Some(3),
    };
    recorder.handle().transfer(transfer);
    recorder.handle().transfer(Transfer { completion: None, ..transfer });
    assert!(recorder.finish().error.is_none());
    let table = Table::read(&folder.file("transfers.parquet")).unwrap();
    assert_eq!(table.texts("flow").unwrap(), ["a-b", "a-b"]);
    assert_eq!(table.integers("size_bytes").unwrap(), [Some(1_000_000); 2]);
    assert_eq!(table.integers("completion_ns").unwrap(), [Some(30_000_000), None]);
    assert_eq!(table.integers("slowdown_milli").unwrap(), [Some(1500), None]);
}

#[test]
fn table_contains_recorded_shares() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "shares").unwrap();
    let nodes = ["a", "r", "b"].map(str::to_owned).to_vec();
    let options = RecorderOptions { nodes: nodes.clone(), ..options() };
    let recorder = Recorder::start(&folder, &options).unwrap();
    let limited = ShareSample {
        at: ms(50),
        interval: Span::from_millis(50),
        from: NodeId(0),
        to: NodeId(2),
        flow: u32::MAX,
        kind: FlowKind::Stream,
        share: Some(3_333_333),
        demand: None,
        sent_bytes: 20_833,
    };
    let free = ShareSample {
        from: NodeId(2),
        to: NodeId(1),
        kind: FlowKind::Datagram,
        share: None,
        demand: Some(1_000_000),
        ..limited
    };
    recorder.handle().shares(vec![limited, free]);
    recorder.handle().shares(vec![]);
    assert!(recorder.finish().error.is_none());
    let path = folder.file(shares::FILE);
    assert_eq!(Table::read(&path).unwrap().texts("kind").unwrap(), ["stream", "datagram"]);
    assert_eq!(shares::read(&path, &nodes).unwrap(), [limited, free]);
    let error = shares::read(&path, &nodes[..2]).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

#[test]
fn lossless_recorder_waits_when_its_queue_is_full() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "lossless").unwrap();
    let options = RecorderOptions { lossless: true, ..options() };
    let recorder = Recorder::start(&folder, &options).unwrap();
    let (handle, count) = (recorder.handle(), 200_000);
    for step in 0..count {
        handle.link(link_sample(step));
    }
    let report = recorder.finish();
    assert!(report.error.is_none(), "{:?}", report.error);
    assert_eq!(report.records_lost, 0);
    let links = Table::read(&folder.file("links.parquet")).unwrap();
    assert_eq!(links.rows(), count as usize);
}

#[test]
fn run_without_samples_has_empty_tables() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "idle").unwrap();
    let report = Recorder::start(&folder, &options()).unwrap().finish();
    assert!(report.error.is_none());
    assert_eq!(Table::read(&folder.file("flows.parquet")).unwrap().rows(), 0);
    assert!(!folder.file("transfers.parquet").exists());
    assert!(!folder.file(shares::FILE).exists());
}

#[test]
fn log_is_json_lines_in_order() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "log").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    recorder.handle().log(ms(1), Level::Info, "lab", "begins");
    recorder.handle().log(ms(2), Level::Warn, "link a-r", "goes \"down\"\n");
    recorder.finish();
    let text = fs::read_to_string(folder.file("log.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["time_ns"], 2_000_000);
    assert_eq!(lines[1]["level"], "warn");
    assert_eq!(lines[1]["text"], "goes \"down\"\n");
}

fn tshark(path: &Path, fields: &[&str]) -> Option<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("tshark writes UTF-8"))
}

#[test]
fn tshark_reads_captures() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "capture").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    capture(&recorder, Time::from_nanos(1), true, None);
    capture(&recorder, ms(1500), false, Some(DropReason::Loss));
    let report = recorder.finish();
    assert_eq!(report.packets_written, 2);
    let path = folder.file("a.eth0.pcapng");
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.comment",
        "ip.src",
        "udp.dstport",
        "frame.len",
    ];
    let Some(text) = tshark(&path, &fields) else {
        eprintln!("SKIPPED tshark_reads_captures: tshark is not installed");
        return;
    };
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0][0].contains("00.123456790"), "{text}");
    assert!(lines[1][0].contains("01.623456789"), "{text}");
    assert_eq!(lines[0][1], "a.eth0");
    assert!(lines[0][2].ends_with('2') && lines[1][2].ends_with('1'), "{text}");
    assert_eq!((lines[0][3], lines[1][3]), ("", "loss"));
    assert_eq!(lines[1][4..], ["10.0.0.1", "53", "36"]);
}

fn running(folder: &RunFolder) -> RunRecord {
    let schema = SCHEMA.to_owned();
    RunRecord { schema, id: folder.id().to_owned(), started_unix_ms: 1, ..RunRecord::default() }
}

#[test]
fn killed_run_retains_written_parts() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "killed").unwrap();
    folder.write_record(&running(&folder)).unwrap();
    let lossless = RecorderOptions { lossless: true, ..options() };
    let recorder = Recorder::start(&folder, &lossless).unwrap();
    // More rows than one part. A kill loses only the rows after the last part.
    let handle = recorder.handle();
    (0..150_000).for_each(|step| handle.link(link_sample(step)));
    let parts = ["000000.parquet", "000001.parquet"];
    let parts = parts.map(|part| Path::new("links.parquet.parts").join(part));
    // A part gets its name when it is complete.
    let start = std::time::Instant::now();
    while !parts.iter().all(|part| folder.path().join(part).exists()) {
        assert!(start.elapsed().as_secs() < 60, "no second part");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // A copy of the folder now is what a kill leaves.
    let copy = parent.path().join("killed-copied");
    fs::create_dir_all(copy.join("links.parquet.parts")).unwrap();
    fs::copy(folder.file("run.json"), copy.join("run.json")).unwrap();
    for part in &parts {
        fs::copy(folder.path().join(part), copy.join(part)).unwrap();
    }
    recorder.finish();

    let killed = RunFolder::open(&copy).unwrap();
    assert!(killed.mark_killed().unwrap());
    assert!(!killed.mark_killed().unwrap(), "the second call has nothing to do");
    assert_eq!(killed.read_record().unwrap().status, Status::Killed);
    let rows = Table::read(&killed.file("links.parquet")).unwrap().rows();
    assert!(rows >= 2, "{rows} rows");
    assert!(!killed.file("links.parquet.parts").exists());
}

#[test]
fn handle_of_finished_recorder_counts_lost_records() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "late").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    let handle = recorder.handle();
    recorder.finish();
    handle.link(link_sample(0));
    assert!(!handle.failed());
}

#[test]
fn full_disk_is_reported_as_disk_full() {
    // /dev/full is a disk that is always full; a tmpfs of one page would need privileges.
    let path = Path::new("/dev/full");
    let cause = fs::write(path, "x").unwrap_err();
    let error = Error::io("write", path, cause);
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
}

#[test]
fn does_not_follow_links_in_run_folder() {
    let parent = tempfile::tempdir().unwrap();
    let outside = parent.path().join("outside");
    fs::write(&outside, "kept").unwrap();
    let folder = RunFolder::create(parent.path(), "links").unwrap();
    folder.write_record(&running(&folder)).unwrap();
    let link = |name: &str| {
        let _ = fs::remove_file(folder.file(name));
        std::os::unix::fs::symlink(&outside, folder.file(name)).unwrap();
    };
    for name in ["report.html", "report.html.tmp", "run.json.tmp", ".final"] {
        link(name);
    }
    folder.write("report.html", b"page").unwrap();
    assert_eq!(fs::read(folder.file("report.html")).unwrap(), b"page");
    // Makes the record final, and repairs the tables.
    fs::create_dir(folder.file("flows.parquet.parts")).unwrap();
    std::os::unix::fs::symlink(&outside, folder.file("flows.parquet.parts/joined.tmp")).unwrap();
    assert!(RunFolder::open(folder.path()).unwrap().mark_killed().unwrap());
    assert_eq!(folder.read_record().unwrap().status, Status::Killed);
    assert!(!folder.file("run.json").is_symlink());
    assert_eq!(fs::read(&outside).unwrap(), b"kept");
    // A record or a table that is a link is not read.
    link("run.json");
    link("links.parquet");
    assert!(matches!(folder.read_record(), Err(Error::Io { .. })));
    assert!(matches!(Table::read(&folder.file("links.parquet")), Err(Error::Io { .. })));
    assert!(folder.read_start("links.parquet", 9).is_err());
}

#[test]
fn recorder_that_cannot_write_fails_and_counts_lost_records() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "gone").unwrap();
    let recorder = Recorder::start(&folder, &options()).unwrap();
    // A file where the folder of parts should be makes the table unwritable.
    fs::write(folder.file("links.parquet.parts"), b"").unwrap();
    recorder.handle().link(link_sample(1));
    recorder.handle().log(ms(1), Level::Info, "lab", "still there");
    let report = recorder.finish();
    assert!(matches!(report.error, Some(Error::Io { .. })), "{:?}", report.error);
    assert!(fs::read_to_string(folder.file("log.jsonl")).unwrap().contains("still there"));
    assert!(folder.file("flows.parquet").exists());
}

#[test]
fn failed_writer_does_not_block_handles() {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "stuck").unwrap();
    let options = RecorderOptions { lossless: true, ..options() };
    let recorder = Recorder::start(&folder, &options).unwrap();
    fs::write(folder.file("links.parquet.parts"), b"").unwrap();
    let (handle, count) = (recorder.handle(), 300_000);
    for step in 0..count {
        handle.link(link_sample(step));
    }
    assert!(handle.failed());
    let report = recorder.finish();
    assert!(report.error.is_some() && report.records_lost > 0, "{report:?}");
}

#[test]
fn damaged_folder_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    assert!(matches!(RunFolder::open(parent.path()), Err(Error::NotARun { .. })));
    let folder = RunFolder::create(parent.path(), "../evil name").unwrap();
    assert!(folder.path().parent().unwrap().ends_with(parent.path().file_name().unwrap()));
    folder.write("run.json", b"{").unwrap();
    assert!(matches!(folder.read_record(), Err(Error::Record { .. })));
    let foreign = RunRecord { schema: "other/9".to_owned(), ..RunRecord::default() };
    folder.write_record(&foreign).unwrap();
    assert!(matches!(folder.read_record(), Err(Error::Schema { .. })));
    folder.write("links.parquet", b"PAR1 not really").unwrap();
    assert!(matches!(Table::read(&folder.file("links.parquet")), Err(Error::Table { .. })));
}
