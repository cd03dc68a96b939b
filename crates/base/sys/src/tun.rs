//! TUN devices with the virtio header, so that the kernel passes whole super-packets.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::{Error, Result, check};

pub const DEVICE: &str = "/dev/net/tun";

/// Length of `struct virtio_net_hdr`, which precedes every packet.
pub const HEADER: usize = 10;

/// `IFF_TUN_EXCL` of `linux/if_tun.h`.
const TUN_EXCL: libc::c_int = 0x8000;

/// A layer-3 device of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    udp_segmentation: bool,
}

fn ioctl(fd: BorrowedFd<'_>, name: &'static str, request: libc::Ioctl, value: u64) -> Result<()> {
    // SAFETY: the requests made here take an integer by value.
    check(name, unsafe { libc::ioctl(fd.as_raw_fd(), request, value) })?;
    Ok(())
}

impl Tun {
    /// Creates the device `name` in the calling thread's network namespace: non-blocking, with
    /// checksums and TCP segmentation left to the reader, and UDP segmentation if the kernel
    /// supports it (Linux 6.2). It persists until its namespace ends: the removal of a thousand
    /// devices then takes one batched clean-up instead of an RCU grace period per descriptor (Linux
    /// `unregister_netdevice_many`).
    pub fn open(name: &str) -> Result<Self> {
        let tun = Self::make(name, 0)?;
        ioctl(tun.fd.as_fd(), "TUNSETPERSIST", libc::TUNSETPERSIST, 1)?;
        Ok(tun)
    }

    /// As [`Self::open`], for a device that is removed with its descriptor, together with its
    /// routes, however the process ends.
    ///
    /// # Errors
    /// `EBUSY` if a device with this name exists.
    pub fn open_passing(name: &str) -> Result<Self> {
        Self::make(name, TUN_EXCL)
    }

    fn make(name: &str, more: libc::c_int) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(|e| Error::file("open", DEVICE, e))?;
        let fd = OwnedFd::from(file);
        // SAFETY: an all-zero ifreq is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() {
            return Err(Error::from_errno("TUNSETIFF: interface name", libc::EINVAL));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: `request` is an ifreq that outlives the call.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        check("TUNSETIFF", result)?;
        let header = HEADER as libc::c_int;
        // SAFETY: this request reads an int through the pointer.
        let result =
            unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const header) };
        check("TUNSETVNETHDRSZ", result)?;
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        let offload = |features: libc::c_uint| {
            ioctl(fd.as_fd(), "TUNSETOFFLOAD", libc::TUNSETOFFLOAD, features.into())
        };
        let udp_segmentation = offload(tcp | udp).is_ok();
        if !udp_segmentation {
            offload(tcp)?;
        }
        Ok(Self { fd, udp_segmentation })
    }

    /// Whether the device passes whole UDP super-packets.
    pub fn has_udp_segmentation(&self) -> bool {
        self.udp_segmentation
    }

    /// The descriptor for reading and writing packets.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether this process may open the TUN device file.
pub fn is_openable() -> Result<()> {
    let result = OpenOptions::new().read(true).write(true).open(DEVICE);
    result.map(drop).map_err(|e| Error::file("open", DEVICE, e))
}
