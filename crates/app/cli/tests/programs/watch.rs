//! The live view: `watch`, `run --watch`, `up --watch`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

use super::bench::{Bench, TEST_TIMEOUT, requires_labs, signal};

/// A flow that fills a link of 10 Mbit/s, and a program.
pub(super) const LAB: &str = r#"
[lab]
name = "pair"
duration = "3 s"
[node.a]
[node.b]
[[link]]
name = "wire"
ends = ["a", "b"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
name = "bulk"
from = "a"
to = "b"
[[program]]
name = "server"
node = "b"
run = "while :; do sleep 1; done"
service = true
"#;

/// The lab without its program, for the virtual clock.
pub(super) fn lab_of_flows() -> &'static str {
    LAB.split("[[program]]").next().unwrap()
}

/// A server of the live view. Dropping it ends it.
struct View {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
    cookie: String,
}

impl View {
    /// Starts a command that prints the URL, and uses the URL.
    #[track_caller]
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let mut command = bench.command(&[args, &["--json"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let url = loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "{args:?} printed no URL");
            let line: Value = serde_json::from_str(&line).unwrap();
            if let Some(url) = line["url"].as_str() {
                break url.to_owned();
            }
        };
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let address = address.to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let cookie = response.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { child, out, address, cookie }
    }

    fn connect(&self) -> Client {
        self.connect_to("ws")
    }

