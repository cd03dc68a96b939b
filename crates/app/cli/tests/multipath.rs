//! Whole labs with flows over several paths: real kernels, real sockets, and the virtual clock.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

#[path = "programs/bench.rs"]
mod bench;

use bench::{Bench, Run, conclusive, number};

/// Two hosts and two links between them, of which one fails and comes back.
const NETWORK: &str = r#"
lab = { name = "paths", duration = "60 s" }
node = { client = {}, server = {} }
link = [
    { name = "left", ends = ["client", "server"], rate = "20 Mbit/s", delay = "5 ms" },
    { name = "right", ends = ["client", "server"], rate = "20 Mbit/s", delay = "5 ms" },
]
at = [
    { time = "500 ms", link = "left", down = true },
    { time = "1500 ms", link = "left", up = true },
]
"#;

/// Runs the network with these flows; returns the record and the run folder.
fn run(bench: &Bench, network: &str, flows: &str) -> (Value, PathBuf) {
    let run = bench.run(&format!("{network}{flows}"));
    // On a busy host the run may not be trusted, but its flows must still succeed.
    assert!(matches!(run.code, Some(0 | 3)), "{}", run.dump());
    assert!(bench.ps().is_empty(), "the lab is still there");
    (run.record().clone(), run.folder())
}

fn flow<'a>(record: &'a Value, name: &str) -> &'a Value {
    let flows = record["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["name"] == name).unwrap()
}

/// The links of a flow's paths, with the bytes received over each.
fn paths(flow: &Value) -> Vec<(&str, u64)> {
    let paths = flow["paths"].as_array().unwrap().iter();
    let path = |path: &'_ Value| path["received_bytes"].as_u64().unwrap();
    paths.map(|it| (it["link"].as_str().unwrap(), path(it))).collect()
}

fn has_mptcp() -> bool {
    fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|text| text.trim() == "1")
}

/// Streams over two paths of which one fails are delivered (a damaged flow has an error), and each
/// uses the requested paths, although all are between the same hosts.
#[test]
fn streams_survive_the_loss_of_a_path() {
    let name = "streams_survive_the_loss_of_a_path";
    let Some(bench) = Bench::for_labs(name) else { return };
    let kernels = [("kernel", "\"left\", \"right\""), ("one", "\"right\"")].map(|(name, via)| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n\
             transport = \"mptcp\"\nsize = \"2 MB\"\nvia = [{via}]\ncontrol = \"reno\"\n"
        )
    });
    let kernels = if has_mptcp() { kernels.concat() } else { String::new() };
    let flows = format!(
        "[[flow]]\nname = \"ours\"\nfrom = \"client\"\nto = \"server\"\ntransport = \"mctcp\"\n\
         size = \"8 MB\"\ncontrol = \"reno\"\n{kernels}"
    );
    // The link fails in the middle of the transfer, also if the flows begin a second late.
    let network = NETWORK.replace("20 Mbit/s", "10 Mbit/s");
    let network = network.replace("\"500 ms\"", "\"2 s\"").replace("\"1500 ms\"", "\"3 s\"");
    let (record, folder) = run(&bench, &network, &flows);
    for flow in record["flows"].as_array().unwrap() {
        assert!(flow["error"].is_null() && !flow["completion_s"].is_null(), "{flow}");
        assert_eq!(flow["received_bytes"], flow["sent_bytes"], "{flow}");
        assert!(flow["gap_s"].as_f64().unwrap() > 0.0, "{flow}");
    }
    let ours = flow(&record, "ours");
    assert_eq!(ours["received_bytes"], 8_000_000);
    // Both carried a fair share, so together they were faster than one.
    for (link, bytes) in paths(ours) {
        assert!(bytes > 400_000, "{link} carried {bytes} B");
    }
    assert_eq!(paths(ours).len(), 2, "{ours}");
    if has_mptcp() {
        let links = |name| paths(flow(&record, name)).iter().map(|it| it.0.to_owned()).collect();
        let kernel: Vec<String> = links("kernel");
        assert_eq!(kernel, ["left", "right"]);
        let one: Vec<String> = links("one");
        assert_eq!(one, ["right"]);
    }
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("ours: throughput of its paths"), "the report shows no paths");
    assert!(folder.join("subflows.parquet").is_file());
}

#[test]
fn transfers_and_requests_use_several_paths() {
    let Some(bench) = Bench::for_labs("transfers_and_requests_use_several_paths") else { return };
    let kinds: &[&str] = if has_mptcp() { &["mctcp", "mptcp"] } else { &["mctcp"] };
    let flows: Vec<String> = kinds
        .iter()
        .map(|kind| {
            let ends = format!("from = \"client\"\nto = \"server\"\ntransport = \"{kind}\"");
            format!(
                "[[flow]]\nname = \"{kind}-transfers\"\n{ends}\nsize = \"100 kB\"\ncount = 8\n\
                 arrivals = {{ every = \"50 ms\" }}\n\
                 [[flow]]\nname = \"{kind}-requests\"\n{ends}\nrequest = \"20 kB\"\n\
                 response = \"40 kB\"\ncount = 10\n"
            )
        })
        .collect();
    let (record, _) = run(&bench, NETWORK, &flows.concat());
    for kind in kinds {
        let transfers = flow(&record, &format!("{kind}-transfers"));
        if *kind == "mptcp" && !transfers["error"].is_null() {
            // The kernel decides how to use a dead path, but its failure must be reported.
            eprintln!("the kernel's transfers: {}", transfers["error"]);
            continue;
        }
        assert_eq!(transfers["transfers_completed"], 8, "{transfers}");
        assert_eq!(transfers["received_bytes"], 800_000, "{transfers}");
        let requests = flow(&record, &format!("{kind}-requests"));
        assert_eq!(requests["responses"], 10, "{requests}");
        assert_eq!(requests["received_bytes"], 400_000, "{requests}");
    }
}

