use super::*;

fn refusal(errno: i32) -> Refusal {
    Refusal { text: "unshare: refused".to_owned(), errno: Some(errno) }
}

fn level(facts: &Facts, id: &str) -> (Level, String) {
    let all = findings(facts);
    let found = all.iter().find(|finding| finding.id == id).unwrap();
    (found.level, found.fix.clone().unwrap_or_default())
}

fn good() -> Facts {
    Facts {
        udp_segmentation: true,
        clock_ns: 1,
        cores: 2,
        steal: Some(0.0),
        open_files: Some(20_000),
        controls: ["bbr", "cubic", "reno"].map(str::to_owned).to_vec(),
        mptcp: true,
        remade_folders: true,
        pasta: Some("/usr/bin/pasta".into()),
        tun_exists: true,
        ..Facts::default()
    }
}

#[test]
fn suitable_host_needs_no_fix() {
    let all = findings(&good());
    assert!(all.iter().all(|f| f.level == Level::Good && f.fix.is_none()), "{all:?}");
}

#[test]
fn every_bad_finding_has_a_fix() {
    let facts = Facts {
        namespaces: Some(refusal(1)),
        tun: Some(refusal(1)),
        packet: Some(refusal(1)),
        realtime: Some(refusal(1)),
        open_files: Some(256),
        ..Facts::default()
    };
    for finding in findings(&facts) {
        let bad = finding.level == Level::Bad;
        assert!(!bad || finding.fix.is_some(), "{finding:?}");
    }
}

#[test]
fn suggests_fix_for_each_namespace_restriction() {
    let cases = [
        (Facts { apparmor_restricts: Some(true), ..good() }, "apparmor"),
        (Facts { userns_clone: Some(false), ..good() }, "userns_clone"),
        (Facts { max_user_namespaces: Some(0), ..good() }, "max_user_namespaces"),
        (good(), "seccomp"),
        (Facts { namespaces: Some(refusal(22)), ..good() }, "chroot"),
        (Facts { unmapped_user: true, ..good() }, "--map-root-user"),
        (Facts { foreign_proc: true, ..good() }, "--mount-proc"),
        (Facts { unmappable_root: true, ..good() }, "SETFCAP"),
    ];
    for (facts, key) in cases {
        let namespaces = facts.namespaces.clone().or_else(|| Some(refusal(1)));
        let (level, fix) = level(&Facts { namespaces, ..facts }, "namespaces");
        assert_eq!(level, Level::Bad);
        assert!(fix.contains(key), "{fix}");
    }
}

#[test]
fn suggests_fix_for_missing_subordinate_ids() {
    let fix = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 al";
    let why = format!("/etc/subuid has no range for al; fix: {fix}");
    let facts = Facts { users: Some(why), ..good() };
    assert_eq!(level(&facts, "users"), (Level::Weak, fix.to_owned()));
}

#[test]
fn reports_limits_of_private_files_on_old_kernels() {
    let old = Facts { remade_folders: false, ..good() };
    assert_eq!(level(&old, "private-files").0, Level::Weak);
    let none = Facts { private_files: Some(refusal(19)), ..old };
    assert!(level(&none, "private-files").1.contains("overlay"));
}

#[test]
fn prefers_tun_engine_to_packet_engine() {
    assert_eq!(choose(&good(), None).unwrap().engine, Engine::Tun);
    let no_tun = Facts { tun: Some(refusal(13)), ..good() };
    let choice = choose(&no_tun, None).unwrap();
    assert_eq!(choice.engine, Engine::Packet);
    assert_eq!(choice.rejected, vec![(Engine::Tun, "unshare: refused".to_owned())]);
    assert_eq!(choose(&no_tun, Some(Engine::Tun)).unwrap_err().len(), 1);
    let none = Facts { packet: Some(refusal(95)), ..no_tun };
    assert_eq!(choose(&none, None).unwrap_err().len(), 2);
    assert_eq!(level(&none, "engine").0, Level::Bad);
    let locked = Facts { namespaces: Some(refusal(1)), ..good() };
    assert_eq!(choose(&locked, Some(Engine::Packet)).unwrap_err().len(), 2);
}

#[test]
fn suggests_chmod_or_modprobe_for_tun_device() {
    let closed = Facts { tun: Some(refusal(13)), ..good() };
    assert!(level(&closed, "tun").1.contains("chmod"));
    let missing = Facts { tun_exists: false, ..closed };
    assert!(level(&missing, "tun").1.contains("modprobe"));
}
