//! The kernel's state of a Multipath TCP connection (`MPTCP_FULL_INFO`, Linux 6.5).

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::TcpInfo;
use super::address::Address;
use crate::{Result, check};

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_FULL_INFO: libc::c_int = 4;

/// Limit of reported subflows; a connection has at most 8 local addresses.
const MAX_SUBFLOWS: usize = 16;

/// Room for the kernel's `struct tcp_info`.
const TCP_INFO: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowInfo {
    /// Its number, assigned by this end's kernel in ascending order.
    pub id: u32,
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// TCP's state of the subflow.
    pub tcp: TcpInfo,
}

/// A connection and its subflows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MptcpInfo {
    /// Payload bytes that were retransmitted on another subflow.
    pub reinjected_bytes: u64,
    pub subflows: Vec<SubflowInfo>,
}

/// `struct mptcp_subflow_info` of `linux/mptcp.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawSubflow {
    id: u32,
    local: libc::sockaddr_storage,
    remote: libc::sockaddr_storage,
}

/// `struct mptcp_full_info`, with more room for the `struct mptcp_info` at its end
/// than today's kernels need.
#[repr(C)]
struct RawInfo {
    size_tcp_kernel: u32,
    size_tcp_user: u32,
    size_subflow_kernel: u32,
    size_subflow_user: u32,
    subflows: u32,
    room: u32,
    subflow_info: u64,
    tcp_info: u64,
    mptcp: [u64; 32],
}

impl MptcpInfo {
    /// Queries the kernel's state of a connection; fails if it is not a Multipath TCP socket or the
    /// kernel does not support it. A connection that fell back to plain TCP has no subflows.
    pub fn read(socket: BorrowedFd<'_>) -> Result<Self> {
        /// Offset of `mptcpi_bytes_retrans` in words of eight bytes.
        const BYTES_AGAIN: usize = 6;
        // SAFETY: integers and bytes, for which zero is a value.
        let mut raw: [RawSubflow; MAX_SUBFLOWS] = unsafe { std::mem::zeroed() };
        let mut tcp = [[0_u64; TCP_INFO / 8]; MAX_SUBFLOWS];
        let mut info = RawInfo {
            size_tcp_kernel: 0,
            size_tcp_user: TCP_INFO as u32,
            size_subflow_kernel: 0,
            size_subflow_user: size_of::<RawSubflow>() as u32,
            subflows: 0,
            room: MAX_SUBFLOWS as u32,
            subflow_info: raw.as_mut_ptr() as u64,
            tcp_info: tcp.as_mut_ptr() as u64,
            mptcp: [0; 32],
        };
        let mut length = size_of::<RawInfo>() as libc::socklen_t;
        let place = (&raw mut info).cast();
        // SAFETY: `length` says how much room there is at `place`; the sizes in it say how much
        // there is in the two arrays, which outlive the call.
        let result = unsafe {
            libc::getsockopt(socket.as_raw_fd(), SOL_MPTCP, MPTCP_FULL_INFO, place, &raw mut length)
        };
        check("getsockopt(MPTCP_FULL_INFO)", result)?;
        let count = (info.subflows as usize).min(MAX_SUBFLOWS);
        let subflows = raw.iter().zip(&tcp).take(count).map(|(subflow, tcp)| {
            let address = |storage| Address::from_storage(storage).to_std();
            let mut bytes = [0; TCP_INFO];
            for (to, from) in bytes.chunks_exact_mut(8).zip(tcp) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
            SubflowInfo {
                id: subflow.id,
                local: address(subflow.local),
                remote: address(subflow.remote),
                tcp: TcpInfo::parse(&bytes),
            }
        });
        Ok(Self { reinjected_bytes: info.mptcp[BYTES_AGAIN], subflows: subflows.collect() })
    }
}
