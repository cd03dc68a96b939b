//! Merges capture files of several agents into one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::{ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER};
use crate::{Error, files};

/// Maximum length of a block: a packet before segmentation, and its options.
const MAX_BLOCK_BYTES: usize = 1 << 20;

/// A capture, and the correction of its time stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub path: PathBuf,
    /// Added to each time stamp.
    pub shift_ns: i64,
}

/// Merges captures of one interface by their time stamps into the file `to`. Each must have one
/// section and one interface, as netarium writes them. Returns the errors of damaged or truncated
/// captures; packets before the damage are merged. Memory is bounded by one packet of each capture.
///
/// # Errors
/// If the file cannot be written.
pub fn merge(parts: &[Part], to: &Path) -> Result<Vec<Error>, Error> {
    let mut errors = Vec::new();
    let mut sources = Vec::new();
    for part in parts {
        match Source::open(part) {
            Ok(source) => sources.push(source),
            Err(error) => errors.push(error),
        }
    }
    let file = files::create_new(to).map_err(|e| Error::io("create", to, e))?;
    let mut out = BufWriter::with_capacity(1 << 17, file);
    let write = |out: &mut BufWriter<File>, bytes: &[u8]| {
        out.write_all(bytes).map_err(|e| Error::io("write", to, e))
    };
    if let Some(first) = sources.first() {
        write(&mut out, &first.head)?;
    }
    let mut due = BinaryHeap::new();
    let mut advance =
        |sources: &mut Vec<Source>, at: usize, due: &mut BinaryHeap<_>| match sources[at].next() {
            Ok(Some(time)) => due.push(Reverse((time, at))),
            Ok(None) => {}
            Err(error) => errors.push(error),
        };
    for at in 0..sources.len() {
        advance(&mut sources, at, &mut due);
    }
    while let Some(Reverse((_, at))) = due.pop() {
        write(&mut out, &sources[at].block)?;
        advance(&mut sources, at, &mut due);
    }
    out.flush().map_err(|e| Error::io("write", to, e))?;
    Ok(errors)
}

/// The reader of a capture.
struct Source {
    path: PathBuf,
    shift_ns: i64,
    file: BufReader<File>,
    /// Section header and interface description.
    head: Vec<u8>,
    /// The last packet, with its corrected time stamp.
    block: Vec<u8>,
    offset: u64,
}

impl Source {
    fn open(part: &Part) -> Result<Self, Error> {
        let file = files::open(&part.path).map_err(|e| Error::io("open", &part.path, e))?;
        let mut this = Self {
            path: part.path.clone(),
            shift_ns: part.shift_ns,
            file: BufReader::new(file),
            head: Vec::new(),
            block: Vec::new(),
            offset: 0,
        };
        for kind in [SECTION_HEADER, INTERFACE_DESCRIPTION] {
            if this.read_block()? != Some(kind) {
                return Err(this.damaged());
            }
            this.head.append(&mut this.block);
        }
        Ok(this)
    }

    /// Reads the next packet and returns its time; `None` at the end.
    fn next(&mut self) -> Result<Option<u64>, Error> {
        match self.read_block()? {
            None => Ok(None),
            Some(ENHANCED_PACKET) => self.correct_time().ok_or_else(|| self.damaged()).map(Some),
            Some(_) => Err(self.damaged()),
        }
    }

    /// Corrects the packet's time stamp, which is in two words after kind, length and interface.
    fn correct_time(&mut self) -> Option<u64> {
        let words = self.block.get_mut(12..20)?;
        let (high, low) = words.split_at_mut(4);
        let word = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
        let time = u64::from(word(high)?) << 32 | u64::from(word(low)?);
        let time = time.saturating_add_signed(self.shift_ns);
        high.copy_from_slice(&((time >> 32) as u32).to_le_bytes());
        low.copy_from_slice(&(time as u32).to_le_bytes());
        Some(time)
    }

