//! How the clocks of other agents' machines compare: one socket, and a thread that looks at it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Span, Time};
use cluster::clock::{Offset, Pinger, PingerOptions, Secret, lead};
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
    peers: Mutex<BTreeMap<String, (SocketAddr, Secret)>>,
    at: SocketAddr,
    secret: Secret,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clocks {
    /// Answers at `address` questions that are authenticated with a new secret.
    pub(super) fn start(address: IpAddr) -> Result<Self> {
        let failed = || Error::machine("open a socket for clock pings");
        let socket = UdpSocket::bind((address, 0)).map_err(failed())?;
        let at = socket.local_addr().map_err(failed())?;
        let mut secret = Secret::default();
        for part in secret.chunks_exact_mut(8) {
            part.copy_from_slice(&draw()?.to_be_bytes());
        }
        let options = PingerOptions { secret: &secret, seed: draw()? };
        let pinger = Arc::new(Mutex::new(Pinger::new(options)));
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, ending) = (Arc::clone(&pinger), Arc::clone(&ends));
        let thread = thread::Builder::new()
            .name("clocks".to_owned())
            .spawn(move || serve(&socket, &shared, &ending))
            .map_err(failed())?;
        Ok(Self { pinger, peers: Mutex::default(), at, secret, ends, thread: Some(thread) })
    }

    /// Where others ask.
    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    /// What other agents need to ask.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Asks `name` at `at` from now on.
    pub(super) fn know(&self, name: &str, at: SocketAddr, secret: Secret) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = peers.insert(name.to_owned(), (at, secret));
        if before != Some((at, secret)) {
            let mut pinger = lock(&self.pinger);
            if let Some((before, _)) = before {
                pinger.remove(before);
            }
            pinger.add(now(), at, &secret);
        }
    }

    fn place(&self, name: &str) -> Option<SocketAddr> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(name).map(|(at, _)| *at)
    }

    /// What the clock of `name` shows beside the own one.
    pub(super) fn offset(&self, name: &str) -> Option<Offset> {
        let at = self.place(name)?;
        lock(&self.pinger).offset(now(), at)
    }

    /// How long before it is due a packet for `name` should leave.
    pub(super) fn lead(&self, name: &str) -> Span {
        let Some(at) = self.place(name) else { return Span::ZERO };
        lock(&self.pinger).path(at).map_or(Span::ZERO, |path| lead(&path.round_trips()))
    }

    /// What is known of `name`, for tables.
    pub(super) fn status(&self, name: &str, alive: bool) -> PeerStatus {
        let offset = self.offset(name);
        let mut status =
            PeerStatus { name: name.to_owned(), alive, clock: None, pings: 0, unanswered: 0 };
        let Some(at) = self.place(name) else { return status };
        if let Some(path) = lock(&self.pinger).path(at) {
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
                let answer = lock(pinger).on_datagram(at, &buffer[..length]);
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
        a.know("b", b.at(), *b.secret());
        a.know("stranger", stranger.at(), *b.secret());
        while a.status("b", true).clock.is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        let offset = a.offset("b").unwrap();
        assert!(offset.nanos.unsigned_abs() <= offset.bound.as_nanos(), "{offset:?}");
        assert!(a.lead("b") > Span::ZERO);
        assert_eq!(a.offset("stranger"), None, "it has another secret");
    }
}
