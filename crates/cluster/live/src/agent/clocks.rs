//! Measures the clock offsets to the machines of other agents, with one socket and one thread.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Span, Time};
use cluster::clock::{Offset, Pinger, Secret, egress_lead};
use cluster::control::{ClockStatus, PeerStatus};

use crate::system::{now, random};
use crate::{Error, Result, priority};

/// Max sleep, because peers may be added in the meantime.
const MAX_SLEEP: Span = Span::from_millis(20);
/// More than the size of a clock datagram.
const BUFFER_BYTES: usize = 256;

/// Measures offsets until it is dropped.
pub(super) struct Clocks {
    pinger: Arc<Mutex<Pinger>>,
    /// The secrets of pings to other agents.
    secrets: Mutex<BTreeMap<String, Secret>>,
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clocks {
    /// Sends and answers pings at `address`.
    pub(super) fn start(address: IpAddr) -> Result<Self> {
        let failed = || Error::machine("open a socket for clock pings");
        let socket = UdpSocket::bind((address, 0)).map_err(failed())?;
        let address = socket.local_addr().map_err(failed())?;
        let pinger = Arc::new(Mutex::new(Pinger::new(u64::from_le_bytes(random()?))));
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, ending) = (Arc::clone(&pinger), Arc::clone(&ends));
        let thread = thread::Builder::new()
            .name("clocks".to_owned())
            .spawn(move || serve(&socket, &shared, &ending))
            .map_err(failed())?;
        Ok(Self { pinger, secrets: Mutex::default(), address, ends, thread: Some(thread) })
    }

    /// The address for the pings of other agents.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to ping `name` at `at`. Until the first reply, it returns the secret for `name`.
    pub(super) fn add(&self, name: &str, at: SocketAddr) -> Result<Option<Secret>> {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if !secrets.contains_key(name) {
            secrets.insert(name.to_owned(), random()?);
        }
        let secret = secrets[name];
        let mut pinger = lock(&self.pinger);
        pinger.add(now(), name, at, &secret);
        Ok(pinger.offset(now(), name).is_none().then_some(secret))
    }

    /// Sends no pings to an agent that is lost, until it is added again.
    pub(super) fn rest(&self, name: &str) {
        lock(&self.pinger).rest(name);
    }

    pub(super) fn remove(&self, name: &str) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        lock(&self.pinger).remove(name);
    }

    /// Answers pings of `name` that are authenticated with this secret.
    pub(super) fn answer_to(&self, name: &str, secret: &Secret) {
        lock(&self.pinger).answer_to(name, secret);
    }

    /// The offset of the clock of `name`.
    pub(super) fn offset(&self, name: &str) -> Option<Offset> {
        lock(&self.pinger).offset(now(), name)
    }

    /// The egress lead time for packets to `name`; zero without pings to it.
    pub(super) fn egress_lead(&self, name: &str) -> Span {
        lock(&self.pinger).path(name).map_or(Span::ZERO, |path| egress_lead(&path.rtts()))
    }

    pub(super) fn status(&self, name: &str, alive: bool) -> PeerStatus {
        let offset = self.offset(name);
        let mut status =
            PeerStatus { name: name.to_owned(), alive, clock: None, pings: 0, unanswered: 0 };
        if let Some(path) = lock(&self.pinger).path(name) {
            status.pings = path.answered + path.lost;
            status.unanswered = path.lost;
            status.clock = offset.map(|offset| ClockStatus {
                offset_ns: offset.nanos,
                bound_ns: offset.bound.as_nanos(),
                round_trip_ns: path.rtts().percentile(0.5),
            });
        }
        status
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(pinger: &Mutex<Pinger>) -> MutexGuard<'_, Pinger> {
    pinger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: &UdpSocket, pinger: &Mutex<Pinger>, ends: &AtomicBool) {
    priority::raise();
    let mut buffer = [0; BUFFER_BYTES];
    while !ends.load(Ordering::Relaxed) {
        let mut next = now() + MAX_SLEEP;
        {
            let mut pinger = lock(pinger);
            // A ping that cannot be sent gets no reply and counts as lost.
            while let Some((to, datagram)) = pinger.poll(now()) {
                let _ = socket.send_to(&datagram, to);
            }
            next = pinger.next_wake().map_or(next, |wake| wake.min(next));
        }
        let sleep = next.since(now()).to_std().max(Duration::from_micros(100));
        if socket.set_read_timeout(Some(sleep)).is_err() {
            return;
        }
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let at: Time = now();
                let answer = lock(pinger).on_datagram(at, from, &buffer[..length]);
                if let Some(answer) = answer {
                    let _ = socket.send_to(&answer, from);
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // For example ICMP errors from peers that have ended.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_on_one_machine_is_zero_within_bound() {
        let address = IpAddr::from([127, 0, 0, 1]);
        let start = || Clocks::start(address).unwrap();
        let (a, b, impostor) = (start(), start(), start());
        assert_eq!(a.offset("b"), None);
        let secret = a.add("b", b.address()).unwrap().unwrap();
        a.add("impostor", impostor.address()).unwrap();
        for other in [&b, &impostor] {
            other.add("a", a.address()).unwrap();
            other.answer_to("a", &secret);
        }
        while a.status("b", true).clock.is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        let offset = a.offset("b").unwrap();
        assert!(offset.nanos.unsigned_abs() <= offset.bound.as_nanos(), "{offset:?}");
        assert!(a.egress_lead("b") > Span::ZERO);
        assert_eq!(a.offset("impostor"), None, "it has another secret");
        assert_eq!(a.add("b", b.address()).unwrap(), None, "it has answered");
    }
}
