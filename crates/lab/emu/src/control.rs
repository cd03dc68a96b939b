//! Requests to a running lab: changes of links and programs, and marks. A lab on one machine has a
//! Unix socket beside its registry entry; a connection carries one request and one answer, each a
//! line of JSON. A connection with [`Request::Watch`] receives the messages of [`run::live`] until
//! the lab ends.

mod watchers;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::{Code, Diagnostic, Diagnostics};
use run::live::{self, ClockChange, ClockState, Frame, Hello, Message, Problem};
use serde::{Deserialize, Serialize};

pub use watchers::MAX_WATCHERS;
use watchers::Watchers;

const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Maximum number of simultaneous connections of a lab, without watchers.
const MAX_CLIENTS: usize = 16;

/// Timeout of an answer, which fits into the socket's buffer unless a value is very long.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// New values for fields of links and programs.
    Set(Vec<(String, String)>),
    /// Adds a text to the list of events.
    Mark(String),
    /// Sends the live view from now on.
    Watch,
    /// Changes the pace of a run on the virtual clock.
    Clock(ClockChange),
}

/// A run to show.
#[derive(Clone, Debug)]
pub struct WatchedRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Socket of the lab, if it is running.
    pub socket: Option<PathBuf>,
    /// Refuse requests of the watcher.
    pub read_only: bool,
    /// The command that starts a shell on the host whose name follows, if the lab can run programs.
    pub shell: Option<Vec<OsString>>,
}

/// Checks the text of a mark; returns it without spaces around it.
///
/// # Errors
/// If it is not a line of 1 to 200 characters.
pub fn mark_text(text: &str) -> Result<String, String> {
    let text = text.trim();
    let length = text.chars().count();
    if (1..=200).contains(&length) && !text.contains(char::is_control) {
        return Ok(text.to_owned());
    }
    Err("write one line of 1 to 200 characters".to_owned())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The request takes effect at this lab time.
    Done {
        at_s: f64,
        events: Vec<String>,
        warnings: Vec<Finding>,
        /// The change as `[[at]]` events for the end of the lab file.
        at_events: String,
    },
    /// Fields or values are wrong; nothing changed.
    Wrong { errors: Vec<Finding> },
    /// The lab cannot handle requests now.
    Refused { why: String },
}

/// A diagnostic of the lab compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    code: String,
    message: String,
    help: Option<String>,
    labels: Vec<(std::ops::Range<usize>, String)>,
}

impl Finding {
    pub fn all(found: &Diagnostics) -> Vec<Self> {
        let own = |diagnostic: &Diagnostic| Self {
            code: diagnostic.code.as_str().to_owned(),
            message: diagnostic.message.clone(),
            help: diagnostic.help.clone(),
            labels: diagnostic.labels.clone(),
        };
        found.list().iter().map(own).collect()
    }

    pub fn diagnostics(findings: &[Self], fields: &[(String, String)]) -> Diagnostics {
        let known = |finding: &Self| {
            let code = Code::ALL.iter().find(|code| code.as_str() == finding.code)?;
            let Self { message, help, labels, .. } = finding.clone();
            Some(Diagnostic { code: *code, message, help, labels, position: (0, 0) })
        };
        let list = findings.iter().filter_map(known).collect();
        Diagnostics::new(lab::live::SOURCE, &lab::live::source(fields), list)
    }
}

