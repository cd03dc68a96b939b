//! Captures of simulated packets, read by tshark, and TCP events.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::bench::installed;
use super::cell::Cell;

const LAB: &str = "\
    lab = { name = \"seen\", duration = \"20 s\", capture = [\"a\", \"r.eth1\", \"b\"] }\n\
    node = { a = {}, r = { kind = \"router\" }, b = {} }\n\
    [[link]]\nends = [\"a\", \"r\"]\nrate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n\
    [[link]]\nends = [\"r\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"15 ms\"\nloss = \"0.5 %\"\n\
    queue = { kind = \"droptail\", limit = \"20 packets\" }\n\
    [[flow]]\nname = \"tcp\"\nfrom = \"a\"\nto = \"b\"\nsize = \"2 MB\"\n\
    [[flow]]\nname = \"tcp6\"\nfrom = \"b\"\nto = \"a\"\nsize = \"1 MB\"\nfamily = \"ipv6\"\n\
    [[flow]]\nname = \"udp\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\nrate = \"1 Mbit/s\"\n\
    packet = \"500 B\"\nduration = \"2 s\"\ndscp = 46\n";

/// A capture file of a run.
struct Capture(std::path::PathBuf);

impl Capture {
    /// Fields of the packets that match a filter.
    #[track_caller]
    fn fields(&self, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command.args(["-n", "-o", "ip.check_checksum:TRUE", "-r"]).arg(&self.0);
        command.args(["-Y", filter, "-T", "fields"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let row = |line: &str| line.split('\t').map(str::to_owned).collect();
        text.lines().map(row).collect()
    }

    #[track_caller]
    fn count(&self, filter: &str) -> usize {
        self.fields(filter, &["frame.number"]).len()
    }

    /// Sequence number and length of the data segments that match a filter.
    fn data(&self, filter: &str) -> Vec<(u64, u64)> {
        let filter = format!("({filter}) && tcp.len > 0");
        let rows = self.fields(&filter, &["tcp.seq", "tcp.len"]);
        let number = |text: &str| text.parse::<u64>().unwrap();
        rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
    }
}

fn run(cell: &Cell, lab: &str) -> Value {
    cell.write("seen.toml", lab);
    let (code, run) = cell.json(&["sim", "seen.toml", "--no-report", "--json"]);
    assert_eq!(code, Some(0), "{run:#}");
    run
}

fn flow<'a>(run: &'a Value, name: &str) -> &'a Value {
    run["flows"].as_array().unwrap().iter().find(|flow| flow["name"] == name).unwrap()
}

#[test]
fn captures_have_the_headers_of_simulated_packets() {
    if !installed("captures_have_the_headers_of_simulated_packets", &["tshark"]) {
        return;
    }
    let cell = Cell::new();
    let record = run(&cell, LAB);
    let folder = cell.runs("runs").remove(0);
    let [a, r, b] =
        ["a.eth0", "r.eth1", "b.eth0"].map(|name| Capture(folder.join(format!("{name}.pcapng"))));
    for capture in [&a, &r, &b] {
        assert_eq!(capture.count("_ws.malformed || ip.checksum.status == 0"), 0);
    }

    // Each byte arrives, and as many segments are sent again as the endpoints say.
    for (name, sent, received, size) in [
        ("tcp", (&a, "ip && tcp && !frame.comment"), (&b, "ip && tcp"), 2_000_000),
        ("tcp6", (&b, "ipv6 && tcp && !frame.comment"), (&a, "ipv6 && tcp"), 1_000_000),
    ] {
        let data = sent.0.data(sent.1);
        let distinct: BTreeSet<_> = data.iter().copied().collect();
        assert_eq!(distinct.iter().map(|(_, length)| length).sum::<u64>(), size, "{name}");
        let retransmits = flow(&record, name)["retransmits"].as_u64().unwrap();
        assert_eq!((data.len() - distinct.len()) as u64, retransmits, "{name}");
        let arrived: BTreeSet<_> = received.0.data(received.1).into_iter().collect();
        assert_eq!(arrived, distinct, "{name}");
        assert!(retransmits > 0 && received.0.count("tcp.options.sack.count > 0") > 0, "{name}");
    }

    // The handshake: 20 ms of delay, 40 B over 100 and 10 Mbit/s with 38 B of Ethernet.
    let syn = ["tcp.options.mss_val", "tcp.options.wscale.shift", "tcp.window_size_value"];
    let syns = a.fields("ip && tcp.flags.syn == 1 && tcp.flags.ack == 0", &syn);
    assert_eq!(syns, [["1448", "7", "65535"].map(str::to_owned).to_vec()]);
    let rtt = a.fields("ip && tcp.analysis.initial_rtt", &["tcp.analysis.initial_rtt"]);
    let rtt: f64 = rtt[0][0].parse().unwrap();
    assert!((0.040..0.0403).contains(&rtt), "{rtt} s");

    // Datagrams keep their length and their code point.
    let udp = ["ip.len", "udp.length", "ip.dsfield.dscp"];
    let datagrams = b.fields("udp", &udp);
    let sent = flow(&record, "udp")["sent_datagrams"].as_u64().unwrap();
    let lost = flow(&record, "udp")["lost_datagrams"].as_u64().unwrap();
    assert_eq!(datagrams.len() as u64, sent - lost);
    assert!(datagrams.iter().all(|row| row[..] == ["528", "508", "46"]), "{:?}", datagrams[0]);

    // Dropped packets have a comment.
    let drops = |why: &str| r.count(&format!("frame.comment contains \"{why}\"")) as u64;
    let link = record["links"]
        .as_array()
        .unwrap()
        .iter()
        .find(|link| link["name"] == "r-b" && link["direction"] == "up");
    let link = &link.unwrap()["drops"];
    assert_eq!(Some(drops("loss")), link["loss"].as_u64(), "{link}");
    assert_eq!(Some(drops("queue")), link["queue full"].as_u64(), "{link}");
}

