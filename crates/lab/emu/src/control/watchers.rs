//! Connections that receive the live view. A watcher that reads slowly loses frames; the server
//! never waits for it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use run::live::{Frame, Message};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Maximum number of watchers of a lab.
pub const MAX_WATCHERS: usize = 16;

/// Time in which the watchers, all together, must receive the end of the run.
const END_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Watcher {
    stream: UnixStream,
    /// Bytes of messages that the socket has not accepted yet.
    unsent: Vec<u8>,
    /// Whether the lab has sent the state at its start. Frames come after it.
    has_state: bool,
    /// Changes for its next frame: the state at its start, and frames that it did not receive.
    pending: Option<Frame>,
    /// The newest state of the virtual clock, if it has not been sent.
    clock: Option<String>,
    is_gone: bool,
}

#[derive(Debug, Default)]
pub(super) struct Watchers(Vec<Watcher>);

impl Watchers {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|watcher| watcher.stream.as_fd())
    }

    /// Adds a watcher, whose first message is `hello`, a line.
    pub(super) fn add(&mut self, stream: UnixStream, hello: &str) {
        let mut watcher = Watcher {
            stream,
            unsent: hello.as_bytes().to_vec(),
            has_state: false,
            pending: None,
            clock: None,
            is_gone: false,
        };
        watcher.flush();
        self.0.push(watcher);
    }

    /// Adds the state to the first frame of watchers that do not have it.
    pub(super) fn set_state(&mut self, frame: &Frame) {
        for watcher in self.0.iter_mut().filter(|watcher| !watcher.has_state) {
            watcher.has_state = true;
            watcher.pending = Some(frame.clone());
        }
    }

    /// Sends a frame to all watchers; one whose socket is full loses it.
    pub(super) fn send_frame(&mut self, frame: &Frame) {
        let line = line(frame).unwrap_or_default();
        for watcher in self.0.iter_mut().filter(|watcher| watcher.has_state) {
            watcher.flush();
            watcher.send_frame(frame, &line);
        }
    }

    /// Sends the state of the virtual clock, a line; a slow watcher gets the newest only.
    pub(super) fn set_clock(&mut self, line: &str) {
        for watcher in &mut self.0 {
            watcher.clock = Some(line.to_owned());
            watcher.flush();
        }
    }

    /// Sends as much as the sockets accept, and removes watchers that have disconnected.
    pub(super) fn step(&mut self) {
        for watcher in &mut self.0 {
            watcher.read();
            watcher.flush();
        }
        self.0.retain(|watcher| !watcher.is_gone);
    }

    /// Sends the end of the run and closes all connections.
    pub(super) fn end(mut self, end: &str) {
        for watcher in &mut self.0 {
            // A state without a frame is not sent.
            if let Some(mut frame) = watcher.pending.take().filter(|frame| frame.span > 0.0) {
                // This frame, counted as dropped, is sent now.
                frame.dropped -= 1;
                watcher.unsent.extend(line(&frame).unwrap_or_default());
            }
            watcher.unsent.extend_from_slice(end.as_bytes());
        }
        let until = Instant::now() + END_TIMEOUT;
        loop {
            self.0.iter_mut().for_each(Watcher::flush);
            self.0.retain(|watcher| !watcher.is_gone && !watcher.unsent.is_empty());
            let left = until.saturating_duration_since(Instant::now());
            if self.0.is_empty() || left.is_zero() {
                return;
            }
            let mut fds: Vec<_> =
                self.files().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)).collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
        }
    }
}

/// A frame as a line; `None` if it has a number that JSON does not have.
fn line(frame: &Frame) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(&Message::Frame(Box::new(frame.clone()))).ok()?;
    line.push(b'\n');
    Some(line)
}

