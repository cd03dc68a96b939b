//! The TUN device of a gateway.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use sys::tun::Tun;

use crate::packet::{Packet, Pool, Segment};
use crate::{Error, Result};

/// Maximum memory of packets in bytes; further packets are dropped.
const MEMORY: usize = 512 << 20;

/// Empty reads before the loop serves the other ports.
const MAX_EMPTY_READS: usize = 64;

/// Counters of the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    /// Reads, each a packet or a super-packet.
    pub(crate) reads: u64,
    /// Segments in them.
    pub(crate) segments: u64,
    pub(crate) writes: u64,
    /// Reads that returned no valid packet.
    pub(crate) strange: u64,
    /// Packets dropped for lack of memory.
    pub(crate) no_memory: u64,
    /// Packets that the kernel rejected.
    pub(crate) refused: u64,
}
#[derive(Debug)]
pub(crate) struct Port {
    name: String,
    fd: OwnedFd,
    pool: Pool,
    pub(crate) carried: Carried,
    /// Segments to be sent together: consecutive ones of one super-packet.
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    packet: Rc<Packet>,
    first: u16,
    count: u16,
    marked: bool,
}

impl Port {
    /// Creates the device. It is removed with this value, or with the process.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let tun = Tun::open_passing(name).map_err(|error| match error.errno() {
            Some(errno) if errno == Errno::BUSY.raw_os_error() => Error::Running(name.to_owned()),
            _ => error.into(),
        })?;
        let (pool, carried) = (Pool::default(), Carried::default());
        Ok(Self { name: name.to_owned(), fd: tun.into_fd(), pool, carried, run: None })
    }

    /// The next queued packet; may be `None` although there is one.
    pub(crate) fn read(&mut self) -> Result<Option<Rc<Packet>>> {
        for _ in 0..MAX_EMPTY_READS {
            let fd = &self.fd;
            let read = self.pool.read(|bytes| rustix::io::read(fd, spare_capacity(bytes)));
            match read {
                Ok(Some(packet)) if self.pool.held() <= MEMORY => {
                    self.carried.reads += 1;
                    self.carried.segments += u64::from(packet.count());
                    return Ok(Some(packet));
                }
                Ok(Some(_)) => self.carried.no_memory += 1,
                Ok(None) => self.carried.strange += 1,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(errno) => return Err(self.failure(errno)),
            }
        }
        Ok(None)
    }

    fn failure(&self, errno: Errno) -> Error {
        Error::Device { device: self.name.clone(), cause: io::Error::from(errno) }
    }

    /// Sends a segment, together with the previous ones if they belong together; see
    /// [`Self::flush`].
    pub(crate) fn send(&mut self, segment: Segment, marked: bool) {
        let Segment { packet, number } = segment;
        if let Some(run) = &mut self.run
            && Rc::ptr_eq(&run.packet, &packet)
            && (run.first + run.count, run.marked) == (number, marked)
            && packet.can_be_joined()
        {
            run.count += 1;
            return;
        }
        self.flush();
        self.run = Some(Run { packet, first: number, count: 1, marked });
    }

    /// Passes the segments collected by [`Self::send`] to the kernel.
    pub(crate) fn flush(&mut self) {
        let Some(Run { packet, first, count, marked }) = self.run.take() else { return };
        let fd = &self.fd;
        let written = packet.pieces(first, count, marked, |[virtio, headers, payload]| {
            if payload.is_empty() {
                rustix::io::writev(fd, &[IoSlice::new(virtio), IoSlice::new(headers)])
            } else {
                rustix::io::writev(fd, &[virtio, headers, payload].map(IoSlice::new))
            }
        });
        self.count(written);
    }

    /// Passes one whole packet with complete checksums to the kernel.
    pub(crate) fn write(&mut self, packet: &[u8]) {
        let virtio = [0; wire::VIRTIO_HEADER];
        let parts = [IoSlice::new(&virtio), IoSlice::new(packet)];
        let written = rustix::io::writev(&self.fd, &parts);
        self.count(written);
    }

    fn count(&mut self, written: rustix::io::Result<usize>) {
        match written {
            Ok(_) => self.carried.writes += 1,
            // As on a wire, rejected packets are lost.
            Err(_) => self.carried.refused += 1,
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
