//! Files of the machine that programs of a lab can see and change, and attempts to reach others.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::bench::{
    Bench, NETARIUM, Run, Running, enclosed, installed, is_root, requires_labs, until,
};
use super::rootless::{as_user, possible};

/// Prints each argument with `writable`, `read-only`, `none`, or `empty` for a folder that is
/// writable and has no files but folders.
const PROBE: &str = r#"
import os, sys
for path in sys.argv[1:]:
    path = os.path.expandvars(path)
    if not os.path.exists(path):
        state = "none"
    elif os.statvfs(path).f_flag & os.ST_RDONLY:
        state = "read-only"
    else:
        state = "writable"
        if os.path.isdir(path) and path not in ("/dev", "/proc/sys/net"):
            os.rmdir(__import__("tempfile").mkdtemp(dir=path))
        if path == "/run" and all(e.is_dir() or e.is_symlink() for e in os.scandir(path)):
            state = "empty"
    print(path, state)
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    if "rw" in fields[5].split(","):
        print("mount", fields[4])
"#;

/// Paths of the table in the documentation, with the meaning of writable ones.
const TABLE: [(&str, &str); 20] = [
    ("$NETARIUM_RUN_DIR", "the run folder"),
    (".", "the lab file's folder"),
    ("folders in `writable`", "of the machine"),
    ("/tmp", "that of the machine"),
    ("/var/tmp", "that of the machine"),
    ("/dev/shm", "of the lab, in memory"),
    ("/run", "of the lab, in memory, with empty folders as in that of the machine"),
    ("/dev", "of the lab, with a few devices"),
    ("/proc/sys/net", "parameters of the program's node"),
    ("/", ""),
    ("/bin", ""),
    ("/etc", ""),
    ("/etc/hosts", ""),
    ("/lib", ""),
    ("/proc/sys", ""),
    ("/root", ""),
    ("/sbin", ""),
    ("/sys", ""),
    ("/usr", ""),
    ("/var", ""),
];

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/src/security/labs.md");
const BEGIN: &str = "<!-- The test `programs::files` writes this table. -->\n\n";

/// A folder outside of those for temporary files, in which a clone of the project may be.
fn folder_elsewhere() -> tempfile::TempDir {
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folders = [Some(env!("CARGO_TARGET_TMPDIR").into()), home, Some("/var/lib".into())];
    let mut elsewhere = folders.into_iter().flatten().filter(|path| {
        let path = path.canonicalize().unwrap_or_default();
        path.is_absolute() && !temporary.iter().any(|folder| path.starts_with(folder))
    });
    let make = |path| tempfile::Builder::new().prefix("nt").tempdir_in(path).ok();
    elsewhere.find_map(make).expect("a folder outside of those for temporary files")
}

fn lab(settings: &str, program: &str) -> String {
    format!(
        "lab = {{ name = \"files\", duration = \"60 s\"{settings} }}\nnode.a = {{}}\n\
         program = [{{ node = \"a\", name = \"p\", {program} }}]\n"
    )
}

/// The rows of the table, as a lab sees them, and the mounts that are writable in it.
fn seen(bench: &Bench, run: &Run) -> (Vec<String>, Vec<String>) {
    let text = run.stdout("p");
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|l| l.rsplit_once(' ')).collect();
    let folder = run.folder();
    let row = |(path, meaning): (&str, &str)| {
        let shown = match path {
            "$NETARIUM_RUN_DIR" => folder.to_str().unwrap(),
            path => path,
        };
        let state = lines.iter().find(|(found, _)| *found == shown).map(|(_, state)| *state);
        let state = match (path, state) {
            (path, None) if path.starts_with("folders") => "writable",
            ("/run", Some("empty")) => "writable",
            (_, state) => state.unwrap(),
        };
        let code = if path.contains(' ') { path.to_owned() } else { format!("`{path}`") };
        format!("| {code} | {state} | {meaning} |")
    };
    let mounts = text.lines().filter_map(|line| line.strip_prefix("mount "));
    let bench = bench.path().to_str().unwrap();
    let mounts = mounts.filter(|path| !path.starts_with(bench)).map(str::to_owned).collect();
    (TABLE.into_iter().map(row).collect(), mounts)
}

