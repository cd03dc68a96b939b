//! Labs of an unprivileged user, on a host where only root can open TUN devices.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Output};

use super::bench::{
    Bench, NETARIUM, Running, enclosed, installed, is_root, requires_labs, skip, until,
};

/// A user ID that is unused on ordinary hosts.
pub(super) const UNUSED_USER_ID: u32 = 61_234;

const LAB: &str = r#"
lab = { name = "rootless", duration = "85 s" }
node.alice = {}
node.bob = {}
node.r = { kind = "router" }
link = [
    { name = "l", ends = ["alice", "r"], rate = "20 Mbit/s", delay = "3 ms" },
    { ends = ["r", "bob"], mtu = "1400 B" },
]
flow = [
    { name = "tcp", from = "alice", to = "bob", size = "2 MB" },
    { name = "udp", from = "bob", to = "alice", transport = "udp", rate = "1 Mbit/s", size = "100 kB", family = "ipv6" },
]
[[program]]
name = "web"
node = "bob"
run = "exec nc -l 80 > got"
ready = "port 80"
service = false
[[program]]
name = "client"
node = "alice"
run = "seq 1 20000 | nc -N bob 80"
after = "web"
[[program]]
name = "ping"
node = "alice"
run = "id -u; echo >/dev/null || exit 3; ping -n -c 3 -i 0.2 bob && ping -6 -n -c 2 -i 0.2 bob && ping -n -M do -s 1450 -c 2 -i 0.2 bob || echo refused"
"#;

