//! How the two ends of a flow find each other, on one machine or on two.
//!
//! Where both ends are here, the receiver takes a port of the kernel's choice and the sender is
//! told. Ends on different machines meet on ports that both know beforehand. The receiver opens
//! the port of a run before the run begins, so that a sender whose clock is ahead finds it, and
//! every other run has the other of two ports, so that what is late of one is not taken for a
//! part of the next. Who first writes to the port of the next run begins that run.
//!
//! What an end on another machine cannot see it is told: the receiver of a stream answers its end
//! with a [`Receipt`].

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::{Span, Time};
use lab::plan::{MultipathKind, Tcp, Traffic};
use rustix::io::Errno;
use sys::socket::{self, TcpOptions};

use super::traffic::gone;
use super::{Placed, enter, paced, queries, tcp_options};

/// The slot of the receiver's socket in all kinds of flows: that which listens, or takes datagrams.
pub(super) const DOOR: u32 = 0;

/// The other machine may need so long until its end is there.
const PATIENCE: Span = Span::from_secs(10);
/// After a connection was refused, the next attempt.
const RETRY: Span = Span::from_millis(20);

/// Where a run of a flow takes place.
#[derive(Debug)]
pub(super) struct Meeting {
    /// The receiver's socket, if that end is here.
    pub(super) door: Option<OwnedFd>,
    /// Where the receiver is found.
    pub(super) to: SocketAddr,
    /// Where the sender's datagrams come from; port 0: from any.
    pub(super) from: SocketAddr,
}

impl Meeting {
    /// For a run of a flow. The receiver's socket is made, if that end is here.
    pub(super) fn open(placed: &Placed, run: u16) -> sys::Result<Self> {
        let port = if placed.is_split() { placed.port + run % 2 } else { 0 };
        let [from, to] = placed.addresses.map(|address| SocketAddr::new(address, port));
        let multipath = placed.flow.multipath().map(|multipath| multipath.kind);
        let netns = placed.netns[1].as_ref();
        // MCTCP's sessions listen by themselves.
        let Some(netns) = netns.filter(|_| multipath != Some(MultipathKind::Mctcp)) else {
            return Ok(Self { door: None, to, from });
        };
        enter(netns)?;
        let (door, to) = listen(placed, to)?;
        Ok(Self { door: Some(door), to, from })
    }
}

fn listen(placed: &Placed, at: SocketAddr) -> sys::Result<(OwnedFd, SocketAddr)> {
    let dscp = placed.flow.dscp;
    let options = match &placed.flow.traffic {
        Traffic::Paced { .. } | Traffic::Controlled { .. } => {
            return socket::udp_at(at, 0, paced::BUFFER);
        }
        Traffic::Queries { .. } => return socket::udp_at(at, dscp, queries::BUFFER),
        // Nothing is sent by the receiver.
        Traffic::Bulk { tcp, message, .. } => {
            TcpOptions { congestion: None, ..tcp_options(tcp, message.is_some(), dscp) }
        }
        Traffic::Transfers { tcp, .. } => tcp_options(tcp, false, dscp),
        Traffic::Requests { tcp, .. } | Traffic::Rpc { tcp, .. } => tcp_options(tcp, true, dscp),
    };
    if !options.multipath {
        return socket::listen_at(at, options);
    }
    // Further subflows come to other addresses, at the same port.
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
    /// The other end is on another machine, which may not be as far.
    is_far: bool,
    refused_since: Option<Time>,
}

impl Dial {
    /// `None`: the sender is on another machine.
    pub(super) fn new(placed: &Placed, to: SocketAddr, tcp: &Tcp, no_delay: bool) -> Option<Self> {
        Some(Self {
            netns: Arc::clone(placed.netns[0].as_ref()?),
            from: placed.addresses[0],
            to,
            tcp: tcp.clone(),
            no_delay,
            dscp: placed.flow.dscp,
            is_far: placed.is_split(),
            refused_since: None,
        })
    }

    pub(super) const fn port(&self) -> u16 {
        self.to.port()
    }

    /// Whether the receiver is on another machine.
    pub(super) const fn is_far(&self) -> bool {
        self.is_far
    }

    /// A socket that is connecting.
    pub(super) fn connect(&self) -> sys::Result<OwnedFd> {
        enter(&self.netns)?;
        let options = tcp_options(&self.tcp, self.no_delay, self.dscp);
        socket::connect(self.from, self.to, options)
    }

    /// A connection is there.
    pub(super) const fn connected(&mut self) {
        self.refused_since = None;
    }

    /// When to try again after this error, if that makes sense.
    pub(super) fn again(&mut self, error: sys::Error, now: Time) -> sys::Result<Time> {
        let is_refused = error.errno() == Some(Errno::CONNREFUSED.raw_os_error());
        let since = *self.refused_since.get_or_insert(now);
        if self.is_far && is_refused && now.since(since) < PATIENCE {
            return Ok(now + RETRY);
        }
        Err(error)
    }
}

/// What the receiver of a stream says to a sender on another machine when it has seen the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// When that was.
    pub(super) at: Time,
    /// Payload bytes that came before.
    pub(super) received: u64,
}

impl Receipt {
    const LENGTH: usize = 16;

    fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.at.as_nanos().to_be_bytes());
        bytes[8..].copy_from_slice(&self.received.to_be_bytes());
        bytes
    }

    fn decode(bytes: [u8; Self::LENGTH]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (at, received) = bytes.split_at(8);
        Self { at: Time::from_nanos(number(at)), received: number(received) }
    }

    /// The first that is sent on its connection, so that there is room.
    pub(super) fn send(self, socket: BorrowedFd<'_>) -> sys::Result<()> {
        match socket::write(socket, &self.encode())? {
            Some(Self::LENGTH) => Ok(()),
            _ => Err(gone()),
        }
    }
}

/// A receipt that is being received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Awaited {
    bytes: [u8; Receipt::LENGTH],
    filled: usize,
}

impl Awaited {
    /// Takes what has arrived of it.
    pub(super) fn read(&mut self, socket: &OwnedFd) -> sys::Result<Option<Receipt>> {
        while self.filled < Receipt::LENGTH {
            match socket::read(socket.as_fd(), &mut self.bytes[self.filled..])? {
                None => return Ok(None),
                Some(0) => return Err(gone()),
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
    fn receipts_survive_the_way() {
        let receipt = Receipt { at: Time::from_nanos(0x0102_0304_0506_0708), received: u64::MAX };
        assert_eq!(Receipt::decode(receipt.encode()), receipt);
        assert_eq!(receipt.encode()[..9], [1, 2, 3, 4, 5, 6, 7, 8, 255]);
    }
}
