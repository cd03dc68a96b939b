//! Unauthenticated and idle clients use all slots while other clients connect.

use std::fs;

use super::world::{Running, TARGET, World, requires_world, until};

/// Sends HELLOs with a wrong token from 50 addresses, 500 a second, on connections left open.
const FLOOD: &str = r#"
import os, socket, struct, time
held, count = [], 0
while not os.path.exists("stop") and count < 200000:
    s = socket.socket()
    s.bind((f"10.61.1.{10 + count % 50}", 0)); s.settimeout(2)
    try:
        s.connect(("10.61.1.2", 8684))
        body = os.urandom(32) + struct.pack("!BHHHBIB", 1, 16384, 60, 30, 1, 0, 4) + b"a:80"
        body += os.urandom(16)
        s.sendall(b"\xb7MC\x01" + struct.pack("!BBHIQ", 1, 0, len(body), 0, 0) + body)
        held.append(s)
    except OSError: s.close()
    if len(held) > 500: held.pop(0).close()
    count += 1
    if count == 1000: open("flooding", "w").close()
    time.sleep(0.002)
"#;

/// Opens connections to a proxy's SOCKS5 and HTTP ports, and sends nothing.
const IDLE: &str = r#"
import os, socket, time
held = []
for number in range(300):
    s = socket.socket(); s.settimeout(5)
    try: s.connect(("127.0.0.1", [1080, 3128][number % 2])); held.append(s)
    except OSError: s.close()
open("idle", "w").close()
while not os.path.exists("stop"): time.sleep(0.05)
"#;

#[test]
fn accepts_authenticated_clients_during_hello_flood() {
    let world = requires_world!();
    let (_web, _serve) = (world.web(), world.serve(&["--max-sessions", "16"]));
    let _proxy = world.proxy(&["--socks", "127.0.0.1:1080", "--no-fallback"]);
    world.client.run("for i in $(seq 10 59); do ip a a 10.61.1.$i/24 dev c1; done");
    let mut flood = Running::python(&world.client, world.folder.path(), ("flood.py", FLOOD), &[]);
    until("the flood begins", || world.path("flooding").exists());
    for number in 0..12 {
        assert!(
            world.fetches_key(&format!("--proxy socks5://127.0.0.1:1080 http://{TARGET}")),
            "client {number}"
        );
    }
    assert!(flood.0.try_wait().unwrap().is_none(), "the flood has ended");
    fs::write(world.path("stop"), "").unwrap();
    assert_eq!(world.status("proxy")["sessions_total"], 12);
    until("the flood is counted", || {
        world.status("serve")["listener"]["failed_total"].as_u64() > Some(500)
    });
    assert_eq!(world.status("serve")["sessions_total"], 12);
}

fn idle_clients(test: &str, prefix: &[&str]) {
    let Some(world) = World::new(test) else { return };
    let (_web, _serve) = (world.web(), world.serve(&[]));
    let key = world.path("key").to_str().unwrap().to_owned();
    let words = [
        &["--server", "10.61.1.2", "--server", "10.61.2.2", "--key-file", &key][..],
        &["--socks", "127.0.0.1:1080", "--http", "127.0.0.1:3128", "--max-clients", "4"],
    ];
    world.client.run("ip l s lo up");
    let _proxy = world.start_with(&world.client, "proxy", &words.concat(), prefix);
    let _idle = Running::python(&world.client, world.folder.path(), ("idle.py", IDLE), &[]);
    until("idle clients are connected", || world.path("idle").exists());
    for proxy in ["--proxy socks5://127.0.0.1:1080", "--proxytunnel --proxy http://127.0.0.1:3128"]
    {
        assert!(world.fetches_key(&format!("{proxy} http://{TARGET}")), "{proxy}");
    }
    assert_eq!(world.status("proxy")["sessions_total"], 2);
    fs::write(world.path("stop"), "").unwrap();
}

#[test]
fn proxy_serves_clients_despite_idle_ones() {
    idle_clients("proxy_serves_clients_despite_idle_ones", &[]);
}

#[test]
fn proxy_keeps_descriptors_despite_idle_clients() {
    let limit = ["prlimit", "--nofile=128:128"];
    idle_clients("proxy_keeps_descriptors_despite_idle_clients", &limit);
}
