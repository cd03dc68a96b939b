//! Addresses and sockets of the two ends of a flow, on one agent or on two.
//!
//! If both ends are on this agent, the kernel selects the receiver's port. Ends on different agents
//! use ports that both know in advance. The receiver opens the port of a run before the run begins,
//! so that a sender with a fast clock finds it open. Consecutive runs alternate between two ports,
//! so that late data of one run does not belong to the next. The first data at the port of the next
//! run begins that run.
//!
//! The receiver of a stream from another agent answers its end with a [`Receipt`].

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::{Span, Time};
use lab::plan::{MultipathKind, Tcp, Traffic};
use rustix::io::Errno;
use sys::socket::{self, TcpOptions};

use super::traffic::closed_error;
use super::{Placed, enter, paced, queries, tcp_options};

/// The slot of the receiver's socket for all kinds of flows: it listens or receives datagrams.
pub(super) const RECEIVER_SLOT: u32 = 0;

/// Time after which a refused connection to another agent fails.
const CONNECT_TIMEOUT: Span = Span::from_secs(10);
/// Interval of connection attempts after a refusal.
const RETRY_INTERVAL: Span = Span::from_millis(20);

/// The addresses and the receiver's socket of a flow's run.
#[derive(Debug)]
pub(super) struct Rendezvous {
    /// The receiver's socket, if that end is on this agent.
    pub(super) receiver: Option<OwnedFd>,
    /// The receiver's address.
    pub(super) to: SocketAddr,
    /// Source address of the sender's datagrams; port 0: any port.
    pub(super) from: SocketAddr,
}

impl Rendezvous {
    /// The rendezvous of a flow's run. Opens the receiver's socket if that end is on this agent.
    pub(super) fn open(placed: &Placed, run: u16) -> sys::Result<Self> {
        let port = if placed.is_split() { placed.port + run % 2 } else { 0 };
        let [from, to] = placed.addresses.map(|address| SocketAddr::new(address, port));
        let multipath = placed.flow.multipath().map(|multipath| multipath.kind);
        let netns = placed.netns[1].as_ref();
        // MCTCP sessions have their own listeners.
        let Some(netns) = netns.filter(|_| multipath != Some(MultipathKind::Mctcp)) else {
            return Ok(Self { receiver: None, to, from });
        };
        enter(netns)?;
        let (receiver, to) = listen(placed, to)?;
        Ok(Self { receiver: Some(receiver), to, from })
    }
}

fn listen(placed: &Placed, at: SocketAddr) -> sys::Result<(OwnedFd, SocketAddr)> {
    let dscp = placed.flow.dscp;
    let options = match &placed.flow.traffic {
        Traffic::Paced { .. } | Traffic::Controlled { .. } => {
            return socket::udp_at(at, 0, paced::SOCKET_BUFFER_BYTES);
        }
        Traffic::Queries { .. } => return socket::udp_at(at, dscp, queries::SOCKET_BUFFER_BYTES),
        // The receiver sends no payload.
        Traffic::Bulk { tcp, message, .. } => {
            TcpOptions { congestion: None, ..tcp_options(tcp, message.is_some(), dscp) }
        }
        Traffic::Transfers { tcp, .. } => tcp_options(tcp, false, dscp),
        Traffic::Requests { tcp, .. } | Traffic::Rpc { tcp, .. } => tcp_options(tcp, true, dscp),
    };
    if !options.multipath {
        return socket::listen_at(at, options);
    }
    // Further subflows use other addresses with the same port.
    let any = if at.is_ipv4() { IpAddr::from([0; 4]) } else { [0; 16].into() };
    let (listener, bound) = socket::listen(any, options)?;
    Ok((listener, SocketAddr::new(at.ip(), bound.port())))
}

