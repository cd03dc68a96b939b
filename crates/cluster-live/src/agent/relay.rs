//! Notices between a lab's process and other members: from a socket to Zenoh and back.
//!
//! Notices go at once and by themselves (`express`), ahead of everything else. One that finds no
//! room is dropped: members repair by digests, and one that hangs must not hold up the others.

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
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Locality;

use super::lab::{Members, member};
use crate::session::{Bus, key};
use crate::{Error, Result, urgent};

/// Longest notice that is passed on, with the two bytes of its address.
const LONGEST: usize = 64 << 10;
/// Room for notices that the lab's process has not read yet.
const ROOM: usize = 4 << 20;
/// The address of all members.
const ALL: u16 = 0xffff;

/// Passes notices on for as long as it lives.
pub(super) struct Relay {
    socket: Arc<OwnedFd>,
    _subscribers: [Subscriber<()>; 2],
}

impl Relay {
    /// Starts to pass on notices of member `own` of `lab`; the second is the lab's end.
    pub(super) fn start(
        bus: &Bus,
        lab: &str,
        own: AgentId,
        members: &Members,
    ) -> Result<(Self, OwnedFd)> {
        let failed = || Error::machine("make a socket for notices");
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed())?;
        for end in [&socket, &theirs] {
            sockopt::set_socket_send_buffer_size(end, ROOM).map_err(failed())?;
        }
        let socket = Arc::new(socket);
        let subscribe = |to| -> Result<Subscriber<()>> {
            let (socket, members) = (Arc::clone(&socket), Arc::clone(members));
            bus.subscribe(key::notices(lab, to), move |sender, sample| {
                if let Some(from) = member(&members, sender) {
                    pass_in(&socket, from, &sample.payload().to_bytes());
                }
            })
        };
        let subscribers = [subscribe(None)?, subscribe(Some(own))?];
        let publish = |to| -> Result<Publisher<'static>> {
            bus.session
                .declare_publisher(key::notice(lab, to, &bus.own))
                .express(true)
                .priority(Priority::RealTime)
                .congestion_control(CongestionControl::Drop)
                .allowed_destination(Locality::Remote)
                .wait()
                .map_err(Error::session("publish notices"))
        };
        let to_all = publish(None)?;
        let to_one: Vec<Publisher<'static>> =
            (0..members.len()).map(|to| publish(Some(AgentId::at(to)))).collect::<Result<_>>()?;
        let from = Arc::clone(&socket);
        thread::Builder::new()
            .name("notices".to_owned())
            .spawn(move || pass_out(&from, &to_all, &to_one))
            .map_err(Error::machine("start a thread for notices"))?;
        Ok((Self { socket, _subscribers: subscribers }, theirs))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Wakes the thread, which has the socket as well.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

/// From the lab's process to other members, until the process is gone.
fn pass_out(socket: &OwnedFd, to_all: &Publisher<'_>, to_one: &[Publisher<'_>]) {
    urgent::hurry();
    let mut buffer = vec![0; LONGEST];
    loop {
        let length = match recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => return,
            Ok((length, _)) => length,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        let Some((to, notice)) = buffer[..length].split_first_chunk::<2>() else { continue };
        let to = u16::from_le_bytes(*to);
        let publisher = if to == ALL { Some(to_all) } else { to_one.get(usize::from(to)) };
        if let Some(publisher) = publisher {
            // The session ends before its relays only when the agent does.
            let _ = publisher.put(notice).wait();
        }
    }
}

/// From another member to the lab's process.
fn pass_in(socket: &OwnedFd, from: AgentId, notice: &[u8]) {
    if notice.len() + 2 > LONGEST {
        return;
    }
    let mut message = Vec::with_capacity(notice.len() + 2);
    message.extend(from.0.to_le_bytes());
    message.extend(notice);
    // Without room it is lost, as it may be anywhere on its way; digests repair that.
    let _ = send(socket, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}
