//! Objects that netarium did not create are never changed, even if they resemble its own.

use std::fs;
use std::process::{Command, Stdio};

use super::bench::{Bench, until};
use super::cell::{self, Inventory};

#[test]
fn ignores_processes_and_devices_of_others() {
    cell::run(
        "ignores_processes_and_devices_of_others",
        "faults::foreign_objects::change_no_foreign_objects",
    );
}

/// A namespace with devices, a mount, processes and files that resemble those of a lab; a registry
/// entry of a run whose process numbers now belong to other processes.
const FOREIGN_OBJECTS: &str = "
    ip link add eth0 type dummy 2>/dev/null || ip tuntap add dev eth0 mode tun
    ip link set eth0 up
    ip addr add 10.0.0.1/30 dev eth0
    mkdir -p /tmp/netarium-0 /tmp/netarium
    mount -t tmpfs tmpfs /tmp/netarium
    echo mine > /tmp/netarium/hosts
    echo mine > /tmp/netarium-0/notes
";

#[test]
#[ignore = "runs in a cell, started by ignores_processes_and_devices_of_others"]
fn change_no_foreign_objects() {
    if !cell::is_inside() {
        return;
    }
    let bench = Bench::new();
    let made = Command::new("sh").args(["-ec", FOREIGN_OBJECTS]).status().unwrap();
    assert!(made.success());
    let mut foreign = Command::new("unshare")
        .args(["--net", "--mount", "sleep", "600"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the foreign process to execute sleep", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", foreign.id())).unwrap();
        (name.trim() == "sleep").then_some(())
    });
    let registry = bench.path().join("netarium");
    // The registry exists after the first command.
    assert_eq!(bench.netarium(&["ps"]).status.code(), Some(0));
    fs::write(registry.join("notes.txt"), "mine").unwrap();
    let folder = bench.path().join("runs/old-abcdef");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("thesis.txt"), "mine").unwrap();
    let keep = bench.path().join("keep");
    fs::create_dir(&keep).unwrap();
    fs::write(keep.join("file"), "mine").unwrap();
    let before = Inventory::take(&bench);

    let process = serde_json::json!({"pid": foreign.id(), "started_ticks": 1});
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let entry = serde_json::json!({
        "schema": "netarium.lab/1", "name": "old", "lab": "old", "id": "abcdef",
        "boot": boot.trim(), "supervisor": process, "init": process, "folder": folder,
        "started_unix": 1, "hosts": {"a": {"net": 5}},
    });
    let lab = "node.a = {}\nnode.b = {}\nlink = [{ ends = [\"a\", \"b\"] }]\n\
               program = [{ node = \"a\", run = \"ip -o link; ip -o addr\" }]\n";
    let mut cleaned = 0;
    for round in 0..3 {
        fs::write(registry.join("old.json"), entry.to_string()).unwrap();
        match round {
            0 => assert_eq!(bench.netarium(&["down", "old"]).status.code(), Some(2)),
            1 => assert_eq!(bench.netarium(&["clean"]).status.code(), Some(0)),
            _ => {
                let run = bench.run_with(lab, &["--name", "old"]).passed();
                let printed = run.stdout(run.record()["programs"][0]["name"].as_str().unwrap());
                assert!(printed.contains("eth0"), "{printed}");
            }
        }
        cleaned += u32::from(!registry.join("old.json").exists());
        before.returns(&bench, "or taken away");
        assert!(foreign.try_wait().unwrap().is_none(), "a foreign process was killed");
    }
    assert_eq!(cleaned, 3, "stale entries stay");
    assert_eq!(bench.netarium(&["down", "--all"]).status.code(), Some(0));
    for file in [&*registry.join("notes.txt"), &folder.join("thesis.txt"), &keep.join("file")] {
        assert_eq!(fs::read_to_string(file).unwrap(), "mine", "{}", file.display());
    }
    for file in ["/tmp/netarium/hosts", "/tmp/netarium-0/notes"] {
        assert_eq!(fs::read_to_string(file).unwrap(), "mine\n");
    }
    let address = Command::new("ip").args(["-o", "addr", "show", "eth0"]).output().unwrap();
    assert!(String::from_utf8_lossy(&address.stdout).contains("10.0.0.1/30"));
    foreign.kill().unwrap();
    foreign.wait().unwrap();
}
