//! Tests of the server with real clients and a simulated lab.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use emu::control;
use futures_util::{SinkExt as _, StreamExt as _};
use run::live::{End, Hello, Message, SCHEMA, Source};
use run::record::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Error as SocketError};

use super::*;

/// A lab that has one frame and then waits.
struct Lab {
    dir: TempDir,
    /// Ends the lab.
    end: Sender<()>,
}

impl Lab {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("lab.sock")).unwrap();
        let (end, ended) = channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, ended) = (stream.unwrap(), Arc::clone(&ended));
                thread::spawn(move || {
                    let mut request = String::new();
                    BufReader::new(&stream).read_line(&mut request).unwrap();
                    let send = |line: String| (&stream).write_all(line.as_bytes()).unwrap();
                    match serde_json::from_str(&request).unwrap() {
                        control::Request::Watch => {
                            send(line(&Message::Hello(Box::new(hello()))));
                            send(line(&Message::Frame(Box::default())));
                            let _ = ended.lock().unwrap().recv();
                            send(line(&Message::End(End { t: 2.0, ..End::default() })));
                        }
                        control::Request::Set(fields) => {
                            let events = fields.into_iter().map(|(name, _)| name).collect();
                            let (at_s, warnings, at_events) = (1.5, Vec::new(), "x".to_owned());
                            let done = control::Answer::Done { at_s, events, warnings, at_events };
                            send(line(&done));
                        }
                        control::Request::Mark(why) => {
                            send(line(&control::Answer::Refused { why }));
                        }
                        control::Request::Clock(_) => {
                            send(line(&control::Answer::Refused { why: "wall clock".to_owned() }));
                        }
                    }
                });
            }
        });
        Self { dir, end }
    }

    fn watch(&self, read_only: bool) -> Server {
        let folder = self.dir.path().to_owned();
        let socket = Some(folder.join("lab.sock"));
        // The name of the host is `$0`.
        let shell = ["/bin/sh", "-c", "echo $0 $$ $TERM; while read l; do eval \"$l\"; done"];
        let shell = Some(shell.map(Into::into).to_vec());
        Server::start(any(), WatchedRun { folder, socket, read_only, shell }).unwrap()
    }
}

/// A message as a line.
fn line(message: &impl serde::Serialize) -> String {
    serde_json::to_string(message).unwrap() + "\n"
}

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub(crate) fn hello() -> Hello {
    Hello {
        schema: SCHEMA.to_owned(),
        lab: "pair".to_owned(),
        seed: 1,
        clock: Clock::Wall,
        source: Source::Live,
        duration_s: None,
        interval_s: 0.1,
        version: String::new(),
        run: String::new(),
        read_only: false,
        commands: vec!["set".to_owned()],
        nodes: Vec::new(),
        links: Vec::new(),
        flows: Vec::new(),
        programs: Vec::new(),
        systems: Vec::new(),
    }
}

/// The response to a request with these headers.
fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn host(server: &Server) -> String {
    server.address.to_string()
}

