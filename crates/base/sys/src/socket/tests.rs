use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use super::*;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn wait(queue: &mut ReadyQueue) -> Vec<Ready> {
    let mut ready = Vec::new();
    queue.wait(Some(60_000_000_000), &mut ready).unwrap();
    ready
}

/// A connected pair: (sender, receiver).
fn pair(address: IpAddr, options: TcpOptions<'_>) -> (OwnedFd, OwnedFd) {
    let (listener, at) = listen(address, options).unwrap();
    let sender = connect(address, at, options).unwrap();
    let mut queue = ReadyQueue::try_new().unwrap();
    queue.add(listener.as_fd(), 7, Interest::Read).unwrap();
    let ready = wait(&mut queue);
    assert_eq!((ready.len(), ready[0].token, ready[0].readiness.readable), (1, 7, true));
    let receiver = accept(listener.as_fd()).unwrap().unwrap();
    assert!(accept(listener.as_fd()).unwrap().is_none());
    pending_error(sender.as_fd()).unwrap();
    (sender, receiver)
}

#[test]
fn bytes_cross_and_are_discarded() {
    for address in [V4, V6] {
        let (sender, receiver) = pair(address, TcpOptions::default());
        assert_eq!(discard(receiver.as_fd(), 10).unwrap(), None);
        assert_eq!(write(sender.as_fd(), &[1; 3000]).unwrap(), Some(3000));
        finish_writing(sender.as_fd()).unwrap();
        let mut got = 0;
        loop {
            match discard(receiver.as_fd(), 1000).unwrap() {
                Some(0) => break,
                Some(count) => got += count,
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(got, 3000);
        let info = TcpInfo::read(sender.as_fd()).unwrap();
        // The FIN is acknowledged as one additional byte.
        assert!((3000..=3001).contains(&info.acknowledged_bytes), "{info:?}");
        assert!(info.segment_bytes > 500 && info.window_segments > 0 && info.srtt_micros > 0);
        assert_eq!(info.retransmits, 0);
    }
}

#[test]
fn congestion_control_is_set_or_refused() {
    let (available, _) = congestion_controls().unwrap();
    assert!(available.iter().any(|name| name == "reno"));
    let options =
        TcpOptions { congestion: Some("reno"), no_delay: true, dscp: 46, ..TcpOptions::default() };
    let (sender, receiver) = pair(V4, options);
    assert_eq!(congestion(sender.as_fd()).unwrap(), "reno");
    assert_eq!(congestion(receiver.as_fd()).unwrap(), "reno");
    let unknown = TcpOptions { congestion: Some("nonesuch"), ..options };
    assert_eq!(listen(V4, unknown).unwrap_err().errno(), Some(libc::ENOENT));
}

#[test]
fn a_window_bounds_what_is_on_its_way() {
    let options = TcpOptions { window: Some(16 << 10), ..TcpOptions::default() };
    let (sender, receiver) = pair(V4, options);
    assert_eq!(peer_port(receiver.as_fd()).unwrap(), local_port(sender.as_fd()).unwrap());
    let filled = [&sender, &receiver].map(|socket| {
        let mut size: libc::c_int = 0;
        let place = bytes_of(&mut size);
        get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, place, "getsockopt").unwrap();
        size
    });
    // The kernel reserves twice as much (socket(7)).
    assert_eq!(filled, [32 << 10; 2]);
}

#[test]
fn a_refused_connection_is_an_error() {
    let (listener, at) = listen(V4, TcpOptions::default()).unwrap();
    drop(listener);
    let refused = match connect(V4, at, TcpOptions::default()) {
        Err(error) => error.errno(),
        Ok(socket) => {
            let mut queue = ReadyQueue::try_new().unwrap();
            queue.add(socket.as_fd(), 1, Interest::Write).unwrap();
            assert!(wait(&mut queue)[0].readiness.failed);
            pending_error(socket.as_fd()).unwrap_err().errno()
        }
    };
    assert_eq!(refused, Some(libc::ECONNREFUSED));
}

/// `SO_MAX_PACING_RATE` of a socket in bytes per second.
fn max_pacing_rate(socket: &OwnedFd) -> libc::c_ulong {
    let mut rate: libc::c_ulong = 0;
    let call = "getsockopt(SO_MAX_PACING_RATE)";
    get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_of(&mut rate), call).unwrap();
    rate
}

