//! Each type of proxy listener with a program that uses it.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::world::{NETARIUM, Running, SERVERS, TARGET, World, requires_world, until};

#[test]
fn socks_download_uses_both_links() {
    let world = requires_world!();
    let (_web, _serve) = (world.web(), world.serve(&[]));
    let mut proxy = world.proxy(&["--socks", "127.0.0.1:1080", "--metrics", "127.0.0.1:9000"]);
    let fetch = world.fetch_over_both_links("--proxy socks5://127.0.0.1:1080");
    assert_eq!(fetch.output().trim(), world.hash);
    until("the connection has ended", || world.status("proxy")["connections"] == 0);
    let status = world.status("proxy");
    assert_eq!((&status["role"], &status["sessions_total"]), (&"proxy".into(), &1.into()));
    assert_eq!((&status["fallbacks_total"], &status["failed_total"]), (&0.into(), &0.into()));
    assert!(status["received_bytes_total"].as_u64().unwrap() > 16_000_000, "{status}");
    assert!(status["subflows_total"].as_u64().unwrap() >= 2, "{status}");
    let metrics = world.client.run("curl --silent http://127.0.0.1:9000/metrics");
    assert!(metrics.contains("netarium_mctcp_sessions_total{role=\"proxy\"} 1\n"), "{metrics}");
    assert_eq!(proxy.end(), Some(0));
    assert!(!world.path("proxy.sock").exists());
}

#[test]
fn server_advertises_other_address() {
    let world = requires_world!();
    let (_web, _serve) = (world.web(), world.serve(&[]));
    let key = world.path("key").to_str().unwrap().to_owned();
    let words = ["--server", "10.61.1.2", "--key-file", &key, "--socks", "127.0.0.1:1080"];
    let _proxy = world.start(&world.client, "proxy", &words);
    let fetch = world.fetch_over_both_links("--proxy socks5://127.0.0.1:1080");
    assert_eq!(fetch.output().trim(), world.hash);
}

#[test]
fn http_connect_requires_credentials() {
    let world = requires_world!();
    let (_web, _serve) = (world.web(), world.serve(&[]));
    fs::write(world.path("users"), "ann:secret\n").unwrap();
    let users = world.path("users").to_str().unwrap().to_owned();
    let fronts = ["--http", "0.0.0.0:3128", "--socks", "0.0.0.0:1080", "--users", &users];
    let _proxy = world.proxy(&fronts);
    let http = "--proxytunnel --proxy http://127.0.0.1:3128";
    for user in ["ann:secret", "ann:guess"] {
        let right = user == "ann:secret";
        let line = |proxy: &str| {
            format!("curl --silent --max-time 60 --proxy-user {user} {proxy} http://{TARGET}/key")
        };
        for proxy in [http, "--proxy socks5://127.0.0.1:1080"] {
            assert_eq!(world.client.try_run(&line(proxy)).is_some(), right, "{user} {proxy}");
        }
    }
    assert_eq!(world.client.try_run(&format!("curl --silent {http} http://{TARGET}/key")), None);
    assert_eq!(world.status("proxy")["refused_total"], 3);
    assert_eq!(world.fetch(&format!("{http} --proxy-user ann:secret")).output().trim(), world.hash);
}

#[test]
fn iperf_runs_through_a_forwarded_port() {
    let world = requires_world!();
    let _serve = world.serve(&["--allow", &format!("{TARGET}:5201")]);
    let _proxy = world.proxy(&["--forward", &format!("5000={TARGET}:5201")]);
    let mut command = world.server.command(&["iperf3", "--server", "--bind", TARGET]);
    let _iperf = Running(command.stdout(Stdio::null()).spawn().unwrap());
    until("iperf3 listens", || world.server.run("ss -Hltn").contains(":5201"));
    // The client may report the end while its data are still in flight.
    for (how, min) in [("--time 2", 1), ("--bytes 4M --reverse", 4 << 20)] {
        let line = format!("iperf3 -c 127.0.0.1 -p 5000 --json {how}");
        let text = world.client.run(&line);
        let result: Value = serde_json::from_str(&text).unwrap();
        let bytes = result["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!(bytes >= min, "{how}: {bytes}");
    }
    assert_eq!(world.status("proxy")["fallbacks_total"], 0);
    // Each run has a control connection and a data connection.
    assert_eq!(world.status("serve")["sessions_total"], 4);
}

/// Accepts one connection and prints the received bytes.
const SINK: &str = r#"
import hashlib, socket, sys
l = socket.create_server(("10.99.0.1", 7000)); print("listening", flush=True)
s, sha = l.accept()[0], hashlib.sha256()
while block := s.recv(65536): sha.update(block)
s.sendall(b"thank you\n"); s.close()
print(sha.hexdigest())
"#;

#[test]
fn connect_sends_stdin_over_both_links_in_tls() {
    let test = "connect_sends_stdin_over_both_links_in_tls";
    let Some(world) = World::new(test) else { return };
    let made = world.server.try_run(&format!(
        "cd {}; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
         -keyout tls.key -out tls.pem -days 3 -subj /CN=server \
         -addext subjectAltName=DNS:server.example \
         -addext basicConstraints=critical,CA:FALSE 2>&1",
        world.folder.path().display()
    ));
    if made.is_none() {
        super::bench::skip(test, "no `openssl`");
        return;
    }
    let file = |name: &str| world.path(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("tls.pem"), file("tls.key"));
    let _serve = world.serve(&["--tls-cert", &certificate, "--tls-key", &key]);
    let sink = world.server.command(&["python3", "-c", SINK]).stdout(Stdio::piped()).spawn();
    let sink = Running(sink.unwrap());
    until("the sink listens", || world.server.run("ss -Hltn").contains(":7000"));
    let psk = file("key");
    let words = [
        &[NETARIUM, "mctcp", "connect", "10.99.0.1:7000", "--json", "--key-file", &psk],
        &SERVERS[..],
        &["--tls-ca", &certificate, "--tls-name", "server.example"],
    ]
    .concat();
    let mut command = world.client.command(&words);
    command.stdin(fs::File::open(world.path("file")).unwrap());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(output.stdout, b"thank you\n");
    let summary: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["via"], &summary["sent_bytes"]), (&"mctcp".into(), &16_000_000.into()));
    assert!(summary["subflows"].as_u64().unwrap() >= 2, "{summary}");
    assert!(sink.output().contains(&world.hash));
}