/// Uses the token of the URL; returns the cookie.
fn sign_in(server: &Server) -> String {
    let path = server.url.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let response = get(server, path, &[("Host", &host(server))]);
    assert!(response.starts_with("HTTP/1.1 303 "), "{response}");
    let cookie = response.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[track_caller]
fn assert_status(response: &str, status: &str) {
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    let policy = "content-security-policy: default-src 'none'; script-src 'self'";
    for header in [policy, "referrer-policy: no-referrer", "cache-control: no-store"] {
        assert!(response.contains(header), "{header} in {response}");
    }
    assert!(!response.to_ascii_lowercase().contains("access-control-allow"), "{response}");
}

#[test]
fn accepts_token_once_with_own_host() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let own = host(&server);
    let token = server.url.split("token=").nth(1).unwrap().to_owned();
    let path = format!("/?token={token}");
    assert_eq!(token.len(), 32);
    let port = server.address.port();
    let foreign = format!("netarium.example:{port}");
    assert_status(&get(&server, &path, &[("Host", &foreign)]), "421");
    assert_status(&get(&server, &path, &[("Host", &own), ("Host", &own)]), "421");
    assert_status(&get(&server, "/", &[("Host", &own)]), "403");
    let wrong = format!("/?token={}", "0".repeat(32));
    assert_status(&get(&server, &wrong, &[("Host", &own)]), "403");
    // Only the path of the page accepts the token.
    assert_status(&get(&server, &format!("/ws?token={token}"), &[("Host", &own)]), "403");
    let cookie = sign_in(&server);
    assert_status(&get(&server, &path, &[("Host", &own)]), "403");
    let signed_in = [("Host", own.as_str()), ("Cookie", cookie.as_str())];
    assert_status(&get(&server, &path, &signed_in), "303");
    let page = get(&server, "/", &signed_in);
    assert_status(&page, "200");
    assert!(page.contains("content-type: text/html"), "{page}");
    assert_status(&get(&server, "/page.js", &signed_in), "200");
    assert_status(&get(&server, "/../Cargo.toml", &signed_in), "404");
    let local = format!("localhost:{port}");
    assert_status(&get(&server, "/", &[("Host", &local), ("Cookie", &cookie)]), "200");
    let forged = format!("{}=x", cookie.split('=').next().unwrap());
    assert_status(&get(&server, "/", &[("Host", &own), ("Cookie", &forged)]), "403");
}

#[test]
fn listens_only_at_loopback_addresses() {
    let run = WatchedRun { folder: PathBuf::new(), socket: None, read_only: false, shell: None };
    let error = Server::start("0.0.0.0:0".parse().unwrap(), run).unwrap_err();
    assert!(error.to_string().contains("0.0.0.0:0 is not a loopback address"), "{error}");
}

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(server: &Server, cookie: &str, origin: &str) -> Result<Socket, SocketError> {
    connect_to(server, "ws", cookie, origin).await
}

async fn connect_to(
    server: &Server,
    path: &str,
    cookie: &str,
    origin: &str,
) -> Result<Socket, SocketError> {
    let mut request = format!("ws://{}/{path}", server.address).into_client_request().unwrap();
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    if !origin.is_empty() {
        request.headers_mut().insert("origin", origin.parse().unwrap());
    }
    tokio_tungstenite::connect_async(request).await.map(|(socket, _)| socket)
}

async fn next(socket: &mut Socket) -> Value {
    let message = socket.next().await.unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap_or_else(|e| panic!("{e}: {message:?}"))
}

async fn ask(socket: &mut Socket, request: Value) -> Value {
    socket.send(tungstenite::Message::text(request.to_string())).await.unwrap();
    next(socket).await
}

