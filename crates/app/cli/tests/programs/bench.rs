//! A folder to run labs with the real binary, and the results of the runs.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses its part")]

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::ops::Not;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const NETARIUM: &str = env!("CARGO_BIN_EXE_netarium");

/// Maximum duration of any lab here on a busy host.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(150);

/// Tolerance of a too short round trip, in milliseconds: the correction for the latency of
/// wake-ups is their median.
pub(crate) const PING_TOLERANCE_MS: f64 = 0.1;

/// Number of runs after which numbers that the machine distorted remain undecided.
const MAX_ATTEMPTS: u32 = 3;

/// Repeats a run on the wall clock until its numbers are right, at most three times. Wrong numbers
/// fail the test only if the machine kept up; if it never did, the test is inconclusive and passes
/// with the reason. The attempt itself asserts what a slow machine cannot change.
#[track_caller]
pub(crate) fn conclusive(
    test: &str,
    mut attempt: impl FnMut() -> Run,
    numbers: impl Fn(&Run) -> Result<(), String>,
) {
    let mut wrong = String::new();
    for _ in 0..MAX_ATTEMPTS {
        let run = attempt();
        let Err(error) = numbers(&run) else { return };
        assert!(!run.machine_fit(), "{test}: {error}: {}", run.dump());
        wrong = format!("{error}; {}", run.record()["verdict"]["reasons"]);
    }
    eprintln!("INCONCLUSIVE {test}: {wrong}");
}

/// The shortest round trip in the output of `ping`, in milliseconds.
#[track_caller]
pub(crate) fn shortest_ping(printed: &str) -> f64 {
    let shortest =
        printed.split("rtt min/avg/max/mdev = ").nth(1).and_then(|s| s.split('/').next());
    shortest.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{printed}"))
}

/// Number of repetitions, lower in the ordinary suite.
pub(crate) fn repetitions(ordinary: usize, long: usize) -> usize {
    if std::env::var_os("NETARIUM_LONG").is_some_and(|v| v == "1") { long } else { ordinary }
}

/// Whether all `needs` are installed; otherwise the test is skipped with a message, and
/// fails in CI.
pub(crate) fn installed(test: &str, needs: &[&str]) -> bool {
    let missing: Vec<&&str> = needs.iter().filter(|program| !found(program)).collect();
    missing.is_empty() || skip(test, &format!("not installed: {missing:?}"))
}

/// Reports a skipped test, which fails in CI; always returns false.
pub(crate) fn skip(test: &str, why: &str) -> bool {
    assert!(std::env::var("CI").is_ok_and(|ci| ci == "true").not(), "{test}: {why}");
    eprintln!("SKIPPED {test}: {why}");
    false
}

fn found(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|dir| dir.join(program).is_file())
}

/// The `PATH` of commands: users may not have the folders of administrators in theirs.
pub(crate) fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Whether this host can create labs.
pub(crate) fn enclosed(test: &str) -> bool {
    let probe = Command::new("unshare").args(["--user", "--net", "true"]).output();
    let root = is_root();
    match probe {
        Ok(output) if output.status.success() => true,
        _ if root => true,
        Ok(output) => skip(test, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => skip(test, &format!("unshare: {error}")),
    }
}

/// Leaves the test, with a message, unless this host can create labs and has these programs.
macro_rules! requires_labs {
    ($($program:literal),*) => {{
        fn test() {}
        let test = super::bench::caller(&test);
        if !super::bench::enclosed(test) || !super::bench::installed(test, &[$($program),*]) {
            return;
        }
    }};
}
pub(crate) use requires_labs;

/// The name of the function in which another one is defined.
pub(crate) fn caller<T>(inner: &T) -> &'static str {
    std::any::type_name_of_val(inner).rsplit("::").nth(1).unwrap_or_default()
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| {
        use std::os::unix::fs::MetadataExt;
        facts.uid() == 0
    })
}