#[test]
fn captures_do_not_change_a_run() {
    let cell = Cell::new();
    let without = LAB.replace(", capture = [\"a\", \"r.eth1\", \"b\"]", "");
    assert_ne!(without, LAB);
    for model in ["hop", "collapsed"] {
        let of = |lab: &str| {
            run(&cell, &lab.replacen("duration", &format!("model = \"{model}\", duration"), 1))
        };
        let [with, without] = [LAB, &without].map(of);
        assert_eq!(with["trace_hash"], without["trace_hash"], "{model}");
        assert_eq!(with["flows"], without["flows"], "{model}");
    }
}

#[test]
fn fluid_mode_has_no_captures() {
    let cell = Cell::new();
    let lab = LAB.replacen("duration", "model = \"fluid\", tcp_events = true, duration", 1);
    let record = run(&cell, &lab.replace("loss = \"0.5 %\"\n", ""));
    let warnings = record["warnings"].to_string();
    for what in ["captures", "TCP events"] {
        let text = format!("{what} are omitted: this model has no packets");
        assert!(warnings.contains(&text), "{warnings}");
    }
    assert!(!cell.runs("runs")[0].join("a.eth0.pcapng").exists());
}

/// The rows of a table of the only run, as maps from columns to values.
fn rows(cell: &Cell, table: &str) -> Vec<Value> {
    let run = cell.runs("runs").remove(0);
    let printed = cell.netarium(&["export", run.to_str().unwrap(), table, "--json"]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    printed.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn tcp_events_follow_the_window() {
    let cell = Cell::new();
    let lab = LAB.replace("lab = {", "lab = { tcp_events = [\"tcp\"],");
    let record = run(&cell, &lab.replace("size = \"2 MB\"", "size = \"2 MB\"\ncontrol = \"reno\""));
    let rows = rows(&cell, "tcp");
    let number =
        |row: &Value, column: &str| row[column].as_u64().unwrap_or_else(|| panic!("{row}"));
    assert!(rows.iter().all(|row| row["flow"] == "tcp" && row["end"] == "client"));
    assert!(rows.is_sorted_by_key(|row| number(row, "time_ns")));
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    // RFC 6928: ten segments, before the first acknowledgement.
    assert_eq!((number(first, "cwnd_bytes"), number(first, "acked_bytes")), (14_480, 0));
    assert!(first["ssthresh_bytes"].is_null() && first["rtt_ns"].is_null());
    assert!(number(first, "srtt_ns") > 40_000_000, "{first}");
    // The flow ends with the arrival of its last byte, before its acknowledgement.
    assert!((1_900_000..2_000_000).contains(&number(last, "acked_bytes")), "{last}");
    let retransmits = flow(&record, "tcp")["retransmits"].as_u64();
    assert_eq!((last["retransmits"].as_u64(), number(last, "connection")), (retransmits, 0));
    // Reno halves the window at a loss (RFC 5681 eq. 4), during a recovery the window to come.
    let mut reductions = 0;
    for pair in rows.windows(2) {
        let threshold = |row: &Value| row["ssthresh_bytes"].as_u64();
        if threshold(&pair[0]) != threshold(&pair[1]) {
            let window = threshold(&pair[0]).max(pair[0]["cwnd_bytes"].as_u64()).unwrap();
            assert_eq!(threshold(&pair[1]), Some(window / 2), "{pair:?}");
            reductions += 1;
        }
    }
    assert!(reductions > 1, "{reductions}");
    let least = rows.iter().filter_map(|row| row["rtt_ns"].as_u64()).min();
    assert!((40_000_000..42_000_000).contains(&least.unwrap()), "{least:?}");
}

#[test]
fn tcp_events_number_the_connections_of_a_flow() {
    let cell = Cell::new();
    let lab = LAB.replace("lab = {", "lab = { tcp_events = true,");
    let lab = lab.replace("size = \"2 MB\"", "size = \"20 kB\"\ncount = 5");
    run(&cell, &lab);
    let rows = rows(&cell, "tcp");
    let connections = |flow: &str| {
        let rows = rows.iter().filter(|row| row["flow"] == flow);
        rows.map(|row| row["connection"].as_u64().unwrap()).collect::<BTreeSet<_>>()
    };
    assert_eq!(connections("tcp"), (0..5).collect());
    assert_eq!(connections("tcp6"), [0].into());
    assert_eq!(connections("udp"), [].into());
}

#[test]
fn tcp_events_of_unknown_flows_are_an_error() {
    let cell = Cell::new();
    cell.write("seen.toml", &LAB.replace("lab = {", "lab = { tcp_events = [\"udp\"],"));
    let printed = cell.netarium(&["check", "seen.toml"]);
    assert_eq!(printed.code, Some(2));
    assert!(printed.err.contains("no flow over TCP is named `udp`"), "{}", printed.err);
}