/// The code with which the server closes the connection after a message.
async fn closed_after(socket: &mut Socket, message: tungstenite::Message) -> (u16, String) {
    let _ = socket.send(message).await;
    loop {
        match socket.next().await {
            Some(Ok(tungstenite::Message::Close(Some(frame)))) => {
                return (frame.code.into(), frame.reason.to_string());
            }
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn passes_on_messages_and_answers_requests() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    let origin = format!("http://{}", server.address);
    block_on(async {
        let mut socket = connect(&server, &cookie, &origin).await.unwrap();
        let hello = next(&mut socket).await;
        assert_eq!((&hello["type"], &hello["lab"]), (&"hello".into(), &"pair".into()));
        assert_eq!(hello["commands"], json!(["set", "terminal"]));
        assert_eq!(next(&mut socket).await["type"], "frame");
        let set = json!({"type": "set", "id": 7, "fields": [["link.a.loss", "1 %"]]});
        let answer = ask(&mut socket, set).await;
        let done = json!({"type": "answer", "id": 7, "ok": true, "at": 1.5,
            "events": ["link.a.loss"], "warnings": [], "errors": [], "at_events": "x"});
        assert_eq!(answer, done);
        let answer = ask(&mut socket, json!({"type": "mark", "id": 8, "text": " why "})).await;
        assert_eq!(
            (&answer["ok"], &answer["errors"][0]["message"]),
            (&false.into(), &"why".into())
        );
        let answer = ask(&mut socket, json!({"type": "mark", "id": 9, "text": "a\nb"})).await;
        assert!(answer["errors"][0]["message"].as_str().unwrap().contains("one line"), "{answer}");
        // Ignored; the next message is the end.
        let unknown = json!({"type": "zoom", "id": 1, "to": "wire"});
        socket.send(tungstenite::Message::text(unknown.to_string())).await.unwrap();
        lab.end.send(()).unwrap();
        let end = next(&mut socket).await;
        assert_eq!((&end["type"], &end["t"]), (&"end".into(), &2.0.into()));
    });
}

#[test]
fn read_only_view_refuses_requests() {
    let lab = Lab::start();
    let server = lab.watch(true);
    let cookie = sign_in(&server);
    let origin = format!("http://localhost:{}", server.address.port());
    block_on(async {
        let mut socket = connect(&server, &cookie, &origin).await.unwrap();
        let hello = next(&mut socket).await;
        assert_eq!((&hello["read_only"], &hello["commands"]), (&true.into(), &json!([])));
        next(&mut socket).await;
        let answer = ask(&mut socket, json!({"type": "mark", "id": 8, "text": "x"})).await;
        assert_eq!((&answer["id"], &answer["ok"]), (&8.into(), &false.into()));
        assert_eq!(answer["errors"][0]["message"], "the live view is read-only");
    });
}

#[test]
fn refuses_other_origins_and_missing_cookies() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    let origin = format!("http://{}", server.address);
    block_on(async {
        let foreign = ["", "http://netarium.example", "https://127.0.0.1", "null"];
        let tries = foreign.map(|origin| (cookie.as_str(), origin));
        for (cookie, origin) in tries.into_iter().chain([("other=1", origin.as_str())]) {
            for path in ["ws", "terminal"] {
                match connect_to(&server, path, cookie, origin).await {
                    Err(SocketError::Http(response)) => assert_eq!(response.status(), 403),
                    other => panic!("{origin}: {other:?}"),
                }
            }
        }
    });
}

#[test]
fn closes_connection_after_wrong_or_long_message() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    let origin = format!("http://{}", server.address);
    let text = tungstenite::Message::text::<String>;
    block_on(async {
        for (message, reason) in [
            (text("{}".to_owned()), "not a message of netarium.watch/1"),
            (text(" ".repeat(run::live::MAX_REQUEST_BYTES + 1)), "the limit is 65536"),
            (tungstenite::Message::binary(vec![1]), "binary"),
        ] {
            let mut socket = connect(&server, &cookie, &origin).await.unwrap();
            next(&mut socket).await;
            let (code, why) = closed_after(&mut socket, message).await;
            assert!(code == 1008 && why.contains(reason), "{code} {why}");
        }
    });
}

#[test]
fn limits_the_number_of_watchers() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    let origin = format!("http://{}", server.address);
    block_on(async {
        let mut sockets = Vec::new();
        for _ in 0..MAX_WATCHERS {
            sockets.push(connect(&server, &cookie, &origin).await.unwrap());
        }
        match connect(&server, &cookie, &origin).await {
            Err(SocketError::Http(response)) => assert_eq!(response.status(), 503),
            other => panic!("{other:?}"),
        }
    });
}

const OPEN: &str = r#"{"type":"open","host":"alice","columns":80,"rows":24}"#;

/// A connection for a terminal.
async fn terminal(server: &Server, cookie: &str) -> Socket {
    let origin = format!("http://{}", server.address);
    connect_to(server, "terminal", cookie, &origin).await.unwrap()
}