#[test]
fn accepted_connections_inherit_pacing() {
    let (listener, at) = listen(V4, TcpOptions::default()).unwrap();
    let connected = |paced: bool| {
        let options = StreamOptions { paced, ..StreamOptions::default() };
        set_stream_options(listener.as_fd(), &options).unwrap();
        let sender = tcp_socket(V4).unwrap();
        set_stream_options(sender.as_fd(), &options).unwrap();
        assert!(matches!(net::connect(&sender, &at), Ok(()) | Err(Errno::INPROGRESS)));
        let mut queue = ReadyQueue::try_new().unwrap();
        queue.add(listener.as_fd(), 7, Interest::Read).unwrap();
        wait(&mut queue);
        [sender, accept(listener.as_fd()).unwrap().unwrap()]
    };
    for (paced, rate) in [(false, libc::c_ulong::MAX), (true, stream::MAX_PACING_RATE)] {
        for socket in connected(paced) {
            assert_eq!(max_pacing_rate(&socket), rate);
            assert_eq!(TcpInfo::read(socket.as_fd()).unwrap().is_paced, paced);
        }
    }
}

/// Segments with payload that a connection has sent (`tcpi_data_segs_out`).
fn segments_sent(socket: &OwnedFd) -> u32 {
    let mut info = [0_u8; 256];
    let call = "getsockopt(TCP_INFO)";
    get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info, call).unwrap();
    u32::from_ne_bytes(info[156..160].try_into().unwrap())
}

#[test]
fn records_that_wait_are_not_joined() {
    for (records, segments) in [(false, 1), (true, 5)] {
        while !sends_in_segments(records, segments) {}
    }
}

/// Writes five times, and checks the number of segments. Returns false if the writes took longer
/// than 200 ms, after which the kernel sends queued data without waiting for more (tcp(7)).
fn sends_in_segments(records: bool, segments: u32) -> bool {
    let (sender, receiver) = pair(V4, TcpOptions { no_delay: true, ..TcpOptions::default() });
    let cork = |on: libc::c_int| {
        set(&sender, libc::IPPROTO_TCP, libc::TCP_CORK, on, "setsockopt(TCP_CORK)").unwrap();
    };
    // Like a full congestion window, this keeps written data queued.
    let start = clock_now();
    cork(1);
    for length in 1..=5 {
        let (to, data) = (sender.as_fd(), &[0; 5][..length]);
        let written = if records { write_record(to, data) } else { write(to, data) };
        assert_eq!(written.unwrap(), Some(length));
    }
    cork(0);
    let is_in_time = clock_now() - start < 150_000_000;
    let mut received = 0;
    while received < 15 {
        received += discard(receiver.as_fd(), 100).unwrap().unwrap_or(0);
    }
    assert!(!is_in_time || segments_sent(&sender) == segments, "{}", segments_sent(&sender));
    is_in_time
}

#[test]
fn a_reset_reaches_the_peer() {
    let (sender, receiver) = pair(V4, TcpOptions::default());
    reset_on_close(sender.as_fd()).unwrap();
    drop(sender);
    let error = loop {
        match discard(receiver.as_fd(), 10) {
            Ok(None) => std::thread::yield_now(),
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.errno(), Some(libc::ECONNRESET));
}

#[test]
fn datagrams_go_in_batches_and_are_stamped() {
    for address in [V4, V6] {
        let (receiver, to) = udp(address, 0, 1 << 20).unwrap();
        let (sender, from) = udp(address, 10, 1 << 20).unwrap();
        set_peer(sender.as_fd(), to).unwrap();
        set_peer(receiver.as_fd(), from).unwrap();
        set_arrival_stamps(receiver.as_fd()).unwrap();
        let before = clock_now();
        let heads: Vec<[u8; 4]> = (0..20_u32).map(u32::to_be_bytes).collect();
        assert_eq!(send_datagrams(sender.as_fd(), &heads, &[0; 96]).unwrap(), Some(BATCH));
        let mut seen = Vec::new();
        while seen.len() < BATCH {
            receive_datagrams::<4>(receiver.as_fd(), |arrival| seen.push(arrival)).unwrap();
        }
        for (index, arrival) in seen.iter().enumerate() {
            assert_eq!((arrival.head, arrival.length), ((index as u32).to_be_bytes(), 100));
            // The two clocks are read one after the other, so allow for a pause in between.
            assert!(arrival.at + 10_000_000_000 > before && arrival.at <= clock_now());
        }
        assert_eq!(dropped_on_arrival(receiver.as_fd()).unwrap(), 0);
    }
}

#[test]
fn a_full_receive_buffer_is_counted() {
    let (receiver, to) = udp(V4, 0, 4096).unwrap();
    let (sender, _) = udp(V4, 0, 1 << 20).unwrap();
    set_peer(sender.as_fd(), to).unwrap();
    for _ in 0..100 {
        send_datagrams(sender.as_fd(), &[[0; 4]; BATCH], &[0; 1000]).unwrap();
    }
    assert!(dropped_on_arrival(receiver.as_fd()).unwrap() > 1000);
}

#[test]
fn an_empty_wait_ends_at_its_limit() {
    let mut queue = ReadyQueue::try_new().unwrap();
    let mut ready = Vec::new();
    queue.wait(Some(1_000), &mut ready).unwrap();
    assert!(ready.is_empty());
}

fn clock_now() -> u64 {
    crate::clock::monotonic()
}