/// An application with a rate below the capacity gets its rate.
#[test]
fn bulk_flows_respect_their_rate() {
    let Some(bench) = Bench::for_labs("bulk_flows_respect_their_rate") else { return };
    let flows: String = ["tcp", "mctcp"]
        .map(|kind| {
            format!(
                "[[flow]]\nname = \"{kind}\"\nfrom = \"client\"\nto = \"server\"\n\
                 transport = \"{kind}\"\nrate = \"2 Mbit/s\"\nsize = \"500 kB\"\n"
            )
        })
        .concat();
    let (record, _) = run(&bench, NETWORK, &flows);
    for kind in ["tcp", "mctcp"] {
        let flow = flow(&record, kind);
        assert_eq!(flow["received_bytes"], 500_000, "{flow}");
        // 2 s, and never faster than the rate.
        assert!(flow["completion_s"].as_f64().unwrap() > 1.99, "{flow}");
    }
}

/// Receivers that pause stop their senders, and receive everything once they read again.
#[test]
fn paused_receivers_get_all_bytes() {
    let Some(bench) = Bench::for_labs("paused_receivers_get_all_bytes") else { return };
    let kinds: &[&str] = if has_mptcp() { &["tcp", "mctcp", "mptcp"] } else { &["tcp", "mctcp"] };
    let flow_of = |kind: &&str| {
        format!(
            "[[flow]]\nname = \"{kind}\"\nfrom = \"client\"\nto = \"server\"\n\
             transport = \"{kind}\"\nsize = \"3 MB\"\nwindow = \"64 KiB\"\n\
             pause = [\"200 ms\", \"3200 ms\"]\n"
        )
    };
    let (record, _) = run(&bench, NETWORK, &kinds.iter().map(flow_of).collect::<String>());
    for kind in kinds {
        let flow = flow(&record, kind);
        assert!(flow["error"].is_null() && !flow["completion_s"].is_null(), "{flow}");
        assert_eq!(flow["received_bytes"], 3_000_000, "{flow}");
        assert!(flow["completion_s"].as_f64().unwrap() > 3.2, "{flow}");
        if *kind == "mctcp" {
            // The credit, twice the window, is used and not exceeded.
            let kept = flow["buffered_max_bytes"].as_u64().unwrap();
            assert!((100_000..=128 << 10).contains(&kept), "{flow}");
        }
        // The only sign of the pause is the gap.
        assert!(flow["gap_s"].as_f64().unwrap() > 1.9, "{flow}");
    }
}

#[test]
fn rejects_kernel_mptcp_on_the_virtual_clock() {
    let bench = Bench::new();
    let flow = "flow = [{ from = \"client\", to = \"server\", transport = \"mptcp\" }]\n";
    let lab = NETWORK.replacen("at = [", &format!("{flow}at = ["), 1);
    bench.write("lab.toml", &lab);
    let output = bench.netarium(&["sim", "lab.toml"]);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{wrong}");
    assert!(wrong.contains("netarium run"), "{wrong}");
}

/// Runs a lab of which the only flow must succeed; returns the run.
fn field_case(bench: &Bench, lab: &str) -> Run {
    let run = bench.run(lab);
    assert!(matches!(run.code, Some(0 | 1 | 3)), "{}", run.dump());
    assert!(run.record()["flows"][0]["error"].is_null(), "{}", run.dump());
    run
}

fn goodput_and_gap(run: &Run) -> (f64, f64) {
    let flow = &run.record()["flows"][0];
    (number(&flow["goodput_bit_per_s"]) / 1e6, number(&flow["gap_s"]))
}

#[test]
fn late_third_path_keeps_goodput_without_gaps() {
    let name = "late_third_path_keeps_goodput_without_gaps";
    let Some(bench) = Bench::for_labs(name) else { return };
    let lab = include_str!("field/c17-mctcp/two-up.toml").replace("40 s", "15 s");
    let lab = lab.replace("via = [\"adsl1\", \"adsl2\"]", "");
    conclusive(
        name,
        || field_case(&bench, &lab),
        |run| {
            // 0.941 of 30 Mbit/s are payload; the first second is slow start.
            let (rate, gap) = goodput_and_gap(run);
            let is_right = rate >= 0.9 * 28.2 && gap <= 0.3;
            if is_right { Ok(()) } else { Err(format!("{rate} Mbit/s, {gap} s")) }
        },
    );
}

#[test]
fn path_return_with_backup_causes_no_gap() {
    let name = "path_return_with_backup_causes_no_gap";
    let Some(bench) = Bench::for_labs(name) else { return };
    let (lab, _) = include_str!("field/c25-backup/lab.toml").split_once("[[expect]]").unwrap();
    let lab = lab.replace("10 s", "4 s").replace("18 s", "7 s").replace("30 s", "12 s");
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for control in known.split_whitespace().filter(|control| ["bbr", "cubic"].contains(control)) {
        let lab = lab.replace("cubic", control);
        conclusive(
            name,
            || field_case(&bench, &lab),
            |run| {
                let (_, gap) = goodput_and_gap(run);
                if gap <= 0.7 { Ok(()) } else { Err(format!("{control}: {gap} s")) }
            },
        );
    }
}
