//! Merges the captures of several inputs in the order of time.

use std::path::PathBuf;
use std::time::Duration;

use base::Time;
use collector::capture::{Reader, Step};
use collector::{Frame, LinkType};

use super::{Fill, Input};
use crate::pipeline::DISORDER;
use crate::{Error, Result};

#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    Frame(Frame<'a>),
    /// Packets that the capture reports as lost since its last report.
    Dropped {
        interface: u32,
        packets: u64,
    },
    /// A problem of an input. Reading continues after it or with the next input.
    Trouble(&'a Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Waiting,
    End,
}

/// A packet in the window of its input.
#[derive(Clone, Copy)]
struct Head {
    time: Time,
    /// Time of its place among the packets of other inputs: not [`Self::time`] if the next packet
    /// of the input contradicts that.
    order: Time,
    link: LinkType,
    interface: u32,
    length: u32,
    at: usize,
    captured: usize,
    used: usize,
}

enum Next {
    Frame(Head),
    Dropped { interface: u32, packets: u64 },
    Trouble(Error),
    Waiting,
    End,
}

enum ReaderRequest {
    Skip(usize),
    Dropped { interface: u32, packets: u64, used: usize },
    Need(usize),
    Trouble { used: usize, cause: String },
    Refused(collector::Error),
    End,
}

impl ReaderRequest {
    /// The result of a read other than a packet.
    fn of(said: std::result::Result<Step<'_>, collector::Error>) -> Option<Self> {
        Some(match said {
            Ok(Step::Frame { .. }) => return None,
            Ok(Step::Skip { used }) => Self::Skip(used),
            Ok(Step::Need { bytes }) => Self::Need(bytes),
            Ok(Step::Dropped { interface, packets, used }) => {
                Self::Dropped { interface, packets, used }
            }
            Ok(Step::Damaged { offset, used }) => {
                Self::Trouble { used, cause: format!("damaged from byte {offset} on") }
            }
            Ok(Step::Torn { offset, bytes }) => {
                let cause = format!("cut off within the record at byte {offset}");
                Self::Trouble { used: bytes, cause }
            }
            Ok(Step::End) => Self::End,
            Err(error) => Self::Refused(error),
        })
    }
}

struct Capture {
    input: Input,
    reader: Reader,
    head: Option<Head>,
    /// [`Head::order`] of the last packet.
    last: Option<Time>,
    /// A problem behind the packets of the window.
    ahead: Option<Error>,
    /// A file that no process is writing: waiting is caused by the disk or decompression.
    is_whole: bool,
    interfaces: u32,
    failed: bool,
}

struct Later {
    path: PathBuf,
    first: Time,
    interfaces: u32,
}

pub struct Captures {
    open: Vec<Capture>,
    later: Vec<Later>,
    follow: bool,
    /// Another process may be writing: a followed file or a pipe.
    is_growing: bool,
}

/// Numbers of interfaces per input if inputs are separate.
const INTERFACES_PER_INPUT: u32 = 1 << 16;

impl Captures {
    /// Opens captures; `-` is standard input. Files whose times do not overlap are read one after
    /// another, others are merged, the earliest packet first. With `apart`, each input is a
    /// separate tap with its own interface numbers. Otherwise all inputs are parts of one capture.
    pub fn open(paths: &[PathBuf], follow: bool, apart: bool) -> Result<Self> {
        let mut captures = Self { open: Vec::new(), later: Vec::new(), follow, is_growing: follow };
        for (number, path) in paths.iter().enumerate() {
            let interfaces = if apart { number as u32 * INTERFACES_PER_INPUT } else { 0 };
            let input = Input::open(path, follow)?;
            let is_file = std::fs::metadata(path).is_ok_and(|data| data.is_file());
            let mut capture = Capture::new(input, interfaces, is_file && !follow);
            captures.is_growing |= !is_file;
            if paths.len() == 1 || !is_file || follow {
                captures.open.push(capture);
                continue;
            }
            loop {
                match capture.next(Duration::from_secs(1)) {
                    Next::Frame(head) => {
                        let (path, first) = (path.clone(), capture.order(&head));
                        captures.later.push(Later { path, first, interfaces });
                        break;
                    }
                    Next::Trouble(error @ Error::Content { .. }) => return Err(error),
                    // An input without packets has no first time: report its problems first.
                    Next::End => {
                        let (path, first) = (path.clone(), Time::ZERO);
                        captures.later.push(Later { path, first, interfaces });
                        break;
                    }
                    Next::Waiting | Next::Dropped { .. } | Next::Trouble(_) => {}
                }
            }
        }
        captures.later.sort_by_key(|later| std::cmp::Reverse(later.first));
        Ok(captures)
    }