/// Sends a request to the lab with this socket, and waits for the answer; `None` if the lab ended
/// before it answered.
///
/// # Errors
/// If the lab cannot be reached, or the request is too long.
pub fn request(socket: &Path, request: &Request) -> io::Result<Option<Answer>> {
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    if line.len() > MAX_REQUEST_BYTES {
        let why = format!("the request is longer than {MAX_REQUEST_BYTES} B");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    let mut stream = UnixStream::connect(socket)?;
    let sent = stream.write_all(line.as_bytes());
    let mut answer = String::new();
    let read = sent.and_then(|()| BufReader::new(stream).read_line(&mut answer));
    match read {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(serde_json::from_str(&answer)?)),
        Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Connects to the lab with this socket as a watcher. The lab sends messages of [`run::live`] as
/// lines; [`hello`] reads the first.
///
/// # Errors
/// If the lab cannot be reached.
pub fn watch(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let line = serde_json::to_string(&Request::Watch)? + "\n";
    stream.write_all(line.as_bytes())?;
    Ok(stream)
}

/// Reads the first line that a watcher receives. A watcher that is `read_only` has no commands.
///
/// # Errors
/// If the lab refuses watchers (`true`), or is of another version.
pub fn hello(line: &str, read_only: bool) -> Result<Box<Hello>, (bool, String)> {
    match serde_json::from_str(line) {
        Ok(Message::Hello(mut hello)) => {
            if read_only {
                hello.read_only = true;
                hello.commands.clear();
            }
            Ok(hello)
        }
        _ => Err(match serde_json::from_str(line) {
            Ok(Answer::Refused { why }) => (true, why),
            _ => (false, "the lab runs with another version of netarium".to_owned()),
        }),
    }
}

/// Passes the request of a watcher to the lab, and waits for the answer. Without a socket, the run
/// has ended.
pub fn answer(run: &WatchedRun, request: live::Request) -> live::Answer {
    let id = request.id().unwrap_or_default();
    let request = match request {
        _ if run.read_only => Err("the live view is read-only".to_owned()),
        live::Request::Set { fields, .. } => Ok(Request::Set(fields)),
        live::Request::Mark { text, .. } => mark_text(&text).map(Request::Mark),
        live::Request::Clock { change, .. } => Ok(Request::Clock(change)),
        live::Request::Unknown => Err("unknown request".to_owned()),
    };
    let answer = request.and_then(|request| {
        let socket = run.socket.as_ref();
        let answer = socket.map_or(Ok(None), |socket| self::request(socket, &request));
        match answer {
            Ok(Some(answer)) => Ok(answer),
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                Err(format!("the lab cannot be reached: {e}"))
            }
            _ => Err("the run has ended".to_owned()),
        }
    });
    let answer = match answer {
        Ok(Answer::Done { at_s, events, warnings, at_events }) => {
            let warnings = warnings.iter().map(|warning| warning.message.clone()).collect();
            let errors = Vec::new();
            live::Answer { id, ok: true, at: at_s, events, warnings, errors, at_events }
        }
        Ok(Answer::Wrong { errors }) => {
            let problem = |Finding { message, help, .. }| Problem { message, help };
            let errors = errors.into_iter().map(problem).collect();
            live::Answer { errors, ..live::Answer::default() }
        }
        Ok(Answer::Refused { why }) | Err(why) => live::Answer::refused(why),
    };
    live::Answer { id, ..answer }
}

/// The lab's end of its socket. Never blocks.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
    next_id: u64,
    watchers: Watchers,
}

#[derive(Debug)]
struct Client {
    id: u64,
    stream: UnixStream,
    received: Vec<u8>,
    /// It has sent its request.
    is_waiting: bool,
}

impl Server {
    /// Binds the socket, which must be in a folder that only this user can reach.
    ///
    /// # Errors
    /// If the socket cannot be bound.
    pub fn bind(path: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let (clients, watchers) = (Vec::new(), Watchers::default());
        Ok(Self { listener, path, clients, next_id: 0, watchers })
    }

