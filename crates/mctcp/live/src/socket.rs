//! Creates the connections of subflows.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;

use base::{Bandwidth, Bytes, Span};
use mctcp::PathInfo;
use sys::socket::{self, TcpInfo};
use tokio::net::TcpStream;

use crate::config::{Config, PathSpec};
use crate::connections::{self, Registered};
use crate::encryption::Encrypted;
use crate::subflow::Wire;

/// Max connections in the accept queue. The kernel's own limit (`net.core.somaxconn`) has this
/// value by default. The standard library requests 128, and a client above that waits one second
/// for the retransmission of its SYN.
const BACKLOG: i32 = 4096;

fn io_error(error: sys::Error) -> io::Error {
    match error.errno() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(error),
    }
}

/// Opens a connection on a path and encrypts it.
pub(crate) async fn connect(path: PathSpec, config: Arc<Config>) -> io::Result<Opened> {
    let remote = path.remote;
    let local = path.local;
    let options = config.options(path.device.as_deref());
    let socket = match config.dial.clone() {
        Some(dial) => tokio::task::spawn_blocking(move || dial(&path)).await??,
        None => socket::tcp_socket(remote.ip()).map_err(io_error)?,
    };
    socket::set_stream_options(socket.as_fd(), &options).map_err(io_error)?;
    if let Some(local) = local {
        socket::bind_address(&socket, local).map_err(io_error)?;
    }
    let table = config.connections.as_ref();
    let (stream, registered) = connections::connect(table, socket, remote).await?;
    let Some(encryption) = &config.encryption else {
        return Ok(Opened { wire: Wire::Plain(stream), exported: None, registered });
    };
    let Encrypted { stream, secret } = encryption.handshake(stream).await?;
    Ok(Opened { wire: Wire::Encrypted(stream), exported: Some(secret), registered })
}

/// A connection, and the secret of its encryption.
pub(crate) struct Opened {
    pub(crate) wire: Wire,
    pub(crate) exported: Option<Box<[u8]>>,
    pub(crate) registered: Option<Registered>,
}

/// A socket that listens at `address`; accepted connections inherit its options.
pub(crate) fn listen(address: SocketAddr, config: &Config) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    prepare(&listener, config)?;
    Ok(listener)
}

/// Sets a listening socket's options, and a backlog for bursts of clients.
pub(crate) fn prepare(listener: &impl AsFd, config: &Config) -> io::Result<()> {
    rustix::net::listen(listener, BACKLOG)?;
    socket::set_stream_options(listener.as_fd(), &config.options(None)).map_err(io_error)
}

/// `TCP_INFO` of a connection.
pub(crate) fn path_info(stream: &TcpStream) -> Option<PathInfo> {
    let info = TcpInfo::read(stream.as_fd()).ok()?;
    let segments = |count: u32| Bytes::new(u64::from(count) * u64::from(info.segment_bytes));
    let span = |micros: u32| Span::from_micros(u64::from(micros));
    let sampled = info.srtt_micros > 0;
    let rate = info.delivery_bytes_per_second.saturating_mul(8);
    Some(PathInfo {
        srtt: sampled.then(|| span(info.srtt_micros)),
        rtt_var: sampled.then(|| span(info.rtt_deviation_micros)),
        min_rtt: (info.min_rtt_micros < u32::MAX).then(|| span(info.min_rtt_micros)),
        cwnd: segments(info.window_segments),
        in_flight: segments(info.unacknowledged_segments),
        notsent: Bytes::new(u64::from(info.unsent_bytes)),
        acked: Bytes::new(info.acknowledged_bytes),
        delivery_rate: (rate > 0).then(|| Bandwidth::from_bits_per_sec(rate)),
        retransmits: u64::from(info.retransmits),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn paces_both_ends_of_a_subflow() {
        let config = Arc::new(Config::default());
        let listener = listen("127.0.0.1:0".parse().unwrap(), &config).unwrap();
        let path = PathSpec::from(listener.local_addr().unwrap());
        let opened = connect(path, config).await.unwrap();
        let (accepted, _) = listener.accept().unwrap();
        for socket in [opened.wire.tcp().as_fd(), accepted.as_fd()] {
            assert!(TcpInfo::read(socket).unwrap().is_paced);
        }
    }
}
