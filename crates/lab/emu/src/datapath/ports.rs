//! The ports of a lab, and the wait for all of them behind one epoll.

use std::cell::RefCell;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::{IfaceId, Span};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::enclosure::{Enclosure, Framing, Port};
use crate::{Error, Result};

/// The epoll token of the eventfd with which other threads wake this one.
const WAKER_TOKEN: u64 = u64::MAX;

/// The epoll tokens of the sockets to other agents: packets, and messages.
const TRUNK_TOKEN: u64 = u64::MAX - 1;
const NOTICES_TOKEN: u64 = u64::MAX - 2;

/// Readable descriptors other than ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadySockets {
    /// Packets of other agents.
    pub(super) trunk: bool,
    /// Messages of other agents.
    pub(super) notices: bool,
}

impl ReadySockets {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Maximum size of packets that are copied, so that one slice is written.
const MAX_COPIED_WRITE_BYTES: usize = 2048;

/// Waits for readable ports, for other agents, and for other threads.
pub(super) struct Poller {
    epoll: OwnedFd,
    waker: Arc<OwnedFd>,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub(super) fn try_new(enclosure: &Enclosure, waker: Arc<OwnedFd>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| Error::Datapath(errno.into()))?;
        let poller = Self { epoll, waker, events: Vec::with_capacity(256) };
        for port in enclosure.hosts.iter().flat_map(|net| &net.ports) {
            poller.add(port.fd.as_fd(), u64::from(port.iface.0))?;
        }
        poller.add(poller.waker.as_fd(), WAKER_TOKEN)?;
        Ok(poller)
    }

    fn add(&self, fd: BorrowedFd<'_>, token: u64) -> Result<()> {
        let token = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, fd, token, epoll::EventFlags::IN)
            .map_err(|errno| Error::Datapath(errno.into()))
    }

    /// Adds the sockets to other agents.
    pub(super) fn listen(
        &self,
        trunk: Option<BorrowedFd<'_>>,
        notices: Option<BorrowedFd<'_>>,
    ) -> Result<()> {
        let sockets = [(trunk, TRUNK_TOKEN), (notices, NOTICES_TOKEN)];
        sockets.into_iter().try_for_each(|(fd, token)| fd.map_or(Ok(()), |fd| self.add(fd, token)))
    }

    /// The eventfd with which another thread ends a wait.
    pub(super) fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    /// Waits until a port is readable or `timeout` has passed; fills `ready` with the
    /// interfaces that are readable.
    pub(super) fn wait(&mut self, timeout: Span, ready: &mut Vec<IfaceId>) -> ReadySockets {
        let mut arrived = ReadySockets::default();
        ready.clear();
        self.events.clear();
        let timeout = Timespec {
            tv_sec: (timeout.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (timeout.as_nanos() % 1_000_000_000) as i64,
        };
        let events = rustix::buffer::spare_capacity(&mut self.events);
        // An interrupted wait is an ordinary wake-up: the caller reads the clock.
        let _ = epoll::wait(&self.epoll, events, Some(&timeout));
        for event in &self.events {
            match event.data.u64() {
                WAKER_TOKEN => {
                    let _ = rustix::io::read(self.waker.as_fd(), &mut [0; 8]);
                }
                TRUNK_TOKEN => arrived.trunk = true,
                NOTICES_TOKEN => arrived.notices = true,
                iface => ready.push(IfaceId(iface as u32)),
            }
        }
        arrived
    }
}

pub(super) struct Ports {
    enclosure: Arc<Enclosure>,
    /// Host index and port index, by `IfaceId`.
    positions: Vec<Option<(u32, u32)>>,
    scratch: RefCell<Vec<u8>>,
}

impl Ports {
    pub(super) fn new(enclosure: Arc<Enclosure>, ifaces: usize) -> Self {
        let mut positions = vec![None; ifaces];
        for (host, net) in enclosure.hosts.iter().enumerate() {
            for (at, port) in net.ports.iter().enumerate() {
                positions[port.iface.index()] = Some((host as u32, at as u32));
            }
        }
        Self { enclosure, positions, scratch: RefCell::default() }
    }

    fn port(&self, iface: IfaceId) -> Option<&Port> {
        let (host, at) = (*self.positions.get(iface.index())?)?;
        self.enclosure.hosts.get(host as usize)?.ports.get(at as usize)
    }

    /// The descriptor and framing of an interface's port.
    pub(super) fn reader(&self, iface: IfaceId) -> Option<(BorrowedFd<'_>, Framing)> {
        self.port(iface).map(|port| (port.fd.as_fd(), port.framing))
    }

    /// Writes one packet: virtio header and slices of the IP packet.
    pub(super) fn write(
        &self,
        iface: IfaceId,
        offload: wire::Offload,
        version: u8,
        headers: &[u8],
        payload: &[u8],
    ) -> rustix::io::Result<()> {
        let Some(port) = self.port(iface) else { return Ok(()) };
        let virtio = offload.write(port.framing.len() as u16);
        if headers.len() + payload.len() <= MAX_COPIED_WRITE_BYTES {
            return self.write_copied(port, &virtio, version, headers, payload);
        }
        let written = match port.framing {
            Framing::Bare => {
                let parts = [&virtio, headers, payload].map(IoSlice::new);
                rustix::io::writev(&port.fd, &parts)
            }
            Framing::Ethernet(addresses) => {
                let ether_type = ether_type(version);
                let parts = [&virtio, &addresses[..], &ether_type, headers, payload];
                rustix::io::writev(&port.fd, &parts.map(IoSlice::new))
            }
        };
        written.map(drop)
    }

    /// Writes a virtio header and a complete packet.
    pub(super) fn write_frame(
        &self,
        iface: IfaceId,
        version: u8,
        frame: &[u8],
    ) -> rustix::io::Result<()> {
        let Some(port) = self.port(iface) else { return Ok(()) };
        let Some((virtio, packet)) = frame.split_first_chunk() else { return Err(Errno::INVAL) };
        match port.framing {
            Framing::Bare => rustix::io::write(&port.fd, frame).map(drop),
            Framing::Ethernet(_) => {
                let offload = wire::Offload::read(*virtio, 0);
                self.write(iface, offload, version, packet, &[])
            }
        }
    }

    /// Writes a small packet, for which a copy is cheaper than a vectored write.
    fn write_copied(
        &self,
        port: &Port,
        virtio: &[u8],
        version: u8,
        headers: &[u8],
        payload: &[u8],
    ) -> rustix::io::Result<()> {
        let mut whole = self.scratch.borrow_mut();
        whole.clear();
        whole.extend_from_slice(virtio);
        if let Framing::Ethernet(addresses) = port.framing {
            whole.extend_from_slice(&addresses);
            whole.extend_from_slice(&ether_type(version));
        }
        whole.extend_from_slice(headers);
        whole.extend_from_slice(payload);
        rustix::io::write(&port.fd, &whole).map(drop)
    }
}

/// The Ethernet type of an IP version.
const fn ether_type(version: u8) -> [u8; 2] {
    if version == 4 { [0x08, 0x00] } else { [0x86, 0xdd] }
}
