//! Text output for every archive file in the repository, compared with the installed bgpdump.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use collector::text::bgpdump::{Renderer, records};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
    found.sort();
}

/// The decompressed bytes of an archive file.
pub(crate) fn contents(path: &Path) -> Vec<u8> {
    let mut file = fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes),
        Some("bz2") => bzip2::read::MultiBzDecoder::new(file).read_to_end(&mut bytes),
        _ => file.read_to_end(&mut bytes),
    }
    .unwrap();
    bytes
}

fn render(bytes: &[u8]) -> Vec<u8> {
    let mut renderer = Renderer::new();
    let mut text = Vec::new();
    for record in records(bytes) {
        renderer.render(&record, &mut text);
    }
    text
}

fn bgpdump(path: &Path) -> Option<Vec<u8>> {
    let mut command = Command::new("bgpdump");
    command.args(["-q", "-m"]).arg(path).stderr(Stdio::null());
    Some(command.output().ok()?.stdout)
}

#[test]
fn prints_same_text_as_bgpdump() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp");
    let mut found = Vec::new();
    files(&data.join("mrt"), &mut found);
    found.push(data.join("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt"));
    let mut lines = 0;
    for path in found {
        let Some(theirs) = bgpdump(&path) else {
            eprintln!("SKIPPED prints_same_text_as_bgpdump: bgpdump is not installed");
            return;
        };
        let ours = render(&contents(&path));
        if ours != theirs {
            let mut pairs = ours.split(|b| *b == b'\n').zip(theirs.split(|b| *b == b'\n'));
            let different = pairs.find(|(ours, theirs)| ours != theirs);
            let texts = different.map(|(ours, theirs)| {
                [ours, theirs].map(|line| String::from_utf8_lossy(line).into_owned())
            });
            panic!("{}: ours and theirs: {texts:?}", path.display());
        }
        lines += ours.split(|byte| *byte == b'\n').count() - 1;
    }
    assert!(lines > 100_000, "{lines} lines: the files are not there");
}