    /// Open captures, such as pipes: parts of one capture, merged by time.
    pub fn of(inputs: Vec<Input>) -> Self {
        let open = inputs.into_iter().map(|input| Capture::new(input, 0, false)).collect();
        Self { open, later: Vec::new(), follow: false, is_growing: true }
    }

    /// Whether another process may be writing to an input. If not, waiting is caused by the
    /// disk or decompression.
    pub(crate) const fn is_growing(&self) -> bool {
        self.is_growing
    }

    /// Delivers the available packets, and waits up to `wait` if there are none.
    ///
    /// Fails if an input cannot be reopened. Other problems are reported as [`Item`]s.
    pub fn step(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Result<Progress> {
        if self.open.len() + self.later.len() > 1 {
            return self.merge(wait, each);
        }
        if self.open.is_empty() {
            self.open_next()?;
        }
        let Some(capture) = self.open.first_mut() else { return Ok(Progress::End) };
        if capture.head.is_some() {
            capture.drain_until(Time::MAX, each);
        }
        Ok(capture.drain(wait, each))
    }

    fn open_next(&mut self) -> Result<()> {
        let Some(later) = self.later.pop() else { return Ok(()) };
        let input = Input::open(&later.path, self.follow)?;
        self.open.push(Capture::new(input, later.interfaces, true));
        Ok(())
    }

    /// Delivers packets of the input with the earliest one, until another has an earlier one.
    fn merge(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Result<Progress> {
        let mut waits = false;
        let mut at = 0;
        while at < self.open.len() {
            let capture = &mut self.open[at];
            // Waits once for an input without data; then the others continue without it.
            match capture.peek(if waits { Duration::ZERO } else { wait }, each) {
                Progress::More => at += 1,
                Progress::Waiting => {
                    waits = true;
                    at += 1;
                }
                Progress::End => drop(self.open.swap_remove(at)),
            }
        }
        let heads = self.open.iter().enumerate();
        let mut times: Vec<(Time, usize)> =
            heads.filter_map(|(at, c)| Some((c.head?.order, at))).collect();
        times.sort_unstable();
        let next = self.later.last().map(|later| later.first);
        if let Some(first) = next
            && times.first().is_none_or(|(time, _)| first <= *time)
        {
            self.open_next()?;
            return Ok(Progress::More);
        }
        let Some((_, first)) = times.first() else {
            return Ok(if self.open.is_empty() { Progress::End } else { Progress::Waiting });
        };
        let limit = times.get(1).map(|(time, _)| *time);
        let limit = limit.into_iter().chain(next).min().unwrap_or(Time::MAX);
        self.open[*first].drain_until(limit, each);
        Ok(Progress::More)
    }
}

impl Capture {
    fn new(input: Input, interfaces: u32, is_whole: bool) -> Self {
        let reader = Reader::new();
        Self {
            input,
            reader,
            head: None,
            last: None,
            ahead: None,
            is_whole,
            interfaces,
            failed: false,
        }
    }

    /// The next item of this input; packets are not copied.
    fn next(&mut self, wait: Duration) -> Next {
        if let Some(error) = self.ahead.take() {
            return self.trouble(error);
        }
        loop {
            let unread = self.input.unread();
            let said = match self.reader.next(unread, self.input.is_ended()) {
                Ok(Step::Frame { frame, used }) => {
                    return Next::Frame(Head {
                        time: frame.time,
                        order: frame.time,
                        link: frame.link,
                        interface: frame.interface,
                        length: frame.length,
                        at: frame.data.as_ptr().addr() - unread.as_ptr().addr(),
                        captured: frame.data.len(),
                        used,
                    });
                }
                other => ReaderRequest::of(other),
            };
            if let Some(next) = said.and_then(|said| self.execute(said, wait)) {
                return next;
            }
        }
    }

    /// Executes a request of the reader; `None`: call again.
    fn execute(&mut self, said: ReaderRequest, wait: Duration) -> Option<Next> {
        if self.failed {
            return Some(Next::End);
        }
        match said {
            ReaderRequest::Skip(used) => self.input.consume(used),
            ReaderRequest::Dropped { interface, packets, used } => {
                self.input.consume(used);
                return Some(Next::Dropped { interface, packets });
            }
            ReaderRequest::Trouble { used, cause } => {
                self.input.consume(used);
                if self.input.is_ended() && self.input.unread().is_empty() {
                    self.reader = Reader::new();
                }
                return Some(Next::Trouble(self.content(cause)));
            }
            ReaderRequest::Refused(error) => {
                self.failed = true;
                return Some(Next::Trouble(self.content(error.to_string())));
            }
            ReaderRequest::End => return Some(Next::End),
            ReaderRequest::Need(bytes) => match self.input.fill(bytes, wait) {
                Ok(Fill::More | Fill::End) => {}
                Ok(Fill::Waiting) => return Some(Next::Waiting),
                Ok(Fill::Restarted) => self.reader = Reader::new(),
                Err(error) => return Some(self.trouble(error)),
            },
        }
        None
    }

    fn trouble(&mut self, error: Error) -> Next {
        // Data before damaged compression is readable.
        self.failed = !self.input.is_ended();
        Next::Trouble(error)
    }

    fn content(&self, cause: String) -> Error {
        Error::Content { path: self.input.path().to_owned(), cause }
    }

    /// The time at which a packet follows those of other inputs. A step of the time that the next
    /// packet takes back would delay all later packets of the input.
    fn order(&mut self, head: &Head) -> Time {
        let distance = |one: Time, other: Time| one.as_nanos().abs_diff(other.as_nanos());
        let is_near = |one, other| distance(one, other) <= DISORDER.as_nanos();
        let nearer = |to, one, other| distance(to, one) < distance(to, other);
        let time = head.time;
        if self.last.is_some_and(|last| is_near(last, time)) {
            return time;
        }
        match (self.last, self.time_after(head, 0)) {
            (Some(last), Some(next)) if nearer(next, time, last) => time,
            (Some(last), _) => last,
            (None, Some(next)) if !is_near(time, next) => match self.time_after(head, 1) {
                Some(second) if nearer(second, time, next) => time,
                // The earlier one delays no packet.
                _ => time.min(next),
            },
            (None, _) => time,
        }
    }

    /// The time of the packet `between` packets after `head`; `None` if there is none yet.
    fn time_after(&mut self, head: &Head, mut between: usize) -> Option<Time> {
        let (mut reader, mut at) = (self.reader.clone(), head.used);
        loop {
            let unread = self.input.unread().get(at..)?;
            let need = match reader.next(unread, self.input.is_ended()) {
                Ok(Step::Frame { frame, .. }) if between == 0 => return Some(frame.time),
                Ok(Step::Frame { used, .. }) => {
                    between -= 1;
                    at += used;
                    continue;
                }
                Ok(Step::Skip { used } | Step::Dropped { used, .. }) => {
                    at += used;
                    continue;
                }
                // A followed file may be replaced, and `head` with it.
                Ok(Step::Need { bytes }) if !self.input.follow => at + bytes,
                _ => return None,
            };
            let wait = if self.is_whole { Duration::from_secs(1) } else { Duration::ZERO };
            match self.input.fill(need, wait) {
                Ok(Fill::More) => {}
                Ok(Fill::Waiting) if self.is_whole => {}
                Ok(_) => return None,
                Err(error) => {
                    self.ahead = Some(error);
                    return None;
                }
            }
        }
    }

    /// Finds the next packet, unless it is found.
    fn peek(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Progress {
        while self.head.is_none() {
            match self.next(wait) {
                Next::Frame(head) => {
                    let order = self.order(&head);
                    self.last = Some(order);
                    self.head = Some(Head { order, ..head });
                }
                Next::Dropped { interface, packets } => {
                    let interface = interface + self.interfaces;
                    each(Item::Dropped { interface, packets });
                }
                Next::Trouble(error) => each(Item::Trouble(&error)),
                Next::Waiting => return Progress::Waiting,
                Next::End => return Progress::End,
            }
        }
        Progress::More
    }

    /// Delivers the found packet and others up to `limit`.
    fn drain_until(&mut self, limit: Time, each: &mut impl FnMut(Item<'_>)) {
        while let Some(head) = self.head {
            if head.order > limit {
                return;
            }
            self.head = None;
            let data = &self.input.unread()[head.at..head.at + head.captured];
            let interface = head.interface + self.interfaces;
            let whole = Frame::whole(head.time, head.link, data);
            each(Item::Frame(Frame { interface, length: head.length, ..whole }));
            self.input.consume(head.used);
            self.peek(Duration::ZERO, each);
        }
    }

    /// Delivers all packets of the window; then reads the next window.
    fn drain(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Progress {
        let interfaces = self.interfaces;
        let is_ended = self.input.is_ended();
        let mut rest = self.input.unread();
        let said = loop {
            match self.reader.next(rest, is_ended) {
                Ok(Step::Frame { mut frame, used }) => {
                    frame.interface += interfaces;
                    each(Item::Frame(frame));
                    rest = &rest[used..];
                }
                other => break ReaderRequest::of(other),
            }
        };
        let left = rest.len();
        self.input.consume(self.input.unread().len() - left);
        match said.and_then(|said| self.execute(said, wait)) {
            // `execute` returns no packets.
            None | Some(Next::Frame(_)) => {}
            Some(Next::Dropped { interface, packets }) => {
                each(Item::Dropped { interface: interface + interfaces, packets });
            }
            Some(Next::Trouble(error)) => each(Item::Trouble(&error)),
            Some(Next::Waiting) => return Progress::Waiting,
            Some(Next::End) => return Progress::End,
        }
        Progress::More
    }
}
