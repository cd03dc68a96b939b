//! The WebSocket of a terminal: a shell on a host of a running lab.
//!
//! The page sends [`TerminalRequest::Open`] first; then binary messages are input and output of the
//! shell. The server reads output only while the page has processed all but [`MAX_UNPROCESSED`]
//! bytes of it: a program whose output a page does not read waits. The close frame says how the
//! shell ended. The shell ends with the connection, and with the lab.

use std::ffi::OsString;
use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{self, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::Response;
use run::live::{MAX_REQUEST_BYTES, TerminalRequest, parse_terminal_request};
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::Shared;
use crate::socket::{self, Closed};

/// Maximum number of terminals of a server.
pub const MAX_TERMINALS: usize = 8;

/// Output that the page may have received and not processed.
const MAX_UNPROCESSED: usize = 256 << 10;

/// Input that programs may leave unread. Input of keyboards is far less.
const MAX_INPUT_BYTES: usize = 1 << 20;

const MAX_OUTPUT_MESSAGE: usize = 16 << 10;

/// Time in which a page must send its first message.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Terminals of programs that the page draws.
const VARIABLES: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];

pub(crate) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if let Some(refused) = socket::refuse_origin(&shared, &headers) {
        return refused;
    }
    upgrade.max_message_size(2 * MAX_REQUEST_BYTES).on_upgrade(async move |mut socket| {
        let closed = socket::until_stopped(&shared, serve(&shared, &mut socket)).await;
        socket::close(&mut socket, closed).await;
    })
}

async fn serve(shared: &Shared, socket: &mut WebSocket) -> Closed {
    let refused = |why: &str| (close_code::POLICY, why.to_owned());
    let Some(words) = &shared.run.shell else {
        return refused("terminals need a running lab on the wall clock");
    };
    if shared.run.read_only {
        return refused("the live view is read-only");
    }
    let Ok(_slot) = Arc::clone(&shared.terminals).try_acquire_owned() else {
        let why = format!("{MAX_TERMINALS} terminals are open, which is the limit; close one");
        return (close_code::AGAIN, why);
    };
    let Ok(opened) = tokio::time::timeout(OPEN_TIMEOUT, open(socket)).await else {
        return refused("the first message did not arrive in time");
    };
    let started = opened.and_then(|(host, size)| {
        let failed = |e: io::Error| (close_code::ERROR, format!("cannot start a shell: {e}"));
        Shell::start(words, &host, size).map_err(failed)
    });
    let mut shell = match started {
        Ok(shell) => shell,
        Err(closed) => return closed,
    };
    let connected = connect(socket, &mut shell).await;
    // The place of this terminal is free after the end of its shell.
    let ended = shell.end().await;
    match (connected, ended) {
        (Err(closed), _) => closed,
        (Ok(()), Ok(status)) => {
            let code = status.code().unwrap_or_default();
            (close_code::NORMAL, format!("the shell ended with exit status {code}"))
        }
        (Ok(()), Err(why)) => (close_code::ERROR, why),
    }
}

type Size = (NonZeroU16, NonZeroU16);

/// Receives the first message.
async fn open(socket: &mut WebSocket) -> Result<(String, Size), Closed> {
    match receive(socket.recv().await)? {
        Received::Request(TerminalRequest::Open { host, columns, rows }) => {
            Ok((host, (columns, rows)))
        }
        _ => Err((close_code::POLICY, "the first message opens the terminal".to_owned())),
    }
}

enum Received {
    Request(TerminalRequest),
    Input(Vec<u8>),
    Nothing,
}

