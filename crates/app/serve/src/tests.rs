//! Tests of the server with real clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use base::Time;
use bgp::{Asn, Message, Negotiated};
use collector::{Event, MirrorId, Peering, PeeringId, Sender, Sink, State};
use collector_live::Board;
use collector_live::board::Status;
use collector_live::feed::{Feed, feed};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio_tungstenite::tungstenite;

use super::*;

fn peering() -> Peering {
    Peering {
        peer_as: Asn(65001),
        local_as: Asn(65000),
        from_peer: Negotiated { four_octet_as: true, ..Negotiated::default() },
        from_local: Negotiated { four_octet_as: true, ..Negotiated::default() },
        certain: true,
        ..Peering::new(
            PeeringId(0),
            MirrorId(0),
            Ipv4Addr::new(10, 0, 0, 1).into(),
            Ipv4Addr::new(10, 0, 0, 2).into(),
        )
    }
}

/// An UPDATE that announces 192.0.2.0/24 and 198.51.100.0/24 with the AS path 65001 65002.
fn update() -> Vec<u8> {
    let mut body = vec![0, 0, 0, 25];
    body.extend_from_slice(&[0x40, 1, 1, 0]);
    body.extend_from_slice(&[0x40, 2, 10, 2, 2, 0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea]);
    body.extend_from_slice(&[0x40, 3, 4, 10, 0, 0, 1]);
    body[3] = (body.len() - 4) as u8;
    body.extend_from_slice(&[24, 192, 0, 2, 24, 198, 51, 100]);
    let mut bytes = vec![0xff; 16];
    bytes.extend_from_slice(&(19 + body.len() as u16).to_be_bytes());
    bytes.push(2);
    bytes.extend_from_slice(&body);
    bytes
}

fn announce(feed: &mut Feed, milliseconds: u64) {
    announce_at(feed, milliseconds, 0);
}

fn announce_at(feed: &mut Feed, milliseconds: u64, mirror: u32) {
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    let time = Time::from_nanos(1_700_000_000_000_000_000 + milliseconds * 1_000_000);
    let peering = Peering { mirror: MirrorId(mirror), ..peering() };
    feed.event(&peering, &Event::Message { time, from: Sender::Peer, message });
    feed.flush();
}

fn change(old: State, new: State) -> Event<'static> {
    Event::State { time: Time::from_nanos(1), old, new, reason: collector::Reason::Seen }
}

fn established() -> Event<'static> {
    change(State::OpenConfirm, State::Established)
}

/// Routes of one session after [`update`].
fn rib() -> collector::rib::Rib {
    let mut rib = collector::rib::Rib::new();
    rib.event(&peering(), &established());
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    let time = Time::from_nanos(2);
    rib.event(&peering(), &Event::Message { time, from: Sender::Peer, message });
    rib
}

/// A feed, and its only station with the station's end of the connection.
fn connect_station(board: &Board) -> (Feed, Stations, TcpStream) {
    let station = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = station.local_addr().unwrap().to_string();
    let (feed, watch) = feed();
    let stations = Stations::start(&[address], "rrc99", watch, board, Delivery::Live).unwrap();
    (feed, stations, station.accept().unwrap().0)
}

/// Types of the messages in a station's bytes, after version 3 and their length (RFC 7854 §4.1).
fn types(bytes: &[u8]) -> Vec<u8> {
    let (mut at, mut types) = (0, Vec::new());
    while at < bytes.len() {
        assert_eq!(bytes[at], 3);
        types.push(bytes[at + 5]);
        at += u32::from_be_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
    }
    types
}

/// A client whose subscription is active, as the head of the response shows.
fn subscribe(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET /v1/stream/ HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    stream
}

fn start(board: &Board) -> (Server, Feed) {
    let (feed, watch) = feed();
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::start(any, "rrc99.example", watch, board.clone(), 8).unwrap();
    (server, feed)
}

