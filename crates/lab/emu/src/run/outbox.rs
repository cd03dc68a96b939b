//! Messages of a lab to its command, which may be stopped: the lab never waits for it.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use run::live::Frame;

use super::message::FromLab;

/// Maximum bytes of messages that the command has not read, beyond the socket's buffer. Further
/// messages are dropped.
const MAX_UNSENT_BYTES: usize = 16 << 20;

/// Timeout of each write at the end of the lab.
const END_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Outbox {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// Frames that were not sent because earlier messages are unread, combined into one.
    dropped: Option<Frame>,
}

impl Outbox {
    /// The messages of a socket that does not block.
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, unsent: Vec::new(), dropped: None }
    }

    pub(super) fn send(&mut self, message: &FromLab) {
        if self.unsent.len() < MAX_UNSENT_BYTES
            && let Ok(text) = serde_json::to_vec(message)
        {
            self.unsent.extend_from_slice(&text);
            self.unsent.push(b'\n');
        }
        self.flush();
    }

    /// Sends a frame, unless the command has not read earlier messages.
    pub(super) fn frame(&mut self, mut frame: Frame) {
        self.flush();
        if let Some(earlier) = self.dropped.take() {
            frame.add_earlier(earlier);
        }
        if self.is_blocked() {
            frame.dropped += 1;
            self.dropped = Some(frame);
        } else {
            self.send(&FromLab::Frame(Box::new(frame)));
        }
    }

    /// Whether a message waits until the command reads.
    pub(super) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(super) fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) if sent > 0 => drop(self.unsent.drain(..sent)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // The command has ended; the lab reads end-of-file next.
                _ => self.unsent.clear(),
            }
        }
    }

    /// Sends all remaining messages. Later writes to the socket block.
    pub(super) fn finish(mut self) {
        let waits = self.stream.set_nonblocking(false);
        let _ = waits.and_then(|()| self.stream.set_write_timeout(Some(END_TIMEOUT)));
        if let Some(mut frame) = self.dropped.take() {
            // This frame, counted as dropped, is sent now.
            frame.dropped -= 1;
            self.send(&FromLab::Frame(Box::new(frame)));
        }
        let _ = self.stream.write_all(&self.unsent);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use run::live::{EventLine, LinkRow};

    use super::super::message;
    use super::*;

    #[test]
    fn stopped_command_receives_complete_messages() {
        let (stream, command) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut outbox = Outbox::new(stream);
        let links: Vec<_> = (0..2_000).map(|link| LinkRow { link, ..Default::default() }).collect();
        for number in 0..50 {
            let events = vec![EventLine { at: f64::from(number), text: String::new() }];
            outbox.frame(Frame { links: links.clone(), events, ..Frame::default() });
        }
        assert!(outbox.is_blocked());
        outbox.send(&FromLab::Up);
        let writer = std::thread::spawn(move || outbox.finish());
        let (mut events, mut dropped, mut others) = (Vec::new(), 0, Vec::new());
        for line in BufReader::new(command).lines() {
            match message::parse(&line.unwrap()).unwrap() {
                FromLab::Frame(frame) => {
                    dropped += frame.dropped;
                    events.extend(frame.events.iter().map(|event| event.at as u64));
                }
                other => others.push(other),
            }
        }
        writer.join().unwrap();
        assert_eq!((events, others), ((0..50).collect(), vec![FromLab::Up]));
        assert!(dropped > 0);
    }
}