impl Watcher {
    fn send_frame(&mut self, frame: &Frame, whole: &[u8]) {
        let is_blocked = !self.unsent.is_empty();
        if !is_blocked && self.pending.is_none() {
            self.unsent.extend_from_slice(whole);
        } else {
            let mut frame = frame.clone();
            if let Some(earlier) = self.pending.take() {
                frame.add_earlier(earlier);
            }
            if is_blocked {
                frame.dropped += 1;
                self.pending = Some(frame);
            } else {
                self.unsent.extend(line(&frame).unwrap_or_default());
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if self.unsent.is_empty() {
            self.unsent.extend(self.clock.take().into_iter().flat_map(String::into_bytes));
        }
        while !self.unsent.is_empty() && !self.is_gone {
            match self.stream.write(&self.unsent) {
                Ok(sent) if sent > 0 => drop(self.unsent.drain(..sent)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                _ => self.is_gone = true,
            }
        }
    }

    /// Detects the end of the connection. A watcher sends nothing.
    fn read(&mut self) {
        self.is_gone |= match self.stream.read(&mut [0]) {
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            Ok(_) => true,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use run::live::{EventLine, LinkRow};

    use super::*;

    fn frame(number: u64) -> Frame {
        let event = EventLine { at: number as f64, text: number.to_string() };
        let rows = (0..2_000).map(|link| LinkRow { link, ..LinkRow::default() });
        let (t, span, links) = (number as f64, 1.0, rows.collect());
        Frame { t, span, links, events: vec![event], ..Frame::default() }
    }

    #[test]
    fn slow_watcher_loses_rates_but_no_events() {
        let (stream, client) = UnixStream::pair().unwrap();
        let (fast, fast_client) = UnixStream::pair().unwrap();
        let mut watchers = Watchers::default();
        for stream in [stream, fast] {
            stream.set_nonblocking(true).unwrap();
            watchers.add(stream, "{\"hello\":1}\n");
        }
        watchers.send_frame(&frame(0));
        let event = EventLine { at: 0.0, text: "before".to_owned() };
        watchers.set_state(&Frame { events: vec![event], ..Frame::default() });
        let mut fast_client = BufReader::new(fast_client);
        let next = |client: &mut BufReader<UnixStream>| {
            let mut line = String::new();
            client.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(next(&mut fast_client), "{\"hello\":1}\n");
        // The first client does not read its 100 frames of more than 20 kB.
        let frames = 100;
        let mut seen = 0;
        for number in 1..=frames {
            watchers.send_frame(&frame(number));
            while seen < number {
                watchers.step();
                let Ok(Message::Frame(frame)) = serde_json::from_str(&next(&mut fast_client))
                else {
                    panic!("no frame")
                };
                assert_eq!(frame.dropped, 0);
                seen = frame.t as u64;
            }
        }
        assert_eq!(watchers.count(), 2);
        let reader = std::thread::spawn(move || {
            let mut client = BufReader::new(client);
            let mut lines = Vec::new();
            loop {
                let line = next(&mut client);
                if line.is_empty() {
                    return lines;
                }
                lines.push(line);
            }
        });
        while watchers.0[0].unsent.len() + watchers.0[1].unsent.len() > 0 {
            watchers.step();
        }
        watchers.send_frame(&frame(frames + 1));
        watchers.end("{\"end\":1}\n");
        let lines = reader.join().unwrap();
        assert_eq!(
            (lines[0].as_str(), lines.last().unwrap().as_str()),
            ("{\"hello\":1}\n", "{\"end\":1}\n")
        );
        let frames_seen = lines[1..lines.len() - 1].iter().map(|line| {
            let Ok(Message::Frame(frame)) = serde_json::from_str(line) else { panic!("{line}") };
            *frame
        });
        let frames_seen: Vec<Frame> = frames_seen.collect();
        let dropped: u64 = frames_seen.iter().map(|frame| frame.dropped).sum();
        assert!(dropped > 0);
        assert_eq!(dropped + frames_seen.len() as u64, frames + 1);
        let events = frames_seen.iter().flat_map(|frame| &frame.events);
        let events: Vec<u64> = events.map(|event| event.at as u64).collect();
        assert_eq!(events, (0..=frames + 1).collect::<Vec<_>>());
        assert!(frames_seen.iter().all(|frame| frame.span > 0.0));
    }

    #[test]
    fn watcher_that_disconnects_is_removed() {
        let (stream, client) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut watchers = Watchers::default();
        watchers.add(stream, "{}\n");
        watchers.step();
        assert_eq!((watchers.count(), watchers.files().count()), (1, 1));
        drop(client);
        watchers.step();
        assert_eq!(watchers.count(), 0);
    }
}