fn get(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn sends_subscribed_messages_to_ris_live_client() {
    let (server, mut feed) = start(&Board::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("ws://{}/v1/ws/?client=test", server.address);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let subscribe = r#"{"type": "ris_subscribe", "data": {"prefix": "192.0.2.0/24",
            "socketOptions": {"acknowledge": true}}}"#;
        socket.send(tungstenite::Message::text(subscribe)).await.unwrap();
        let mut next = async || -> Value {
            let message = socket.next().await.unwrap().unwrap();
            serde_json::from_str(message.to_text().unwrap()).unwrap()
        };
        assert_eq!(next().await["type"], "ris_subscribe_ok");
        announce(&mut feed, 5);
        let message = next().await;
        assert_eq!(message["type"], "ris_message");
        let data = &message["data"];
        assert_eq!((&data["peer"], &data["host"]), (&"10.0.0.1".into(), &"rrc99.example".into()));
        assert_eq!(data["path"], serde_json::json!([65001, 65002]));
        assert_eq!(data["announcements"][0]["prefixes"].as_array().unwrap().len(), 2);
    });
    drop(feed);
}

#[test]
fn distinguishes_mirrors_with_equal_addresses_by_host() {
    let board = Board::default();
    let at = |mirror| Peering { mirror: MirrorId(mirror), ..peering() };
    let peerings = [1, 2, 2].map(|mirror| (at(mirror), State::Established, None));
    board.publish(Status { peerings: peerings.into(), ..Status::default() });
    let (server, mut feed) = start(&board);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("ws://{}/v1/ws/", server.address);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let mut exchange = async |request: Option<&str>| -> Value {
            if let Some(request) = request {
                socket.send(tungstenite::Message::text(request)).await.unwrap();
            }
            let message = socket.next().await.unwrap().unwrap();
            serde_json::from_str(message.to_text().unwrap()).unwrap()
        };
        let list = exchange(Some(r#"{"type": "request_rrc_list"}"#)).await;
        assert_eq!(list["data"], serde_json::json!(["rrc99.example", "rrc99.example.mirror2"]));
        let second = r#"{"type": "ris_subscribe", "data": {"host": "rrc99.example.mirror2",
            "socketOptions": {"acknowledge": true}}}"#;
        assert_eq!(exchange(Some(second)).await["type"], "ris_subscribe_ok");
        announce_at(&mut feed, 5, 1);
        announce_at(&mut feed, 6, 2);
        let data = exchange(None).await["data"].clone();
        let wanted: (Value, Value) = ("rrc99.example.mirror2".into(), 2.into());
        assert_eq!((&data["host"], &data["mirror"]), (&wanted.0, &wanted.1));
    });
    drop(feed);
}

#[test]
fn streams_one_message_per_line_until_collector_ends() {
    let (server, mut feed) = start(&Board::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET /v1/stream/?format=json&type=UPDATE HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    // The head of the response shows that the subscription is active.
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    for at in 0..3 {
        announce(&mut feed, at);
    }
    drop(feed);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let lines: Vec<&str> = answer.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), 3, "{answer}");
    assert!(lines.iter().all(|line| line.contains("198.51.100.0/24")));
}

#[test]
fn reports_invalid_subscription() {
    let (server, feed) = start(&Board::default());
    let answer = get(&server, "/v1/stream/?prefix=nonsense");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    drop(feed);
}

