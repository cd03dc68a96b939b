//! Failed links, peers without MCTCP, and unreachable targets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::world::{NETARIUM, Running, SERVERS, TARGET, World, requires_world, until};

fn drop_packets(world: &World, device: &str) {
    world.server.run(&format!(
        "nft 'table inet drop_packets {{
           chain i {{ type filter hook input priority 0; iifname {device} drop; }}
           chain o {{ type filter hook output priority 0; oifname {device} drop; }}
         }}'"
    ));
}

#[test]
fn download_survives_link_failure() {
    let world = requires_world!();
    let (_web, _serve) = (world.web(), world.serve(&[]));
    let _proxy = world.proxy(&["--socks", "127.0.0.1:1080"]);
    for device in ["s1", "s2"] {
        let fetch = world.fetch_over_both_links("--proxy socks5://127.0.0.1:1080");
        drop_packets(&world, device);
        assert_eq!(fetch.output().trim(), world.hash, "{device}");
        // A new session uses the remaining link.
        let line = format!("curl --silent --proxy socks5://127.0.0.1:1080 http://{TARGET}/key");
        assert_eq!(world.client.run(&line).len(), 33);
        world.server.run("nft delete table inet drop_packets");
    }
    assert_eq!(world.status("proxy")["fallbacks_total"], 0);
}

/// One server address, reached through the first device unless a connection is bound to the other.
#[test]
fn uses_second_path_to_same_server_address() {
    let world = requires_world!();
    world.client.run("ip r a 10.99.0.0/16 via 10.61.2.2 metric 100");
    let key = world.key();
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let _web = world.web();
    let listen = [&["--listen", TARGET][..], &key].concat();
    let _serve = world.start(&world.server, "serve", &listen);
    drop_packets(&world, "s1");
    for paths in [&["--path", "10.61.1.1", "--path", "10.61.2.1"][..], &[]] {
        let words = ["--server", TARGET, "--allow-plain", "--socks", "127.0.0.1:1080"];
        let all = [&words[..], &key, paths].concat();
        let _proxy = world.start(&world.client, "proxy", &all);
        let fetch = world.fetch("--proxy socks5://127.0.0.1:1080");
        assert_eq!(fetch.output().trim(), world.hash, "{paths:?}");
        let status = world.status("proxy");
        assert_eq!((&status["sessions_total"], &status["fallbacks_total"]), (&1.into(), &0.into()));
    }
}

#[test]
fn falls_back_to_plain_tcp_and_counts_it() {
    let world = requires_world!();
    let _web = world.web();
    // There is no listener at the server's port.
    let mut proxy = world.proxy(&["--socks", "127.0.0.1:1080", "--allow-plain"]);
    let fetch = world.fetch("--proxy socks5://127.0.0.1:1080");
    assert_eq!(fetch.output().trim(), world.hash);
    let status = world.status("proxy");
    assert_eq!((&status["fallbacks_total"], &status["sessions_total"]), (&1.into(), &0.into()));
    assert_eq!(proxy.end(), Some(0));
    // With a key, clear text is used only if it is allowed.
    let _proxy = world.proxy(&["--socks", "127.0.0.1:1080"]);
    let line = format!("curl --silent --proxy socks5://127.0.0.1:1080 http://{TARGET}/key");
    assert_eq!(world.client.try_run(&line), None);
    let status = world.status("proxy");
    assert_eq!((&status["fallbacks_total"], &status["failed_total"]), (&0.into(), &1.into()));
}

