//! Bundler gateways between two sites: the binary runs on two gateways in network namespaces,
//! with real connections.
//!
//! ```text
//! a — sending gateway —(20 Mbit/s)— receiving gateway — b
//! ```
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "programs/bench.rs"]
mod bench;
#[path = "programs/space.rs"]
mod space;

use bench::{NETARIUM, skip};
use space::{Running, Space, until};

const KEY: &str = "key = \"0123456789abcdef0123456789abcdef\"";

/// Sends until a file appears; prints the sent bytes.
const SOURCE: &str = r#"
import hashlib, os, socket, sys, time
s, total, sha, i = socket.create_connection(("10.2.0.2", 5001)), 0, hashlib.sha256(), 0
while not os.path.exists("stop"):
    block = hashlib.shake_128(str(i).encode()).digest(16384)
    s.sendall(block); sha.update(block); total += len(block); i += 1
    time.sleep(0.003)
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b""
print(total, sha.hexdigest())
"#;

/// Receives the bytes, and writes their number to a file.
const SINK: &str = r#"
import hashlib, os, socket
l = socket.create_server(("10.2.0.2", 5001)); open("listening", "w").close()
s, total, sha = l.accept()[0], 0, hashlib.sha256()
while block := s.recv(65536):
    sha.update(block); total += len(block)
    with open("count.new", "w") as f: f.write(str(total))
    os.rename("count.new", "count")
s.close()
print(total, sha.hexdigest())
"#;

/// Sends packets with complete checksums, and records them.
const PACKETS: &str = r#"
import random, socket, struct, time
r, out = random.Random(7), open("sent", "w")
def arrived():
    try: return int(open("arrived").read())
    except FileNotFoundError: return 0
def sum16(b):
    b += b"\0" * (len(b) % 2)
    t = sum(struct.unpack(f"!{len(b) // 2}H", b))
    while t >> 16: t = (t & 0xffff) + (t >> 16)
    return ~t & 0xffff
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for i in range(600):
    data = struct.pack("!I", i) + r.randbytes(r.choice([0, 1, 77, 500, 1400]))
    udp = struct.pack("!HHHH", 4000, 7000 + i % 3, 8 + len(data), 0) + data
    ends = socket.inet_aton("10.1.0.2") + socket.inet_aton("10.2.0.2")
    c = sum16(ends + struct.pack("!HH", 17, len(udp)) + udp) or 0xffff
    udp = udp[:6] + struct.pack("!H", c) + udp[8:]
    options = b"" if i % 5 else b"\x01\x01\x01\x00"
    head = [0x45 + len(options) // 4, r.randrange(256) & 0xfc | i % 3, 20 + len(options) + len(udp),
            r.randrange(1, 65536), 0x4000 if i % 2 else 0, 64, 17, 0]
    ip = struct.pack("!BBHHHBBH", *head) + ends + options
    s.sendto(ip + udp, ("10.2.0.2", 0))
    out.write((ip + udp).hex() + "\n")
    # No queue overflows while a process on the path waits for a CPU.
    end = time.monotonic() + 60
    while arrived() < i - 50 and time.monotonic() < end: time.sleep(0.001)
"#;

const CAPTURE: &str = r#"
import os, socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)); s.bind(("b0", 0))
s.settimeout(0.5); open("capturing", "w").close()
out, count, end = open("got", "w"), 0, time.time() + 60
while count < 600 and time.time() < end:
    try: p = s.recv(65536)
    except socket.timeout: continue
    ihl = (p[0] & 15) * 4
    if p[9] == 17 and p[ihl + 2] * 256 + p[ihl + 3] in (7000, 7001, 7002):
        out.write(p.hex() + "\n"); count += 1
        with open("arrived.new", "w") as f: f.write(str(count))
        os.rename("arrived.new", "arrived")
"#;

/// Sends invalid datagrams to a gateway.
const JUNK: &str = r#"
import random, socket, sys
r, s = random.Random(3), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(2000):
    head = [b"", b"\x4e\x42\x01" + bytes([r.randrange(1, 5)])][i % 2]
    s.sendto(head + r.randbytes(r.randrange(120)), (sys.argv[1], 28316))
"#;

/// Counts datagrams that reach a host.
const COUNT: &str = r#"
import os, socket
s, count = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
s.bind(("10.2.0.2", 7000)); open("udp", "w").close()
while s.recv(65536):
    count += 1
    with open("udp.new", "w") as f: f.write(str(count))
    os.rename("udp.new", "udp")
