//! State messages to the service manager, in the protocol of `sd_notify`(3): systemd starts units
//! with `Type=notify` with the address of its datagram socket in `NOTIFY_SOCKET`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState<'a> {
    /// The command is ready, with a description for `systemctl status`.
    Ready(&'a str),
    /// The command has begun to stop.
    Stopping,
    /// The command is healthy; restarts the timeout of `WatchdogSec=`.
    Healthy,
}

impl ServiceState<'_> {
    fn message(self) -> String {
        match self {
            Self::Ready(text) => format!("READY=1\nSTATUS={}", text.replace('\n', " ")),
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Healthy => "WATCHDOG=1".to_owned(),
        }
    }
}

/// Whether a service manager started this process and expects messages.
pub fn has_service_manager() -> bool {
    socket_name().is_some()
}

/// Reports the state to the service manager, if there is one.
///
/// # Errors
/// If its socket cannot be used.
pub fn report(state: ServiceState<'_>) -> Result<(), Error> {
    socket_name().map_or(Ok(()), |name| send(&name, &state.message()))
}

fn socket_name() -> Option<OsString> {
    env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())
}

fn send(name: &OsStr, message: &str) -> Result<(), Error> {
    let failed = |cause| Error::ServiceManager { socket: name.to_owned(), cause };
    let address = address(name).map_err(failed)?;
    let socket = UnixDatagram::unbound().map_err(failed)?;
    // The service manager may be slow; a daemon does not wait for it.
    socket.set_nonblocking(true).map_err(failed)?;
    socket.send_to_addr(message.as_bytes(), &address).map_err(failed)?;
    Ok(())
}

/// A path, or an abstract name after `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name),
        [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the address is neither a path nor an abstract name (`@NAME`)",
        )),
    }
}

/// Interval of [`ServiceState::Healthy`], if the service manager expects it of this process: half
/// of its timeout.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    let variable = |name| env::var(name).ok();
    interval(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())
}

fn interval(timeout_us: Option<String>, process: Option<String>, own: u32) -> Option<Duration> {
    let is_other = process.is_some_and(|process| process.parse() != Ok(own));
    let timeout = timeout_us?.parse().ok().filter(|timeout| *timeout > 1 && !is_other)?;
    Some(Duration::from_micros(timeout) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn sends_states_to_path_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        for (state, expected) in [
            (
                ServiceState::Ready("ready: at [::1]:1\nREADY=0"),
                "READY=1\nSTATUS=ready: at [::1]:1 READY=0",
            ),
            (ServiceState::Healthy, "WATCHDOG=1"),
            (ServiceState::Stopping, "STOPPING=1"),
        ] {
            send(path.as_os_str(), &state.message()).unwrap();
            assert_eq!(received(&socket), expected);
        }
    }

    #[test]
    fn sends_states_to_abstract_sockets() {
        let name = format!("netarium-ops-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        assert_eq!(received(&socket), "READY=1");
    }

    #[test]
    fn error_names_unusable_socket() {
        for name in ["/nonexistent/notify", "@netarium-ops-no-such-socket", "vsock:2:1234", "@"] {
            let error = send(OsStr::new(name), "READY=1").unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn watchdog_interval_is_half_of_own_timeout() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(interval(text("30000000"), None, 7), Some(Duration::from_secs(15)));
        assert_eq!(interval(text("30000000"), text("7"), 7), Some(Duration::from_secs(15)));
        assert_eq!(interval(text("30000000"), text("8"), 7), None);
        assert_eq!(interval(text("0"), None, 7), None);
        assert_eq!(interval(text("soon"), None, 7), None);
        assert_eq!(interval(None, None, 7), None);
    }
}