fn receive(message: Option<Result<ws::Message, axum::Error>>) -> Result<Received, Closed> {
    let parse = |text: Utf8Bytes| parse_terminal_request(&text).map(Received::Request);
    match message {
        Some(Ok(ws::Message::Text(text))) => parse(text).map_err(|why| (close_code::POLICY, why)),
        Some(Ok(ws::Message::Binary(bytes))) => Ok(Received::Input(bytes.into())),
        // The library answers pings.
        Some(Ok(ws::Message::Ping(_) | ws::Message::Pong(_))) => Ok(Received::Nothing),
        Some(Ok(ws::Message::Close(_))) | None => Err((close_code::NORMAL, String::new())),
        Some(Err(error)) => Err((close_code::POLICY, error.to_string())),
    }
}

/// Passes on input and output until the shell ends.
async fn connect(socket: &mut WebSocket, shell: &mut Shell) -> Result<(), Closed> {
    let mut input = Vec::new();
    let mut output = vec![0; MAX_OUTPUT_MESSAGE];
    let mut unprocessed = 0_usize;
    loop {
        tokio::select! {
            read = shell.read(&mut output), if unprocessed < MAX_UNPROCESSED => {
                // An error means that no process has the terminal open.
                let Some(count) = read.ok().filter(|count| *count > 0) else { return Ok(()) };
                unprocessed += count;
                let message = ws::Message::Binary(output[..count].to_vec().into());
                let sent = socket.send(message).await;
                sent.map_err(|error| (close_code::ERROR, error.to_string()))?;
            }
            written = shell.write(&input), if !input.is_empty() => {
                let Ok(count) = written else { return Ok(()) };
                input.drain(..count);
            }
            message = socket.recv() => match receive(message)? {
                Received::Input(bytes) => {
                    input.extend_from_slice(&bytes);
                    if input.len() > MAX_INPUT_BYTES {
                        let why = format!("programs left {MAX_INPUT_BYTES} B of input unread");
                        return Err((close_code::POLICY, why));
                    }
                }
                Received::Request(TerminalRequest::Resize { columns, rows }) => {
                    shell.resize((columns, rows));
                }
                Received::Request(TerminalRequest::Ack { bytes }) => {
                    unprocessed = unprocessed.saturating_sub(bytes as usize);
                }
                Received::Request(_) | Received::Nothing => {}
            },
        }
    }
}

/// A command with a pseudoterminal.
struct Shell {
    child: Child,
    terminal: AsyncFd<OwnedFd>,
}

impl Shell {
    fn start(words: &[OsString], host: &str, (columns, rows): Size) -> io::Result<Self> {
        let (controller, peer) = sys::process::open_terminal().map_err(io::Error::other)?;
        sys::process::set_terminal_size(controller.as_fd(), columns.get(), rows.get())
            .map_err(io::Error::other)?;
        #[expect(deprecated, reason = "the replacement is unsafe: `OwnedFd` meets its conditions")]
        let terminal = AsyncFd::new(controller)?;
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).arg(host).envs(VARIABLES);
        command.stdin(peer.try_clone()?).stdout(peer.try_clone()?).stderr(peer);
        // Ctrl-C in the terminal of this process does not end the shell.
        let child = command.process_group(0).spawn()?;
        Ok(Self { child, terminal })
    }

    async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.terminal
            .async_io(Interest::READABLE, |terminal| Ok(rustix::io::read(terminal, &mut *bytes)?))
            .await
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.terminal
            .async_io(Interest::WRITABLE, |terminal| Ok(rustix::io::write(terminal, bytes)?))
            .await
    }

    /// Changes the size; the command, which is not in a session of the terminal, gets a signal.
    fn resize(&self, (columns, rows): Size) {
        let terminal = self.terminal.get_ref().as_fd();
        let resized = sys::process::set_terminal_size(terminal, columns.get(), rows.get());
        let pid = rustix::process::Pid::from_child(&self.child);
        // An error means that the shell has ended.
        let _ = resized.map(|()| rustix::process::kill_process(pid, Signal::WINCH));
    }

    /// Closes the terminal, which ends the command, and waits for its end.
    async fn end(self) -> Result<ExitStatus, String> {
        let Self { mut child, terminal } = self;
        drop(terminal);
        socket::blocking(move || child.wait()).await
    }
}
