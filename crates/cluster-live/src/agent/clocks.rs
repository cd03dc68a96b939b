//! How the clocks of other agents' machines compare: one socket, and a thread that looks at it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Span, Time};
use cluster::clock::{Offset, Pinger, Secret, lead};
use cluster::control::{ClockStatus, PeerStatus};

use super::{draw, now};
use crate::{Error, Result, urgent};

/// Longest sleep: peers may be added meanwhile.
const ROUND: Span = Span::from_millis(20);
/// Longer than any datagram of these.
const DATAGRAM: usize = 256;

/// Compares clocks for as long as it lives.
pub(super) struct Clocks {
    pinger: Arc<Mutex<Pinger>>,
    /// With which other agents are asked.
    secrets: Mutex<BTreeMap<String, Secret>>,
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clocks {
    /// Asks and answers at `address`.
    pub(super) fn start(address: IpAddr) -> Result<Self> {
        let failed = || Error::machine("open a socket for clock pings");
        let socket = UdpSocket::bind((address, 0)).map_err(failed())?;
        let at = socket.local_addr().map_err(failed())?;
        let pinger = Arc::new(Mutex::new(Pinger::new(draw()?)));
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, ending) = (Arc::clone(&pinger), Arc::clone(&ends));
        let thread = thread::Builder::new()
            .name("clocks".to_owned())
            .spawn(move || serve(&socket, &shared, &ending))
            .map_err(failed())?;
        Ok(Self { pinger, secrets: Mutex::default(), at, ends, thread: Some(thread) })
    }

    /// Where others ask.
    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Asks `name` at `at` from now on. As long as it has not answered: the secret that it needs.
    pub(super) fn know(&self, name: &str, at: SocketAddr) -> Result<Option<Secret>> {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if !secrets.contains_key(name) {
            let mut secret = Secret::default();
            for part in secret.chunks_exact_mut(8) {
                part.copy_from_slice(&draw()?.to_be_bytes());
            }
            secrets.insert(name.to_owned(), secret);
        }
        let secret = secrets[name];
        let mut pinger = lock(&self.pinger);
        pinger.add(now(), name, at, &secret);
        Ok(pinger.offset(now(), name).is_none().then_some(secret))
    }

    /// Answers `name` when it asks with this secret.
    pub(super) fn answer_to(&self, name: &str, secret: &Secret) {
        lock(&self.pinger).answer_to(name, secret);
    }

    /// What the clock of `name` shows beside the own one.
    pub(super) fn offset(&self, name: &str) -> Option<Offset> {
        lock(&self.pinger).offset(now(), name)
    }

    /// How long before it is due a packet for `name` should leave.
    pub(super) fn lead(&self, name: &str) -> Span {
        lock(&self.pinger).path(name).map_or(Span::ZERO, |path| lead(&path.round_trips()))
    }

    /// What is known of `name`, for tables.
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
                round_trip_ns: path.round_trips().percentile(0.5),
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
    urgent::hurry();
    let mut buffer = [0; DATAGRAM];
    while !ends.load(Ordering::Relaxed) {
        let mut next = now() + ROUND;
        {
            let mut pinger = lock(pinger);
            // What is not sent is not answered, and counts as lost.
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
            // ICMP errors of peers that are gone end up here too.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_on_one_machine_have_one_clock() {
        let address = IpAddr::from([127, 0, 0, 1]);
        let start = || Clocks::start(address).unwrap();
        let (a, b, stranger) = (start(), start(), start());
        assert_eq!(a.offset("b"), None);
        let secret = a.know("b", b.at()).unwrap().unwrap();
        a.know("stranger", stranger.at()).unwrap();
        for other in [&b, &stranger] {
            other.know("a", a.at()).unwrap();
            other.answer_to("a", &secret);
        }
        while a.status("b", true).clock.is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        let offset = a.offset("b").unwrap();
        assert!(offset.nanos.unsigned_abs() <= offset.bound.as_nanos(), "{offset:?}");
        assert!(a.lead("b") > Span::ZERO);
        assert_eq!(a.offset("stranger"), None, "it has another secret");
        assert_eq!(a.know("b", b.at()).unwrap(), None, "it has answered");
    }
}