#[test]
fn interoperates_with_peers_without_mctcp() {
    let world = requires_world!();
    let _web = world.web();
    let to = format!("{TARGET}:80");
    let listen = ["--listen", "10.61.1.2:8080", "--to", &to];
    let _serve = world.start(&world.server, "serve", &listen);
    let ask = |words: &[&str]| {
        let all = [&[NETARIUM, "mctcp", "connect"], words].concat();
        let mut command = world.client.command(&all);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"GET /key HTTP/1.0\r\n\r\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
    };
    // A session with a server that has a default target.
    let (answer, errors) = ask(&["10.61.1.2:8080", "--no-fallback"]);
    assert!(answer.ends_with("0123456789abcdef\n"), "{answer}{errors}");
    // A client without MCTCP.
    let key = world.client.run("curl --silent --max-time 60 http://10.61.1.2:8080/key");
    assert_eq!(key.len(), 33);
    let status = world.status("serve");
    assert_eq!((&status["sessions_total"], &status["fallbacks_total"]), (&1.into(), &1.into()));
    // A server without MCTCP.
    let (answer, errors) = ask(&[&to]);
    assert!(answer.ends_with("0123456789abcdef\n") && errors.contains("plain TCP"), "{errors}");
}

#[test]
fn distinguishes_forbidden_from_unreachable_targets() {
    let world = requires_world!();
    let _serve = world.serve(&["--allow", &format!("{TARGET}:81"), "--allow", "*.example"]);
    let _proxy = world.proxy(&["--socks", "127.0.0.1:1080", "--http", "127.0.0.1:3128"]);
    let code = |url: &str| {
        let line = format!(
            "curl --silent --proxytunnel --proxy http://127.0.0.1:3128 --max-time 60 {url} \
             --write-out '%{{http_connect}}' || true"
        );
        world.client.run(&line).trim().to_owned()
    };
    assert_eq!(code(&format!("http://{TARGET}:80/")), "403");
    // There is no listener.
    assert_eq!(code(&format!("http://{TARGET}:81/")), "502");
    assert_eq!(code("http://10.61.1.2:8684/"), "403");
    let serve = world.status("serve");
    assert_eq!((&serve["refused_total"], &serve["failed_total"]), (&2.into(), &1.into()));
    assert_eq!(world.status("proxy")["failed_total"], 3);
}

#[test]
fn wrong_key_causes_no_fallback() {
    let world = requires_world!();
    let (_web, first) = (world.web(), world.serve(&[]));
    std::fs::write(world.path("other"), "fedcba9876543210fedcba9876543210\n").unwrap();
    let other = world.path("other").to_str().unwrap().to_owned();
    let target = format!("{TARGET}:80");
    for more in [&["--key-file", other.as_str()][..], &[]] {
        let words = [&[NETARIUM, "mctcp", "connect", &target], &SERVERS[..], more].concat();
        let output = world.client.command(&words).stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{errors}");
        assert!(errors.contains("session closed by peer: authentication failed"), "{errors}");
    }
    assert_eq!(world.status("serve")["sessions_total"], 0);
    let refused = || world.status("serve")["listener"]["failed_total"].as_u64();
    until("the failure is counted", || refused() > Some(0));
    // A killed proxy leaves its socket, which the next one replaces.
    drop(first);
    let socket = world.path("serve.sock");
    assert!(socket.exists());
    let asked = Command::new(NETARIUM).args(["mctcp", "status"]).arg(&socket).output().unwrap();
    assert_eq!(asked.status.code(), Some(4));
    drop(world.start(&world.server, "serve", &["--listen", "127.0.0.1"]));
}

/// Both ends wait for each other, so no write detects the closed output.
#[test]
fn connect_ends_when_its_output_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let service = std::thread::spawn(move || {
        // The first one is the attempt to open a session.
        let accepted = [(); 2].map(|()| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"220 ready\r\n").unwrap();
            stream
        });
        let [_, mut stream] = accepted;
        stream.read_to_end(&mut Vec::new()).is_err()
    });
    let mut command = Command::new(NETARIUM);
    command.args(["mctcp", "connect", &target]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut connect = Running(command.spawn().unwrap());
    let mut output = connect.0.stdout.take().unwrap();
    output.read_exact(&mut [0; 5]).unwrap();
    drop(output);
    until("the command ends", || connect.0.try_wait().unwrap().is_some());
    assert!(connect.0.wait().unwrap().success());
    service.join().unwrap();
}
