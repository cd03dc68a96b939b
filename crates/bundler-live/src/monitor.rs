//! Tells whoever asks how a box does: on a socket of the file system, and as metrics over HTTP.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::status::Board;
use crate::{Error, Result};

/// Nobody keeps the others waiting for much longer, be it by asking or by reading byte by byte.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest request that is read.
const REQUEST: usize = 8192;

/// A thread that answers.
#[derive(Debug)]
pub(crate) struct Monitor {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Listens, in the place of a box that is dead.
    pub(crate) fn start(path: &Path, metrics: Option<SocketAddr>, board: &Board) -> Result<Self> {
        let local = bind(path)?;
        let refused = |address| move |cause| Error::Socket { action: "listen at", address, cause };
        let http = metrics
            .map(|address| {
                let listener = TcpListener::bind(address).map_err(refused(address))?;
                listener.set_nonblocking(true).map_err(refused(address))?;
                Ok::<_, Error>(listener)
            })
            .transpose()?;
        let over = Arc::new(AtomicBool::new(false));
        let (board, stop) = (board.clone(), Arc::clone(&over));
        let work = move || serve(&local, http.as_ref(), &board, &stop);
        let thread = thread::Builder::new().name("monitor".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Error::file("start a thread for", path, e))?;
        Ok(Self { path: path.to_owned(), over, thread: Some(thread) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // It waits for somebody to ask.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds to a name in the file system. What a dead box left there is removed, a live one is not.
fn bind(path: &Path) -> Result<UnixListener> {
    let failure = |e| Error::file("listen at", path, e);
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|e| Error::file("create", folder, e))?;
    }
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if UnixStream::connect(path).is_ok() {
                return Err(Error::Running(path.display().to_string()));
            }
            let found = fs::symlink_metadata(path).map_err(failure)?;
            if !found.file_type().is_socket() {
                return Err(failure(ErrorKind::AlreadyExists.into()));
            }
            fs::remove_file(path).map_err(failure)?;
            UnixListener::bind(path).map_err(failure)?
        }
        other => other.map_err(failure)?,
    };
    // How a site's traffic does is for whoever may administer it.
    fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(failure)?;
    listener.set_nonblocking(true).map_err(failure)?;
    Ok(listener)
}

fn serve(local: &UnixListener, http: Option<&TcpListener>, board: &Board, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        let mut polled = vec![PollFd::new(local, PollFlags::IN)];
        polled.extend(http.map(|http| PollFd::new(http, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
        // A wait that failed is over; whoever asks will ask again.
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
        // Who asks may go away before the answer.
        if let Ok((mut stream, _)) = local.accept() {
            let end = Instant::now() + PATIENCE;
            let text = format!("{}\n", board.get().json());
            let patience = |stream: &UnixStream, left| stream.set_write_timeout(Some(left));
            let _ = write_until(end, &mut stream, text.as_bytes(), patience);
        }
        if let Some(Ok((stream, _))) = http.map(TcpListener::accept) {
            let _ = answer(stream, board);
        }
    }
}

/// Answers one request (RFC 1945 is enough for it) and closes.
fn answer(mut stream: TcpStream, board: &Board) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let end = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match (method, target) {
        (b"GET" | b"HEAD", b"/metrics") => {
            ("200 OK", "text/plain; version=0.0.4", board.get().metrics())
        }
        (b"GET" | b"HEAD", b"/" | b"/status") => {
            ("200 OK", "application/json", format!("{}\n", board.get().json()))
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "/metrics, /status\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let answer = if method == b"HEAD" { head } else { head + &body };
    let end = Instant::now() + PATIENCE;
    let patience = |stream: &TcpStream, left| stream.set_write_timeout(Some(left));
    write_until(end, &mut stream, answer.as_bytes(), patience)
}

/// Time until `end`.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Writes all, or as much as is taken until `end`.
fn write_until<S: Write>(
    end: Instant,
    stream: &mut S,
    mut bytes: &[u8],
    patience: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        patience(stream, left(end)?)?;
        match stream.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_slowly_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&over);
        let asks = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            // Never a whole request, and never silent for long.
            while !done.load(Ordering::SeqCst) && stream.write_all(b"G").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let (stream, _) = listener.accept().unwrap();
        assert!(answer(stream, &Board::default()).is_err());
        over.store(true, Ordering::SeqCst);
        asks.join().unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "kept").unwrap();
        assert!(bind(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        // A dead box's socket is not.
        let path = folder.path().join("box.sock");
        drop(UnixListener::bind(&path).unwrap());
        bind(&path).unwrap();
    }
}