/// A folder with lab files, run folders and a separate registry.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("nt").tempdir().unwrap() }
    }

    /// A folder, or `None` if this host cannot run labs.
    pub(crate) fn for_labs(test: &str) -> Option<Self> {
        let bench = Self::new();
        let doctor = bench.netarium(&["doctor", "--quick", "--json"]);
        let able =
            doctor.status.code() == Some(0) || skip(test, &String::from_utf8_lossy(&doctor.stdout));
        able.then_some(bench)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file beside the labs.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A command line of the binary, in this folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(NETARIUM);
        self.prepare(&mut command);
        command.args(args);
        command
    }

    /// Sets the folder of a command, and a defined environment.
    pub(crate) fn prepare(&self, command: &mut Command) {
        // With NETARIUM_ENGINE=packet all tests use the other engine.
        let set = std::env::vars().map(|(name, _)| name);
        for name in set.filter(|n| n.starts_with("NETARIUM_") && n != "NETARIUM_ENGINE") {
            command.env_remove(name);
        }
        command.env("PATH", search_path()).env("LC_ALL", "C");
        command.env("XDG_RUNTIME_DIR", self.path()).env("NO_COLOR", "1");
        command.env_remove("COLUMNS");
        command.stdin(Stdio::null()).current_dir(self.path());
    }

    pub(crate) fn netarium(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a lab until it ends.
    pub(crate) fn run(&self, lab: &str) -> Run {
        self.run_with(lab, &[])
    }

    pub(crate) fn run_with(&self, lab: &str, args: &[&str]) -> Run {
        Run::of(self.start(lab, args).output())
    }

    /// Starts a lab; the file is named after the lab's text, so that labs can share a folder.
    pub(crate) fn start(&self, lab: &str, args: &[&str]) -> Running {
        let name = format!("{:x}.toml", text_hash(lab));
        if !self.path().join(&name).exists() {
            self.write(&name, lab);
        }
        let mut command = self.command(&["run", &name, "--json", "--no-progress"]);
        command.args(args);
        Running::spawn(&mut command)
    }

    /// Replays a recorded run, which must give the same trace; returns the result.
    #[track_caller]
    pub(crate) fn replay(&self, run: &Run) -> Value {
        let output = self.netarium(&["replay", run.folder().to_str().unwrap(), "--json"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let replay: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(replay["identical"], true, "{replay:#}");
        assert_eq!(replay["wall_trace_hash"], run.record()["trace_hash"], "{replay:#}");
        replay
    }

    pub(crate) fn ps(&self) -> Vec<Value> {
        let output = self.netarium(&["ps", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["labs"].as_array().unwrap().clone()
    }

    /// Waits until a lab with this name can be entered.
    pub(crate) fn wait_for(&self, name: &str) -> Value {
        until(&format!("lab {name} to run"), || self.ps().into_iter().find(|l| l["name"] == name))
    }

    /// Runs a command on a host of a running lab.
    pub(crate) fn exec(&self, lab: &str, host: &str, command: &[&str]) -> Output {
        let mut args = vec!["exec", lab, host, "--"];
        args.extend(command);
        self.netarium(&args)
    }
}

#[expect(clippy::disallowed_types, reason = "equal texts have equal hashes in all processes")]
fn text_hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Sends a signal, such as `-KILL`.
#[track_caller]
pub(crate) fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill {signal} {pid}");
}

/// The entries of a folder that can be read.
pub(crate) fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|item| Some(item.ok()?.path()))
}

/// The network namespaces that a process is in or has open, given its folder in `/proc`.
pub(crate) fn network_namespaces(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let files = entries(&process.join("fd")).filter_map(|fd| fs::read_link(fd).ok());
    let held = files.filter(|target| target.to_string_lossy().starts_with("net:["));
    fs::read_link(process.join("ns/net")).into_iter().chain(held)
}

/// Processes on this host whose command line contains `marker`.
pub(crate) fn processes(marker: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|item| {
        let pid: u32 = item.ok()?.file_name().to_str()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(marker).then_some(pid)
    });
    pids.collect()
}

