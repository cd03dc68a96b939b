//! Mirrors and captures, read by tshark.

use super::bench::{Bench, count, requires_labs};

const TAPPED: &str = r#"
lab = { name = "tapped", duration = "85 s", capture = ["client", "r.eth0"] }
node.client = {}
node.server = {}
node.monitor = {}
node.r = { kind = "router" }
link = [
    { ends = ["client", "r"], name = "access", rate = "1 Mbit/s", queue = "10 packets", down = { loss = "10 %" } },
    { ends = ["server", "r"] },
    { ends = ["monitor", "r"] },
]
mirror = [
    { name = "file", link = "access", filter = "tcp port 8080" },
    { name = "out", link = "access", filter = "tcp port 8080", direction = "up" },
    { name = "span", link = "access", filter = "tcp port 8080", to = "monitor" },
]
flow = [
    { name = "flood", from = "client", to = "server", transport = "udp", rate = "3 Mbit/s", packet = "1000 B", size = "300 kB", start = "4 s" },
]
[[program]]
name = "web"
node = "server"
run = ["python3", "-m", "http.server", "8080"]
ready = "port 8080"
[[program]]
name = "watch"
node = "monitor"
run = "exec python3 listen.py"
ready = 'output "listening"'
service = true
[[program]]
name = "curl"
node = "client"
# The listener prints the last packet meanwhile.
run = "curl -4 -sS --fail --max-time 60 http://server:8080/page && sleep 3"
after = ["web", "watch"]
[[program]]
name = "ping"
node = "client"
run = "ping -n -c 60 -i 0.02 server"
exit = "any"
"#;

/// Unlike tcpdump, it works as any user: tcpdump changes to another user, which does not exist in a
/// lab without root.
const LISTEN: &str = r#"
import socket, struct
ETH_P_ALL, OUTGOING = 3, 4
listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
listener.bind(("eth0", ETH_P_ALL))
print("listening", flush=True)
while True:
    packet, address = listener.recvfrom(65536)
    if address[2] != OUTGOING:
        header = (packet[0] & 15) * 4
        print("ports", *struct.unpack_from("!HH", packet, header), "in", len(packet), "B", flush=True)
"#;

#[test]
fn mirrors_copy_filtered_packets() {
    requires_labs!("tshark", "curl", "python3", "ping");
    // No check depends on time, so both run in parallel.
    std::thread::scope(|scope| {
        for model in ["hop", "collapsed"] {
            let name = format!("name = \"tapped-{model}\", model = \"{model}\"");
            scope.spawn(move || check_copies(&TAPPED.replace("name = \"tapped\"", &name)));
        }
    });
}

fn check_copies(lab: &str) {
    let bench = Bench::new();
    bench.write("listen.py", LISTEN);
    bench.write("page", &"All work and no play. ".repeat(200));
    let run = bench.run(lab).passed();
    assert_eq!(run.stdout("curl").len(), 4400, "{}", run.dump());
    let all = run.tshark("file.pcapng", "ip", &["ip.src", "tcp.port"]);
    assert!(all.len() > 8, "{all:?}");
    assert!(all.iter().all(|packet| packet.contains("8080")), "{all:?}");
    let requests = run.tshark("file.pcapng", "http.request", &["http.request.uri"]);
    assert_eq!(requests, ["/page"]);
    let client = run.address("client", false, 0);
    let out = run.tshark("out.pcapng", "ip", &["ip.src"]);
    assert!(!out.is_empty() && out.len() < all.len());
    assert!(out.iter().all(|source| *source == client), "{out:?}");
    // The monitor receives only the mirrored packets.
    let seen = run.stdout("watch");
    assert_eq!(seen.lines().count(), all.len() + 1, "{seen}\n{all:?}");
    assert!(seen.lines().skip(1).all(|line| line.contains(" 8080 ")), "{seen}");

    // A capture includes packets that its interface sent and the link dropped, with the reason.
    let full = "frame.comment contains \"queue full\"";
    let comments = run.tshark("client.eth0.pcapng", full, &["frame.comment", "ip.src"]);
    let up = count(&run.link("access", "up")["drops"]["queue full"]);
    assert!(up > 50, "{}", run.dump());
    assert_eq!(comments.len() as u64, up, "{}", comments.first().unwrap_or(&String::new()));
    assert!(comments.iter().all(|comment| comment.contains(&client)));
    let lost = run.tshark("r.eth0.pcapng", "frame.comment contains \"loss\"", &["ip.dst"]);
    let down = count(&run.link("access", "down")["drops"]["loss"]);
    assert!(down > 0, "{}", run.link("access", "down"));
    assert_eq!(lost.len() as u64, down);
    let pings = run.tshark("client.eth0.pcapng", "icmp.type == 8", &["icmp.seq"]);
    assert_eq!(pings.len(), 60);
}
