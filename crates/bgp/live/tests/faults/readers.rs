//! Independent programs and libraries that read our output.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::mrt;

/// bgpkit-parser and bgpdump read all records of `archive`.
pub(crate) fn accept(archive: &[u8]) {
    let records = mrt::records(archive);
    let parser = bgpkit_parser::BgpkitParser::from_reader(archive);
    assert_eq!(parser.into_record_iter().count(), records.len(), "bgpkit-parser");
    let Some((out, trouble)) = bgpdump(archive) else { return };
    assert!(trouble.is_empty(), "bgpdump: {trouble}");
    let entries = out.lines().filter(|line| line.starts_with("TIME: ")).count();
    // bgpdump does not support ROUTE-REFRESH.
    let known = records.iter().filter(|record| record.is_state || record.bytes[18] < 5).count();
    assert_eq!(entries, known, "bgpdump");
}

fn bgpdump(archive: &[u8]) -> Option<(String, String)> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(archive).unwrap();
    let output = Command::new("bgpdump").arg(file.path()).stdin(Stdio::null()).output();
    match output {
        Ok(output) => {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let trouble = text(&output.stderr);
            let trouble: Vec<&str> =
                trouble.lines().filter(|line| !line.contains("[info]")).collect();
            Some((text(&output.stdout), trouble.join("\n")))
        }
        Err(error) => {
            eprintln!("SKIPPED bgpdump of what we write: {error}");
            None
        }
    }
}

/// As [`accept`], for files whose messages may be malformed: a reader may reject one, but
/// finds all records.
pub(crate) fn accept_or_tell(archive: &[u8], of: &Path) {
    let records = mrt::records(archive);
    let mut parser = bgpkit_parser::BgpkitParser::from_reader(archive);
    parser = parser.disable_warnings();
    let read = parser.into_record_iter().count();
    if read != records.len() {
        eprintln!("bgpkit-parser reads {read} of {} records of {}", records.len(), of.display());
    }
}