    /// Reads a block and returns its kind; `None` at the end of the file.
    fn read_block(&mut self) -> Result<Option<u32>, Error> {
        self.block.clear();
        if !self.fill(8)? {
            return if self.block.is_empty() { Ok(None) } else { Err(self.damaged()) };
        }
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let (kind, length) = (word(&self.block[..4]), word(&self.block[4..8]) as usize);
        if !(12..=MAX_BLOCK_BYTES).contains(&length) || !length.is_multiple_of(4) {
            return Err(self.damaged());
        }
        if !self.fill(length - 8)? || word(&self.block[length - 4..]) as usize != length {
            return Err(self.damaged());
        }
        Ok(Some(kind))
    }

    /// Appends `length` bytes; false if the file ends before. Memory is allocated only for
    /// bytes that exist.
    fn fill(&mut self, length: usize) -> Result<bool, Error> {
        let before = self.block.len();
        let mut part = self.file.by_ref().take(length as u64);
        part.read_to_end(&mut self.block).map_err(|e| Error::io("read", &self.path, e))?;
        let read = self.block.len() - before;
        self.offset += read as u64;
        Ok(read == length)
    }

    fn damaged(&self) -> Error {
        Error::Damaged { path: self.path.clone(), offset: self.offset }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::pcapng::{enhanced_packet, interface_description, section_header};

    /// A capture of packets at these times; the length of a packet depends on its time.
    fn capture(folder: &Path, name: &str, times: &[u64]) -> Part {
        let mut bytes = Vec::new();
        section_header(&mut bytes, "netarium");
        interface_description(&mut bytes, "a.eth0", "");
        for time in times {
            let packet = vec![0x45; 20 + *time as usize % 7];
            let packet = (&*packet, packet.len() as u32);
            enhanced_packet(&mut bytes, 1_000_000 + time, true, packet, "queue full");
        }
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        Part { path, shift_ns: 0 }
    }

    fn times(path: &Path) -> Vec<u64> {
        let mut source = Source::open(&Part { path: path.to_owned(), shift_ns: 0 }).unwrap();
        let mut times = Vec::new();
        while let Some(time) = source.next().unwrap() {
            times.push(time - 1_000_000);
        }
        times
    }

    #[test]
    fn merged_packets_are_in_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let a = capture(folder.path(), "a", &[1, 5, 9]);
        let b = Part { shift_ns: -3, ..capture(folder.path(), "b", &[5, 9]) };
        let none = capture(folder.path(), "none", &[]);
        let to = folder.path().join("all.pcapng");
        assert!(merge(&[a, none, b], &to).unwrap().is_empty());
        assert_eq!(times(&to), [1, 2, 5, 6, 9]);
        // tshark can read the file, if it is installed.
        let read = Command::new("tshark").args(["-r", to.to_str().unwrap()]).output();
        if let Ok(read) = read {
            assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
            assert_eq!(String::from_utf8_lossy(&read.stdout).lines().count(), 5);
        }
    }

    #[test]
    fn reports_damaged_captures_and_merges_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let whole = capture(folder.path(), "whole", &[2, 8]);
        let cut = capture(folder.path(), "cut", &[1, 5, 9]);
        let bytes = fs::read(&cut.path).unwrap();
        for length in 0..bytes.len() {
            fs::write(&cut.path, &bytes[..length]).unwrap();
            let to = folder.path().join(format!("{length}.pcapng"));
            let errors = merge(&[whole.clone(), cut.clone()], &to).unwrap();
            assert!(errors.len() <= 1);
            let merged = times(&to);
            assert!(merged.is_sorted() && merged.contains(&2) && merged.contains(&8));
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x80;
            fs::write(&cut.path, &flipped).unwrap();
            let to = folder.path().join(format!("flipped-{at}.pcapng"));
            assert!(merge(&[whole.clone(), cut.clone()], &to).unwrap().len() <= 1);
        }
        let missing = Part { path: folder.path().join("missing"), shift_ns: 0 };
        let to = folder.path().join("last.pcapng");
        assert_eq!(merge(&[missing, whole], &to).unwrap().len(), 1);
        assert_eq!(times(&to), [2, 8]);
    }
}
