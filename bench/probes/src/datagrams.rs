//! Paced datagrams: the sender timestamps each datagram, and the kernel timestamps its arrival.

use std::fmt::Write as _;
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;

use crate::{Outcome, nanos, print};

/// Payload bytes: enough for a timestamp, and typical of small packets.
const PAYLOAD: usize = 172;

/// Min gap in ns in the sender's progress that counts as a stall.
const MIN_STALL: u64 = 20_000;

/// Poll interval of the receiver. It is long so that wake-ups do not disturb the measurement.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);

/// Stalls of the spinning sender, by cause.
#[derive(Default)]
struct Stalls {
    /// No other thread was scheduled: the hypervisor suspended the machine, or the machine handled
    /// a long interrupt.
    machine: Vec<u64>,
    /// The scheduler ran another thread.
    preempted: Vec<u64>,
    switches: u64,
}

impl Stalls {
    fn note(&mut self, gap: u64) {
        let switches = involuntary_switches();
        let list = if switches > self.switches { &mut self.preempted } else { &mut self.machine };
        self.switches = switches;
        list.push(gap);
    }
}

/// Number of involuntary context switches of this thread.
fn involuntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Sends at a constant rate and spins in between, which measures the machine's stalls.
pub(crate) fn send(to: &str, rate: &str, seconds: &str) -> Outcome {
    let to = to.to_socket_addrs()?.next().ok_or("no such host")?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let interval = (1e9 / rate.parse::<f64>()?) as u64;
    let start = sys::clock::monotonic();
    let end = start + nanos(seconds)?;
    let mut stalls = Stalls { switches: involuntary_switches(), ..Stalls::default() };
    let (mut due, mut sent, mut skipped, mut refused) = (start, 0_u64, 0_u64, 0_u64);
    let mut packet = [0_u8; PAYLOAD];
    let mut last = sys::clock::monotonic();
    loop {
        let now = sys::clock::monotonic();
        if now - last > MIN_STALL {
            stalls.note(now - last);
            last = sys::clock::monotonic();
            continue;
        }
        last = now;
        if now >= end {
            break;
        }
        if now < due {
            std::hint::spin_loop();
            continue;
        }
        // Skips the datagrams that a stall has delayed: a burst would distort the results.
        let missed = (now - due) / interval;
        skipped += missed;
        due += interval * (missed + 1);
        packet[..8].copy_from_slice(&sys::clock::monotonic().to_ne_bytes());
        match socket.send(&packet) {
            Ok(_) => sent += 1,
            Err(_) => refused += 1,
        }
        last = sys::clock::monotonic();
    }
    print(&format!(
        "{{\"sent\":{sent},\"skipped\":{skipped},\"refused\":{refused},\
         \"machine_stalls_ns\":{:?},\"preemptions_ns\":{:?}}}",
        stalls.machine, stalls.preempted
    ));
    Ok(())
}

/// Collects one-way delays, from the sender's stamp to the kernel's, in nanoseconds.
pub(crate) fn receive(port: &str, seconds: &str) -> Outcome {
    let socket = UdpSocket::bind(("0.0.0.0", port.parse()?))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20)?;
    sys::socket::set_arrival_stamps(socket.as_fd())?;
    let lasts = nanos(seconds)?;
    let mut end = None;
    let mut delays: Vec<i64> = Vec::new();
    loop {
        while sys::socket::receive_datagrams::<8>(socket.as_fd(), |arrival| {
            let sent = u64::from_ne_bytes(arrival.head);
            delays.push(arrival.at as i64 - sent as i64);
        })? > 0
        {}
        let now = sys::clock::monotonic();
        if !delays.is_empty() && now >= *end.get_or_insert(now + lasts) {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut text = String::from("{\"delays_ns\":[");
    for (at, delay) in delays.iter().enumerate() {
        write!(text, "{}{delay}", if at > 0 { "," } else { "" })?;
    }
    text.push_str("]}");
    print(&text);
    Ok(())
}
