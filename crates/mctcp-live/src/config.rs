//! What sessions and listeners are told.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::{Bytes, Span};
use mctcp::frame::Priority;
use mctcp::{Settings, acceptor};
use sys::socket::StreamOptions;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::connections::Connections;

/// Makes the TCP socket of a path: neither connected nor bound, of whatever network namespace it
/// likes. Called where blocking is allowed.
pub type Dial = Arc<dyn Fn(&PathSpec) -> io::Result<OwnedFd> + Send + Sync>;

/// Which paths to add to a further address of the server, beside those there are. Called by the
/// session's driver: it must not block for long.
pub type Further = Arc<dyn Fn(SocketAddr, &[PathSpec]) -> Vec<PathSpec> + Send + Sync>;

/// A path that a client may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// Where the peer listens.
    pub remote: SocketAddr,
    /// Address at this end; `None`: routing chooses it.
    pub local: Option<IpAddr>,
    /// Network device that its packets are to take (anybody may choose since Linux 5.7).
    pub device: Option<String>,
    /// How to use it.
    pub priority: Priority,
}

impl From<SocketAddr> for PathSpec {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None, device: None, priority: Priority::default() }
    }
}

/// How sessions and their sockets behave.
#[derive(Clone)]
pub struct Config {
    /// Of the session.
    pub settings: Settings,
    /// Congestion control of the subflows, as the kernel names it; `None`: its default.
    pub congestion: Option<String>,
    /// Payload that the send buffer of a subflow holds; `None`: the kernel tunes it.
    pub send_buffer: Option<Bytes>,
    /// The same of the receive buffer.
    pub receive_buffer: Option<Bytes>,
    /// A subflow breaks once data has waited this long for TCP's acknowledgement.
    pub user_timeout: Span,
    /// What both ends know and nobody else: sessions and joins need a proof of it.
    pub psk: Option<Arc<[u8]>>,
    /// A stream that was shut down and dropped is kept this long for its data to arrive.
    pub linger: Span,
    /// Client: TLS on every subflow.
    pub tls: Option<ClientTls>,
    /// Client: makes the sockets; `None`: in the network namespace of the calling thread.
    pub dial: Option<Dial>,
    /// Client: add paths to addresses that the server tells of.
    pub follow: bool,
    /// Client: which ones, from the address and the paths there are; `None`: from wherever there
    /// are paths.
    pub further: Option<Further>,
    /// Client: records its TCP connections here.
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
            tls: None,
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
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// TLS of a client.
#[derive(Clone)]
pub struct ClientTls {
    /// Whom to trust, and who this end is.
    pub config: Arc<ClientConfig>,
    /// The server's name.
    pub name: ServerName<'static>,
}

/// What a listener does.
#[derive(Clone, Debug, Default)]
pub struct ListenerConfig {
    /// How its sessions behave.
    pub session: Config,
    /// TLS on every subflow.
    pub tls: Option<Arc<ServerConfig>>,
    /// What it grants.
    pub limits: acceptor::Limits,
    /// Addresses to tell clients of; `None`: those it listens at, if they are specific.
    pub advertise: Option<Vec<SocketAddr>>,
    /// Accept no connections while less than a quarter of the process's file descriptors is free.
    pub reserve_descriptors: bool,
}

impl Config {
    /// Options of a subflow's socket; `device` that of its path.
    pub(crate) fn options(&self, device: Option<&str>) -> StreamOptions {
        StreamOptions {
            congestion: self.congestion.clone(),
            device: device.map(str::to_owned),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            user_timeout: Some(self.user_timeout),
        }
    }

    /// Most payload of a frame that this end takes.
    pub(crate) fn max_frame(&self) -> u16 {
        u16::try_from(self.settings.max_frame.count()).unwrap_or(u16::MAX)
    }
}
