//! Programs whose connections netfilter redirects to the proxy.

use super::world::{TARGET, requires_world, until};

const REDIRECT: [&str; 5] =
    ["--redirect", "127.0.0.1:1081", "--capture", "10.99.0.0/16", "--install"];

#[test]
fn redirected_download_uses_both_links_and_removes_rules() {
    let world = requires_world!();
    let (_web, _serve) = (world.web(), world.serve(&[]));
    let rules = || world.client.run("nft list ruleset");
    let children = |pid: u32| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    for kill in [false, true] {
        let mut proxy = world.proxy(&REDIRECT);
        assert!(rules().contains("ip daddr 10.99.0.0/16"));
        let fetch = world.fetch_over_both_links("");
        assert_eq!(fetch.output().trim(), world.hash);
        // A connection that was not redirected is rejected.
        assert_eq!(
            world.client.try_run("curl --silent --max-time 20 http://127.0.0.1:1081/"),
            None
        );
        assert_eq!(world.status("proxy")["refused_total"], 1);
        let nft = children(proxy.0.id());
        let of_nft = std::path::Path::new("/proc").join(nft.trim());
        assert!(!nft.trim().contains(' ') && of_nft.exists(), "{nft}");
        if kill {
            proxy.kill();
        } else {
            assert_eq!(proxy.end(), Some(0));
        }
        until("the rules are gone", || rules().is_empty());
        until("nft is gone", || !of_nft.exists());
        let reached = world.client.run(&format!("curl --silent http://{TARGET}/key"));
        assert_eq!(reached.len(), 33);
    }
}

#[test]
fn rejects_a_second_table_of_the_same_name() {
    let world = requires_world!();
    // A table from another source, such as one of the printed rules.
    world.client.run("nft add table inet netarium_mctcp_1081");
    let command = [&[super::world::NETARIUM, "mctcp", "proxy"], &REDIRECT[..]].concat();
    let output = world.client.command(&command).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(errors.contains("nft rejected the rules"), "{errors}");
    assert!(!world.client.run("nft list ruleset").contains("redirect"));
}
