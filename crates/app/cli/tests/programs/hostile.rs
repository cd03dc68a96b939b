//! Programs that try to leave their lab.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use super::bench::{Bench, enclosed, installed, is_root, requires_labs};

/// Attempts actions that are forbidden for a lab's program; prints the name of each attempt, and
/// the error's name or `done`.
const ATTEMPTS: &str = r#"
import ctypes, errno, os, platform, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"

def show(name, attempt):
    try:
        print(name, attempt() or "done")
    except OSError as e:
        print(name, errno.errorcode[e.errno])

def call(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")

def append(path):
    with open(path, "a") as file:
        file.write("")

def write(path, text):
    with open(path, "w") as file:
        file.write(text)

def variables(path):
    with open(path, "rb") as file:
        return "secret" if b"SECRET" in file.read() else "clean"

def bit(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))

show("mount", lambda: call(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)))
show("umount", lambda: call(libc.umount2(b"/proc", 2)))
show("setns", lambda: call(libc.setns(os.open("/proc/1/ns/net", 0), 0)))
show("unshare", lambda: call(libc.unshare(0x10000000)))
show("bpf", lambda: call(libc.syscall(280 if arm else 321, 0, None, 0)))
show("io_uring", lambda: call(libc.syscall(425, 1, ctypes.create_string_buffer(120))))
show("io_uring_enter", lambda: call(libc.syscall(426, -1, 0, 0, 0, None, 0)))
show("io_uring_register", lambda: call(libc.syscall(427, -1, 0, None, 0)))
show("keyctl", lambda: call(libc.syscall(219 if arm else 250, 0, 0, 0, 0, 0)))
show("mknod", lambda: os.mknod("made", 0o600 | stat.S_IFBLK, os.makedev(7, 0)))
show("disk", lambda: os.close(os.open("disk", os.O_RDONLY)))
show("core_pattern", lambda: write("/proc/sys/kernel/core_pattern", "core"))
show("sysrq", lambda: append("/proc/sysrq-trigger"))
show("etc", lambda: append(os.environ.get("ETC", "/etc/netarium-hostile")))
show("uevent", lambda: write("/sys/kernel/mm/ksm/run", "0"))
show("vsock", lambda: __import__("socket").socket(40, 1))
show("alg", lambda: __import__("socket").socket(38, 5))
show("qipcrtr", lambda: __import__("socket").socket(42, 2))
show("realtime", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
show("own_env", lambda: variables("/proc/self/environ"))
show("init_env", lambda: variables("/proc/1/environ"))
show("forward", lambda: write("/proc/sys/net/ipv4/ip_forward", "1"))
show("low_port", lambda: __import__("socket").socket().bind(("", 80)))
show("raw", lambda: __import__("socket").socket(17, 3).close())
show("service", lambda: __import__("socket").socket(1).connect(os.environ.get("SERVICE", "none")))
for name in ["CapEff", "CapBnd", "NoNewPrivs", "Seccomp"]:
    print(name, bit(name))
print("devices", ",".join(sorted(os.listdir("/dev"))))
"#;

const LAB: &str = r#"
lab = { name = "hostile", duration = "20 s" }
node.a = {}
program = [{ node = "a", name = "attempts", run = "python3 attempts.py" }]
"#;

fn results(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(' ')).collect()
}

/// A bench with the script, and with a device file of a disk if it can be created.
fn prepared(test: &str) -> Option<Bench> {
    if !enclosed(test) || !installed(test, &["python3", "mknod"]) {
        return None;
    }
    let bench = Bench::new();
    bench.write("attempts.py", ATTEMPTS);
    let disk = bench.path().join("disk");
    if is_root() {
        let made = Command::new("mknod").arg(disk).args(["b", "7", "0"]).status().unwrap();
        assert!(made.success());
    } else {
        bench.write("disk", "");
    }
    Some(bench)
}