"#;

/// Records 20 encapsulated packets at the receiving gateway.
const RECORD: &str = r#"
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)); s.bind(("wan", 0))
s.settimeout(60); open(sys.argv[1] + ".ready", "w").close(); got = []
while len(got) < 20:
    p = s.recv(65536)
    if p[9] == 17 and p[22:24] == b"\x6e\x9c" and p[28:30] == b"\x4e\x42" and p[31] == 4:
        got.append(p[28:int.from_bytes(p[2:4], "big")].hex())
open(sys.argv[1], "w").write("\n".join(got))
"#;

/// Sends recorded datagrams from a third host: from its own address, or with that of the sendbox.
const REPLAY: &str = r#"
import socket, struct, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for line in open(sys.argv[1]).read().split():
    payload = bytes.fromhex(line)
    own.sendto(payload, ("192.0.2.2", 28316))
    udp = struct.pack("!HHHH", 28316, 28316, 8 + len(payload), 0) + payload
    ends = socket.inet_aton("192.0.2.1") + socket.inet_aton("192.0.2.2")
    raw.sendto(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + ends + udp, ("192.0.2.2", 0))
"#;

/// Two sites, their gateways, and a folder.
struct Sites {
    hosts: [Space; 2],
    gateways: [Space; 2],
    folder: TempDir,
}

/// The sites of a test, which is left, with a message, if the host cannot create them.
macro_rules! requires_sites {
    () => {{
        fn test() {}
        let Some(sites) = Sites::new(bench::caller(&test)) else { return };
        sites
    }};
}

