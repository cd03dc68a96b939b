//! Common tools, unmodified, over a dumbbell.

use std::fmt::Write;

use serde_json::Value;

use super::bench::{Bench, PING_TOLERANCE_MS, Run, number, requires_labs, shortest_ping};

/// Two hosts on each side of two routers.
const DUMBBELL: &str = r#"
[node.alice]
[node.bob]
[node.r1]
kind = "router"
[node.r2]
kind = "router"
[[link]]
ends = ["alice", "r1"]
rate = "200 Mbit/s"
[[link]]
name = "core"
ends = ["r1", "r2"]
rate = "50 Mbit/s"
delay = "5 ms"
[[link]]
ends = ["r2", "bob"]
rate = "200 Mbit/s"
"#;

fn lab(name: &str, rest: &str) -> String {
    format!("[lab]\nname = \"{name}\"\nduration = \"40 s\"\n{DUMBBELL}{rest}")
}

#[test]
fn pings_and_downloads_by_host_name() {
    requires_labs!("ping", "curl", "python3", "nc");
    let bench = Bench::new();
    let body = "all work and no play\n".repeat(20_000);
    bench.write("www/page.txt", &body);
    bench.write("echo.py", ECHO);
    let run = bench.run(&lab("tools", TOOLS)).passed();
    for (ping, ttl) in [("ping4", "ttl=62"), ("ping6", "ttl=62")] {
        let printed = run.stdout(ping);
        assert!(printed.contains("3 packets transmitted, 3 received, 0% packet loss"), "{printed}");
        assert_eq!(printed.matches(ttl).count(), 3, "{printed}");
        assert!(shortest_ping(&printed) >= 10.0 - PING_TOLERANCE_MS, "{printed}");
    }
    assert_eq!(run.stdout("curl"), body);
    assert!(run.stderr_of("web").contains("GET /page.txt HTTP/1.1\" 200"), "{}", run.dump());
    assert_eq!(run.stdout("sink").trim(), "100000 5000050000");
    assert_eq!(run.stdout("hello").trim(), "hello by nc");
    let printed = run.stdout("asked");
    assert_eq!(printed.trim(), "50 answers, all right", "{}", run.dump());
    let names = run.stdout("names");
    for name in ["alice", "bob", "r1", "r2"] {
        assert!(names.lines().any(|l| l.split_whitespace().any(|w| w == name)), "{names}");
    }
    let address = run.address("bob", false, 0);
    assert!(names.contains(&format!("first {address} ")), "{address}: {names}");
    assert!(names.contains(&run.address("bob", true, 0)), "{names}");
    // An unprivileged program has bound port 80, and the host's own name resolution is unchanged.
    assert_eq!(run.program("web")["restarts"], 0);
    assert!(!std::fs::read_to_string("/etc/hosts").unwrap().contains(&address));
}

const TOOLS: &str = r#"
[[program]]
name = "web"
node = "bob"
run = ["python3", "-u", "-m", "http.server", "80"]
dir = "www"
ready = "port 80"
[[program]]
name = "curl"
node = "alice"
run = "curl -sS --fail --max-time 20 http://bob/page.txt"
after = "web"
[[program]]
name = "ping4"
node = "alice"
run = "ping -n -c 3 -i 0.2 bob"
[[program]]
name = "ping6"
node = "alice"
run = "ping -6 -n -c 3 -i 0.2 bob"
[[program]]
name = "sink"
node = "bob"
run = '''nc -l 9000 | gunzip | awk '{ sum += $1 } END { printf "%d %.0f", NR, sum }' '''
ready = "port 9000"
service = false
[[program]]
name = "source"
node = "alice"
run = "seq 1 100000 | gzip | nc -N bob 9000"
after = "sink"
[[program]]
name = "hello"
node = "bob"
run = ["nc", "-l", "9001"]
ready = "port 9001"
service = false
[[program]]
name = "greeter"
node = "r1"
run = "echo hello by nc | nc -N bob 9001"
after = "hello"
[[program]]
name = "echo"
node = "bob"
run = "python3 ../echo.py serve"
dir = "www"
ready = "output \"listening\""
[[program]]
name = "asked"
node = "alice"
run = "python3 echo.py ask bob"
after = "echo"
[[program]]
name = "names"
node = "alice"
run = "cat /etc/hosts; hostname; echo first $(getent ahostsv4 bob)"
"#;

const ECHO: &str = r#"
import asyncio, sys

async def answer(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def serve():
    server = await asyncio.start_server(answer, None, 7777)
    print("listening", flush=True)
    await server.serve_forever()

async def ask(host, number):
    reader, writer = await asyncio.open_connection(host, 7777)
    writer.write(f"question {number}\n".encode())
    line = await reader.readline()
    writer.close()
    return line == f"QUESTION {number}\n".encode()

async def ask_all(host):
    answers = await asyncio.gather(*(ask(host, number) for number in range(50)))
    print(len(answers), "answers,", "all right" if all(answers) else "some wrong")

asyncio.run(serve() if sys.argv[1] == "serve" else ask_all(sys.argv[2]))
"#;

#[test]
fn transfers_with_iperf3_in_every_mode() {
    requires_labs!("iperf3");
    let modes = [
        ("tcp", ""),
        ("reverse", "-R"),
        ("parallel", "-P 8"),
        ("udp", "-u -b 4M -l 1000"),
        ("v6", "-6"),
    ];
    let mut programs = String::new();
    for (at, (name, options)) in modes.iter().enumerate() {
        let port = 5201 + at;
        let _ = write!(
            programs,
            "[[program]]\nname = \"{name}-server\"\nnode = \"bob\"\n\
             run = \"iperf3 -s -1 -p {port}\"\nready = \"port {port}\"\nservice = true\n\
             [[program]]\nname = \"{name}\"\nnode = \"alice\"\n\
             run = \"iperf3 -J -c bob -p {port} -t 2 {options}\"\nafter = \"{name}-server\"\n"
        );
    }
    let bench = Bench::new();
    let run = bench.run(&lab("iperf3", &programs)).passed();
    let mut sum = 0.0;
    for (name, _) in modes {
        let bytes = number(&iperf_received(&run, name)["bytes"]);
        // The share of each flow on the 50 Mbit/s core is unpredictable, but positive.
        assert!(bytes > 10e3, "{name}: {bytes}\n{}", run.stdout(name));
        if name != "reverse" {
            sum += bytes;
        }
    }
    let core = run.link("core", "up");
    assert!(sum < number(&core["sent_bytes"]), "{sum} B came out of {core:#}");
    let parallel: Value = serde_json::from_str(&run.stdout("parallel")).unwrap();
    assert_eq!(parallel["end"]["streams"].as_array().unwrap().len(), 8);
    let v6: Value = serde_json::from_str(&run.stdout("v6")).unwrap();
    assert_eq!(v6["start"]["connected"][0]["remote_host"], run.address("bob", true, 0));
    let rate = number(&core["throughput_bit_per_s"]);
    assert!((1e3..=50e6).contains(&rate), "{core:#}");
}

fn iperf_received(run: &Run, program: &str) -> Value {
    let printed = run.stdout(program);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let end = &printed["end"];
    if end["sum_received"].is_null() { end["sum"].clone() } else { end["sum_received"].clone() }
}
