use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

#[derive(Default)]
struct Example {
    failed: AtomicBool,
}

impl Source for Example {
    fn prefix(&self) -> &'static str {
        "netarium_example"
    }

    fn status(&self) -> Value {
        json!({"schema": "netarium.example/1", "role": "test"})
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::gauge("rate_bit_s", "Rate.", 2.5).label("bundle", "a \"b\""),
            Metric::counter("drops", "Drops.", 7),
            Metric::gauge("rate_bit_s", "Rate.", 0.5).label("bundle", "c"),
        ]
    }

    fn is_healthy(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }
}

fn request(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address.unwrap()).unwrap();
    stream.write_all(format!("{request} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn answers_at_both_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("here/1.sock");
    let source = Arc::new(Example::default());
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(Arc::clone(&source) as _, Some(&path), Some(any)).unwrap();
    let mode = std::fs::metadata(folder.path().join("here")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the registry of labs refuses it");
    assert_eq!(read_status(&path, Some("netarium.example/1")).unwrap()["role"], "test");
    assert!(matches!(read_status(&path, Some("netarium.other/1")), Err(Error::Status { .. })));
    let twice = Server::start(Arc::clone(&source) as _, Some(&path), None);
    assert!(matches!(twice, Err(Error::Running(_))));
    for (asked, part) in [
        ("GET /status", "\"schema\":\"netarium.example/1\""),
        ("GET /health", "200"),
        ("GET /other", "404"),
        ("POST /status", "405"),
    ] {
        let answer = request(&server, asked);
        assert!(answer.contains(part), "{answer}");
    }
    source.failed.store(true, Ordering::Relaxed);
    let answer = request(&server, "GET /health");
    assert!(answer.starts_with("HTTP/1.0 503"), "{answer}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn writes_families_of_metrics_together() {
    let text = text("netarium_example", Example::default().metrics());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "# HELP netarium_example_drops Drops.",
            "# TYPE netarium_example_drops counter",
            "netarium_example_drops_total 7",
            "# HELP netarium_example_rate_bit_s Rate.",
            "# TYPE netarium_example_rate_bit_s gauge",
            "netarium_example_rate_bit_s{bundle=\"a \\\"b\\\"\"} 2.5",
            "netarium_example_rate_bit_s{bundle=\"c\"} 0.5",
            "# EOF",
        ]
    );
}

#[test]
fn stops_despite_slow_request() {
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(Arc::new(Example::default()), None, Some(any)).unwrap();
    let mut stream = TcpStream::connect(server.address.unwrap()).unwrap();
    stream.write_all(b"GET /sta").unwrap();
    let other = request(&server, "GET /health");
    assert!(other.contains("200"), "{other}");
    let start = Instant::now();
    drop(server);
    // A server that waited for the request would end after the timeout of 10 s.
    assert!(start.elapsed() < Duration::from_secs(9));
}

#[test]
fn keeps_file_at_socket_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    std::fs::write(&path, "kept").unwrap();
    let start = |path: &Path| Server::start(Arc::new(Example::default()), Some(path), None);
    assert!(start(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    // The socket of a dead process is replaced.
    let path = folder.path().join("box.sock");
    drop(UnixListener::bind(&path).unwrap());
    start(&path).unwrap();
}