impl Sites {
    fn new(test: &str) -> Option<Self> {
        let a = Space::first(test, &["ping"])?;
        let [send, receive, b] = [a.another()?, a.another()?, a.another()?];
        Space::connect(test, (&a, "a0"), (&send, "lan"))?;
        Space::connect(test, (&send, "wan"), (&receive, "wan"))?;
        Space::connect(test, (&receive, "lan"), (&b, "b0"))?;
        for (space, lines) in [
            (&a, "ip a a 10.1.0.2/24 dev a0; ip l s a0 up; ip r a default via 10.1.0.1"),
            (&b, "ip a a 10.2.0.2/24 dev b0; ip l s b0 up; ip r a default via 10.2.0.1"),
            (
                &send,
                "ip a a 10.1.0.1/24 dev lan; ip a a 192.0.2.1/24 dev wan; ip l s lan up; \
                 ip l s wan up; ip r a 10.2.0.0/16 via 192.0.2.2; \
                 tc qdisc add dev wan root tbf rate 20mbit burst 20k limit 200k",
            ),
            (
                &receive,
                "ip a a 10.2.0.1/24 dev lan; ip a a 192.0.2.2/24 dev wan; ip l s lan up; \
                 ip l s wan up; ip r a 10.1.0.0/16 via 192.0.2.1",
            ),
        ] {
            space.run(&format!("ip l s lo up; echo 1 > /proc/sys/net/ipv4/ip_forward; {lines}"));
        }
        if sys::tun::is_openable().is_err() {
            skip(test, sys::tun::DEVICE);
            return None;
        }
        let folder = TempDir::new().unwrap();
        Some(Self { hosts: [a, b], gateways: [send, receive], folder })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a gateway and waits until it reports that it is ready.
    fn start(&self, role: &str, more: &str) -> Running {
        let socket = self.path(&format!("{role}.sock"));
        let (space, peer, prefix) = match role {
            "send" => (&self.gateways[0], "192.0.2.2", "remote = \"10.2.0.0/16\""),
            _ => (&self.gateways[1], "192.0.2.1", "local = \"10.2.0.0/16\""),
        };
        let text = format!(
            "status = \"{}\"\n[bundle.b]\n{prefix}\npeer = \"{peer}\"\n{KEY}\n{more}\n",
            socket.display()
        );
        let config = self.path(&format!("{role}.toml"));
        fs::write(&config, text).unwrap();
        let words = [NETARIUM, "bundle", role, "--json", "--config", config.to_str().unwrap()];
        Running::ready(&mut space.command(&words))
    }

    fn python(&self, space: &Space, name: &str, script: &str, words: &[&str]) -> Running {
        Running::python(space, self.folder.path(), (name, script), words)
    }

    fn status(&self, role: &str) -> Value {
        let socket = self.path(&format!("{role}.sock"));
        let words = ["bundle", "status", "--json", socket.to_str().unwrap()];
        space::json(&words)["boxes"][0].clone()
    }

    /// Rules, routes, devices and files of a gateway.
    fn remaining_objects(&self) -> String {
        let gateway = &self.gateways[0];
        let rules = gateway.run("ip rule; ip -6 rule");
        let ours: String = rules.lines().filter(|line| line.contains("proto 78")).collect();
        let routes = gateway.try_run("ip route show table 28316 2>/dev/null");
        let devices = gateway.run("ip -o link");
        let device: String = devices.lines().filter(|line| line.contains("bundle0")).collect();
        let socket = if self.path("send.sock").exists() { "send.sock" } else { "" };
        [ours, routes.unwrap_or_default(), device, socket.to_owned()].concat()
    }

    fn ping(&self) -> bool {
        self.hosts[0].try_run("ping -c 1 -W 5 10.2.0.2").is_some()
    }
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// A connection survives all events of the gateways, and the received bytes equal the sent ones.
fn assert_connection_survives(test: &str, more: &str) {
    let Some(sites) = Sites::new(test) else { return };
    let sink = sites.python(&sites.hosts[1], "sink.py", SINK, &[]);
    until("the receiver listens", || sites.path("listening").exists());
    let mut receivebox = sites.start("receive", more);
    let mut sendbox = sites.start("send", more);
    let source = sites.python(&sites.hosts[0], "source.py", SOURCE, &[]);
    let await_progress = |what: &str| {
        let before = number(&sites.path("count"));
        until(what, || number(&sites.path("count")) > before + 300_000);
    };
    await_progress("data arrives");
    until("packets are acknowledged", || {
        sites.status("send")["bundles"][0]["acks"].as_u64() > Some(0)
    });
    receivebox.kill();
    await_progress("data arrives without a receivebox");
    receivebox = sites.start("receive", more);
    await_progress("data arrives with a new receivebox");
    until("the new receivebox is known", || {
        sites.status("send")["bundles"][0]["peer_restarts"].as_u64() > Some(0)
    });
    sendbox.kill();
    await_progress("data arrives without a sendbox");
    let left = sites.remaining_objects();
    assert!(!left.contains("bundle0:") && !left.contains("dev bundle0"), "{left}");
    sendbox = sites.start("send", more);
    await_progress("data arrives with a new sendbox");
    assert_eq!(sendbox.end(), Some(0));
    assert_eq!(sites.remaining_objects(), "");
    await_progress("data arrives after the sendbox has ended");
    fs::write(sites.path("stop"), "").unwrap();
    assert_eq!(source.output(), sink.output());
    assert_eq!(receivebox.end(), Some(0));
}

#[test]
fn connection_survives_gateway_restarts() {
    assert_connection_survives("connection_survives_gateway_restarts", "");
}

#[test]
fn connection_survives_gateway_restarts_encapsulated() {
    let test = "connection_survives_gateway_restarts_encapsulated";
    assert_connection_survives(test, "marking = \"encapsulation\"");
}

/// A packet without the fields that routers change; flow and number.
fn neutral(line: &str) -> (u8, u32, String) {
    let octet = |at: usize| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap();
    let ip = usize::from(octet(0) & 15) * 4;
    let number = u32::from_str_radix(&line[2 * (ip + 8)..2 * (ip + 12)], 16).unwrap();
    let rest = [&line[..16], &line[18..20], &line[24..]].concat();
    (octet(ip + 3), number, rest)
}

#[test]
fn delivers_packets_unchanged_in_order() {
    let sites = requires_sites!();
    let _receivebox = sites.start("receive", "");
    let _sendbox = sites.start("send", "");
    assert!(sites.ping());
    let capture = sites.python(&sites.hosts[1], "capture.py", CAPTURE, &[]);
    until("the capture begins", || sites.path("capturing").exists());
    sites.python(&sites.hosts[0], "packets.py", PACKETS, &[]).output();
    capture.output();
    let read = |name: &str| -> Vec<_> {
        let text = fs::read_to_string(sites.path(name)).unwrap();
        text.lines().map(neutral).collect()
    };
    let (sent, got) = (read("sent"), read("got"));
    for flow in [88, 89, 90] {
        let of = |list: &[(u8, u32, String)]| -> Vec<_> {
            list.iter().filter(|it| it.0 == flow).cloned().collect()
        };
        assert_eq!(of(&sent).len(), 200);
        assert_eq!(of(&sent), of(&got), "flow {flow}");
    }
    until("both gateways count all packets", || {
        let (here, there) = (sites.status("send"), sites.status("receive"));
        let sent = here["bundles"][0]["sent_bytes"].as_u64().unwrap();
        sent > 0 && there["bundles"][0]["received_bytes"].as_u64() == Some(sent)
    });
}

#[test]
fn ignores_invalid_datagrams() {
    let sites = requires_sites!();
    let _receivebox = sites.start("receive", "");
    let _sendbox = sites.start("send", "mode = \"dry-run\"");
    assert!(sites.ping());
    let junk = |from: &Space, to: &str| {
        sites.python(from, "junk.py", JUNK, &[to]).output();
    };
    // The socket of a gateway that waits for a CPU drops most of it, so it is sent repeatedly.
    for (role, from, to) in
        [("send", &sites.gateways[1], "192.0.2.1"), ("receive", &sites.gateways[0], "192.0.2.2")]
    {
        until("junk is counted", || {
            junk(from, to);
            let status = sites.status(role);
            let bundle = &status["bundles"][0];
            let counts = [&status["strange_messages"], &bundle["rejected_messages"]];
            counts.iter().filter_map(|count| count.as_u64()).sum::<u64>() > 500
        });
    }
    assert!(sites.ping());
    let status = sites.status("send");
    assert_eq!(status["schema"], "netarium.bundle/1");
    assert_eq!((&status["role"], &status["device"]), (&"send".into(), &"bundle0".into()));
    let bundle = &status["bundles"][0];
    assert_eq!((&bundle["name"], &bundle["mode"]), (&"b".into(), &"dry-run".into()));
    assert_eq!(bundle["peer_restarts"], 0);
    assert!(bundle["rate_bit_s"].is_null(), "{bundle}");
    // On a busy host feedback may be late for a moment.
    until("the bundle is not failed open", || {
        sites.status("send")["bundles"][0]["state"] != "fail-open"
    });
    // A second gateway for a running one is rejected.
    let config = sites.path("send.toml");
    let words = [NETARIUM, "bundle", "send", "--config", config.to_str().unwrap()];
    let second = sites.gateways[0].command(&words).output().unwrap();
    assert_eq!(second.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another process"));
    assert!(sites.ping());
}

/// A host that is connected to the receiving gateway and belongs to neither site.
fn third_host(sites: &Sites) -> Space {
    let host = sites.hosts[0].another().unwrap();
    Space::connect("a third host", (&host, "out0"), (&sites.gateways[1], "other")).unwrap();
    host.run("ip a a 198.51.100.2/24 dev out0; ip l s out0 up; ip r a default via 198.51.100.1");
    sites.gateways[1].run(
        "ip a a 198.51.100.1/24 dev other; ip l s other up; \
         for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done",
    );
    host
}

/// Recorded datagrams of the previous and of the current incarnation, sent from a third host, reach
/// the site 0 of 40 times.
#[test]
fn rejects_replayed_capture() {
    let sites = requires_sites!();
    let more = "marking = \"encapsulation\"";
    let _receivebox = sites.start("receive", more);
    let mut sendbox = sites.start("send", more);
    let _count = sites.python(&sites.hosts[1], "count.py", COUNT, &[]);
    until("the receiver listens", || sites.path("udp").exists());
    let attacker = third_host(&sites);
    let figure = |role: &str, name: &str| {
        let status = sites.status(role);
        status["bundles"][0][name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"))
    };
    let counted = || number(&sites.path("udp"));
    let mut sent = 0;
    // Sends packets until 20 of them were seen encapsulated, and waits until all have arrived.
    let mut record = |name: &str| {
        let recorder = sites.python(&sites.gateways[1], "record.py", RECORD, &[name]);
        until("the recording begins", || sites.path(&format!("{name}.ready")).exists());
        let script = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                      s.sendto(b'x', ('10.2.0.2', 7000))";
        until("packets are encapsulated", || {
            sites.hosts[0].run(&format!("python3 -c \"{script}\""));
            sent += 1;
            sites.path(name).exists()
        });
        recorder.output();
        until("all packets have arrived", || counted() == sent);
    };
    let replay = |name: &str, counter: &str| {
        let before =
            (counted(), figure("receive", counter), figure("receive", "foreign_datagrams"));
        sites.python(&attacker, "replay.py", REPLAY, &[name]).output();
        until("the replayed datagrams are counted", || {
            let after = (figure("receive", counter), figure("receive", "foreign_datagrams"));
            after == (before.1 + 20, before.2 + 20)
        });
        assert!(sites.ping());
        assert_eq!(counted(), before.0, "{name}");
    };
    record("old");
    replay("old", "rejected_packets");
    assert_eq!(figure("receive", "not_adopted_packets"), 0);
    sendbox.kill();
    let _sendbox = sites.start("send", more);
    until("the new incarnation is adopted", || figure("receive", "peer_restarts") == 1);
    replay("old", "not_adopted_packets");
    record("new");
    replay("new", "rejected_packets");
}

/// A gateway that reads its configuration again.
struct Reloaded {
    process: Running,
    config: PathBuf,
    events: PathBuf,
}

impl Reloaded {
    fn start(sites: &Sites, gateway: &Space, role: &str, text: &str) -> Self {
        let config = sites.path(&format!("{role}.toml"));
        let socket = sites.path(&format!("{role}.sock"));
        fs::write(&config, format!("status = \"{}\"\n{text}", socket.display())).unwrap();
        let events = sites.path(&format!("{role}.events"));
        let words = [NETARIUM, "bundle", role, "--json", "--config", config.to_str().unwrap()];
        let mut command = gateway.command(&words);
        let process = Running(command.stdout(File::create(&events).unwrap()).spawn().unwrap());
        let this = Self { process, config, events };
        until("the gateway is ready", || this.events().iter().any(|it| it["event"] == "ready"));
        this
    }

    /// Complete lines that the gateway has printed.
    fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.events).unwrap();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Changes the configuration, and returns the event of the reload.
    fn reload(&self, edit: impl Fn(&str) -> String) -> Value {
        let is_answer =
            |event: &&Value| event["event"] == "reloaded" || event["event"] == "rejected";
        let answers = || self.events().iter().filter(is_answer).cloned().collect::<Vec<_>>();
        let before = answers().len();
        let text = edit(&fs::read_to_string(&self.config).unwrap());
        fs::write(&self.config, text).unwrap();
        let pid = rustix::process::Pid::from_child(&self.process.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        until("the configuration is read", || answers().len() > before);
        answers().pop().unwrap()
    }
}

fn bundle_b(prefix: &str, peer: &str) -> String {
    format!("[bundle.b]\n{prefix} = \"10.2.0.0/16\"\npeer = \"{peer}\"\n{KEY}\n")
}

fn bundle_c(prefix: &str, peer: &str) -> String {
    format!(
        "[bundle.c]\n{prefix} = \"10.3.0.0/16\"\npeer = \"{peer}\"\n\
         marking = \"encapsulation\"\nkey = \"another secret of both gateways\"\n"
    )
}

#[test]
fn reload_restarts_only_changed_bundles() {
    let sites = requires_sites!();
    let [send, receive] = &sites.gateways;
    let mut receivebox =
        Reloaded::start(&sites, receive, "receive", &bundle_b("local", "192.0.2.1"));
    let mut sendbox = Reloaded::start(&sites, send, "send", &bundle_b("remote", "192.0.2.2"));
    let sink = sites.python(&sites.hosts[1], "sink.py", SINK, &[]);
    until("the receiver listens", || sites.path("listening").exists());
    let source = sites.python(&sites.hosts[0], "source.py", SOURCE, &[]);
    let bundle = |role: &str, name: &str, field: &str| -> Value {
        let status = sites.status(role);
        let bundles = status["bundles"].as_array().unwrap();
        let bundle = bundles.iter().find(|bundle| bundle["name"] == name);
        bundle.map_or(Value::Null, |bundle| bundle[field].clone())
    };
    let acks = || bundle("send", "b", "acks").as_u64().unwrap_or(0);
    until("packets are acknowledged", || acks() > 0);

    // There is no route to the new site yet.
    let event = sendbox.reload(|text| text.to_owned() + &bundle_c("remote", "192.0.2.2"));
    assert_eq!(event["event"], "rejected", "{event}");
    assert!(event["why"].as_str().unwrap().contains("no route to 10.3.0.0/16"), "{event}");
    assert_eq!(bundle("send", "c", "mode"), Value::Null);

    // A new bundle does not affect the other one.
    send.run("ip r a 10.3.0.0/16 via 192.0.2.2");
    let before = acks();
    for (gateway, key, peer) in
        [(&receivebox, "local", "192.0.2.1"), (&sendbox, "remote", "192.0.2.2")]
    {
        let event = gateway.reload(|text| {
            let other = bundle_c(key, peer);
            if text.contains("bundle.c") { text.to_owned() } else { text.to_owned() + &other }
        });
        assert_eq!((&event["event"], &event["added"]), (&"reloaded".into(), &json!(["c"])));
        assert_eq!((&event["changed"], &event["removed"]), (&json!([]), &json!([])));
    }
    until("the new gateways know each other", || {
        bundle("send", "c", "messages").as_u64() > Some(0)
            && bundle("receive", "c", "heartbeats").as_u64() > Some(0)
    });
    assert!(send.run("ip route show table 28316").contains("10.3.0.0/16"));
    until("packets of the other bundle are acknowledged", || acks() > before + 1);
    for role in ["send", "receive"] {
        assert_eq!(bundle(role, "b", "peer_restarts"), 0, "{role}");
    }

    // A changed bundle restarts without an effect on its connections.
    let event = sendbox.reload(|text| text.replacen(KEY, &format!("{KEY}\nmode = \"observe\""), 1));
    assert_eq!((&event["added"], &event["changed"]), (&json!([]), &json!(["b"])), "{event}");
    until("the changed bundle is adopted", || {
        bundle("receive", "b", "peer_restarts") == 1 && acks() > 0
    });
    assert_eq!(bundle("send", "b", "mode"), "observe");

    // Keys of the gateway, and files with errors, change nothing.
    let event = sendbox.reload(|text| format!("device = \"other\"\n{text}"));
    assert_eq!(event["why"], "`device` cannot change while the gateway runs");
    let event = sendbox.reload(|text| text.replacen("device = \"other\"", "divice = 1", 1));
    assert_eq!(event["event"], "rejected");

    let event = sendbox.reload(|text| {
        let text = text.replacen("divice = 1\n", "", 1);
        text[..text.find("[bundle.c]").unwrap()].to_owned()
    });
    assert_eq!(event["removed"], json!(["c"]), "{event}");
    assert!(!send.run("ip route show table 28316").contains("10.3.0.0/16"));
    let before = number(&sites.path("count"));
    until("data arrives", || number(&sites.path("count")) > before + 100_000);
    fs::write(sites.path("stop"), "").unwrap();
    assert_eq!(source.output(), sink.output());
    assert_eq!(sendbox.process.end(), Some(0));
    assert_eq!(sites.remaining_objects(), "");
    assert_eq!(receivebox.process.end(), Some(0));
}

#[test]
fn rejects_gateway_with_nat() {
    let sites = requires_sites!();
    let gateway = &sites.gateways[0];
    gateway.run(
        "nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }'",
    );
    // Chains without rules do not translate.
    assert_eq!(sites.start("send", "").end(), Some(0));
    gateway.run("nft add rule ip nat post oifname wan masquerade");
    let config = sites.path("send.toml");
    let words = [NETARIUM, "bundle", "send", "--config", config.to_str().unwrap()];
    let refused = gateway.command(&words).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{error}");
    for part in ["chain `post` of table `nat`", "translation = \"exempt\""] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(sites.remaining_objects(), "");
    gateway.run("nft insert rule ip nat post ip daddr 10.2.0.0/16 accept");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("translation = \"exempt\"\n{text}")).unwrap();
    let _receivebox = sites.start("receive", "");
    let _sendbox = Running(gateway.command(&words).spawn().unwrap());
    until("the box is there", || !sites.remaining_objects().is_empty());
    assert!(sites.ping());
}

#[test]
fn checks_gateway_configuration() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("send.toml");
    let check = |text: &str, words: &[&str]| {
        fs::write(&path, text).unwrap();
        let config = path.to_str().unwrap();
        let output = Command::new(NETARIUM)
            .args(["bundle", "send", "--check", "--config", config])
            .args(words)
            .output()
            .unwrap();
        let [out, error] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
        (output.status.code(), out.into_owned(), error.into_owned())
    };
    let right = format!("[bundle.b]\nremote = \"10.2.0.0/16\"\npeer = \"192.0.2.2\"\n{KEY}\n");
    let (code, out, _) = check(&right, &[]);
    assert!(code == Some(0) && out.ends_with("1 bundle: b\n"), "{out}");
    let wrong = format!("{right}shceduler = \"sfq\"\n");
    let (code, _, error) = check(&wrong, &[]);
    assert_eq!(code, Some(2));
    for part in ["send.toml:5:1", "a bundle has no key `shceduler`", "did you mean `scheduler`?"] {
        assert!(error.contains(part), "{error}");
    }
    let (code, out, _) = check(&wrong, &["--json"]);
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &object["ok"]), (Some(2), &false.into()));
    assert_eq!(object["errors"][0]["line"], 5);
}