    fn connect_to(&self, path: &str) -> Client {
        let mut request = format!("ws://{}/{path}", self.address).into_client_request().unwrap();
        let origin = format!("http://{}", self.address);
        request.headers_mut().insert("cookie", self.cookie.parse().unwrap());
        request.headers_mut().insert("origin", origin.parse().unwrap());
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        Client(tungstenite::client(request, stream).unwrap().0)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(WebSocket<TcpStream>);

impl Client {
    fn next(&mut self) -> Value {
        let message = self.0.read().unwrap();
        serde_json::from_str(message.to_text().unwrap())
            .unwrap_or_else(|e| panic!("{e}: {message:?}"))
    }

    fn send(&mut self, request: &Value) {
        self.0.send(Message::text(request.to_string())).unwrap();
    }

    /// The output of a terminal until its connection is closed, and the reason.
    fn output(&mut self) -> (String, String) {
        let mut output = Vec::new();
        loop {
            match self.0.read().unwrap() {
                Message::Binary(bytes) => output.extend_from_slice(&bytes),
                Message::Close(frame) => {
                    let output = String::from_utf8_lossy(&output).into_owned();
                    return (output, frame.unwrap().reason.to_string());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The messages up to the first one for which `is_last` holds.
    fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.next());
            if is_last(messages.last().unwrap()) {
                return messages;
            }
        }
    }
}

fn has_type(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |message| message["type"] == kind
}

/// Payload bytes of a flow in frames: goodput × length / 8.
fn payload(frames: &[Value], flow: u64) -> f64 {
    let rows = frames.iter().flat_map(|frame| {
        let rows = frame["flows"].as_array().into_iter().flatten();
        rows.map(|row| (row, frame["span"].as_f64().unwrap()))
    });
    let rows = rows.filter(|(row, _)| row[0] == flow);
    rows.map(|(row, span)| row[1].as_f64().unwrap() * span / 8.0).sum()
}

/// Wire bytes and dropped packets of each link direction in frames.
fn link_sums(frames: &[Value]) -> BTreeMap<(u64, usize), (f64, u64)> {
    let mut sums = BTreeMap::new();
    for frame in frames {
        for row in frame["links"].as_array().into_iter().flatten() {
            for direction in 0..2 {
                let sum: &mut (f64, u64) =
                    sums.entry((row[0].as_u64().unwrap(), direction)).or_default();
                let first = 1 + 4 * direction;
                sum.0 += row[first].as_f64().unwrap() * frame["span"].as_f64().unwrap() / 8.0;
                sum.1 += row[first + 2].as_u64().unwrap();
            }
        }
    }
    sums
}

#[test]
fn shows_and_changes_a_lab_until_its_end() {
    requires_labs!();
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    let up = bench.netarium(&["up", "pair.toml", "--json"]);
    let up: Value = serde_json::from_slice(&up.stdout).unwrap();
    let view = View::start(&bench, &["watch", "pair", "--no-open"]);
    let mut messages = Vec::new();
    let mut client = view.connect();
    let hello = client.next();
    assert_lab_described(&hello, &up);
    // The state of all programs comes first.
    let state = client.next();
    assert_eq!(state["programs"][0][0], 0, "{state}");
    let mut before = Vec::new();
    while before.iter().filter(|frame: &&Value| !frame["flows"][0].is_null()).count() < 14 {
        before.push(client.next());
    }
    let set = json!({"type": "set", "id": 7, "fields": [["link.wire.up.rate", "5 Mbit/s"]]});
    client.send(&set);
    messages.extend(client.until(has_type("answer")));
    let answer = messages.last().unwrap();
    assert_eq!((&answer["id"], &answer["ok"]), (&7.into(), &true.into()), "{answer}");
    assert_eq!(answer["events"], json!(["link wire up: rate 5 Mbit/s"]));
    let changes = |frame: &Value| frame["changes"].is_array();
    messages.extend(client.until(changes));
    assert_change_shown(messages.last().unwrap());
    let wrong = json!({"type": "set", "id": 8, "fields": [["link.wire.los", "5 %"]]});
    client.send(&wrong);
    messages.extend(client.until(has_type("answer")));
    let answer = messages.last().unwrap();
    assert_eq!(answer["ok"], false, "{answer}");
    assert!(answer["errors"][0]["help"].as_str().unwrap().contains("did you mean"), "{answer}");
    // A later watcher gets the change with the state.
    let mut late = view.connect();
    assert_eq!(late.next()["type"], "hello");
    assert_change_shown(&late.next());
    let down = bench.netarium(&["down", "pair", "--json"]);
    let down: Value = serde_json::from_slice(&down.stdout).unwrap();
    messages.extend(client.until(has_type("end")));
    let end = messages.last().unwrap();
    assert_eq!(end["outcome"], down["labs"][0]["outcome"], "{end} {down}");
    late.until(has_type("end"));
    assert_finished_lab_shown(&view, &up);
    if end["outcome"] == "passed" {
        assert_goodput_of_link(&before);
    }
    signal(view.child.id(), "-INT");
}

#[test]
fn terminal_runs_shell_on_host_until_it_or_the_lab_ends() {
    requires_labs!();
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    bench.netarium(&["up", "pair.toml"]);
    let view = View::start(&bench, &["watch", "pair", "--no-open"]);
    let mut terminal = view.connect_to("terminal");
    terminal.send(&json!({"type": "open", "host": "a", "columns": 91, "rows": 17}));
    let input = |text: &str| Message::binary(text.as_bytes().to_vec());
    let command = "echo $(uname -n) $(stty size) $TERM $NETARIUM_LAB; ping -c 1 b; exit 5\r";
    terminal.0.send(input(command)).unwrap();
    let (output, reason) = terminal.output();
    assert!(output.contains("a 17 91 xterm-256color pair"), "{output}");
    assert!(output.contains("1 packets transmitted, 1 received"), "{output}");
    assert_eq!(reason, "the shell ended with exit status 5", "{output}");
    let mut terminal = view.connect_to("terminal");
    terminal.send(&json!({"type": "open", "host": "a", "columns": 80, "rows": 24}));
    terminal.0.send(input("echo up; exec sleep 1000\r")).unwrap();
    bench.netarium(&["down", "pair"]);
    let (output, reason) = terminal.output();
    assert!(reason.starts_with("the shell ended with exit status"), "{reason} {output}");
    signal(view.child.id(), "-INT");
}

/// Checks the mean goodput before the change and after slow start. A segment has 1,448 B of payload
/// and 1,538 B on the wire: 94.1 % of 10 Mbit/s. A sample may be in the next frame, so both ends of
/// the time have an error of one frame in ten.
fn assert_goodput_of_link(frames: &[Value]) {
    let flows = frames.iter().filter(|frame| !frame["flows"][0].is_null());
    let steady: Vec<Value> = flows.skip(4).cloned().collect();
    let seconds: f64 = steady.iter().map(|frame| frame["span"].as_f64().unwrap()).sum();
    let goodput = payload(&steady, 0) * 8.0 / seconds;
    assert!(steady.len() >= 10 && (8.2e6..=1.06e7).contains(&goodput), "{goodput}");
}

fn assert_lab_described(hello: &Value, up: &Value) {
    assert_eq!((&hello["type"], &hello["schema"]), (&"hello".into(), &"netarium.watch/1".into()));
    assert_eq!((&hello["lab"], &hello["run"]), (&"pair".into(), &up["folder"]));
    assert_eq!((&hello["source"], &hello["clock"]), (&"live".into(), &"wall".into()));
    assert_eq!(hello["duration_s"], Value::Null);
    assert_eq!(hello["commands"], json!(["set", "mark", "terminal"]));
    let link = &hello["links"][0];
    assert_eq!((&link["name"], &link["ends"]), (&"wire".into(), &json!([0, 1])));
    assert_eq!((&link["rate_bps"], &link["up"]), (&json!([1e7, 1e7]), &true.into()));
    assert_eq!(
        (&hello["flows"][0]["name"], &hello["flows"][0]["path"]),
        (&"bulk".into(), &json!([[0, 0]]))
    );
    assert_eq!(hello["programs"], json!([{"name": "server", "node": 1}]));
}

fn assert_change_shown(frame: &Value) {
    let change = &frame["changes"][0];
    assert_eq!((&change["link"], &change["rate_bps"]), (&0.into(), &json!([5e6, 1e7])), "{frame}");
    assert_eq!(frame["events"][0]["text"], "link wire up: rate 5 Mbit/s", "{frame}");
}

/// Checks that a page that is loaded after the end shows the results of the run.
fn assert_finished_lab_shown(view: &View, up: &Value) {
    let mut client = view.connect();
    let hello = client.next();
    assert_eq!(hello["source"], "finished");
    let frames = client.until(has_type("end"));
    let record =
        fs::read_to_string(format!("{}/run.json", up["folder"].as_str().unwrap())).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let received = record["flows"][0]["received_bytes"].as_f64().unwrap();
    assert!((payload(&frames, 0) - received).abs() < 1.0, "{received}");
    let changed = frames.iter().find(|frame| frame["changes"].is_array()).expect("a change");
    assert_change_shown(changed);
    assert_eq!(frames.last().unwrap()["outcome"], record["outcome"]);
}

/// Frames of a run on the virtual clock, whose numbers are exact.
#[test]
fn frames_of_a_finished_run_sum_to_its_totals() {
    let bench = Bench::new();
    let lab = lab_of_flows();
    let event = "[[at]]\ntime = \"1 s\"\nlink = \"wire\"\nset = { delay = \"9 ms\" }\n";
    bench.write("pair.toml", &format!("{lab}{event}"));
    let sim = bench.netarium(&["sim", "pair.toml", "--json", "--set", "lab.interval='1 ms'"]);
    let record: Value = serde_json::from_slice(&sim.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&sim.stderr)));
    let view = View::start(&bench, &["watch", record["folder"].as_str().unwrap()]);
    let mut client = view.connect();
    let hello = client.next();
    assert_eq!((&hello["source"], &hello["clock"]), (&"finished".into(), &"virtual".into()));
    assert_eq!(hello["duration_s"], record["elapsed_s"]);
    let mut frames = client.until(has_type("end"));
    let end = frames.pop().unwrap();
    assert_eq!((&end["outcome"], &end["exit_code"]), (&record["outcome"], &0.into()));
    // 3,000 samples of 1 ms are 1,500 frames of 2 ms.
    assert_eq!((frames.len(), &hello["interval_s"]), (1_500, &0.002.into()));
    let received = record["flows"][0]["received_bytes"].as_f64().unwrap();
    assert!((payload(&frames, 0) - received).abs() < 1.0, "{received}");
    let sums = link_sums(&frames);
    for (direction, link) in record["links"].as_array().unwrap().iter().enumerate() {
        let (bytes, dropped) = sums[&(0, direction)];
        assert!((bytes - link["sent_bytes"].as_f64().unwrap()).abs() < 1.0, "{link}");
        let drops = link["drops"].as_object().unwrap().values();
        assert_eq!(dropped, drops.map(|count| count.as_u64().unwrap()).sum::<u64>());
    }
    let changed = frames.iter().find(|frame| frame["changes"].is_array()).unwrap();
    assert_eq!(
        (&changed["t"], &changed["changes"][0]["delay_s"]),
        (&1.0.into(), &json!([0.009, 0.009]))
    );
    client.send(&json!({"type": "mark", "id": 1, "text": "x"}));
    assert_eq!(client.next()["errors"][0]["message"], "the run has ended");
}

/// A lab of each system, its kind, and plots that have values.
const SYSTEMS: [(&str, &str, &[&str]); 4] = [
    (
        r#"
        lab = { name = "shares", duration = "3 s", model = "collapsed" }
        node = { a = {}, b = {} }
        link = [{ ends = ["a", "b"], rate = "5 Mbit/s", delay = "5 ms" }]
        flow = [{ from = "a", to = "b" }]
        "#,
        "shares",
        &["Share of the path", "Sent"],
    ),
    (
        r#"
        lab = { name = "control", duration = "1 s" }
        node = { a = {}, b = {} }
        link = [{ ends = ["a", "b"], rate = "5 Mbit/s", delay = "5 ms" }]
        flow = [{ from = "a", to = "b", transport = "udp", control = "slbn", packet = "1472 B" }]
        "#,
        "rate control",
        &["Error of assigned rates against max-min rates", "Packets on all links", "Sessions"],
    ),
    (
        r#"
        lab = { name = "bundle", duration = "3 s" }
        node = { a = {}, b = {}, s = { kind = "sendbox" }, r = { kind = "receivebox" } }
        link = [
            { ends = ["a", "s"] },
            { ends = ["s", "r"], rate = "5 Mbit/s", delay = "5 ms" },
            { ends = ["r", "b"] },
        ]
        bundle = [{ name = "site", from = "s", to = "r" }]
        flow = [{ from = "a", to = "b" }]
        "#,
        "bundler",
        &["Queueing delay", "Rate", "Queue at the sendbox"],
    ),
    (
        r#"
        lab = { name = "paths", duration = "3 s" }
        node = { a = {}, b = {} }
        link = [
            { name = "left", ends = ["a", "b"], rate = "5 Mbit/s", delay = "5 ms" },
            { name = "right", ends = ["a", "b"], rate = "5 Mbit/s", delay = "5 ms" },
        ]
        flow = [{ from = "a", to = "b", transport = "mctcp" }]
        "#,
        "mctcp",
        &["Received by path", "RTT by path", "Received out of order"],
    ),
];

/// The titles of plots with values, and the last state. A long frame has no other.
fn seen(hello: &Value, frames: &[Value]) -> (Vec<String>, Option<Value>) {
    let plots = hello["systems"].as_array().unwrap().iter();
    let plots = plots.flat_map(|system| system["plots"].as_array().unwrap());
    let series = plots.flat_map(|plot| {
        plot["series"].as_array().unwrap().iter().map(|_| plot["title"].as_str().unwrap())
    });
    let series: Vec<&str> = series.collect();
    let rows = frames.iter().flat_map(|frame| frame["series"].as_array().into_iter().flatten());
    let titles = rows.map(|row| series[row[0].as_u64().unwrap() as usize].to_owned());
    let mut titles: Vec<String> = titles.collect();
    titles.sort_unstable();
    titles.dedup();
    let states = frames.iter().flat_map(|frame| frame["states"].as_array().into_iter().flatten());
    (titles, states.last().map(|row| row[1].clone()))
}

#[test]
fn frames_of_live_and_finished_runs_have_series_of_systems() {
    for (lab, kind, plots) in SYSTEMS {
        let bench = Bench::new();
        bench.write("lab.toml", lab);
        let mut view = View::start(&bench, &["sim", "lab.toml", "--watch"]);
        let mut client = view.connect();
        let hello = client.next();
        client.send(&json!({"type": "clock", "id": 1, "do": "speed", "permille": null}));
        let live = seen(&hello, &client.until(has_type("end")));
        let mut rest = String::new();
        view.out.read_to_string(&mut rest).unwrap();
        let record: Value = serde_json::from_str(&rest).unwrap_or_else(|e| panic!("{e}: {rest}"));
        assert_eq!(hello["systems"][0]["kind"], kind);
        for plot in plots {
            assert!(live.0.iter().any(|seen| seen == plot), "{kind}, {plot}: {:?}", live.0);
        }
        let view = View::start(&bench, &["watch", record["folder"].as_str().unwrap()]);
        let mut client = view.connect();
        assert_eq!(client.next()["systems"], hello["systems"]);
        assert_eq!(seen(&hello, &client.until(has_type("end"))), live, "{kind}");
    }
}

#[test]
fn watcher_controls_pace_of_virtual_run() {
    let bench = Bench::new();
    bench.write("pair.toml", lab_of_flows());
    let mut view = View::start(&bench, &["sim", "pair.toml", "--watch"]);
    let mut client = view.connect();
    let hello = client.next();
    assert_eq!((&hello["source"], &hello["clock"]), (&"live".into(), &"virtual".into()));
    assert_eq!(hello["commands"], json!(["clock", "mark", "set"]));
    let change = |client: &mut Client, change: Value| {
        let mut request = json!({"type": "clock", "id": 1});
        request.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        client.send(&request);
    };
    let is_paused = |message: &Value| message["is_paused"] == true;
    change(&mut client, json!({"do": "pause"}));
    let paused = client.until(is_paused).pop().unwrap();
    change(&mut client, json!({"do": "step", "ns": 250_000_000}));
    let end = paused["now"].as_f64().unwrap() + 0.25;
    let is_there = |message: &Value| message["now"].as_f64().is_some_and(|now| now >= end - 1e-10);
    let there = client.until(is_there).pop().unwrap();
    assert!((there["now"].as_f64().unwrap() - end).abs() < 1e-9, "{there} {end}");
    change(&mut client, json!({"do": "speed", "permille": null}));
    change(&mut client, json!({"do": "resume"}));
    let end = client.until(has_type("end")).pop().unwrap();
    let mut rest = String::new();
    view.out.read_to_string(&mut rest).unwrap();
    let record: Value = serde_json::from_str(&rest).unwrap_or_else(|e| panic!("{e}: {rest}"));
    assert_eq!((&end["outcome"], &end["t"]), (&record["outcome"], &3.0.into()));
    assert_eq!(view.child.wait().unwrap().code(), Some(0));
    let alone = bench.netarium(&["sim", "pair.toml", "--json"]);
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!(record["trace_hash"], alone["trace_hash"]);
    assert_eq!(record["flows"], alone["flows"]);
}

#[test]
fn virtual_run_ends_after_last_page_or_signal() {
    let bench = Bench::new();
    bench.write("pair.toml", lab_of_flows());
    let mut waiting = View::start(&bench, &["sim", "pair.toml", "--watch"]);
    signal(waiting.child.id(), "-INT");
    let mut rest = String::new();
    waiting.out.read_to_string(&mut rest).unwrap();
    let record: Value = serde_json::from_str(&rest).unwrap_or_else(|e| panic!("{e}: {rest}"));
    assert_eq!((&record["status"], &record["elapsed_s"]), (&"interrupted".into(), &0.0.into()));
    let mut closed = View::start(&bench, &["sim", "pair.toml", "--watch"]);
    let mut client = closed.connect();
    assert_eq!(client.next()["type"], "hello");
    client.send(&json!({"type": "clock", "id": 1, "do": "pause"}));
    client.until(|message| message["is_paused"] == true);
    drop(client);
    assert_eq!(closed.child.wait().unwrap().code(), Some(0));
}

#[test]
fn run_with_live_view_ends_without_a_terminal() {
    requires_labs!();
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    let mut view = View::start(&bench, &["run", "pair.toml", "--watch"]);
    let mut client = view.connect();
    let messages = client.until(has_type("end"));
    assert_eq!(messages[0]["type"], "hello");
    assert_eq!(messages[0]["duration_s"], 3.0);
    let mut rest = String::new();
    view.out.read_to_string(&mut rest).unwrap();
    let record: Value = serde_json::from_str(&rest).unwrap_or_else(|e| panic!("{e}: {rest}"));
    assert_eq!(record["status"], "finished");
    assert!(matches!(view.child.wait().unwrap().code(), Some(0 | 3)));
}

#[test]
fn lab_with_live_view_stays_up_after_the_view() {
    requires_labs!();
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    let mut view = View::start(&bench, &["up", "pair.toml", "--watch"]);
    signal(view.child.id(), "-INT");
    assert_eq!(view.child.wait().unwrap().code(), Some(0));
    assert_eq!(bench.ps()[0]["state"], "up");
    let down = bench.netarium(&["down", "pair"]);
    assert!(down.status.success());
}

#[test]
fn rejects_unsupported_runs_of_watch() {
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    let lab = lab_of_flows();
    bench.write("sweep.toml", &lab.replace("\"5 ms\"", "{ sweep = [\"1 ms\", \"2 ms\"] }"));
    for (args, part) in [
        (&["watch", "other"][..], "or give the folder of a run"),
        (&["watch", "."], "is not a run folder"),
        (&["run", "pair.toml", "pair.toml", "--watch"], "--watch shows one lab"),
        (&["run", "pair.toml", "--watch", "--copies", "2"], "cannot be used with"),
        (&["sim", "pair.toml", "--watch", "--seeds", "2"], "cannot be used with"),
        (&["sim", "sweep.toml", "--watch"], "--watch shows one run, and the lab has 2"),
    ] {
        let output = bench.netarium(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(part), "{args:?}: {text}");
    }
}