#[test]
fn exports_published_metrics() {
    let board = Board::default();
    let (server, feed) = start(&board);
    board.publish(Status {
        kernel_drops: 7,
        peerings: vec![(peering(), State::Established, None)],
        ..Status::default()
    });
    let answer = get(&server, "/metrics");
    assert!(answer.contains("\nnetarium_kernel_drops_total 7\n"), "{answer}");
    let peer = r#"netarium_peer_established{peer="10.0.0.1",peer_as="65001",local="10.0.0.2""#;
    assert!(answer.contains(peer), "{answer}");
    let peers = get(&server, "/v1/peers");
    assert!(peers.contains(r#""state":"Established""#), "{peers}");
    drop(feed);
}

#[test]
fn stops_server_with_connected_clients() {
    let (server, feed) = start(&Board::default());
    let mut stream = subscribe(&server);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    drop(feed);
    drop(server);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

#[test]
fn refuses_clients_above_limit() {
    let (server, feed) = start(&Board::default());
    let mut clients: Vec<TcpStream> = (0..8).map(|_| subscribe(&server)).collect();
    let refused = get(&server, "/metrics");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("client limit"), "{refused}");
    clients.pop();
    // The server detects the end of a connection at its next read or write.
    let answer = (0..600).find_map(|_| {
        let answer = get(&server, "/metrics");
        std::thread::sleep(Duration::from_millis(50));
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    });
    let refused = answer
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("netarium_refused_clients_total ")?.parse::<u32>().ok());
    assert!(refused.unwrap() >= 1);
    drop((feed, clients));
}

/// More idle connections than slots, and as many as slots with half a request.
#[test]
fn serves_clients_despite_idle_connections() {
    let (server, feed) = start(&Board::default());
    let connect = |first: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(first.as_bytes()).unwrap();
        stream
    };
    let mut idle: Vec<_> = (0..300).map(|_| connect("")).collect();
    idle.extend((0..8).map(|_| connect("GET /metrics HTTP/1.1\r\nHost:")));
    // Clients that have sent a request stay.
    let clients: Vec<_> = (0..7).map(|_| subscribe(&server)).collect();
    for _ in 0..10 {
        let answer = get(&server, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        idle.push(connect(""));
    }
    drop((feed, clients));
}

#[test]
fn closes_idle_connections_after_header_timeout() {
    let (server, feed) = start(&Board::default());
    let mut idle = TcpStream::connect(server.address).unwrap();
    let mut half = TcpStream::connect(server.address).unwrap();
    write!(half, "GET /metrics HTTP/1.1\r\nHost:").unwrap();
    for client in [&mut idle, &mut half] {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    drop(feed);
}

/// Fails if `drop` blocks.
fn ends(drop: impl FnOnce() + Send + 'static) {
    let (done, over) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop();
        let _ = done.send(());
    });
    over.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn stops_server_with_blocked_client_and_active_feed() {
    let (server, mut feed) = start(&Board::default());
    let stream = subscribe(&server);
    // More than the socket buffers hold.
    for at in 0..100_000 {
        announce(&mut feed, at);
    }
    ends(move || drop(server));
    drop((feed, stream));
}

#[test]
fn disconnects_blocked_stations() {
    let (mut feed, stations, mut stream) = connect_station(&Board::default());
    stream.read_exact(&mut [0; 6]).unwrap();
    for at in 0..100_000 {
        announce(&mut feed, at);
    }
    drop(feed);
    ends(move || drop(stations));
    drop(stream);
}

#[test]
fn sends_all_events_to_station() {
    let (mut feed, stations, mut stream) = connect_station(&Board::default());
    // A client that has received its first event misses no later event.
    let mut bytes = vec![0; 6];
    stream.read_exact(&mut bytes).unwrap();
    feed.event(&peering(), &established());
    announce(&mut feed, 1);
    drop(feed);
    stream.read_to_end(&mut bytes).unwrap();
    drop(stations);
    // Initiation, Peer Up, Route Monitoring, Termination.
    assert_eq!(types(&bytes), [4, 3, 0, 5]);
    assert!(bytes.windows(update().len()).any(|window| window == update()));
}

#[test]
fn answers_with_routes_of_running_collector() {
    let board = Board::default();
    let (server, feed) = start(&board);
    let routes = rib();
    let over = std::sync::atomic::AtomicBool::new(false);
    let (longest, wrong) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                board.answer(&routes, Duration::from_secs(1));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let answers = (
            get(&server, "/v1/routes?prefix=192.0.2.77"),
            get(&server, "/v1/routes?prefix=192.0.2.77/24"),
        );
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        answers
    });
    let body = longest.lines().last().unwrap();
    let value: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{longest}"));
    assert_eq!(value["routes"][0]["prefix"], "192.0.2.0/24");
    assert_eq!(value["routes"][0]["peer"], "10.0.0.1");
    assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("192.0.2.0/24"), "{wrong}");
    drop(feed);
}

