//! Bulk TCP with CUBIC, and a receiver that logs the arrival of bytes.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write as _};
use std::net::TcpStream;

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::{Outcome, nanos, print};

/// Min interval in ns of entries in the receiver's log.
const LOG_INTERVAL: u64 = 5_000_000;

/// A blocked write checks the clock at this interval.
const WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);

/// Sends zeros until the time is over or the receiver closes the connection.
pub(crate) fn send(to: &str, seconds: &str, size: &str) -> Outcome {
    let end = sys::clock::monotonic() + nanos(seconds)?;
    let mut socket = TcpStream::connect(to)?;
    sockopt::set_tcp_congestion(&socket, "cubic")?;
    // The sender must end even if the network is down.
    socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let data = vec![0_u8; size.parse()?];
    let mut sent = 0_u64;
    while sys::clock::monotonic() < end {
        match socket.write(&data) {
            Ok(count) => sent += count as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if is_end(&error) => break,
            Err(error) => return Err(error.into()),
        }
    }
    print(&format!("{{\"sent_bytes\":{sent}}}"));
    Ok(())
}

fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Accepts one connection and logs `[nanoseconds, bytes so far]` for `seconds` s.
pub(crate) fn receive(port: &str, seconds: &str, buffer: &str) -> Outcome {
    let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    let window: usize = buffer.parse()?;
    if window > 0 {
        sockopt::set_socket_recv_buffer_size(&listener, window)?;
    }
    let any = std::net::SocketAddr::from(([0, 0, 0, 0], port.parse()?));
    rustix::net::bind(&listener, &any)?;
    rustix::net::listen(&listener, 4)?;
    let mut socket = TcpStream::from(rustix::net::accept(&listener)?);
    let end = sys::clock::monotonic() + nanos(seconds)?;
    let mut data = vec![0_u8; 1 << 18];
    let (mut bytes, mut logged) = (0_u64, 0);
    let mut log = String::new();
    loop {
        let count = socket.read(&mut data)?;
        let now = sys::clock::monotonic();
        bytes += count as u64;
        let is_over = count == 0 || now >= end;
        if now - logged >= LOG_INTERVAL || is_over {
            logged = now;
            write!(log, "{}[{now},{bytes}]", if log.is_empty() { "" } else { "," })?;
        }
        if is_over {
            break;
        }
    }
    // Unread bytes cause a reset, with which the sender ends even if the printed output blocks.
    drop(socket);
    print(&format!("{{\"log\":[{log}]}}"));
    Ok(())
}
