//! Lines of messages from another process.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::{Error, Result};

/// Maximum bytes of one read.
const READ_BYTES: usize = 1 << 16;

/// Lines of a lab that are handled before signals and other messages.
const MAX_LINES: usize = 64;

/// Lines of a lab. The lab may be stopped within a line.
pub(super) struct LabLines {
    stream: UnixStream,
    /// The beginning of the next line.
    received: Vec<u8>,
}

impl LabLines {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// The lines that have arrived; `None` at the end of the stream.
    pub(super) fn read(&mut self) -> Result<Vec<Option<String>>> {
        let mut lines = Vec::new();
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match rustix::net::recv(&self.stream, &mut bytes[..], RecvFlags::DONTWAIT) {
                // The other end was killed before it had read everything.
                Ok((0, _)) | Err(Errno::CONNRESET) => {
                    lines.push(None);
                    return Ok(lines);
                }
                Ok((count, _)) => {
                    let mut parts = bytes[..count].split(|byte| *byte == b'\n');
                    self.received.extend_from_slice(parts.next().unwrap_or_default());
                    for part in parts {
                        let line = std::mem::replace(&mut self.received, part.to_vec());
                        lines.push(Some(String::from_utf8_lossy(&line).into_owned()));
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(lines),
                Err(errno) => return Err(Error::Channel(errno.into())),
            }
            if lines.len() >= MAX_LINES {
                return Ok(lines);
            }
        }
    }
}

impl AsFd for LabLines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The lines that can be read now, at least one; `None` at the end of the stream.
pub(super) fn lines(stream: &mut BufReader<UnixStream>) -> Result<Vec<Option<String>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = match stream.read_line(&mut line) {
            // The other end was killed before it had read everything.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => 0,
            read => read.map_err(Error::Channel)?,
        };
        lines.push((read > 0).then_some(line));
        if read == 0 || stream.buffer().is_empty() {
            return Ok(lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn incomplete_line_does_not_block() {
        let (stream, mut lab) = UnixStream::pair().unwrap();
        let mut lines = LabLines::new(stream);
        assert!(lines.read().unwrap().is_empty());
        lab.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.read().unwrap(), [Some("one".to_owned())]);
        assert!(lines.read().unwrap().is_empty());
        lab.write_all(b"o\n\n").unwrap();
        drop(lab);
        let rest = ["two", ""].map(|line| Some(line.to_owned()));
        assert_eq!(lines.read().unwrap(), [&rest[..], &[None]].concat());
    }
}