/// Reads output until it contains `wanted`.
async fn output_until(socket: &mut Socket, wanted: &str) -> String {
    let mut output = Vec::new();
    loop {
        match socket.next().await.unwrap().unwrap() {
            tungstenite::Message::Binary(bytes) => output.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
        let text = String::from_utf8_lossy(&output);
        if text.contains(wanted) {
            return text.into_owned();
        }
    }
}

/// A terminal with a shell on a host.
async fn open_terminal(server: &Server, cookie: &str) -> Socket {
    let mut socket = terminal(server, cookie).await;
    socket.send(OPEN.into()).await.unwrap();
    socket
}

async fn input(socket: &mut Socket, text: &str) {
    let message = tungstenite::Message::binary(text.as_bytes().to_vec());
    socket.send(message).await.unwrap();
}

#[test]
fn terminal_runs_shell_until_connection_ends() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    block_on(async {
        let mut socket = open_terminal(&server, &cookie).await;
        let first = output_until(&mut socket, "xterm-256color").await;
        let pid = first.strip_prefix("alice ").unwrap().split(' ').next().unwrap();
        input(&mut socket, "stty size\n").await;
        output_until(&mut socket, "24 80").await;
        let size = r#"{"type":"resize","columns":100,"rows":30}"#;
        socket.send(size.into()).await.unwrap();
        input(&mut socket, "stty size\n").await;
        output_until(&mut socket, "30 100").await;
        drop(socket);
        // Ends the test if it does not hold.
        while std::fs::exists(format!("/proc/{pid}")).unwrap() {
            thread::sleep(std::time::Duration::from_millis(10));
        }
        let mut socket = open_terminal(&server, &cookie).await;
        output_until(&mut socket, "alice").await;
        let exit = tungstenite::Message::binary(&b"exit 3\n"[..]);
        let (code, why) = closed_after(&mut socket, exit).await;
        assert_eq!((code, why.as_str()), (1000, "the shell ended with exit status 3"));
    });
}

#[test]
fn terminal_waits_for_page_that_does_not_process_output() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    block_on(async {
        let mut socket = open_terminal(&server, &cookie).await;
        // A terminal that edits lines would discard long ones.
        input(&mut socket, "stty raw -echo; yes\n").await;
        let mut received = 0;
        let limit = 256 << 10;
        while received < limit {
            received += socket.next().await.unwrap().unwrap().len();
        }
        assert!(received < limit + (16 << 10), "{received}");
        let pause = std::time::Duration::from_millis(300);
        assert!(tokio::time::timeout(pause, socket.next()).await.is_err());
        let ack = format!(r#"{{"type":"ack","bytes":{received}}}"#);
        socket.send(ack.into()).await.unwrap();
        output_until(&mut socket, "y").await;
        // Nothing reads the input.
        let text = tungstenite::Message::binary(vec![b'x'; 100_000]);
        for _ in 0..20 {
            let _ = socket.send(text.clone()).await;
        }
        let (code, why) = closed_after(&mut socket, text).await;
        assert!(code == 1008 && why.contains("of input unread"), "{code} {why}");
    });
}

#[test]
fn refuses_terminals_above_limit_and_without_lab() {
    let lab = Lab::start();
    let server = lab.watch(false);
    let cookie = sign_in(&server);
    let open = || tungstenite::Message::text(OPEN);
    block_on(async {
        let mut sockets = Vec::new();
        for _ in 0..MAX_TERMINALS {
            let mut socket = open_terminal(&server, &cookie).await;
            output_until(&mut socket, "alice").await;
            sockets.push(socket);
        }
        let mut socket = terminal(&server, &cookie).await;
        let (code, why) = closed_after(&mut socket, open()).await;
        assert!(code == 1013 && why.starts_with("8 terminals are open"), "{code} {why}");
        sockets.clear();
        let ack = tungstenite::Message::text(r#"{"type":"ack","bytes":1}"#);
        // The ended terminals may still be open.
        let (mut code, mut why) = (1013, String::new());
        while code == 1013 {
            let mut socket = terminal(&server, &cookie).await;
            (code, why) = closed_after(&mut socket, ack.clone()).await;
        }
        assert_eq!((code, why.as_str()), (1008, "the first message opens the terminal"));
    });
    let server = lab.watch(true);
    let cookie = sign_in(&server);
    let folder = lab.dir.path().to_owned();
    let replay = WatchedRun { folder, socket: None, read_only: false, shell: None };
    let replay = Server::start(any(), replay).unwrap();
    let replay_cookie = sign_in(&replay);
    block_on(async {
        let mut socket = terminal(&server, &cookie).await;
        let read_only = (1008, "the live view is read-only".to_owned());
        assert_eq!(closed_after(&mut socket, open()).await, read_only);
        let mut socket = terminal(&replay, &replay_cookie).await;
        let (code, why) = closed_after(&mut socket, open()).await;
        assert!(code == 1008 && why.contains("a running lab on the wall clock"), "{code} {why}");
    });
}