#[test]
fn sends_all_routes_to_late_station() {
    use collector_live::input::Captures;
    use collector_live::job::{self, Settings};
    use collector_live::live::Source;

    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../data/bgp/pcap/addpath-extmsg-as4-v6-md5.pcap"
    );
    // Uses the first half of the capture, in which no session ends. The collector follows the file,
    // so it waits at the end.
    let folder = tempfile::tempdir().unwrap();
    let half = folder.path().join("half.pcap");
    let whole = std::fs::read(capture).unwrap();
    std::fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    let board = Board::default();
    // The routers are configured, so that no session is held until packets show which end
    // is the router.
    let mut settings = Settings { routes: true, board: board.clone(), ..Settings::default() };
    settings.pipeline.sessions.routers =
        ["10.9.1.1", "10.9.2.1", "fd09:1::1"].map(|router| router.parse().unwrap()).to_vec();
    let (mut feed, watch) = feed();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let types = std::thread::scope(|scope| {
        let captures = Captures::open(std::slice::from_ref(&half), true, false).unwrap();
        let job = scope.spawn(|| job::packets(settings, vec![Source::Captures(captures)], &stop));
        let largest = || {
            let status = board.status();
            let routes = status.peerings.iter().filter_map(|(_, _, routes)| routes.as_ref());
            routes.fold(0, |most, routes| most.max(routes.total()))
        };
        let mut before = 0;
        while largest() <= 1000 || board.status().routes.announced != before {
            before = board.status().routes.announced;
            std::thread::sleep(Duration::from_millis(1200));
        }
        let station = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = station.local_addr().unwrap();
        drop(station);
        // A session with routes, as in the feed.
        let status = board.status();
        let routes = status.peerings.iter().filter_map(|(_, _, routes)| routes.as_ref());
        let routes = routes.max_by_key(|routes| routes.total()).unwrap();
        let (up, expected) = (routes.peering, routes.total());
        assert!(expected > 1000, "{expected}");
        feed.event(&up, &established());
        feed.flush();
        let addresses = [address.to_string()];
        let stations = Stations::start(&addresses, "rrc99", watch, &board, Delivery::Live).unwrap();
        // The session is up before the station accepts a connection.
        std::thread::sleep(Duration::from_millis(300));
        let station = std::net::TcpListener::bind(address).unwrap();
        let (mut stream, _) = station.accept().unwrap();
        let (mut bytes, mut types, mut monitored) = (Vec::new(), Vec::new(), 0);
        while monitored < expected {
            let mut header = [0; 6];
            stream.read_exact(&mut header).unwrap();
            bytes.resize(u32::from_be_bytes(header[1..5].try_into().unwrap()) as usize - 6, 0);
            stream.read_exact(&mut bytes).unwrap();
            types.push(header[5]);
            monitored += usize::from(header[5] == 0);
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        job.join().unwrap().unwrap();
        drop(feed);
        drop(stream);
        drop(stations);
        types
    });
    assert_eq!(types[0], 4);
}

#[test]
fn sends_whole_file_to_late_and_slow_station() {
    let station = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = station.local_addr().unwrap();
    drop(station);
    let (feed, watch) = feed();
    let mut feed = feed.waiting();
    let delivery = Delivery::All;
    let stations =
        Stations::start(&[address.to_string()], "rrc99", watch, &Board::default(), delivery);
    let stations = stations.unwrap();
    // Far more than the feed, the exporter and the sockets hold.
    let count = 400_000;
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        let station = std::net::TcpListener::bind(address).unwrap();
        let (mut stream, _) = station.accept().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        types(&bytes)
    });
    let (old, new) = (State::Idle, State::Established);
    feed.event(&peering(), &change(old, new));
    for at in 0..count {
        announce(&mut feed, at);
    }
    feed.event(&peering(), &change(new, old));
    feed.flush();
    drop(feed);
    assert_eq!(stations.finish(), Vec::<String>::new());
    let types = reader.join().unwrap();
    assert_eq!((types.len() as u64, &types[..2]), (count + 4, &[4, 3][..]));
    assert_eq!(types[types.len() - 2..], [2, 5]);
}

#[test]
fn announces_sessions_before_their_routes() {
    let board = Board::default();
    let (mut feed, stations, mut stream) = connect_station(&board);
    let mut bytes = vec![0; 6];
    stream.read_exact(&mut bytes).unwrap();
    // The session comes up after the greeting, and before the routes are requested.
    feed.event(&peering(), &established());
    announce(&mut feed, 1);
    feed.flush();
    std::thread::sleep(Duration::from_millis(300));
    board.send_table(&mut rib());
    drop(feed);
    stream.read_to_end(&mut bytes).unwrap();
    drop(stations);
    assert_eq!(types(&bytes), [4, 3, 0, 5]);
}
