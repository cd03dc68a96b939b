//! Unix sockets for the status.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::net::UnixListener;

use crate::error::Error;

const MAX_STATUS_BYTES: u64 = 64 << 20;
/// Timeout without a received byte.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A listening socket. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    pub(crate) listener: UnixListener,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn failure(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |cause| Error::Socket { action, path: path.to_owned(), cause }
}

impl Socket {
    /// Binds a socket. The socket of a dead process is replaced, that of a running one is not.
    pub(crate) fn bind(path: &Path) -> Result<Self, Error> {
        let failed = failure("listen at", path);
        if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            // `/run/netarium` is also the registry of labs, which must be private.
            let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            created.map_err(failure("create", folder))?;
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if UnixStream::connect(path).is_ok() {
                    return Err(Error::Running(path.to_owned()));
                }
                let found = fs::symlink_metadata(path).map_err(&failed)?;
                if !found.file_type().is_socket() {
                    return Err(failed(ErrorKind::AlreadyExists.into()));
                }
                fs::remove_file(path).map_err(&failed)?;
                UnixListener::bind(path).map_err(&failed)?
            }
            other => other.map_err(&failed)?,
        };
        let this = Self { path: path.to_owned(), listener };
        // The status contains addresses of peers: only administrators may read it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(&failed)?;
        Ok(this)
    }
}

/// Reads the status of a running process, which must have `schema` if that is given.
///
/// # Errors
/// If no process listens at the socket, or the response is not a status of this schema.
pub fn read_status(path: &Path, schema: Option<&str>) -> Result<Value, Error> {
    let failed = failure("read the status of", path);
    let mut stream = UnixStream::connect(path).map_err(&failed)?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(&failed)?;
    stream.write_all(b"GET /status HTTP/1.0\r\n\r\n").map_err(&failed)?;
    let mut text = String::new();
    stream.take(MAX_STATUS_BYTES).read_to_string(&mut text).map_err(&failed)?;
    let wrong = |why: String| Error::Status { path: path.to_owned(), why };
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let value: Value = serde_json::from_str(body).map_err(|e| wrong(e.to_string()))?;
    match schema {
        Some(schema) if value["schema"] != schema => {
            Err(wrong(format!("the schema is not {schema}")))
        }
        _ => Ok(value),
    }
}
