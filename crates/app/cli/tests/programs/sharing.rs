//! Nodes with private files, and programs of other users.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use super::bench::{Bench, NETARIUM, Running, enclosed, installed, is_root, requires_labs, skip};

/// A user with a number that is unused on ordinary hosts, and the subordinate IDs of the user.
const CALLER_ID: u32 = 61_235;
const SUBORDINATES: &str = "61235:2000000000:65536\n";

/// A folder outside of the lab's, which is shared between the nodes of a lab.
fn outside() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("nt-outside").tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

/// Two programs that write the same files of `folder`, and read them when both have written.
fn writers(folder: &str, nodes: &str) -> String {
    let write = "hostname > data/own && hostname >> data/old && echo x > data/$(hostname) && \
                 mkdir -p kept && hostname > kept/$(hostname) && touch $LAB/done-$(hostname) && \
                 until [ -e $LAB/done-a ] && [ -e $LAB/done-b ]; do sleep 0.05; done; \
                 cat data/old data/own; ls data";
    format!(
        r#"
lab = {{ name = "sharing", duration = "30 s" }}
{nodes}
program = [
    {{ node = ["a", "b"], name = "write", run = """{write}""", dir = "{folder}", env = {{ LAB = "LABDIR" }} }},
]
"#
    )
}

fn run(bench: &Bench, lab: &str) -> super::bench::Run {
    bench.run(&lab.replace("LABDIR", bench.path().to_str().unwrap())).passed()
}

fn prepared(test: &str) -> Option<(Bench, tempfile::TempDir, PathBuf)> {
    if !enclosed(test) || !installed(test, &["hostname"]) {
        return None;
    }
    let (guard, folder) = outside();
    fs::create_dir(folder.join("data")).unwrap();
    fs::write(folder.join("data/old"), "old\n").unwrap();
    Some((Bench::new(), guard, folder))
}

#[test]
fn private_files_are_separate_per_node() {
    let test = "private_files_are_separate_per_node";
    let Some((bench, _guard, folder)) = prepared(test) else { return };
    let nodes = "node.a = { files = \"private\" }\nnode.b = { files = \"private\" }";
    let run = run(&bench, &writers(folder.to_str().unwrap(), nodes));
    for node in ["a", "b"] {
        let expected = format!("old\n{node}\n{node}\n{node}\nold\nown\n");
        assert_eq!(run.stdout(&format!("write.{node}")), expected, "{}", run.dump());
    }
    // Nothing on the machine has changed, except in the lab's folder.
    assert_eq!(fs::read_to_string(folder.join("data/old")).unwrap(), "old\n");
    assert_eq!(fs::read_dir(folder.join("data")).unwrap().count(), 1);
    assert!(!folder.join("kept").exists());
    assert!(bench.path().join("done-a").exists());
}

#[test]
fn listed_folders_are_private_and_others_shared() {
    let test = "listed_folders_are_private_and_others_shared";
    let Some((bench, _guard, folder)) = prepared(test) else { return };
    let data = folder.join("data");
    let private = format!("private = [\"{}\"]", data.display());
    let nodes =
        format!("node.a = {{ {private} }}\nnode.b = {{ {private}, private_size = \"1 MiB\" }}");
    let run = run(&bench, &writers(folder.to_str().unwrap(), &nodes));
    for node in ["a", "b"] {
        let expected = format!("old\n{node}\n{node}\n{node}\nold\nown\n");
        assert_eq!(run.stdout(&format!("write.{node}")), expected, "{}", run.dump());
    }
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.join("kept")).unwrap().count(), 2);
}

