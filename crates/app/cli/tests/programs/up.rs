//! Labs that stay up: `up`, `exec`, `set`, `mark`, `ps`, `down`.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use super::bench::{Bench, processes, requires_labs, signal, until};

/// A lab of 1 s with a program that is ready after 300 ms, and one that ends immediately.
const LAB: &str = r#"
[lab]
name = "pair"
duration = "1 s"
seed = 7
record = true
[node.a]
address = "10.9.0.1/24"
[node.b]
address = "10.9.0.2/24"
[[link]]
name = "wire"
ends = ["a", "b"]
delay = "1 ms"
[[program]]
name = "server"
node = "b"
run = "sleep 0.3; env > seen; while :; do sleep 1; done"
ready = "command \"test -e seen\""
service = true
[[program]]
name = "short"
node = "a"
run = "true"
[[at]]
time = "500 ms"
link = "wire"
set = { delay = "2 ms" }
"#;

/// A bench whose labs end with it.
pub(super) struct Home(pub(super) Bench);

impl Home {
    pub(super) fn new(lab: &str) -> Self {
        let bench = Bench::new();
        bench.write("pair.toml", lab);
        Self(bench)
    }

    /// The JSON object that a command prints, which must succeed.
    #[track_caller]
    pub(super) fn object(&self, args: &[&str]) -> Value {
        let output = self.0.netarium(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", printed(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.0.netarium(&["down", "--all"]);
    }
}

fn printed(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?} {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn read(folder: &Value, name: &str) -> String {
    let path = PathBuf::from(folder.as_str().unwrap()).join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn applies_changes_until_down() {
    requires_labs!("ping");
    let home = Home::new(LAB);
    let up = home.object(&["up", "pair.toml"]);
    assert_hosts_and_variables(&home, &up);
    let again = home.0.netarium(&["up", "pair.toml"]);
    assert_eq!(again.status.code(), Some(2), "{}", printed(&again));
    assert!(printed(&again).contains("netarium down pair"), "{}", printed(&again));
    change_links(&home, &up);
    let down = home.object(&["down", "pair"]);
    let ended = &down["labs"][0];
    assert_eq!((&ended["how"], &ended["folder"]), (&"ended".into(), &up["folder"]));
    assert!(matches!(ended["outcome"].as_str(), Some("passed" | "untrusted")), "{ended}");
    assert!(PathBuf::from(ended["report"].as_str().unwrap()).is_file(), "{ended}");
    assert!(home.0.ps().is_empty());
    let record: Value = serde_json::from_str(&read(&up["folder"], "run.json")).unwrap();
    assert_eq!(record["status"], "finished");
    assert!(record["elapsed_s"].as_f64().unwrap() > 1.0, "{}", record["elapsed_s"]);
    let events: Vec<&str> =
        record["events"].as_array().unwrap().iter().map(|e| e["text"].as_str().unwrap()).collect();
    let expected = [
        "link wire up: delay 2 ms",
        "link wire down: delay 2 ms",
        "link wire up: loss 100 %",
        "link wire down: loss 100 %",
        "link wire up: rate 50 Mbit/s, loss 0 %",
        "link wire down: loss 0 %",
        "link wire goes down",
        "link wire comes up",
        "program server is stopped",
        "program server starts",
        "mark: second part",
    ];
    assert_eq!(events, expected);
    assert!(read(&up["folder"], "log.jsonl").contains("mark: second part"));
    assert!(read(&up["folder"], "report.html").contains("mark: second part"));
    let files: Vec<_> = fs::read_dir(home.0.path().join("netarium")).unwrap().collect();
    assert!(files.iter().all(|file| file.as_ref().unwrap().file_name() == ".lock"), "{files:?}");
    let replay = home.object(&["replay", up["folder"].as_str().unwrap()]);
    assert_eq!(replay["identical"], true, "{replay:#}");
}

/// Checks the answer of `up`, the variables of programs, and the list of labs.
fn assert_hosts_and_variables(home: &Home, up: &Value) {
    assert_eq!((&up["schema"], &up["name"]), (&"netarium.up/1".into(), &"pair".into()));
    let hosts = json!([
        {"name": "a", "addresses": ["10.9.0.1/24"]}, {"name": "b", "addresses": ["10.9.0.2/24"]},
    ]);
    let addresses = up["hosts"].as_array().unwrap().iter().map(|host| {
        let v4 = host["addresses"][0].clone();
        json!({"name": host["name"], "addresses": [v4]})
    });
    assert_eq!(addresses.collect::<Value>(), hosts);
    // The program was ready before `up` returned.
    let seen = fs::read_to_string(home.0.path().join("seen")).unwrap();
    let folder = up["folder"].as_str().unwrap();
    let expected = |node: &str| {
        [
            "NETARIUM_LAB=pair".to_owned(),
            format!("NETARIUM_NODE={node}"),
            format!("NETARIUM_RUN_DIR={folder}"),
            "NETARIUM_SEED=7".to_owned(),
        ]
    };
    let env = String::from_utf8(home.0.exec("pair", "a", &["env"]).stdout).unwrap();
    for (text, node) in [(&seen, "b"), (&env, "a")] {
        for line in expected(node) {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
    let listed = home.0.ps();
    assert_eq!((&listed[0]["state"], &listed[0]["id"]), (&"up".into(), &up["id"]));
}

/// Changes the link and marks a time while the lab runs.
fn change_links(home: &Home, up: &Value) {
    let ping = || home.0.exec("pair", "a", &["ping", "-n", "-c1", "-W1", "10.9.0.2"]);
    // After the event of the file, which precedes all changes.
    until("the event", || read(&up["folder"], "log.jsonl").contains("delay 2 ms").then_some(()));
    assert_eq!(ping().status.code(), Some(0), "{}", printed(&ping()));
    let set = home.object(&["set", "pair", "link.wire.loss=100 %"]);
    assert_eq!(set["events"], json!(["link wire up: loss 100 %", "link wire down: loss 100 %"]));
    assert_eq!(ping().status.code(), Some(1), "{}", printed(&ping()));
    home.object(&["set", "pair", "link.wire.loss=0 %", "link.wire.up.rate=50 Mbit/s"]);
    assert_eq!(ping().status.code(), Some(0), "{}", printed(&ping()));
    home.object(&["set", "pair", "link.wire.state=down"]);
    assert_ne!(ping().status.code(), Some(0), "{}", printed(&ping()));
    home.object(&["set", "pair", "link.wire.state=up"]);
    assert_eq!(ping().status.code(), Some(0), "{}", printed(&ping()));
    let same = home.object(&["set", "pair", "link.wire.delay=2 ms"]);
    assert_eq!(same["events"], json!([]));
    stop_and_start_program(home);
    let mark = home.object(&["mark", "pair", "second part"]);
    assert_eq!(mark["text"], "second part");
    assert_eq!(home.0.exec("pair", "a", &["sh", "-c", "exit 9"]).status.code(), Some(9));
}

fn stop_and_start_program(home: &Home) {
    let set = |action: &str| home.object(&["set", "pair", &format!("program.server={action}")]);
    let refused = |field: &str| {
        let output = home.0.netarium(&["set", "pair", "link.wire.delay=9 ms", field]);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        printed(&output)
    };
    assert!(refused("program.server=start").contains("program server runs already"));
    assert!(refused("program.short=stop").contains("program short has ended already"));
    let seen = home.0.path().join("seen");
    fs::remove_file(&seen).unwrap();
    assert_eq!(set("stop")["events"], json!(["program server is stopped"]));
    // It starts after its end.
    assert_eq!(set("start")["events"], json!(["program server starts"]));
    until("the program", || seen.exists().then_some(()));
}

#[test]
fn reports_invalid_changes_like_lab_errors() {
    requires_labs!();
    let late = "[[program]]\nname = \"late\"\nnode = \"a\"\nrun = \"true\"\nstart = \"59 min\"\n";
    let home = Home::new(&(LAB.replace("\"1 s\"", "\"1 h\"") + late));
    home.object(&["up", "pair.toml"]);
    for (field, code, help) in [
        ("link.wire.los=1 %", "lab::E0002", "did you mean `loss`?"),
        ("link.wire.loss=0.01", "lab::E0005", "\"1 %\""),
        ("link.wires.loss=1 %", "lab::E0010", "did you mean `wire`?"),
        ("node.a.kind=router", "lab::E0031", "link.NAME.KEY"),
        ("program.serve=stop", "lab::E0010", "did you mean `server`?"),
        ("program.server=restart", "lab::E0007", "`stop`, `start`, `kill`"),
    ] {
        let text = home.0.netarium(&["set", "pair", "link.wire.delay=3 ms", field]);
        assert_eq!(text.status.code(), Some(2), "{}", printed(&text));
        assert!(text.stdout.is_empty(), "{}", printed(&text));
        for part in [code, help, "netarium set:2:"] {
            assert!(printed(&text).contains(part), "{part} in {}", printed(&text));
        }
        let json = home.0.netarium(&["set", "pair", field, "--json"]);
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&json["ok"], &json["errors"][0]["code"]), (&false.into(), &code.into()));
    }
    let early = home.0.netarium(&["set", "pair", "link.wire.delay=3 ms", "program.late=stop"]);
    assert_eq!(early.status.code(), Some(2), "{}", printed(&early));
    assert!(
        printed(&early).contains("pair: program late has not started yet"),
        "{}",
        printed(&early)
    );
    assert_eq!(home.0.netarium(&["mark", "pair", "a\nb"]).status.code(), Some(2));
    assert_eq!(home.0.netarium(&["set", "other", "link.wire.loss=1 %"]).status.code(), Some(2));
    // The valid field beside a wrong one has not changed the link.
    let down = home.object(&["down", "--all"]);
    let record: Value =
        serde_json::from_str(&read(&down["labs"][0]["folder"], "run.json")).unwrap();
    assert!(!record["events"].to_string().contains("delay 3 ms"), "{}", record["events"]);
}

#[test]
fn returns_error_of_failed_start() {
    requires_labs!();
    let broken = LAB.replace("sleep 0.3; env > seen;", "echo no config >&2; exit 3;");
    let home = Home::new(&broken);
    for (args, words, code) in [
        (&["up", "pair.toml"][..], "no config", 5),
        (&["up", "pair.toml", "--set", "link.wire.los=1 %"], "loss", 2),
        (&["up", "missing.toml"], "missing.toml", 2),
    ] {
        let output = home.0.netarium(args);
        assert_eq!(output.status.code(), Some(code), "{}", printed(&output));
        assert!(
            output.stdout.is_empty() && printed(&output).contains(words),
            "{}",
            printed(&output)
        );
    }
    let json = home.0.netarium(&["up", "pair.toml", "--json"]);
    assert_eq!(json.status.code(), Some(5), "{}", printed(&json));
    assert!(serde_json::from_slice::<Value>(&json.stdout).is_ok(), "{}", printed(&json));
    assert!(home.0.ps().is_empty());
    let left = fs::read_dir(home.0.path().join("runs")).unwrap();
    let left = left.filter(|file| file.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
    assert_eq!(left.count(), 0);
}

#[test]
fn ends_after_a_given_duration() {
    requires_labs!();
    let home = Home::new(LAB);
    let up = home.object(&["up", "pair.toml", "--duration", "2 s"]);
    until("the lab to end", || home.0.ps().is_empty().then_some(()));
    let record = || serde_json::from_str::<Value>(&read(&up["folder"], "run.json")).unwrap();
    assert_eq!(record()["status"], "finished");
    assert!(record()["repeat"].as_str().unwrap().starts_with("netarium up pair.toml"));
}

#[test]
fn killing_supervisor_leaves_no_resources() {
    requires_labs!();
    let marker = format!("8{}.5", std::process::id());
    let home = Home::new(&LAB.replace("sleep 1;", &format!("sleep {marker};")));
    let up = home.object(&["up", "pair.toml"]);
    until("the program", || (!processes(&marker).is_empty()).then_some(()));
    signal(up["pid"].as_u64().unwrap() as u32, "-KILL");
    until("the programs to end", || processes(&marker).is_empty().then_some(()));
    until("the entry to be removed", || home.0.ps().is_empty().then_some(()));
    let files = fs::read_dir(home.0.path().join("netarium")).unwrap();
    assert!(files.map(|file| file.unwrap().file_name()).all(|name| name == ".lock"));
}