/// The same paths are writable in labs of root and of ordinary users, and the documentation lists
/// them. `NETARIUM_GENERATE=1` writes the list.
#[test]
fn root_and_users_can_write_same_paths() {
    let test = "root_and_users_can_write_same_paths";
    requires_labs!("python3");
    let bench = Bench::new();
    bench.write("probe.py", PROBE);
    let paths: Vec<&str> =
        TABLE.iter().map(|(path, _)| *path).filter(|p| !p.contains(' ')).collect();
    let words = serde_json::to_string(&[&["python3", "probe.py"], &*paths].concat()).unwrap();
    let text = lab("", &format!("run = {words}"));
    let (table, mounts) = seen(&bench, &bench.run(&text).passed());
    let known = ["/proc", "/tmp", "/var/tmp", "/run", "/dev", "/proc/sys/net", "/var/run"];
    for path in &mounts {
        let is_temporary = Path::new(path) == std::env::temp_dir();
        let is_known = known.contains(&&**path) || path.starts_with("/dev/") || is_temporary;
        assert!(is_known, "{path} is writable: {mounts:?}");
    }
    let bench = Bench::new();
    if possible(test, &bench) {
        bench.write("probe.py", PROBE);
        bench.write("lab.toml", &text);
        let mut command = as_user(&bench, &["run", "lab.toml", "--json"]).unwrap();
        let run = Running::spawn(&mut command).finish().passed();
        assert_eq!(seen(&bench, &run).0, table);
    }
    let head = "| path | in a lab | what it is |\n|---|---|---|\n";
    let table = format!("{BEGIN}{head}{}\n", table.join("\n"));
    let page = fs::read_to_string(PAGE).unwrap();
    let start = page.find(BEGIN).unwrap();
    let end = start + BEGIN.len() + page[start + BEGIN.len()..].find("\n\n").unwrap() + 1;
    if std::env::var_os("NETARIUM_GENERATE").is_some() {
        fs::write(PAGE, format!("{}{table}{}", &page[..start], &page[end..])).unwrap();
        return;
    }
    assert_eq!(&page[start..end], table, "stale: run this test with NETARIUM_GENERATE=1");
}

/// Attempts to change files of the machine. They would not harm it if they succeeded: renames have
/// a target that exists (`RENAME_NOREPLACE`), and new folders are removed.
const ATTACKS: &str = r#"
import ctypes, errno, os, platform, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
number = 276 if platform.machine() == "aarch64" else 316
def rename(old, new):
    if libc.syscall(number, -100, old.encode(), -100, new.encode(), 1) == 0:
        return "done"
    return errno.errorcode[ctypes.get_errno()]
def make(path):
    try:
        os.mkdir(path)
        os.rmdir(path)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
for path in ["/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/root", "/var/spool", "/var"]:
    if os.path.lexists(path):
        print("rename", path, rename(path, "/usr"))
for folder in ["/", "/root", "/var/spool", "/usr/local/bin", "/etc/cron.d", "/opt", "/srv"]:
    if os.path.isdir(folder):
        print("make", folder, make(f"{folder}/.netarium-test-{os.getpid()}-{os.urandom(4).hex()}"))
# The mount of the executable of the program's init.
try:
    os.chmod("/proc/1/exe", os.stat("/proc/1/exe").st_mode & 0o7777)
    print("chmod exe done")
except OSError as error:
    print("chmod exe", errno.errorcode[error.errno])