/// Runs a command line of the binary as an unprivileged user who cannot open `/dev/net/tun`. The
/// change of the device is made in a separate mount namespace.
pub(super) fn as_user(bench: &Bench, args: &[&str]) -> Option<Command> {
    let copy = bench.path().join("bin");
    if !copy.exists() {
        fs::copy(NETARIUM, &copy).unwrap();
        for path in [bench.path(), &copy] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        chown(bench.path(), Some(UNUSED_USER_ID), Some(UNUSED_USER_ID)).ok()?;
    }
    let script = format!(
        "mount -t tmpfs -o mode=755 none /dev/net && mknod -m 600 /dev/net/tun c 10 200 && \
         exec setpriv --reuid {UNUSED_USER_ID} --regid {UNUSED_USER_ID} --clear-groups \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &script, "sh"]).arg(copy).args(args);
    bench.prepare(&mut command);
    command.env_remove("NETARIUM_ENGINE");
    Some(command)
}

pub(super) fn possible(test: &str, bench: &Bench) -> bool {
    if !is_root() {
        // Then the labs of all other tests are already unprivileged.
        eprintln!("{test}: only root can become another user");
        return false;
    }
    if !enclosed(test) || !installed(test, &["setpriv", "unshare", "nc", "ping"]) {
        return false;
    }
    let Some(mut doctor) = as_user(bench, &["doctor", "--quick"]) else {
        return skip(test, "files cannot be given to another user");
    };
    let probe = Command::new("setpriv")
        .args([
            "--reuid",
            &UNUSED_USER_ID.to_string(),
            "--regid",
            &UNUSED_USER_ID.to_string(),
            "--clear-groups",
        ])
        .args(["unshare", "--user", "--net", "true"])
        .output()
        .unwrap();
    if !probe.status.success() {
        // Then the diagnosis reports it as well.
        assert_eq!(doctor.output().unwrap().status.code(), Some(4));
        return skip(test, &format!("users may not: {}", String::from_utf8_lossy(&probe.stderr)));
    }
    let output: Output = doctor.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    true
}

/// A folder, or `None` if labs of an unprivileged user are not possible here.
pub(super) fn user_bench(test: &str) -> Option<Bench> {
    let bench = Bench::new();
    possible(test, &bench).then_some(bench)
}

#[test]
fn selects_packet_engine_without_tun_permission() {
    let Some(bench) = user_bench("selects_packet_engine_without_tun_permission") else { return };
    bench.write("lab.toml", LAB);
    let mut command = as_user(&bench, &["run", "lab.toml", "--json"]).unwrap();
    let run = Running::spawn(&mut command).finish().passed();
    let engine = &run.record()["engine"];
    assert_eq!(engine["name"], "packet", "{engine}");
    let why = engine["rejected"][0]["reason"].as_str().unwrap();
    assert!(why.contains("/dev/net/tun"), "{engine}");
    assert_eq!(run.flow("tcp")["received_bytes"], 2_000_000, "{}", run.dump());
    assert_eq!(run.flow("udp")["lost_datagrams"], 0, "{}", run.dump());
    let printed = run.stdout("ping");
    assert!(printed.contains("3 packets transmitted, 3 received"), "{printed}");
    assert!(printed.contains("2 packets transmitted, 2 received"), "{printed}");
    assert!(printed.contains("refused"), "{printed}");
    let got = fs::read_to_string(bench.path().join("got")).unwrap();
    assert_eq!(got.lines().count(), 20_000);
    assert_eq!(fs::metadata(run.folder()).unwrap().uid(), UNUSED_USER_ID);
}

#[test]
fn exec_enters_a_lab_of_the_user() {
    let Some(bench) = user_bench("exec_enters_a_lab_of_the_user") else { return };
    bench.write("lab.toml", LAB);
    let mut command = as_user(&bench, &["run", "lab.toml", "--json", "--stay"]).unwrap();
    let running = Running::spawn(&mut command);
    let as_user = |args: &[&str]| as_user(&bench, args).unwrap().output().unwrap();
    until("the lab to run", || {
        let printed = as_user(&["ps"]).stdout;
        String::from_utf8_lossy(&printed).contains("rootless").then_some(())
    });
    let script = "id -u; hostname; ping -n -c 1 alice; exit 9";
    let output = as_user(&["exec", "rootless", "bob", "--", "sh", "-c", script]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(9), "{printed}");
    assert!(printed.starts_with("0\nbob\n") && printed.contains(" 1 received"), "{printed}");
    // Root has a separate registry.
    let other = bench.netarium(&["ps"]);
    assert_eq!(other.status.code(), Some(4), "{}", String::from_utf8_lossy(&other.stderr));
    assert!(String::from_utf8_lossy(&other.stderr).contains("belongs to another user"));
    assert_eq!(as_user(&["down", "rootless"]).status.code(), Some(0));
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{}", run.dump());
}

/// In a user namespace of `unshare --map-root-user`, root is one user of the host.
#[test]
fn runs_and_registers_in_a_user_namespace_with_one_user() {
    let Some(bench) = user_bench("runs_and_registers_in_a_user_namespace_with_one_user") else {
        return;
    };
    bench.write("lab.toml", LAB);
    let inside = |args: &[&str]| {
        let inner = as_user(&bench, args).unwrap();
        let user = UNUSED_USER_ID.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.args(["unshare", "--user", "--map-root-user"]);
        // The arguments after the script that closes a device.
        command.args(inner.get_args().skip(5));
        bench.prepare(&mut command);
        // Without it, the registry is in a folder that depends on the user.
        command.env_remove("XDG_RUNTIME_DIR");
        command
    };
    let run = Running::spawn(&mut inside(&["run", "lab.toml", "--json", "--stay"]));
    until("the lab to run", || {
        let output = inside(&["ps"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{printed}");
        String::from_utf8_lossy(&output.stdout).contains("rootless").then_some(())
    });
    assert_eq!(inside(&["down", "rootless"]).status().unwrap().code(), Some(0));
    let run = run.finish();
    assert_eq!(run.code, Some(130), "{}", run.dump());
    fs::remove_dir_all(format!("/tmp/netarium-{UNUSED_USER_ID}")).unwrap();
}

#[test]
fn rejects_tun_engine_without_permission() {
    let Some(bench) = user_bench("rejects_tun_engine_without_permission") else { return };
    bench.write("lab.toml", LAB);
    let mut command = as_user(&bench, &["run", "lab.toml", "--json", "--engine", "tun"]).unwrap();
    let run = Running::spawn(&mut command).finish();
    assert_eq!(run.code, Some(4), "{}", run.dump());
    let printed = run.records[0].to_string();
    assert!(printed.contains("/dev/net/tun") && printed.contains("ermission"), "{printed}");
    assert!(!bench.path().join("runs").exists(), "nothing had started");
}

#[test]
fn reports_fix_for_incomplete_nested_namespace() {
    let test = "reports_fix_for_incomplete_nested_namespace";
    let bench = Bench::new();
    requires_labs!("unshare");
    bench.write("lab.toml", "[node.a]\n[[program]]\nnode = \"a\"\nrun = \"true\"\n");
    let in_namespace = |options: &[&str], command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(options).args(command);
        bench.prepare(&mut unshare);
        unshare.output().unwrap()
    };
    let cases: &[(&[&str], &str)] = &[
        (&["--user"], "--map-root-user"),
        (&["--user", "--map-root-user", "--pid", "--fork"], "--mount-proc"),
    ];
    for (options, fix) in cases {
        let probe = in_namespace(options, &["true"]);
        if !probe.status.success() {
            skip(test, &String::from_utf8_lossy(&probe.stderr));
            return;
        }
        let output = in_namespace(options, &[NETARIUM, "run", "lab.toml"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{errors}");
        assert!(errors.contains(fix), "{errors}");
    }
}
