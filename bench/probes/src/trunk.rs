//! The throughput between two machines: trains of plain datagrams, and messages of a lab's trunk.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{Bytes, IfaceId, Time};
use cluster::AgentId;
use cluster::trunk::{Message, Outgoing, Trunk, TrunkOptions, datagram_size};
use rustix::event::{PollFd, PollFlags, Timespec};
use sys::socket::{TrainReceiver, TrainSender};

use crate::{Outcome, nanos, print};

const BUFFER: usize = 16 << 20;

/// Max packets that a turn of the data path reads.
const TURN: usize = 32;

/// Time in ns without datagrams after which a receiver ends.
const SILENCE: u64 = 300_000_000;

/// The format on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Plain,
    Clear,
    Sealed,
}

impl Format {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "plain" => Ok(Self::Plain),
            "clear" => Ok(Self::Clear),
            "sealed" => Ok(Self::Sealed),
            _ => Err(format!("{word} is not plain, clear or sealed")),
        }
    }

    fn trunk(self, own: u16, mtu: u64) -> Trunk {
        Trunk::new(TrunkOptions {
            own: AgentId(own),
            agents: 2,
            key: [7; 32],
            epoch: sys::clock::realtime(),
            encrypt: self == Self::Sealed,
            datagram: datagram_size(Bytes::new(mtu), false),
        })
    }
}

fn now() -> Time {
    Time::from_nanos(sys::clock::monotonic())
}

/// Sends packets of `size` bytes as fast as possible, `TURN` at a time.
pub(crate) fn send(format: &str, to: &str, seconds: &str, size: &str, mtu: &str) -> Outcome {
    let (format, to, size, mtu) =
        (Format::parse(format)?, to.parse()?, size.parse()?, mtu.parse()?);
    let end = sys::clock::monotonic() + nanos(seconds)?;
    let (socket, _) = sys::socket::train_socket((Ipv4Addr::UNSPECIFIED, 0).into(), BUFFER)?;
    let sent = match format {
        Format::Plain => send_plain(&socket, to, end, size, mtu)?,
        _ => send_messages(&socket, to, end, size, format.trunk(0, mtu))?,
    };
    print(&format!("{{\"sent\":{sent},\"cpu_ns\":{}}}", sys::clock::thread_cpu()));
    Ok(())
}

/// Datagrams of the size that the MTU allows, at most `size` bytes.
fn send_plain(
    socket: &OwnedFd,
    to: SocketAddr,
    end: u64,
    size: usize,
    mtu: u64,
) -> Result<u64, sys::Error> {
    let segment = datagram_size(Bytes::new(mtu), false).min(size);
    let train = vec![1; segment * (65_507 / segment).min(64)];
    let (mut sender, mut sent) = (TrainSender::default(), 0);
    while sys::clock::monotonic() < end {
        if sender.send(socket.as_fd(), to, &train, segment)? {
            sent += train.len() as u64;
        } else {
            wait(socket.as_fd(), PollFlags::OUT);
        }
    }
    Ok(sent)
}

fn send_messages(
    socket: &OwnedFd,
    to: SocketAddr,
    end: u64,
    size: usize,
    mut trunk: Trunk,
) -> Result<u64, sys::Error> {
    let packet = vec![1_u8; size];
    let (headers, payload) = packet.split_at(size.min(52));
    // A turn reads at most `TURN` packets and 1 MiB.
    let turn = TURN.min((1 << 20) / size.max(1)).max(1);
    let (mut sender, mut sent) = (TrainSender::default(), 0);
    while sys::clock::monotonic() < end {
        let due = Time::from_nanos(now().as_nanos() + 1_000_000);
        let (iface, virtio) = (IfaceId(3), [0; 10]);
        let message = Message { iface, due, version: 4, virtio, headers, payload };
        for _ in 0..turn {
            sent += u64::from(trunk.put(AgentId(1), &message)) * size as u64;
            while trunk.has_full() {
                let Some(Outgoing { bytes, segment, .. }) = trunk.next_full(now()) else { break };
                if sender.send(socket.as_fd(), to, bytes, segment)? {
                    trunk.sent();
                } else {
                    wait(socket.as_fd(), PollFlags::OUT);
                }
            }
        }
        while let Some(Outgoing { bytes, segment, .. }) = trunk.next(now()) {
            if sender.send(socket.as_fd(), to, bytes, segment)? {
                trunk.sent();
            } else {
                wait(socket.as_fd(), PollFlags::OUT);
            }
        }
    }
    Ok(sent)
}

/// Receives until no datagram arrives for a while.
pub(crate) fn receive(format: &str, port: &str, seconds: &str) -> Outcome {
    let format = Format::parse(format)?;
    let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse()?));
    let (socket, _) = sys::socket::train_socket(at, BUFFER)?;
    let mut trunk = (format != Format::Plain).then(|| format.trunk(1, 1500));
    let (mut receiver, mut done) = (TrainReceiver::default(), Vec::new());
    let (mut bytes, mut packets, mut first, mut last) = (0, 0_u64, 0, sys::clock::monotonic());
    let end = last + nanos(seconds)?;
    print("ready");
    while last < end {
        let got = receiver.receive(socket.as_fd(), |train, segment, _| {
            let Some(trunk) = &mut trunk else {
                bytes += train.len() as u64;
                packets += train.len().div_ceil(segment) as u64;
                return;
            };
            trunk.receive(now(), train, segment, |received| {
                bytes += received.packet().len() as u64;
                packets += 1;
                done.push(received.frame);
            });
            for frame in done.drain(..) {
                trunk.recycle(frame);
            }
        })?;
        if got > 0 {
            last = sys::clock::monotonic();
            first = if first == 0 { last } else { first };
        }
        if got < TrainReceiver::most() {
            wait(socket.as_fd(), PollFlags::IN);
            if first > 0 && sys::clock::monotonic() > last + SILENCE {
                break;
            }
        }
    }
    let trunk = trunk.as_ref().and_then(|trunk| trunk.statistics(AgentId(0)));
    let lost = trunk.map_or(0, |statistics| statistics.lost);
    let dropped = sys::socket::dropped_on_arrival(socket.as_fd())?;
    let (ns, cpu) = (last - first, sys::clock::thread_cpu());
    let counts = format!("\"bytes\":{bytes},\"packets\":{packets},\"ns\":{ns},\"cpu_ns\":{cpu}");
    print(&format!("{{{counts},\"lost\":{lost},\"dropped\":{dropped}}}"));
    Ok(())
}

fn wait(socket: BorrowedFd<'_>, flags: PollFlags) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    // After an interrupted wait, the caller checks the clock as usual.
    let _ = rustix::event::poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout));
}
