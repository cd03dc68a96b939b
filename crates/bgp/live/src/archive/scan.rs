//! Finds the whole records of a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use base::Time;

/// Length of the common header in bytes (RFC 6396 §2).
const HEADER: usize = 12;

/// Types in an archive (RFC 6396 §4): routes, messages, messages with microseconds.
const TABLE_DUMP_V2: u16 = 13;
const BGP4MP: u16 = 16;
const BGP4MP_ET: u16 = 17;

/// Maximum record length: a greater one is the result of a crash.
const MAX_RECORD_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub bytes: u64,
    pub records: u64,
    pub first: Option<Time>,
    pub last: Option<Time>,
}

impl Extent {
    fn add(&mut self, length: usize, time: Time) {
        self.bytes += length as u64;
        self.records += 1;
        self.first = self.first.or(Some(time));
        self.last = Some(time);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.records += other.records;
        self.first = self.first.or(other.first);
        self.last = other.last.or(self.last);
    }
}

/// Length and time in the header of a record.
pub(super) fn header(bytes: &[u8]) -> Option<(usize, Time)> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    let [s0, s1, s2, s3, k0, k1, _, _, l0, l1, l2, l3] = *header;
    let seconds = u64::from(u32::from_be_bytes([s0, s1, s2, s3]));
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let kind = u16::from_be_bytes([k0, k1]);
    let micros = match kind {
        BGP4MP_ET if length >= 4 => match bytes.get(HEADER..HEADER + 4) {
            Some(&[a, b, c, d]) => u64::from(u32::from_be_bytes([a, b, c, d])),
            _ => 0,
        },
        BGP4MP | TABLE_DUMP_V2 if length > 0 => 0,
        _ => return None,
    };
    let time = Time::from_nanos((seconds * 1_000_000 + micros) * 1_000);
    (length <= MAX_RECORD_BYTES && micros < 1_000_000).then_some((HEADER + length, time))
}

pub(super) fn whole(bytes: &[u8]) -> Extent {
    let mut extent = Extent::default();
    let mut rest = bytes;
    while let Some((length, time)) = header(rest) {
        let Some(behind) = rest.get(length..) else { break };
        extent.add(length, time);
        rest = behind;
    }
    extent
}

/// The whole records at the start of `file`, and the length of all of it.
pub(super) fn file(file: &mut File) -> io::Result<(Extent, u64)> {
    let total = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut extent = Extent::default();
    let mut buffer = Vec::new();
    let mut want = 1 << 20;
    loop {
        let room = want - buffer.len();
        let read = file.by_ref().take(room as u64).read_to_end(&mut buffer)?;
        let found = whole(&buffer);
        buffer.drain(..found.bytes as usize);
        extent.append(found);
        if read < room {
            return Ok((extent, total));
        }
        // A record longer than the buffer, and not longer than the file.
        let left = total - extent.bytes;
        want = match header(&buffer) {
            Some((length, _)) if length as u64 <= left => want.max(length),
            None if buffer.len() < HEADER => want,
            _ => return Ok((extent, total)),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn record(seconds: u32, micros: u32, body: usize) -> Vec<u8> {
        let mut record = seconds.to_be_bytes().to_vec();
        record.extend([0, 17, 0, 4]);
        record.extend((4 + body as u32).to_be_bytes());
        record.extend(micros.to_be_bytes());
        record.resize(record.len() + body, 1);
        record
    }

    #[test]
    fn rejects_partial_record() {
        let records: Vec<Vec<u8>> = (0..40).map(|n| record(100 + n, n, n as usize * 7)).collect();
        let all = records.concat();
        let mut wholes = 0;
        let mut ends = records.iter().scan(0, |sum, r| {
            *sum += r.len();
            Some(*sum)
        });
        let mut next = ends.next();
        for cut in 0..=all.len() {
            if next == Some(cut) {
                wholes += 1;
                next = ends.next();
            }
            assert_eq!(whole(&all[..cut]).records, wholes, "{cut}");
        }
        let extent = whole(&all);
        assert_eq!(extent.bytes, all.len() as u64);
        assert_eq!(extent.first, Some(Time::from_nanos(100_000_000_000)));
        assert_eq!(extent.last, Some(Time::from_nanos(139_000_039_000)));
    }

    #[test]
    fn rejects_zeros_and_noise() {
        assert_eq!(whole(&[0; 4096]), Extent::default());
        assert_eq!(whole(&[0xff; 4096]), Extent::default());
    }

    #[test]
    fn scans_whole_file() {
        let mut file = tempfile::tempfile().unwrap();
        let mut all = Vec::new();
        for n in 0..300 {
            all.extend(record(n, 0, 5_000));
        }
        all.extend(record(300, 0, 3 << 20));
        all.extend(record(301, 0, 10));
        file.write_all(&all).unwrap();
        file.write_all(&record(302, 0, 100)[..50]).unwrap();
        let (extent, total) = super::file(&mut file).unwrap();
        assert_eq!((extent.records, extent.bytes), (302, all.len() as u64));
        assert_eq!(total, all.len() as u64 + 50);
        file.set_len(0).unwrap();
        assert_eq!(super::file(&mut file).unwrap(), (Extent::default(), 0));
    }
}