# Attempts with other namespaces and mounts.
call = lambda result: "done" if result == 0 else errno.errorcode[ctypes.get_errno()]
REMOUNT, BIND, RDONLY = 32, 4096, 1
print("call user", call(libc.unshare(0x10000000)))
print("call mounts", call(libc.unshare(0x00020000)))
print("call remount", call(libc.mount(b"none", b"/", None, REMOUNT | BIND, None)))
print("call bind", call(libc.mount(b"/tmp", b"/etc", None, BIND, None)))
print("call umount", call(libc.umount2(b"/run", 2)))
print("call setattr", call(libc.syscall(442, -100, b"/", 0x8000, (ctypes.c_uint64 * 4)(0, 1), 32)))
print("call open_tree", call(min(0, libc.syscall(428, -100, b"/", 1))))
print("call fsopen", call(min(0, libc.syscall(430, b"tmpfs", 0))))
files = [p for p in ["/proc/vmallocinfo", "/proc/kpagecgroup"] if os.access(p, os.R_OK)]
print("proc", "shown" if any(open(p, "rb").read(1) for p in files) else "hidden")
"#;

#[test]
fn rejects_replacement_of_host_folders() {
    requires_labs!("python3");
    let (bench, elsewhere) = (Bench::new(), folder_elsewhere());
    bench.write("attacks.py", ATTACKS);
    bench.write("lab.toml", &lab("", "run = \"python3 attacks.py\""));
    let executable = elsewhere.path().join("netarium");
    fs::copy(NETARIUM, &executable).unwrap();
    let mut command = Command::new(executable);
    command.args(["run", "lab.toml", "--json"]);
    bench.prepare(&mut command);
    let run = Running::spawn(&mut command).finish().passed();
    let text = run.stdout("p");
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert!(count("rename") >= 6 && count("make") >= 4 && count("call") == 8, "{}", run.dump());
    for line in text.lines() {
        let (what, result) = line.rsplit_once(' ').unwrap();
        let is_refused = match what.split(' ').next() {
            // The parents of some are inaccessible for a user.
            Some("make") if !is_root() => ["EROFS", "EACCES"].contains(&result),
            Some("rename" | "make" | "chmod") => result == "EROFS",
            Some("call") => result == "EPERM",
            _ => result == "hidden",
        };
        assert!(is_refused, "{line}\n{text}");
    }
}

#[test]
fn program_can_write_listed_folders() {
    requires_labs!();
    let (bench, elsewhere) = (Bench::new(), folder_elsewhere());
    let file = elsewhere.path().join("file");
    let program = format!("run = \"echo text >'{}'\"", file.display());
    let failed = bench.run(&lab("", &program));
    assert_eq!(failed.program("p")["as_expected"], false, "{}", failed.dump());
    let warnings = failed.record()["warnings"].to_string();
    assert!(warnings.contains("`writable` of `[lab]`"), "{warnings}");
    assert!(!file.exists());
    let writable = format!(", writable = [\"{}\"]", elsewhere.path().display());
    bench.run(&lab(&writable, &program)).passed();
    assert_eq!(fs::read_to_string(&file).unwrap(), "text\n");
    let lost = bench.run(&lab(", writable = [\"/no/such/folder\"]", "run = \"true\""));
    assert_eq!(lost.code, Some(2), "{}", lost.dump());
    assert!(lost.records[0].to_string().contains("/no/such/folder"), "{}", lost.dump());
    // A privileged program is not limited.
    fs::remove_file(&file).unwrap();
    let run = bench.run(&lab("", &format!("privileged = true, {program}"))).passed();
    assert_eq!(fs::read_to_string(&file).unwrap(), "text\n");
    assert!(run.record()["warnings"].to_string().contains("p ran privileged"));
}

/// Tries to reach the sockets that are its arguments once the file `end` exists. Names that begin
/// with `@` are abstract.
const CONNECT: &str = r#"
import errno, os, socket, sys, time
while not os.path.exists("end"):
    time.sleep(0.05)
for path in sys.argv[1:]:
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]:
        try:
            address = "\0" + path[1:] if path[0] == "@" else path
            socket.socket(socket.AF_UNIX, kind).connect(address)
            print(path, "reached")
        except OSError as error:
            print(path, errno.errorcode[error.errno])