/// Checks which actions a confined program can perform.
fn assert_confined(found: &BTreeMap<&str, &str>) {
    for attempt in ["mount", "umount", "unshare", "bpf", "keyctl", "mknod", "realtime"] {
        assert_eq!(found[attempt], "EPERM", "{attempt}: {found:?}");
    }
    for attempt in ["io_uring", "io_uring_enter", "io_uring_register"] {
        assert_eq!(found[attempt], "EPERM", "{attempt}: {found:?}");
    }
    // A command of `exec` cannot even open the namespace of process 1.
    assert!(["EPERM", "EACCES"].contains(&found["setns"]), "{found:?}");
    for attempt in ["core_pattern", "sysrq", "etc", "uevent"] {
        assert!(["EROFS", "EACCES", "ENOENT", "EPERM"].contains(&found[attempt]), "{found:?}");
    }
    if is_root() {
        assert_eq!(found["disk"], "EACCES", "{found:?}");
        assert_eq!([found["core_pattern"], found["etc"]], ["EROFS"; 2], "{found:?}");
    }
    for attempt in ["vsock", "alg", "qipcrtr"] {
        assert_eq!(found[attempt], "EAFNOSUPPORT", "{attempt}: {found:?}");
    }
    assert_eq!(found["own_env"], "clean", "{found:?}");
    assert_ne!(found["init_env"], "secret", "{found:?}");
    for attempt in ["forward", "low_port", "raw"] {
        assert_eq!(found[attempt], "done", "{attempt}: {found:?}");
    }
    assert_eq!([found["NoNewPrivs"], found["Seccomp"]], ["1", "2"], "{found:?}");
    // CHOWN to SYS_ADMIN, as `sys::confine::PROGRAM` lists them.
    assert_eq!([found["CapEff"], found["CapBnd"]], ["0000000000247dfb"; 2], "{found:?}");
    let devices = "fd,full,net,null,ptmx,pts,random,shm,stderr,stdin,stdout,tty,urandom,zero";
    assert_eq!(found["devices"], devices);
}

#[test]
fn confines_programs_and_commands() {
    let test = "confines_programs_and_commands";
    let Some(bench) = prepared(test) else { return };
    let socket = format!("/run/nt-hostile-{}.sock", std::process::id());
    let service = is_root().then(|| UnixListener::bind(&socket).unwrap());
    let env = format!("env = {{ SERVICE = \"{socket}\" }}, name = \"attempts\"");
    let file = bench.write("hostile.toml", &LAB.replace("name = \"attempts\"", &env));
    let mut command = bench.command(&["run", file.to_str().unwrap(), "--json", "--no-progress"]);
    let output = command.env("NETARIUM_TOKEN", "SECRET").env("API_KEY", "SECRET").output().unwrap();
    let run = super::bench::Run::of(output).passed();
    let text = run.stdout("attempts");
    let found = results(&text);
    assert_confined(&found);
    if service.is_some() {
        std::fs::remove_file(socket).unwrap();
        assert_eq!(found["service"], "ENOENT");
    }
    assert_eq!(run.record()["warnings"].as_array().unwrap().len(), 0, "{}", run.dump());
}

#[test]
fn confines_commands_of_exec() {
    let test = "confines_commands_of_exec";
    let Some(bench) = prepared(test) else { return };
    let lab = LAB.replace("python3 attempts.py", "sleep 85").replace("20 s", "85 s");
    let lab = lab.replace("\"hostile\"", "\"entered\"");
    let run = bench.start(&lab, &[]);
    bench.wait_for("entered");
    let mut command = bench.command(&["exec", "entered", "a", "--", "python3", "attempts.py"]);
    let output = command.env("NETARIUM_TOKEN", "SECRET").output().unwrap();
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&errors));
    assert_confined(&results(&text));
    run.signal("-INT");
    run.finish();
}

#[test]
fn names_privileged_programs() {
    let test = "names_privileged_programs";
    let Some(bench) = prepared(test) else { return };
    let file = format!("/etc/nt-privileged-{}", std::process::id());
    let settings = format!("name = \"attempts\", privileged = true, env = {{ ETC = \"{file}\" }}");
    let run = bench.run(&LAB.replace("name = \"attempts\"", &settings)).passed();
    let text = run.stdout("attempts");
    let found = results(&text);
    assert_eq!([found["mount"], found["unshare"]], ["done"; 2], "{found:?}");
    if is_root() {
        // It may change the files of the machine.
        assert_eq!(found["etc"], "done", "{found:?}");
        fs::remove_file(file).unwrap();
    }
    assert_eq!([found["NoNewPrivs"], found["Seccomp"]], ["0", "0"], "{found:?}");
    let record = run.record();
    let warnings = record["warnings"].as_array().unwrap();
    let named = |text: &serde_json::Value| {
        text.as_str().unwrap().starts_with("program attempts ran privileged")
    };
    assert!(warnings.len() == 1 && named(&warnings[0]), "{warnings:?}");
}