#[test]
fn exec_sees_private_files_and_ready_files_are_found() {
    let test = "exec_sees_private_files_and_ready_files_are_found";
    let Some((bench, _guard, folder)) = prepared(test) else { return };
    let data = folder.join("data");
    let lab = format!(
        r#"
lab = {{ name = "seen", duration = "30 s" }}
node.a = {{ private = ["{data}"] }}
node.b = {{}}
program = [
    {{ node = "a", name = "first", run = "echo inside > {data}/flag; sleep 20", ready = "file {data}/flag" }},
    {{ node = "a", name = "next", run = "echo next; sleep 20", after = "first" }},
]
"#,
        data = data.display()
    );
    let running = bench.start(&lab, &["--stay"]);
    bench.wait_for("seen");
    let flag = data.join("flag");
    let flag = flag.to_str().unwrap();
    super::bench::until("the file in the view", || {
        let output = bench.exec("seen", "a", &["cat", flag]);
        (output.stdout == b"inside\n").then_some(())
    });
    assert!(!bench.exec("seen", "b", &["cat", flag]).status.success());
    assert!(!data.join("flag").exists());
    running.signal("-INT");
    let run = running.finish();
    assert_eq!(run.stdout("next"), "next\n", "{}", run.dump());
}

#[test]
fn rejects_missing_private_folder() {
    requires_labs!();
    let bench = Bench::new();
    let lab = "node.a = { private = [\"/no/such/folder\"] }\n\
               program = [{ node = \"a\", run = \"true\" }]\n";
    let run = bench.run(lab);
    assert_eq!(run.code, Some(2), "{}", run.dump());
    let printed = run.dump();
    assert!(
        printed.contains("node a cannot have private files: cannot find /no/such/folder"),
        "{printed}"
    );
    assert!(printed.contains("create the folder"), "{printed}");
}

#[test]
fn reports_unknown_user_with_position() {
    requires_labs!();
    let bench = Bench::new();
    let lab =
        "node.a = {}\nprogram = [{ node = \"a\", run = \"true\", user = \"no-such-user\" }]\n";
    let run = bench.run(lab);
    assert_eq!(run.code, Some(2), "{}", run.dump());
    let printed = run.dump();
    assert!(printed.contains("unknown user `no-such-user` (line 2, column 47"), "{printed}");
    assert!(!bench.path().join("runs").exists(), "nothing had started");
}

const IDENTITY: &str = r#"
lab = { name = "users", duration = "20 s" }
node.a = { user = "daemon" }
[[program]]
name = "own"
node = "a"
run = """id -un; id -G; echo $HOME $USER $LOGNAME; \
    grep -E 'CapEff|CapPrm|NoNewPrivs|Seccomp:' /proc/self/status; echo out >/dev/stdout; \
    nc -l 80 & sleep 0.2; kill $! && echo bound"""
[[program]]
name = "root"
node = "a"
user = "root"
run = "id -u"
"#;

/// The output of `id` and of the environment, for the user `daemon`.
fn assert_identity(run: &super::bench::Run) {
    let command = |args: &[&str]| {
        let output = Command::new("id").args(args).arg("daemon").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run.stdout("own");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "daemon", "{}", run.dump());
    assert_eq!(lines[1], command(&["-G"]).trim(), "{text}");
    assert!(lines[2].ends_with(" daemon daemon"), "{text}");
    let no_capabilities = "0".repeat(16);
    for line in [
        format!("CapPrm:\t{no_capabilities}"),
        format!("CapEff:\t{no_capabilities}"),
        "NoNewPrivs:\t1".to_owned(),
        "Seccomp:\t2".to_owned(),
        "out".to_owned(),
        "bound".to_owned(),
    ] {
        assert!(lines.contains(&&*line), "{line}: {}", run.dump());
    }
    assert_eq!(run.stdout("root"), "0\n");
}

#[test]
fn programs_of_root_change_their_user() {
    let test = "programs_of_root_change_their_user";
    if !is_root() || !enclosed(test) || !installed(test, &["id", "nc"]) {
        return;
    }
    let bench = Bench::new();
    fs::set_permissions(bench.path(), Permissions::from_mode(0o700)).unwrap();
    assert_identity(&bench.run(IDENTITY).passed());
}

