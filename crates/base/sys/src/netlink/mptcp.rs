//! Paths of the kernel's Multipath TCP connections (RFC 8684), selected by this process: the
//! generic netlink family `mptcp_pm` of `linux/mptcp_pm.h`.
//!
//! With the kernel's own path manager, addresses and limits apply to all connections of a network
//! namespace. Here they are per connection: the namespace's path manager is set to `userspace`, the
//! kernel reports established connections, and subflows are opened by the connection's token (Linux
//! 5.19).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::message::{self, Answer, Message};
use crate::{Error, Result, check, sysctl};

const FAMILY: &str = "mptcp_pm";
const EVENTS: &str = "mptcp_pm_events";
/// `struct genlmsghdr`.
const GENERIC_HEADER: usize = 4;
/// Size limit of events in the socket's buffer.
const EVENT_BUFFER: libc::c_int = 1 << 20;

/// `linux/genetlink.h`.
mod control {
    pub(super) const ID: u16 = 16;
    pub(super) const GET_FAMILY: u8 = 3;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
    pub(super) const GROUPS: u16 = 7;
    pub(super) const GROUP_NAME: u16 = 1;
    pub(super) const GROUP_ID: u16 = 2;
}

/// Requests of `linux/mptcp_pm.h`.
mod request {
    pub(super) const SUBFLOW_CREATE: u8 = 10;
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const TOKEN: u16 = 4;
    pub(super) const REMOTE: u16 = 6;
    pub(super) const FAMILY: u16 = 1;
    pub(super) const ID: u16 = 2;
    pub(super) const V4: u16 = 3;
    pub(super) const V6: u16 = 4;
    pub(super) const PORT: u16 = 5;
    pub(super) const FLAGS: u16 = 6;
    pub(super) const BACKUP: u32 = 4;
}

/// Events of `linux/mptcp.h`.
mod event {
    pub(super) const ESTABLISHED: u8 = 2;
    pub(super) const TOKEN: u16 = 1;
    pub(super) const SOURCE_PORT: u16 = 9;
    pub(super) const DESTINATION_PORT: u16 = 10;
    pub(super) const SERVER_SIDE: u16 = 18;
    /// Of the attribute `FLAGS`, which newer kernels send instead of `SERVER_SIDE`.
    pub(super) const FLAGS: u16 = 13;
    pub(super) const FLAG_SERVER_SIDE: u16 = 1 << 1;
}

/// An established connection, to which subflows can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established {
    /// Identifies the connection within its namespace.
    pub token: u32,
    /// Local port of its first subflow.
    pub local_port: u16,
    /// Remote port of its first subflow.
    pub remote_port: u16,
    pub accepted: bool,
}

/// A further subflow of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    pub token: u32,
    /// Local address of the new subflow.
    pub from: IpAddr,
    /// Identifier of that address within the connection; not 0, which is the first subflow's.
    pub id: u8,
    /// Remote address and port.
    pub to: SocketAddr,
    /// Use it only if no other subflow works.
    pub backup: bool,
}

/// Whether this kernel supports Multipath TCP, and the calling thread's namespace allows it.
pub fn is_supported() -> bool {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: takes integers only.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_MPTCP) };
    if fd < 0 {
        return false;
    }
    // SAFETY: the kernel has just given us this descriptor.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    sysctl::read("net/mptcp/enabled").is_ok_and(|value| value == "1")
}

/// The path manager of one network namespace: that of the thread that created it. During its
/// lifetime, connections accept subflows.
#[derive(Debug)]
pub struct PathManager {
    events: OwnedFd,
    requests: OwnedFd,
    family: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

impl PathManager {
    /// Takes over the namespace's future connections.
    pub fn open() -> Result<Self> {
        // The name of Linux 6.15, then the number of earlier versions.
        let named = sysctl::write("net/mptcp/path_manager", "userspace");
        named.or_else(|_| sysctl::write("net/mptcp/pm_type", "1"))?;
        let requests = generic_socket(0)?;
        let events = generic_socket(libc::SOCK_NONBLOCK)?;
        let mut this = Self { events, requests, family: 0, sequence: 0, buffer: vec![0; 32 << 10] };
        let group = this.find_family()?;
        let option = |level, name, value: u32, call| {
            let (value, length) = (&raw const value, size_of::<u32>() as libc::socklen_t);
            // SAFETY: the pointer and the length describe `value`.
            let result = unsafe {
                libc::setsockopt(this.events.as_raw_fd(), level, name, value.cast(), length)
            };
            check(call, result).map(drop)
        };
        let (call, size) = ("setsockopt(SO_RCVBUF)", EVENT_BUFFER as u32);
        option(libc::SOL_SOCKET, libc::SO_RCVBUF, size, call)?;
        let call = "setsockopt(NETLINK_ADD_MEMBERSHIP)";
        option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group, call)?;
        Ok(this)
    }

    /// Readable when there are [`Self::established`] connections.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Connections that were established since the last call.
    pub fn established(&mut self) -> Result<Vec<Established>> {
        let mut found = Vec::new();
        loop {
            let received = match receive(&self.events, &mut self.buffer) {
                Ok(received) => received,
                // Events were lost because of a full buffer: their connections keep one path.
                Err(error) if error.errno() == Some(libc::ENOBUFS) => continue,
                Err(error) if error.errno() == Some(libc::EAGAIN) => return Ok(found),
                Err(error) => return Err(error),
            };
            let answers = message::answers(&self.buffer[..received]).flatten();
            found.extend(answers.filter_map(|answer| established(&answer)));
        }
    }