/// Links that a program makes in its run folder are not followed when the run ends.
#[test]
fn does_not_follow_links_in_run_folder() {
    requires_labs!();
    let bench = Bench::new();
    let outside = bench.write("outside", "kept");
    let plant = "cd \"$NETARIUM_RUN_DIR\" && for name in .final run.json run.json.tmp report.html \
                 report.html.tmp links.parquet links.parquet.tmp; \
                 do ln -sf \"$OUTSIDE\" $name; done";
    bench.write("plant.sh", plant);
    let program = format!("name = \"plant\", env = {{ OUTSIDE = \"{}\" }}", outside.display());
    let lab = LAB.replace("python3 attempts.py", "sh plant.sh");
    let run = bench.run(&lab.replace("name = \"attempts\"", &program)).passed();
    assert_eq!(run.program("plant")["end"]["exit"], 0, "{}", run.dump());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
    let folder = run.folder();
    for name in ["run.json", "report.html"] {
        assert!(fs::symlink_metadata(folder.join(name)).unwrap().is_file(), "{name}");
    }
    // A link in an untrusted folder is an error.
    fs::remove_file(folder.join("lab.toml")).unwrap();
    symlink(&outside, folder.join("lab.toml")).unwrap();
    let output = bench.netarium(&["report", folder.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
}

/// The summary of repeated runs is beside their run folders, where programs can write.
#[test]
fn does_not_follow_links_beside_run_folders() {
    requires_labs!();
    let bench = Bench::new();
    let outside = bench.write("outside", "kept");
    bench.write("plant.sh", "ln -sf \"$OUTSIDE\" \"$NETARIUM_RUN_DIR/../summary.json\"");
    let program = format!("name = \"plant\", env = {{ OUTSIDE = \"{}\" }}", outside.display());
    let lab = LAB.replace("python3 attempts.py", "sh plant.sh");
    bench.write("hostile.toml", &lab.replace("name = \"attempts\"", &program));
    let output = bench.netarium(&["run", "hostile.toml", "--repeat", "2", "--json"]);
    let set: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(set["runs"].as_array().map(Vec::len), Some(2), "{set}");
    let summary = Path::new(set["folder"].as_str().unwrap()).join("summary.json");
    assert!(fs::symlink_metadata(&summary).unwrap().is_file(), "{}", summary.display());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
}

/// Neither a private view nor another user adds to the rights of a program.
#[test]
fn confines_programs_with_private_files_and_other_users() {
    let test = "confines_programs_with_private_files_and_other_users";
    let Some(bench) = prepared(test) else { return };
    fs::set_permissions(bench.path(), Permissions::from_mode(0o755)).unwrap();
    // Without root, another user needs subordinate IDs.
    let user = if is_root() { ", user = \"daemon\"" } else { "" };
    let nodes =
        format!("node.a = {{ files = \"private\" }}\nnode.b = {{ files = \"private\"{user} }}");
    let lab = LAB.replace("node.a = {}", &nodes).replace("node = \"a\"", "node = [\"a\", \"b\"]");
    let run = bench.run(&lab).passed();
    let text = run.stdout("attempts.a");
    let mut found = results(&text);
    assert_eq!(found.insert("etc", "EROFS"), Some("done"));
    assert!(!Path::new("/etc/netarium-hostile").exists(), "the change is private");
    assert_confined(&found);
    if is_root() {
        let text = run.stdout("attempts.b");
        let found = results(&text);
        for attempt in ["mount", "umount", "unshare", "bpf", "keyctl", "raw"] {
            assert_eq!(found[attempt], "EPERM", "{attempt}: {found:?}");
        }
        for attempt in ["setns", "mknod", "disk", "etc", "forward"] {
            assert_eq!(found[attempt], "EACCES", "{attempt}: {found:?}");
        }
        assert_eq!([found["NoNewPrivs"], found["Seccomp"]], ["1", "2"], "{found:?}");
        assert_eq!(found["CapEff"], "0000000000000000", "{found:?}");
    }
}