#[test]
fn exec_runs_as_the_user_of_the_node() {
    let test = "exec_runs_as_the_user_of_the_node";
    if !is_root() || !enclosed(test) {
        return;
    }
    let bench = Bench::new();
    let lab = "lab = { name = \"owned\", duration = \"30 s\" }\nnode.a = { user = \"daemon\" }\n\
               program = [{ node = \"a\", run = \"sleep 25\" }]\n";
    let running = bench.start(lab, &[]);
    bench.wait_for("owned");
    let output = bench.exec(
        "owned",
        "a",
        &["sh", "-c", "id -un; echo $USER; grep CapEff /proc/self/status"],
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "daemon\ndaemon\nCapEff:\t0000000000000000\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = bench.netarium(&["exec", "--user", "root", "owned", "a", "--", "id", "-u"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    running.signal("-INT");
    running.finish();
}

/// Runs the binary as a user with the given subordinate IDs. The files that assign them are
/// replaced in a separate mount namespace.
fn as_caller(bench: &Bench, test: &str, ranges: &str, args: &[&str]) -> Option<Command> {
    if !is_root() {
        eprintln!("{test}: only root can become another user");
        return None;
    }
    if !enclosed(test) || !installed(test, &["setpriv", "unshare", "newuidmap", "newgidmap"]) {
        return None;
    }
    let copy = bench.path().join("bin");
    fs::copy(NETARIUM, &copy).unwrap();
    for path in [bench.path(), &copy] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    if chown(bench.path(), Some(CALLER_ID), Some(CALLER_ID)).is_err() {
        skip(test, "files cannot be given to another user");
        return None;
    }
    let file = bench.write("ranges", ranges);
    // The helpers only serve users of /etc/passwd.
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let users =
        bench.write("passwd", &format!("{users}nt-caller:x:{CALLER_ID}:{CALLER_ID}::/:/bin/sh\n"));
    let script = format!(
        ": >>/etc/subuid && : >>/etc/subgid && mount --bind {users} /etc/passwd && \
         mount --bind {file} /etc/subuid && mount --bind {file} /etc/subgid && \
         exec setpriv --reuid {CALLER_ID} --regid {CALLER_ID} --clear-groups \"$@\"",
        users = users.display(),
        file = file.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &script, "sh"]).arg(copy).args(args);
    bench.prepare(&mut command);
    Some(command)
}

#[test]
fn programs_without_root_change_their_user() {
    let test = "programs_without_root_change_their_user";
    let bench = Bench::new();
    bench.write("lab.toml", IDENTITY);
    let args = ["run", "lab.toml", "--json"];
    let Some(mut command) = as_caller(&bench, test, SUBORDINATES, &args) else { return };
    if !installed(test, &["id", "nc"]) {
        return;
    }
    assert_identity(&Running::spawn(&mut command).finish().passed());
}

#[test]
fn other_users_own_private_files_without_root() {
    let test = "other_users_own_private_files_without_root";
    let bench = Bench::new();
    let (_guard, folder) = outside();
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    let lab = format!(
        "node.a = {{ user = \"daemon\", private = [\"{data}\"] }}\n\
         program = [{{ node = \"a\", name = \"write\", run = \"echo x > {data}/own && stat -c %U {data}/own\" }}]\n",
        data = data.display()
    );
    bench.write("lab.toml", &lab);
    let args = ["run", "lab.toml", "--json"];
    let Some(mut command) = as_caller(&bench, test, SUBORDINATES, &args) else { return };
    let run = Running::spawn(&mut command).finish().passed();
    assert_eq!(run.stdout("write"), "daemon\n", "{}", run.dump());
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    assert_eq!(fs::metadata(&data).unwrap().uid(), 0);
}

#[test]
fn reports_fix_for_missing_subordinate_ids() {
    let test = "reports_fix_for_missing_subordinate_ids";
    let bench = Bench::new();
    bench.write("lab.toml", IDENTITY);
    let args = ["run", "lab.toml", "--json"];
    let Some(mut command) = as_caller(&bench, test, "", &args) else { return };
    let run = Running::spawn(&mut command).finish();
    assert_eq!(run.code, Some(4), "{}", run.dump());
    let printed = run.dump();
    assert!(
        printed
            .contains("the lab asks for user `daemon`, but /etc/subuid has no range for nt-caller"),
        "{printed}"
    );
    let fix = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 nt-caller";
    assert!(printed.contains(fix), "{printed}");
}
