//! Relays notices between a shard's process and the other agents of its lab: from a socket to
//! Zenoh and back.
//!
//! Notices are sent at once, in separate messages (`express`) with the highest priority. If a queue
//! is full, they are dropped: digests repair losses, and a hanging agent must not block the others.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use cluster::AgentId;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair, sockopt,
};
use zenoh::Wait;
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Locality;

use crate::session::{Bus, Declaration, LabPeers, key};
use crate::{Error, Result, priority};

/// Max bytes of a notice with the two bytes of its address.
const MAX_NOTICE_BYTES: usize = 64 << 10;
/// Buffer for notices that the shard's process has not read yet.
const BUFFER_BYTES: usize = 4 << 20;
/// The address of all agents of the lab.
const ALL: u16 = 0xffff;

/// Relays notices until it is dropped.
pub(super) struct Relay {
    socket: Arc<OwnedFd>,
    _subscribers: [Declaration; 2],
}

impl Relay {
    /// Starts the relay of agent `own` of `lab`. Returns also the socket for the shard's process.
    pub(super) fn start(
        bus: &Bus,
        lab: &str,
        own: AgentId,
        peers: &LabPeers,
    ) -> Result<(Self, OwnedFd)> {
        let failed = || Error::machine("make a socket for notices");
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed())?;
        for end in [&socket, &theirs] {
            sockopt::set_socket_send_buffer_size(end, BUFFER_BYTES).map_err(failed())?;
        }
        let socket = Arc::new(socket);
        let subscribe = |to| -> Result<Declaration> {
            let (socket, peers) = (Arc::clone(&socket), peers.clone());
            bus.subscribe(key::notices(lab, to), move |sender, sample| {
                if let Some(from) = peers.id(sender) {
                    forward_to_shard(&socket, from, &sample.payload().to_bytes());
                }
            })
        };
        let subscribers = [subscribe(None)?, subscribe(Some(own))?];
        let publishers = Publishers::declare(bus, lab, peers.len())?;
        let from = Arc::clone(&socket);
        thread::Builder::new()
            .name("notices".to_owned())
            .spawn(move || forward_to_peers(&from, publishers))
            .map_err(Error::machine("start a thread for notices"))?;
        Ok((Self { socket, _subscribers: subscribers }, theirs))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Wakes the thread, which shares the socket.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

/// The publishers of notices in one session.
struct Publishers {
    bus: Bus,
    lab: String,
    /// [`Bus::replacements`] before they were declared.
    replacements: u64,
    to_all: Publisher<'static>,
    /// By [`AgentId`].
    to_one: Vec<Publisher<'static>>,
}

impl Publishers {
    fn declare(bus: &Bus, lab: &str, agents: usize) -> Result<Self> {
        let replacements = bus.replacements();
        let publish = |to| -> Result<Publisher<'static>> {
            bus.session()
                .declare_publisher(key::notice(lab, to, &bus.own))
                .express(true)
                .priority(Priority::RealTime)
                .congestion_control(CongestionControl::Drop)
                .allowed_destination(Locality::Remote)
                .wait()
                .map_err(Error::session("publish notices"))
        };
        let to_one = (0..agents).map(|to| publish(Some(AgentId::at(to)))).collect::<Result<_>>()?;
        let (bus, lab, to_all) = (bus.clone(), lab.to_owned(), publish(None)?);
        Ok(Self { bus, lab, replacements, to_all, to_one })
    }

    /// Declares them again if the session was replaced.
    fn renew(&mut self) {
        if self.bus.replacements() != self.replacements
            && let Ok(current) = Self::declare(&self.bus, &self.lab, self.to_one.len())
        {
            *self = current;
        }
    }
}

/// Forwards notices of the shard's process to other agents until the process ends.
fn forward_to_peers(socket: &OwnedFd, mut publishers: Publishers) {
    priority::raise();
    let mut buffer = vec![0; MAX_NOTICE_BYTES];
    loop {
        let length = match recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => return,
            Ok((length, _)) => length,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        let Some((to, notice)) = buffer[..length].split_first_chunk::<2>() else { continue };
        let to = u16::from_le_bytes(*to);
        publishers.renew();
        let Publishers { to_all, to_one, .. } = &publishers;
        let publisher = if to == ALL { Some(to_all) } else { to_one.get(usize::from(to)) };
        if let Some(publisher) = publisher {
            // It fails only while the session is closed; digests repair the loss.
            let _ = publisher.put(notice).wait();
        }
    }
}

/// Forwards a notice of another agent to the shard's process.
fn forward_to_shard(socket: &OwnedFd, from: AgentId, notice: &[u8]) {
    if notice.len() + 2 > MAX_NOTICE_BYTES {
        return;
    }
    let mut message = Vec::with_capacity(notice.len() + 2);
    message.extend(from.0.to_le_bytes());
    message.extend(notice);
    // If the buffer is full, the notice is lost; digests repair that.
    let _ = send(socket, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}