/// Opens a flow's connections.
pub(super) struct Dial {
    netns: Arc<OwnedFd>,
    from: IpAddr,
    to: SocketAddr,
    tcp: Tcp,
    no_delay: bool,
    dscp: u8,
    /// The other end is on another agent, which may not have opened the port yet.
    is_remote: bool,
    refused_since: Option<Time>,
}

impl Dial {
    /// `None`: the sender is on another agent.
    pub(super) fn new(placed: &Placed, to: SocketAddr, tcp: &Tcp, no_delay: bool) -> Option<Self> {
        Some(Self {
            netns: Arc::clone(placed.netns[0].as_ref()?),
            from: placed.addresses[0],
            to,
            tcp: tcp.clone(),
            no_delay,
            dscp: placed.flow.dscp,
            is_remote: placed.is_split(),
            refused_since: None,
        })
    }

    pub(super) const fn port(&self) -> u16 {
        self.to.port()
    }

    /// Whether the receiver is on another agent.
    pub(super) const fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Opens a connecting socket.
    pub(super) fn connect(&self) -> sys::Result<OwnedFd> {
        enter(&self.netns)?;
        let options = tcp_options(&self.tcp, self.no_delay, self.dscp);
        socket::connect(self.from, self.to, options)
    }

    /// Records that a connection was established.
    pub(super) const fn connected(&mut self) {
        self.refused_since = None;
    }

    /// The time of the next attempt after this error; the error if further attempts are useless.
    pub(super) fn next_attempt(&mut self, error: sys::Error, now: Time) -> sys::Result<Time> {
        let is_refused = error.errno() == Some(Errno::CONNREFUSED.raw_os_error());
        let since = *self.refused_since.get_or_insert(now);
        if self.is_remote && is_refused && now.since(since) < CONNECT_TIMEOUT {
            return Ok(now + RETRY_INTERVAL);
        }
        Err(error)
    }
}

/// The receiver's answer to the end of a stream from another agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// Time at which the end was received.
    pub(super) at: Time,
    /// Payload bytes received.
    pub(super) received: u64,
}

impl Receipt {
    const RECEIPT_BYTES: usize = 16;

    fn encode(self) -> [u8; Self::RECEIPT_BYTES] {
        let mut bytes = [0; Self::RECEIPT_BYTES];
        bytes[..8].copy_from_slice(&self.at.as_nanos().to_be_bytes());
        bytes[8..].copy_from_slice(&self.received.to_be_bytes());
        bytes
    }

    fn decode(bytes: [u8; Self::RECEIPT_BYTES]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (at, received) = bytes.split_at(8);
        Self { at: Time::from_nanos(number(at)), received: number(received) }
    }

    /// Sends the receipt. It is the first data on its connection, so the send buffer has space.
    pub(super) fn send(self, socket: BorrowedFd<'_>) -> sys::Result<()> {
        match socket::write(socket, &self.encode())? {
            Some(Self::RECEIPT_BYTES) => Ok(()),
            _ => Err(closed_error()),
        }
    }
}

/// A partly received receipt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartialReceipt {
    bytes: [u8; Receipt::RECEIPT_BYTES],
    filled: usize,
}

impl PartialReceipt {
    /// Reads received bytes of the receipt.
    pub(super) fn read(&mut self, socket: &OwnedFd) -> sys::Result<Option<Receipt>> {
        while self.filled < Receipt::RECEIPT_BYTES {
            match socket::read(socket.as_fd(), &mut self.bytes[self.filled..])? {
                None => return Ok(None),
                Some(0) => return Err(closed_error()),
                Some(count) => self.filled += count,
            }
        }
        Ok(Some(Receipt::decode(self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_round_trip() {
        let receipt = Receipt { at: Time::from_nanos(0x0102_0304_0506_0708), received: u64::MAX };
        assert_eq!(Receipt::decode(receipt.encode()), receipt);
        assert_eq!(receipt.encode()[..9], [1, 2, 3, 4, 5, 6, 7, 8, 255]);
    }
}