"#;

/// A socket that listens in another network namespace.
const LISTEN: &str = r"
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
time.sleep(600)
";

/// Removes a file when it is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn hides_service_sockets() {
    let test = "hides_service_sockets";
    if !is_root() || !enclosed(test) || !installed(test, &["python3", "unshare"]) {
        return;
    }
    let bench = Bench::new();
    bench.write("connect.py", CONNECT);
    let sockets: Vec<Removed> = ["stream", "datagram", "namespace", "later"]
        .map(|name| PathBuf::from(format!("/run/nt-{name}-{}.sock", std::process::id())))
        .into_iter()
        .map(Removed)
        .collect();
    let [stream, datagram, namespace, later] = [0, 1, 2, 3].map(|at: usize| &*sockets[at].0);
    let _stream = UnixListener::bind(stream).unwrap();
    let _datagram = UnixDatagram::bind(datagram).unwrap();
    let mut other = Command::new("unshare")
        .args(["--net", "python3", "-c", LISTEN])
        .arg(namespace)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until("the other listener", || namespace.exists().then_some(()));
    let name = format!("nt-abstract-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let paths = sockets.iter().map(|s| s.0.display().to_string());
    let paths: Vec<String> = paths.chain([format!("@{name}")]).collect();
    let program = format!("run = \"python3 connect.py {}\"", paths.join(" "));
    let running = bench.start(&lab("", &program), &[]);
    bench.wait_for("files");
    let _later = UnixListener::bind(later).unwrap();
    bench.write("end", "");
    let run = running.finish();
    other.kill().unwrap();
    other.wait().unwrap();
    let run = run.passed();
    let text = run.stdout("p");
    assert_eq!(text.lines().count(), 15, "{}", run.dump());
    for line in text.lines() {
        let expected = if line.starts_with('@') { " ECONNREFUSED" } else { " ENOENT" };
        assert!(line.ends_with(expected), "{text}");
    }
}

/// Programs cannot write the registry of labs, and forged entries do not end other processes.
#[test]
fn ignores_forged_registry_entries() {
    requires_labs!();
    let bench = Bench::new();
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    // The registry of these tests is in the lab's folder.
    let registry = bench.path().join("netarium");
    let forge = format!("echo forged >'{}/forged.json'", registry.display());
    bench.run(&lab("", &format!("run = \"{forge}\""))).passed();
    assert!(!registry.join("forged.json").exists(), "a program wrote an entry");

    let running = bench.start(&lab("", "run = \"sleep 60\""), &[]);
    let genuine = bench.wait_for("files");
    let file = registry.join("files.json");
    let entry: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap();
    let ticks: u64 = stat.rsplit(' ').nth(30).unwrap().trim().parse().unwrap();
    let process = serde_json::json!({"pid": victim.id(), "started_ticks": ticks});
    let forged = |change: &[&str]| {
        let mut entry = entry.clone();
        entry["name"] = "forged".into();
        for name in change {
            entry[*name] = process.clone();
        }
        fs::write(registry.join("forged.json"), entry.to_string()).unwrap();
    };
    for change in [&["supervisor"][..], &["init"], &["supervisor", "init"]] {
        forged(change);
        let output = bench.netarium(&["down", "forged"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{change:?}: {error}");
        assert!(error.contains("not the entry of a lab: process"), "{change:?}: {error}");
        let ps = bench.netarium(&["ps"]);
        assert!(String::from_utf8_lossy(&ps.stderr).contains("forged.json"), "{change:?}");
    }
    assert_eq!(bench.ps().len(), 1);
    assert_eq!(genuine["name"], "files");
    let output = bench.netarium(&["down", "--all"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(running.finish().code, Some(130));
    assert!(victim.try_wait().unwrap().is_none(), "a process of the machine was ended");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(Path::new(&registry.join("forged.json")).exists(), "it is reported, not removed");
}
