//! Tells whoever asks how a front does: on a socket of the file system, and over HTTP.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::status::Board;
use super::{Error, Result};

/// Nobody who asks may take longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read.
const REQUEST: usize = 8192;
/// Most who ask at once.
const MOST: usize = 16;
/// After an error of the listener itself, such as no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// A board that several tasks read.
pub(crate) type Shared = Arc<Mutex<Board>>;

type Answering = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A name in the file system, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Named {
    path: PathBuf,
    listener: UnixListener,
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Named {
    /// Takes a name. What a dead process left there is removed, a live one's is not.
    pub(crate) fn bind(path: &Path) -> Result<Self> {
        let failure = |cause| Error::file("listen at", path, cause);
        if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|cause| Error::file("create", folder, cause))?;
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    return Err(Error::Running(path.to_owned()));
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
        let this = Self { path: path.to_owned(), listener };
        // Who talks to whom is for whoever may administer it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(failure)?;
        Ok(this)
    }
}

/// Answers until it is dropped.
pub(crate) async fn serve(local: Option<Named>, http: Option<TcpListener>, board: Shared) {
    let mut tasks = JoinSet::new();
    loop {
        let from_file = async {
            match &local {
                Some(local) => local.listener.accept().await.map(|(stream, _)| stream),
                None => std::future::pending().await,
            }
        };
        let from_network = async {
            match &http {
                Some(http) => http.accept().await.map(|(stream, _)| stream),
                None => std::future::pending().await,
            }
        };
        // Who asks may go away before the answer, and is not told who else does.
        let task: io::Result<Answering> = tokio::select! {
            stream = from_file => stream.map(|mut stream| {
                let text = format!("{}\n", lock(&board).json());
                Box::pin(async move { stream.write_all(text.as_bytes()).await }) as Answering
            }),
            stream = from_network => stream.map(|stream| {
                Box::pin(answer(stream, Arc::clone(&board))) as Answering
            }),
        };
        let Ok(task) = task else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while tasks.len() >= MOST {
            tasks.join_next().await;
        }
        tasks.spawn(timeout(PATIENCE, task));
        while tasks.try_join_next().is_some() {}
    }
}

fn lock(board: &Shared) -> std::sync::MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request (RFC 1945 is enough for it) and closes.
async fn answer(mut stream: TcpStream, board: Shared) -> io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        match stream.read(&mut part).await? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match (method, target) {
        (b"GET" | b"HEAD", b"/metrics") => {
            ("200 OK", "text/plain; version=0.0.4", lock(&board).metrics())
        }
        (b"GET" | b"HEAD", b"/" | b"/status") => {
            ("200 OK", "application/json", format!("{}\n", lock(&board).json()))
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "/metrics, /status\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    let answer = if method == b"HEAD" { head } else { head + &body };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::ledger::Ledger;

    fn board() -> Shared {
        Arc::new(Mutex::new(Board::new("serve", Vec::new(), Arc::new(Ledger::default()))))
    }

    #[tokio::test]
    async fn who_asks_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("here/1.sock");
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = http.local_addr().unwrap();
        let task = tokio::spawn(serve(Some(Named::bind(&path).unwrap()), Some(http), board()));
        let asked = path.clone();
        let status = tokio::task::spawn_blocking(move || super::super::status::ask(&asked));
        assert_eq!(status.await.unwrap().unwrap()["role"], "serve");
        assert!(matches!(Named::bind(&path), Err(Error::Running(_))));
        for (request, part) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "netarium_mctcp_sessions{role=\"serve\"} 0"),
            ("GET /status HTTP/1.1\r\n\r\n", "\"schema\":\"netarium.mctcp/1\""),
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("POST / HTTP/1.1\r\n\r\n", "405"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(text.contains(part), "{text}");
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "kept").unwrap();
        assert!(Named::bind(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }
}