/// Repeats the attempt until it returns a result.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        assert!(start.elapsed() < TEST_TIMEOUT, "timeout while waiting: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running `netarium run`. Dropping it ends it.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C of the terminal must reach only the test program, which ends its labs
        // by dropping them.
        let child = command.process_group(0).spawn().unwrap();
        Self { child: Some(child) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        self::signal(self.pid(), signal);
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Repeats the attempt until it returns a result; a run that ends before that or hangs fails
    /// the test with its output.
    pub(crate) fn until<T>(&mut self, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let is_over = self.is_over();
            if let Some(answer) = attempt() {
                return answer;
            }
            if is_over || start.elapsed() >= TEST_TIMEOUT {
                if !is_over {
                    self.signal("-INT");
                }
                let run = Self { child: self.child.take() }.finish();
                let end = if is_over { "it ended" } else { "a timeout" };
                panic!("{end} before {what}: {}", run.dump());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it ends; a run that hangs fails the test.
    pub(crate) fn output(mut self) -> Output {
        let mut child = self.child.take().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            err.read_to_end(&mut text).map(|_| text)
        });
        let watched = child.id();
        let (done, alarm) = std::sync::mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if alarm.recv_timeout(TEST_TIMEOUT).is_err_and(|e| e.to_string().contains("timed out"))
            {
                let _ = Command::new("kill").args(["-KILL", &watched.to_string()]).status();
            }
        });
        let mut stdout = Vec::new();
        out.read_to_end(&mut stdout).unwrap();
        let status = child.wait().unwrap();
        drop(done);
        watch.join().unwrap();
        Output { status, stdout, stderr: reader.join().unwrap().unwrap() }
    }

    /// Waits until it ends and reads the result.
    pub(crate) fn finish(self) -> Run {
        Run::of(self.output())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    /// One record per run; a sweep has several.
    pub(crate) records: Vec<Value>,
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        let records = serde_json::Deserializer::from_str(&stdout)
            .into_iter::<Value>()
            .map(|value| value.unwrap_or_else(|e| panic!("{e} in {stdout}")))
            .collect();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), stderr, records }
    }

    /// The record of the only run.
    pub(crate) fn record(&self) -> &Value {
        assert_eq!(self.records.len(), 1, "exit {:?}: {}", self.code, self.stderr);
        &self.records[0]
    }

    /// Checks that the run passed, except possibly for the timing of the host.
    #[track_caller]
    pub(crate) fn passed(self) -> Self {
        assert!(matches!(self.code, Some(0 | 3)), "{}", self.dump());
        for record in &self.records {
            assert_eq!(record["host"]["dropped_packets"], 0, "{}", self.dump());
        }
        self
    }

    /// Whether the machine neither delayed nor dropped packets.
    pub(crate) fn machine_fit(&self) -> bool {
        self.record()["verdict"]["machine_fit"] == true
    }

    /// The first expectation that was not met, as an error. An undecided one is within the effect
    /// of the machine.
    pub(crate) fn expectations_passed(&self) -> Result<(), String> {
        let expectations = self.record()["expectations"].as_array().unwrap();
        let failed = expectations.iter().find(|expectation| {
            !matches!(expectation["outcome"].as_str(), Some("passed" | "undecided"))
        });
        failed.map_or(Ok(()), |failed| Err(failed.to_string()))
    }

    /// The goodput of a flow in bit/s, and the highest that it may have had without the machine.
    #[track_caller]
    pub(crate) fn goodput(&self, flow: &str) -> (f64, f64) {
        let flow = self.flow(flow);
        let goodput = number(&flow["goodput_bit_per_s"]);
        (goodput, goodput / (1.0 - effect(flow, "goodput_share")))
    }

    /// A delay of a flow in nanoseconds: the lowest that it may have been without the machine, and
    /// as measured.
    #[track_caller]
    pub(crate) fn delay(&self, flow: &str, kind: &str, value: &str) -> (f64, f64) {
        let flow = self.flow(flow);
        let delay = number(&flow[kind][value]);
        (delay - effect(flow, value), delay)
    }

    /// The record and the output of programs, for messages of failed assertions.
    pub(crate) fn dump(&self) -> String {
        let mut dump = format!("exit {:?}\n{}", self.code, self.stderr);
        for record in &self.records {
            if record["schema"] != "netarium.run/1" {
                dump.push_str(&record.to_string());
                continue;
            }
            for key in ["expectations", "programs", "flows", "links", "warnings", "verdict"] {
                let _ = writeln!(dump, "{key}: {:#}", record[key]);
            }
            let folder = PathBuf::from(record["folder"].as_str().unwrap_or_default());
            for program in record["programs"].as_array().into_iter().flatten() {
                let name = program["name"].as_str().unwrap();
                for stream in ["stdout", "stderr"] {
                    let path = folder.join("programs").join(name).join(stream);
                    let text = fs::read_to_string(path).unwrap_or_default();
                    let _ = writeln!(dump, "--- {name} {stream}\n{text}");
                }
            }
        }
        dump
    }

    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(self.record()["folder"].as_str().unwrap())
    }

    /// An entry of one of the record's lists.
    #[track_caller]
    pub(crate) fn entry(&self, list: &str, name: &str) -> &Value {
        let entries = self.record()[list].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["name"] == name);
        entry.unwrap_or_else(|| panic!("no {name} in {list}: {}", self.dump()))
    }

    #[track_caller]
    pub(crate) fn program(&self, name: &str) -> &Value {
        self.entry("programs", name)
    }

    #[track_caller]
    pub(crate) fn flow(&self, name: &str) -> &Value {
        self.entry("flows", name)
    }

    #[track_caller]
    pub(crate) fn link(&self, name: &str, direction: &str) -> &Value {
        let links = self.record()["links"].as_array().unwrap();
        let link = links.iter().find(|l| l["name"] == name && l["direction"] == direction);
        link.unwrap_or_else(|| panic!("no {name} {direction}: {}", self.dump()))
    }

    /// The standard output of a program.
    #[track_caller]
    pub(crate) fn stdout(&self, program: &str) -> String {
        self.stream(program, "stdout")
    }

    #[track_caller]
    pub(crate) fn stderr_of(&self, program: &str) -> String {
        self.stream(program, "stderr")
    }

    #[track_caller]
    fn stream(&self, program: &str, stream: &str) -> String {
        let path = self.folder().join("programs").join(program).join(stream);
        match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => panic!("{}: {error}\n{}", path.display(), self.dump()),
        }
    }

    /// An address of a node without its prefix length; `at` counts IPv4 and IPv6 separately.
    pub(crate) fn address(&self, node: &str, v6: bool, at: usize) -> String {
        let nodes = self.record()["topology"]["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|n| n["name"] == node).unwrap();
        let texts = node["addresses"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
        let address = texts.filter(|text| text.contains(':') == v6).nth(at).unwrap();
        address.split('/').next().unwrap().to_owned()
    }

    /// Output of tshark for one of the run's captures: the given fields of packets that match.
    pub(crate) fn tshark(&self, file: &str, filter: &str, fields: &[&str]) -> Vec<String> {
        let path = self.folder().join(file);
        let mut command = Command::new("tshark");
        command.args(["-n", "-r"]).arg(&path).args(["-Y", filter, "-T", "fields"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", path.display());
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

/// The bound of the machine's effect on a value of a flow; zero if none is known.
fn effect(flow: &Value, value: &str) -> f64 {
    flow["host_effect"][value].as_f64().unwrap_or_default()
}

/// A count in a record; absent ones fail the test.
#[track_caller]
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a count: {value}"))
}

/// A number of a record; absent ones fail the test.
#[track_caller]
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}
