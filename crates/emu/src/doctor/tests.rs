use super::*;

fn refusal(errno: i32) -> Refusal {
    Refusal { text: "unshare: refused".to_owned(), errno: Some(errno) }
}

fn level(facts: &Facts, id: &str) -> (Level, String) {
    let all = findings(facts);
    let found = all.iter().find(|finding| finding.id == id).unwrap();
    (found.level, found.mend.clone().unwrap_or_default())
}

fn good() -> Facts {
    Facts {
        udp_segmentation: true,
        wake_ns: Some((30_000, 70_000)),
        clock_ns: 1,
        cores: 2,
        steal: Some(0.0),
        open_files: Some(20_000),
        controls: ["bbr", "cubic", "reno"].map(str::to_owned).to_vec(),
        mptcp: true,
        pasta: Some("/usr/bin/pasta".into()),
        tun_exists: true,
        ..Facts::default()
    }
}

#[test]
fn a_good_machine_has_nothing_to_mend() {
    let all = findings(&good());
    assert!(all.iter().all(|f| f.level == Level::Good && f.mend.is_none()), "{all:?}");
}

#[test]
fn what_is_not_good_can_be_mended() {
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
        assert!(!bad || finding.mend.is_some(), "{finding:?}");
    }
}

#[test]
fn each_lock_on_user_namespaces_has_its_key() {
    let cases = [
        (Facts { apparmor_restricts: Some(true), ..good() }, "apparmor"),
        (Facts { userns_clone: Some(false), ..good() }, "userns_clone"),
        (Facts { max_user_namespaces: Some(0), ..good() }, "max_user_namespaces"),
        (good(), "seccomp"),
        (Facts { namespaces: Some(refusal(22)), ..good() }, "chroot"),
    ];
    for (facts, key) in cases {
        let namespaces = facts.namespaces.clone().or_else(|| Some(refusal(1)));
        let (level, mend) = level(&Facts { namespaces, ..facts }, "namespaces");
        assert_eq!(level, Level::Bad);
        assert!(mend.contains(key), "{mend}");
    }
}

#[test]
fn the_chain_of_engines_goes_from_tun_to_packet_to_none() {
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
fn a_closed_device_and_a_missing_one_are_mended_differently() {
    let closed = Facts { tun: Some(refusal(13)), ..good() };
    assert!(level(&closed, "tun").1.contains("chmod"));
    let missing = Facts { tun_exists: false, ..closed };
    assert!(level(&missing, "tun").1.contains("modprobe"));
}
