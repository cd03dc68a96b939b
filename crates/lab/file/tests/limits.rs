//! Labs whose networks would take much memory.

use std::path::Path;
use std::time::{Duration, Instant};

use lab::{Code, Overrides, load, parse};

/// The only error of a lab, as message and help. The check must not build the network first.
fn limit_error(text: &str) -> String {
    let start = Instant::now();
    let found = parse("lab.toml", text, Path::new("")).expect_err("the lab is too large");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let [error] = found.list() else { panic!("{:?}", found.list()) };
    assert_eq!(error.code, Code::Limit, "{}", error.message);
    error.message.clone()
}

fn star(hosts: u32, prefix: &str) -> String {
    format!("[[generate]]\nkind = \"star\"\nhosts = {hosts}\nprefix = \"{prefix}\"\n")
}

#[test]
fn one_network_is_limited_before_it_is_made() {
    let start = Instant::now();
    assert_eq!(
        limit_error("[[generate]]\nkind = \"fat-tree\"\nk = 128\n"),
        "`fat-tree` has at least 2117632 nodes and links; the limit of all networks together is \
         1000000"
    );
    assert!(limit_error(&star(999_999, "")).starts_with("`star` has at least 1999999 nodes"));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn networks_are_limited_together() {
    let two = format!("{}{}", star(1_000, "a-"), star(499_999, "b-"));
    assert_eq!(
        limit_error(&two),
        "`star` has at least 999999 nodes and links, and the networks before it have 2001; the \
         limit of all networks together is 1000000"
    );
    let place = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(place.path().join("x.csv"), "a,b\nv,w\nw,x\nx,y\ny,z\n").expect("a new file");
    let lab = place.path().join("lab.toml");
    let import = "[[import]]\nfile = \"x.csv\"\nhosts = 100000\n";
    std::fs::write(&lab, format!("{}{import}", star(10, ""))).expect("a new file");
    let found = load(&lab, &Overrides::default()).expect_err("the lab is too large");
    let [error] = found.list() else { panic!("{:?}", found.list()) };
    assert_eq!(
        error.message,
        "`x.csv` has at least 1000009 nodes and links, and the networks before it have 21; the \
         limit of all networks together is 1000000"
    );
}

#[test]
fn runs_of_a_sweep_are_limited_together() {
    let star = star(50_000, "");
    let lab = format!("[lab]\nseed = {{ range = \"1..10000\", steps = 10000 }}\n{star}");
    assert_eq!(
        limit_error(&lab),
        "20 of 10000 runs have 2000020 nodes and links; the limit of all runs together is 2000000"
    );
}
