//! The physical network between two agents: a relay of datagrams with a delay in each direction.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// Its ends, before datagrams are forwarded: labs are forked from a process with one thread.
pub(crate) struct Ends {
    sockets: [UdpSocket; 2],
    trunks: [SocketAddr; 2],
}

impl Ends {
    /// Connects agents with these trunk addresses.
    pub(crate) fn of(trunks: [SocketAddr; 2]) -> Self {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self { sockets: [socket(), socket()], trunks }
    }

    /// The address at which others reach an agent.
    pub(crate) fn address(&self, member: usize) -> SocketAddr {
        self.sockets[member].local_addr().unwrap()
    }

    /// Starts forwarding datagrams.
    pub(crate) fn connect(self) -> Wire {
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || self.carry(&shared));
        Wire { state, thread: Some(thread) }
    }

    fn carry(&self, state: &State) {
        let mut flying: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
        let mut buffer = vec![0; 1 << 16];
        self.sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        while !state.ends.load(Ordering::Relaxed) {
            let now = Instant::now();
            while flying.front().is_some_and(|(at, ..)| *at <= now) {
                let (_, to, bytes) = flying.pop_front().unwrap();
                let _ = self.sockets[to].send_to(&bytes, self.trunks[to]);
            }
            let nap = flying.front().map_or(Duration::from_millis(20), |first| first.0 - now);
            let nap = nap.min(Duration::from_millis(20));
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
            let mut fds = [0, 1].map(|at| PollFd::new(&self.sockets[at], PollFlags::IN));
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
            let delay = Duration::from_micros(state.delay.load(Ordering::Relaxed));
            for (to, socket) in self.sockets.iter().enumerate() {
                while let Ok(length) = socket.recv(&mut buffer) {
                    if !state.cut.load(Ordering::Relaxed) {
                        flying.push_back((Instant::now() + delay, to, buffer[..length].to_vec()));
                    }
                }
            }
        }
    }
}

#[derive(Default)]
struct State {
    /// One-way delay in microseconds.
    delay: AtomicU64,
    cut: AtomicBool,
    ends: AtomicBool,
}

/// Keeps the wire open as long as it exists.
pub(crate) struct Wire {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    pub(crate) fn delay(&self, delay: Duration) {
        self.state.delay.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// Cuts or restores the wire.
    pub(crate) fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.state.cut.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
