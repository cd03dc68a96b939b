//! Socket addresses in the kernel's form.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// An IPv4 or IPv6 socket address in the kernel's layout.
pub(super) struct Address {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Address {
    fn empty() -> Self {
        // SAFETY: `sockaddr_storage` is plain integers, for which zero is valid.
        let storage = unsafe { std::mem::zeroed() };
        Self { storage, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    /// Pointer and length for `bind` and `connect`, valid while `self` is not moved.
    pub(super) fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.length)
    }

    pub(super) const fn from_storage(storage: libc::sockaddr_storage) -> Self {
        Self { storage, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    /// The address in Rust's form, if it is IPv4 or IPv6.
    pub(super) fn to_std(&self) -> Option<SocketAddr> {
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that the storage, which is large enough and aligned for
                // every kind of address, holds this one.
                let v4 = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut this = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                let sin_addr = libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() };
                let value = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr,
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage is large enough and aligned for every kind of address.
                unsafe { (&raw mut this.storage).cast::<libc::sockaddr_in>().write(value) };
                this.length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                let value = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut this.storage).cast::<libc::sockaddr_in6>().write(value) };
                this.length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        this
    }
}