    /// Descriptors that become readable when the server must act.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients).chain(self.watchers.files())
    }

    /// Accepts connections and reads; returns complete requests with the identifiers for
    /// [`Server::answer`].
    pub fn receive(&mut self) -> Vec<(u64, Request)> {
        self.watchers.step();
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < MAX_CLIENTS && stream.set_nonblocking(true).is_ok() {
                let id = self.next_id;
                self.next_id += 1;
                self.clients.push(Client { id, stream, received: Vec::new(), is_waiting: false });
            }
        }
        let mut requests = Vec::new();
        self.clients.retain_mut(|client| match client.read() {
            Reading::Request(request) => {
                requests.push((client.id, request));
                true
            }
            Reading::Incomplete => true,
            Reading::Closed => false,
        });
        requests
    }

    /// Sends the answer to a client, if it still waits.
    pub fn answer(&mut self, id: u64, answer: &Answer) {
        let Some(position) = self.clients.iter().position(|client| client.id == id) else { return };
        let mut stream = self.clients.swap_remove(position).stream;
        // A client that has ended, or that does not read, gets no answer.
        if let Ok(mut text) = serde_json::to_vec(answer)
            && stream.set_nonblocking(false).is_ok()
            && stream.set_write_timeout(Some(WRITE_TIMEOUT)).is_ok()
        {
            text.push(b'\n');
            let _ = stream.write_all(&text);
        }
    }

    /// Makes a client a watcher, whose first message is `hello`.
    pub fn watch(&mut self, id: u64, hello: &Message) {
        let why = format!("the lab has {MAX_WATCHERS} watchers, which is the limit");
        let Some(position) = self.clients.iter().position(|client| client.id == id) else { return };
        match serde_json::to_string(hello) {
            Ok(hello) if self.watchers.count() < MAX_WATCHERS => {
                let stream = self.clients.swap_remove(position).stream;
                self.watchers.add(stream, &(hello + "\n"));
            }
            _ => self.answer(id, &Answer::Refused { why }),
        }
    }

    pub fn has_watchers(&self) -> bool {
        self.watchers.count() > 0
    }

    /// Sends the state of the lab to new watchers.
    pub fn state(&mut self, frame: &Frame) {
        self.watchers.set_state(frame);
    }

    pub fn frame(&mut self, frame: &Frame) {
        self.watchers.send_frame(frame);
    }

    /// Sends the state of the virtual clock.
    pub fn clock(&mut self, state: ClockState) {
        if let Ok(line) = serde_json::to_string(&Message::Clock(state)) {
            self.watchers.set_clock(&(line + "\n"));
        }
    }

    /// Sends the end of the run to watchers.
    pub fn end(mut self, end: run::live::End) {
        if let Ok(end) = serde_json::to_string(&Message::End(end)) {
            std::mem::take(&mut self.watchers).end(&(end + "\n"));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

enum Reading {
    Request(Request),
    Incomplete,
    /// The client has closed the connection, or sent an invalid request.
    Closed,
}

impl Client {
    fn read(&mut self) -> Reading {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Reading::Closed,
                Ok(_) if self.is_waiting => return Reading::Closed,
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Reading::Incomplete,
                Err(_) => return Reading::Closed,
            }
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                self.is_waiting = true;
                let request = serde_json::from_slice(&self.received[..end]);
                self.received = Vec::new();
                return request.map_or(Reading::Closed, Reading::Request);
            }
            if self.received.len() > MAX_REQUEST_BYTES {
                return Reading::Closed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> (tempfile::TempDir, Server, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        (dir, Server::bind(path.clone()).unwrap(), path)
    }

    #[test]
    fn answers_one_request_per_connection() {
        let (_dir, mut server, path) = server();
        let wanted = Request::Mark("a\nb".to_owned());
        let (sent, socket) = (wanted.clone(), path.clone());
        let client = std::thread::spawn(move || request(&socket, &sent).unwrap());
        let (id, received) = loop {
            if let Some(request) = server.receive().pop() {
                break request;
            }
            std::thread::yield_now();
        };
        assert_eq!(received, wanted);
        let (events, at_events) = (vec!["x".into()], "\n# 1.5 s: mark \"x\"\n".into());
        let answer = Answer::Done { at_s: 1.5, events, warnings: Vec::new(), at_events };
        server.answer(id, &answer);
        assert_eq!(client.join().unwrap(), Some(answer));
        assert_eq!(server.files().count(), 1);
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn closes_connections_without_valid_request() {
        let (_dir, mut server, path) = server();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"mark\":").unwrap();
        assert!(server.receive().is_empty());
        assert_eq!(server.files().count(), 2);
        client.write_all(b"7}\n").unwrap();
        assert!(server.receive().is_empty());
        assert_eq!(server.files().count(), 1);
        let gone = UnixStream::connect(&path).unwrap();
        server.receive();
        drop(gone);
        server.receive();
        assert_eq!(server.files().count(), 1);
        let idle: Vec<_> = (0..=MAX_CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        server.receive();
        assert_eq!(server.files().count(), 1 + MAX_CLIENTS);
        drop(idle);
    }
}
