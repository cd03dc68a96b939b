//! Packets to records.

use std::path::Path;
use std::time::Instant;

use base::Span;
use collector::archive::Recorder;
use collector_live::Writer;
use collector_live::archive::{Archive, Compression, Options};
use collector_live::pipeline::{Pipeline, Settings};

use super::{frames, print_times, times};
use crate::{Outcome, print};

/// Bytes of records after which they are discarded.
const CHUNK: usize = 1 << 20;

/// Converts a capture in memory to records in memory.
pub(super) fn records(capture: &[u8], rounds: usize) -> Outcome {
    let (mut count, mut bytes) = (0, 0);
    let times = times(rounds, || {
        bytes = 0;
        let recorder = Recorder::new(collector::archive::Settings::default());
        let mut pipeline = Pipeline::new(Settings::default(), recorder);
        frames(capture, |frame| {
            pipeline.frame(frame);
            let recorder = pipeline.sink_mut();
            if recorder.bytes().len() >= CHUNK {
                bytes += recorder.bytes().len();
                recorder.clear();
            }
        })?;
        pipeline.finish();
        let recorder = pipeline.sink_mut();
        bytes += recorder.bytes().len();
        count = recorder.records();
        Ok(())
    })?;
    print_times(&times, &format!("\"records\":{count},\"bytes\":{bytes}"));
    Ok(())
}

/// Archives a capture in memory to files of `seconds` s with the compression `how`.
pub(super) fn archive(capture: &[u8], folder: &Path, how: &str, seconds: u64) -> Outcome {
    let compression = match how {
        "none" => Compression::None,
        "gz" => Compression::Gzip(6),
        "bz2" => Compression::Bzip2,
        "zst" => Compression::Zstd(3),
        _ => return Err(format!("unknown compression `{how}`: use none, gz, bz2 or zst").into()),
    };
    let interval = Span::from_secs(seconds);
    let options = Options { compression, interval, ..Options::default() };
    let all = sys::clock::process_cpu();
    let writer =
        Writer::new(Archive::open(folder, options)?, collector::archive::Settings::default());
    let mut pipeline = Pipeline::new(Settings::default(), writer);
    let (begin, before) = (Instant::now(), sys::clock::thread_cpu());
    frames(capture, |frame| pipeline.frame(frame))?;
    pipeline.finish();
    let mut writer = pipeline.into_sink();
    writer.flush();
    let (ingest, wall) = (sys::clock::thread_cpu() - before, begin.elapsed().as_nanos());
    let (waits, waited) = (writer.archive().status().waits, writer.archive().status().waited);
    let status = writer.close()?;
    let (total, elapsed) = (sys::clock::process_cpu() - all, begin.elapsed().as_nanos());
    print(&format!(
        "{{\"ingest_cpu_ns\":{ingest},\"ingest_wall_ns\":{wall},\"waits\":{waits},\
         \"waited_ns\":{},\"total_cpu_ns\":{total},\"total_wall_ns\":{elapsed},\"files\":{},\
         \"records\":{},\"content\":{},\"bytes\":{}}}",
        waited.as_nanos(),
        status.files,
        status.records,
        status.content,
        status.bytes,
    ));
    Ok(())
}
