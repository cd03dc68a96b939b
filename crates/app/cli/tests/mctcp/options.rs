//! Inconsistent options are rejected with a hint at the correct ones.

use std::process::Command;

use super::world::NETARIUM;

fn refused(words: &[&str]) -> String {
    let output = Command::new(NETARIUM).arg("mctcp").args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
    errors
}

#[test]
fn requires_limits_for_a_public_server() {
    let errors = refused(&["serve", "--listen", "0.0.0.0"]);
    for part in ["--listen 0.0.0.0:8684", "any client", "--key-file", "--allow"] {
        assert!(errors.contains(part), "{errors}");
    }
    let errors = refused(&["proxy", "--socks", "[::]:1080"]);
    for part in ["--socks [::]:1080", "--users", "--clients"] {
        assert!(errors.contains(part), "{errors}");
    }
}

#[test]
fn errors_name_invalid_option() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (short, users) = (file("short", "secret\n"), file("users", "ann\n"));
    let missing = folder.path().join("missing").to_str().unwrap().to_owned();
    let socks = ["proxy", "--socks", "127.0.0.1:0"];
    for (more, parts) in [
        (&["--key-file", &short][..], &["--key-file", "too short", "openssl rand"][..]),
        (&["--users", &users], &["users:1:", "NAME:PASSWORD"]),
        (&["--congestion", "nosuch"], &["--congestion nosuch", "cubic"]),
        (&["--buffer", "1 KiB"], &["--buffer", "64 KiB"]),
        (&["--scheduler", "best"], &["--scheduler", "`best`"]),
        (&["--subflows", "9"], &["--subflows", "8"]),
        (&["--path", "eth0"], &["--path", "ADDR[,backup]"]),
        (&["--server", "a b"], &["--server", "neither an address nor the name"]),
        (&["--forward", "5000=host"], &["--forward", "no port"]),
        (&["--tls-name", "a"], &["--tls-ca"]),
        (&["--tls-ca", &missing], &["missing"]),
        (&["--redirect", "127.0.0.1:1"], &["--capture"]),
        (&["--install"], &["--redirect"]),
    ] {
        let errors = refused(&[&socks, more].concat());
        for part in parts {
            assert!(errors.contains(part), "{more:?}: {errors}");
        }
    }
    assert!(refused(&["proxy"]).contains("no listener is configured"));
    assert!(refused(&["serve", "--listen", "eth0"]).contains("ADDR:PORT"));
    assert!(refused(&["connect", "host"]).contains("no port"));
}
