use bundler::control::Control;
use bundler::digest::Key;
use queue::Discipline;

use super::*;
use bundler::settings::{Marking, Mode, Settings};

const KEY: &str = "key = \"0123456789abcdef0123456789abcdef\"\n";

fn send(text: &str) -> Send {
    Send::parse("send.toml", text).unwrap()
}

/// The errors, with line and column.
fn wrong(text: &str) -> Vec<(String, (u32, u32), String)> {
    let Err(Error::Config(mistakes)) = Send::parse("send.toml", text) else { return Vec::new() };
    let list = mistakes.list().iter();
    list.map(|it| (it.message.clone(), it.position, it.help.clone().unwrap_or_default())).collect()
}

/// A configuration in a folder from elsewhere.
#[test]
fn errors_do_not_quote_a_link_to_another_folder() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("site");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(place.path().join("shadow"), "root:$6$hash:19000\n").unwrap();
    let file = folder.join("send.toml");
    std::os::unix::fs::symlink("../shadow", &file).unwrap();
    for error in [Send::load(&file).unwrap_err(), Receive::load(&file).unwrap_err()] {
        let text = format!("{error} {error:?}");
        assert!(text.contains("line 1") && !text.contains("hash"), "{text}");
    }
}

#[test]
fn a_bundle_needs_three_keys() {
    let text = format!("[bundle.tokyo]\nremote = \"10.2.0.0/16\"\npeer = \"203.0.113.7\"\n{KEY}");
    let config = send(&text);
    let tokyo = &config.bundles[0];
    assert_eq!((tokyo.name.as_str(), tokyo.peer.port()), ("tokyo", 28_316));
    assert_eq!(config.common.listen.to_string(), "0.0.0.0:28316");
    assert_eq!(config.common.status, Path::new("/run/netarium/send.sock"));
    assert_eq!((config.table, config.common.device.as_str()), (28_316, "bundle0"));
    // Defaults are those of `bundler::settings::Settings`.
    let usual = Settings::new(tokyo.settings.id, tokyo.settings.key.clone());
    assert_eq!(format!("{:?}", tokyo.settings), format!("{usual:?}"));
    // The other gateway derives the same number.
    let text = format!("[bundle.x]\nlocal = [\"10.2.0.0/16\"]\npeer = \"192.0.2.1:9\"\n{KEY}");
    let there = Receive::parse("receive.toml", &text).unwrap();
    assert_eq!(there.bundles[0].id, tokyo.settings.id);
    assert_eq!(there.bundles[0].overhead, tokyo.settings.overhead);
}

#[test]
fn reads_every_key() {
    let text = format!(
        "listen = \"[::]:5000\"\ndevice = \"b1\"\ntable = 77\nspin = true\nstatus = \"s\"\n\
         metrics = \"127.0.0.1:9316\"\n[bundle.a]\nremote = [\"10.2.0.0/16\", \"2001:db8::/32\"]\n\
         local = [\"10.1.0.0/16\"]\npeer = \"[2001:db8::7]:28316\"\nid = 7\n\
         scheduler = {{ kind = \"fq-codel\", limit = \"500 packets\", target = \"3 ms\" }}\n\
         control = \"copa\"\nmarking = \"encapsulation\"\nmode = \"dry-run\"\n\
         floor = \"5 Mbit/s\"\nceiling = \"2 Gbit/s\"\noverhead = \"24 B\"\nelasticity = false\n\
         multipath = false\non_failure = \"open\"\nseed = 3\n{KEY}"
    );
    let config = send(&text);
    let settings = &config.bundles[0].settings;
    assert_eq!((settings.id, settings.mode, settings.seed), (7, Mode::DryRun, 3));
    assert_eq!(settings.control, Control::Copa);
    assert_eq!(settings.marking, Marking::Encapsulation);
    let target = base::Span::from_millis(3);
    let Discipline::FqCoDel { target: found, .. } = settings.scheduler.discipline else {
        panic!("{settings:?}")
    };
    assert_eq!(found, target);
    assert!(settings.scheduler.ecn && !settings.elasticity && !settings.multipath);
    assert_eq!((config.table, config.spin), (77, true));
    assert_eq!(settings.ceiling.unwrap().to_string(), "2 Gbit/s");
    for (text, control) in [
        ("\"constant:90 Mbit/s\"", Control::Constant("90 Mbit/s".parse().unwrap())),
        (
            "{ kind = \"constant\", rate = \"9 Mbit/s\" }",
            Control::Constant("9 Mbit/s".parse().unwrap()),
        ),
    ] {
        let text = format!(
            "[bundle.a]\nremote = \"10.2.0.0/16\"\npeer = \"1.2.3.4\"\n{KEY}control = {text}"
        );
        assert_eq!(send(&text).bundles[0].settings.control, control);
    }
}

