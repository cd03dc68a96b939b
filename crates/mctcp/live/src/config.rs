//! Configuration of sessions and listeners.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::{Bytes, Span};
use mctcp::frame::Priority;
use mctcp::{Settings, acceptor};
use sys::socket::StreamOptions;

use crate::connections::Connections;
use crate::encryption::Encryption;

/// Creates the TCP socket of a path: neither connected nor bound, in any network namespace. Called
/// where blocking is allowed.
pub type Dial = Arc<dyn Fn(&PathSpec) -> io::Result<OwnedFd> + Send + Sync>;

/// Selects the paths to add to an additional address of the server, given the current paths. Called
/// by the session's driver: it must not block for long.
pub type Further = Arc<dyn Fn(SocketAddr, &[PathSpec]) -> Vec<PathSpec> + Send + Sync>;

/// A path that a client may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// Address and port of the peer's listener.
    pub remote: SocketAddr,
    /// Local address; `None`: routing selects it.
    pub local: Option<IpAddr>,
    /// Network device for its packets (requires no privilege since Linux 5.7).
    pub device: Option<String>,
    /// Priority of its subflow.
    pub priority: Priority,
}

impl From<SocketAddr> for PathSpec {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None, device: None, priority: Priority::default() }
    }
}

/// Settings of sessions and their sockets.
#[derive(Clone)]
pub struct Config {
    /// Settings of the session.
    pub settings: Settings,
    /// Congestion control of the subflows, by its name in the kernel; `None`: the kernel's default.
    pub congestion: Option<String>,
    /// Payload in the send buffer of a subflow; `None`: autotuned by the kernel.
    pub send_buffer: Option<Bytes>,
    /// Payload in the receive buffer of a subflow; `None`: autotuned by the kernel.
    pub receive_buffer: Option<Bytes>,
    /// Timeout of TCP for unacknowledged data, after which a subflow breaks.
    pub user_timeout: Span,
    /// Pre-shared key, of which sessions and joins require a proof.
    pub psk: Option<Arc<[u8]>>,
    /// Time for which a stream that was shut down and dropped may still deliver its data.
    pub linger: Span,
    /// Client: encrypts every subflow.
    pub encryption: Option<Arc<dyn Encryption>>,
    /// Client: creates the sockets; `None`: in the network namespace of the calling thread.
    pub dial: Option<Dial>,
    /// Client: add paths to addresses that the server advertises.
    pub follow: bool,
    /// Client: selects these paths from the address and the current paths; `None`: one from each
    /// local address in use.
    pub further: Option<Further>,
    /// Client: table of its TCP connections.
    pub connections: Option<Connections>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            congestion: None,
            send_buffer: None,
            receive_buffer: None,
            user_timeout: Span::from_secs(10),
            psk: None,
            linger: Span::from_secs(60),
            encryption: None,
            dial: None,
            follow: true,
            further: None,
            connections: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("settings", &self.settings)
            .field("congestion", &self.congestion)
            .field("psk", &self.psk.is_some())
            .field("encryption", &self.encryption.is_some())
            .finish_non_exhaustive()
    }
}

/// Settings of a listener.
#[derive(Clone, Default)]
pub struct ListenerConfig {
    /// Settings of its sessions.
    pub session: Config,
    /// Encrypts every subflow.
    pub encryption: Option<Arc<dyn Encryption>>,
    /// Limits of the listener.
    pub limits: acceptor::Limits,
    /// Addresses to advertise to clients; `None`: those of the listener, if they are specific.
    pub advertise: Option<Vec<SocketAddr>>,
    /// Accept no connections while less than a quarter of the process's file descriptors is free.
    pub reserve_descriptors: bool,
}

impl fmt::Debug for ListenerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerConfig")
            .field("session", &self.session)
            .field("encryption", &self.encryption.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Options of a subflow's socket; `device` is that of its path.
    pub(crate) fn options(&self, device: Option<&str>) -> StreamOptions {
        StreamOptions {
            congestion: self.congestion.clone(),
            device: device.map(str::to_owned),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            user_timeout: Some(self.user_timeout),
            paced: true,
        }
    }

    /// Maximum payload of a frame that this end accepts.
    pub(crate) fn max_frame(&self) -> u16 {
        u16::try_from(self.settings.max_frame.count()).unwrap_or(u16::MAX)
    }
}