    /// Starts to open a further subflow.
    pub fn join(&mut self, join: &Join) -> Result<()> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes, self.family, libc::NLM_F_ACK);
        message.push(&[request::SUBFLOW_CREATE, 1, 0, 0]);
        message.attribute(request::TOKEN, &join.token.to_ne_bytes());
        message.nest(request::ADDRESS | NESTED, |local| {
            push_address(local, join.from);
            local.attribute(request::ID, &[join.id]);
            let flags = if join.backup { request::BACKUP } else { 0 };
            local.attribute(request::FLAGS, &flags.to_ne_bytes());
        });
        message.nest(request::REMOTE | NESTED, |remote| {
            push_address(remote, join.to.ip());
            remote.attribute(request::PORT, &join.to.port().to_ne_bytes());
        });
        message.finish();
        self.ask(bytes, "open a subflow", |_| Some(()))
    }

    /// Finds the number of the family; returns that of the multicast group for events.
    fn find_family(&mut self) -> Result<u32> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes, control::ID, 0);
        message.push(&[control::GET_FAMILY, 1, 0, 0]);
        message.text(control::FAMILY_NAME, FAMILY);
        message.finish();
        let (family, group) = self.ask(bytes, "find `mptcp_pm`", |answer| {
            let id = answer.attribute(GENERIC_HEADER, control::FAMILY_ID)?;
            let family = u16::from_ne_bytes(id.try_into().ok()?);
            let groups = answer.attribute(GENERIC_HEADER, control::GROUPS)?;
            let ours = message::attributes_in(groups).find_map(|(_, group)| {
                let name = message::attribute_in(group, control::GROUP_NAME)?;
                let id = message::attribute_in(group, control::GROUP_ID)?;
                let is_ours = name.strip_suffix(b"\0") == Some(EVENTS.as_bytes());
                is_ours.then_some(message::word(id, 0)?)
            });
            Some((family, ours?))
        })?;
        self.family = family;
        Ok(group)
    }

    /// Sends a request and reads its answer: an acknowledgement, or another message.
    fn ask<T>(
        &mut self,
        mut bytes: Vec<u8>,
        request: &'static str,
        read: impl Fn(&Answer<'_>) -> Option<T>,
    ) -> Result<T> {
        self.sequence = self.sequence.wrapping_add(1);
        message::address_request(&mut bytes, self.sequence, false);
        let (data, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the pointer and the length describe `bytes`.
        let sent = unsafe { libc::send(self.requests.as_raw_fd(), data, length, 0) };
        if sent < 0 {
            return Err(Error::last("send(AF_NETLINK)"));
        }
        loop {
            let received = receive(&self.requests, &mut self.buffer)?;
            for answer in message::answers(&self.buffer[..received]) {
                let answer = answer.ok_or(Error::Malformed(request))?;
                if answer.sequence != self.sequence {
                    continue;
                }
                return match answer.error() {
                    Some(0) | None => read(&answer).ok_or(Error::Malformed(request)),
                    Some(errno) => {
                        let cause = io::Error::from_raw_os_error(errno);
                        Err(Error::Netlink { request, cause })
                    }
                };
            }
        }
    }
}

/// `NLA_F_NESTED`, which this family requires.
const NESTED: u16 = 1 << 15;

fn push_address(message: &mut Message<'_>, address: IpAddr) {
    let (family, kind) = match address {
        IpAddr::V4(_) => (libc::AF_INET, request::V4),
        IpAddr::V6(_) => (libc::AF_INET6, request::V6),
    };
    message.attribute(request::FAMILY, &(family as u16).to_ne_bytes());
    message.address(kind, address);
}

fn established(answer: &Answer<'_>) -> Option<Established> {
    if answer.payload().first() != Some(&event::ESTABLISHED) {
        return None;
    }
    let attribute = |kind| answer.attribute(GENERIC_HEADER, kind);
    let port = |kind| Some(u16::from_be_bytes(attribute(kind)?.try_into().ok()?));
    let is_set = |value: &[u8]| value.first().is_some_and(|byte| *byte != 0);
    let flags = attribute(event::FLAGS).and_then(|value| value.try_into().ok());
    let flagged =
        flags.is_some_and(|flags| u16::from_ne_bytes(flags) & event::FLAG_SERVER_SIDE > 0);
    Some(Established {
        token: message::word(attribute(event::TOKEN)?, 0)?,
        local_port: port(event::SOURCE_PORT)?,
        remote_port: port(event::DESTINATION_PORT)?,
        accepted: flagged || attribute(event::SERVER_SIDE).is_some_and(is_set),
    })
}

fn generic_socket(flags: libc::c_int) -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | flags;
    // SAFETY: takes integers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) };
    let fd = check("socket(AF_NETLINK)", fd)?;
    // SAFETY: the kernel has just given us this descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // A family without a multicast group reports no events.
    // SAFETY: integers, for which zero is a value.
    let mut any: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    any.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    let (place, length) = (&raw const any, size_of_val(&any) as libc::socklen_t);
    // SAFETY: the pointer and the length describe `any`.
    check("bind", unsafe { libc::bind(socket.as_raw_fd(), place.cast(), length) })?;
    Ok(socket)
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    loop {
        let (data, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the pointer and the length describe `buffer`.
        let received = unsafe { libc::recv(socket.as_raw_fd(), data, length, 0) };
        if let Ok(received) = usize::try_from(received) {
            return Ok(received);
        }
        let error = Error::last("recv(AF_NETLINK)");
        if error.errno() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests;