#[test]
fn reports_all_errors_with_their_positions() {
    let text = "lissen = \"x\"\n[bundle.a]\nremote = [\"10.2.3.4/16\"]\npeer = 7\nkey = \"short\"\n\
                scheduler = \"fq_codel\"\nmode = \"enforced\"\nfloor = \"5\"\non_failure = \"closed\"\n\
                [bundle.b]\n";
    let found = wrong(text);
    let messages: Vec<&str> = found.iter().map(|(message, _, _)| message.as_str()).collect();
    assert_eq!(messages.len(), 11, "{found:#?}");
    assert_eq!((found[0].1, found[0].2.as_str()), ((1, 1), "did you mean `listen`?"));
    assert!(messages[1].contains("the prefix is `10.2.0.0/16`"), "{messages:?}");
    assert_eq!(found[2].1, (4, 8));
    assert!(messages[3].contains("it needs 16"));
    assert_eq!(found[4].2, "did you mean `fq-codel`?");
    assert_eq!(found[5].2, "did you mean `enforce`?");
    assert!(messages[6].contains("needs a unit"));
    assert!(messages[7].contains("on_failure"));
    assert!(messages[8..].iter().all(|it| it.starts_with("a bundle needs `")), "{messages:?}");
    assert_eq!(wrong("[bundle")[0].1.0, 1);
    assert!(wrong("")[0].0.contains("no bundle"));
    assert!(wrong("[bundle]\n")[0].0.contains("no bundle"));
    assert!(wrong("bundle = 1\n")[0].0.contains("no bundle"));
}

#[test]
fn route_tables_precede_main_and_avoid_system_tables() {
    let bundle = "[bundle.a]\nremote = \"10.2.0.0/16\"\npeer = \"192.0.2.1\"\n";
    for table in [0, 254, 32_763] {
        let found = wrong(&format!("table = {table}\n{bundle}{KEY}"));
        assert_eq!(found.len(), 1, "{table} {found:#?}");
        assert_eq!(found[0].1.0, 1, "{found:#?}");
    }
    assert_eq!(send(&format!("table = 32762\n{bundle}{KEY}")).table, 32_762);
}

#[test]
fn rejects_bundles_with_the_same_identifier() {
    let bundle = |name: &str, more: &str| {
        format!("[bundle.{name}]\nremote = \"10.2.0.0/16\"\npeer = \"192.0.2.1\"\n{KEY}{more}\n")
    };
    let found = wrong(&(bundle("a", "") + &bundle("b", "")));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].0.contains("and `a` are both bundle"), "{found:#?}");
    assert!(found[1].0.contains("10.2.0.0/16 is `remote` of two bundles"), "{found:#?}");
    let apart = |a: &str, b: &str| {
        bundle("a", &format!("id = 1\nlocal = \"{a}\""))
            + &bundle("b", &format!("id = 2\nlocal = \"{b}\""))
    };
    assert!(wrong(&apart("10.1.0.0/24", "10.1.1.0/24")).is_empty());
    assert_eq!(wrong(&apart("10.1.0.0/16", "10.1.1.0/24")).len(), 1);
    let found = wrong(&bundle("a", "floor = \"5 Mbit/s\"\nceiling = \"1 Mbit/s\""));
    assert!(found[0].0.contains("is below `floor`"), "{found:#?}");
    let found = wrong(&format!(
        "listen = \"0.0.0.0:1\"\n[bundle.a]\nremote = \"::/0\"\npeer = \"::1\"\n{KEY}"
    ));
    assert!(found[0].0.contains("cannot be reached"), "{found:#?}");
}

#[test]
fn rejects_bundles_without_prefixes_and_with_sweeps() {
    let found = wrong(&format!("[bundle.a]\nremote = []\npeer = \"192.0.2.1\"\n{KEY}"));
    assert_eq!(found[0].0, "`remote` has no prefix");
    let sweep = "{ sweep = [\"192.0.2.1\"] }";
    let found = wrong(&format!("[bundle.a]\nremote = \"10.2.0.0/16\"\npeer = {sweep}\n{KEY}"));
    assert_eq!(found[0].0, "`peer` wants a text");
}

#[test]
fn reference_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/src/reference/bundle.md");
    if std::env::var_os("NETARIUM_GENERATE").is_some() {
        std::fs::write(path, reference_page()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept == reference_page(), "stale: run this test with NETARIUM_GENERATE=1");
}

#[test]
fn reads_key_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("send.toml");
    std::fs::write(folder.path().join("secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let text = "[bundle.a]\nremote = \"10.2.0.0/16\"\npeer = \"192.0.2.1\"\nkey_file = \"secret\"";
    std::fs::write(&file, text).unwrap();
    let config = Send::load(&file).unwrap();
    assert_eq!(
        config.bundles[0].settings.key,
        Key::from_secret("0123456789abcdef0123456789abcdef")
    );
    assert!(wrong(text)[0].0.starts_with("cannot read secret"));
    assert!(
        wrong(&format!("{text}\n{KEY}"))[0].0.contains("`key` and `key_file` exclude each other")
    );
}

proptest::proptest! {
    #[test]
    fn never_panics(text in "[a-z0-9 =\\[\\].{}\"\n/:-]{0,200}") {
        let _ = Send::parse("x", &text);
        let _ = Receive::parse("x", &format!("[bundle.a]\n{text}"));
    }
}
