//! Outages of all links, and connections of the proxy that are redirected to itself.

use std::process::Stdio;

use super::world::{NETARIUM, Running, World, requires_world, until};

const FORWARD: [&str; 2] = ["--forward", "127.0.0.1:8080=127.0.0.1:8080"];

/// A web server on the server's loopback interface, which the proxy uses as target.
fn local_web(world: &World) -> Running {
    let mut command =
        world.server.command(&["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"]);
    command.current_dir(world.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    until("the web server listens", || world.server.run("ss -Hltn").contains("127.0.0.1:8080"));
    running
}

fn links(world: &World, state: &str) {
    world.client.run(&format!("ip l s c1 {state}; ip l s c2 {state}"));
}

/// The number of TCP sockets in the client's namespace is small, without those in TIME-WAIT.
#[track_caller]
fn assert_few_sockets(world: &World) {
    let sockets = world.client.run("ss -Htan state established | wc -l");
    assert!(sockets.trim().parse::<u32>().unwrap() < 20, "{sockets}");
}

/// The forwarded port and the target have the same name, so that plain TCP to the target would be
/// a connection of the proxy to itself.
#[test]
fn recovers_from_outage_without_connecting_to_itself() {
    let world = requires_world!();
    let (_web, _serve) = (local_web(&world), world.serve(&[]));
    for plain in [&[][..], &["--allow-plain"]] {
        let _proxy = world.proxy(&[&FORWARD[..], plain].concat());
        assert!(world.fetches_key("http://127.0.0.1:8080"));
        links(&world, "down");
        for _ in 0..5 {
            assert!(!world.fetches_key("http://127.0.0.1:8080"));
        }
        assert_few_sockets(&world);
        links(&world, "up");
        until("transfers work again", || world.fetches_key("http://127.0.0.1:8080"));
        let status = world.status("proxy");
        assert_eq!(status["fallbacks_total"], 0);
        assert!(status["failed_total"].as_u64() >= Some(5), "{status}");
    }
}

#[test]
fn errors_name_the_cause() {
    let world = requires_world!();
    let key = world.key();
    let errors = |server: &str, key: &[&str]| {
        let words = [NETARIUM, "mctcp", "connect", "10.99.0.1:80", "--server", server];
        let all = [&words, key].concat();
        let output = world.client.command(&all).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stderr).unwrap()
    };
    let right: Vec<&str> = key.iter().map(String::as_str).collect();
    let refused = errors("10.61.1.2", &right);
    assert!(refused.contains("no session with 10.61.1.2:8684"), "{refused}");
    assert!(refused.contains("Connection refused"), "{refused}");
    let serve = world.serve(&[]);
    std::fs::write(world.path("wrong"), "fedcba9876543210fedcba9876543210\n").unwrap();
    let wrong = world.path("wrong").to_str().unwrap().to_owned();
    let wrong = errors("10.61.1.2", &["--key-file", &wrong]);
    assert!(wrong.contains("authentication failed"), "{wrong}");
    drop(serve);
    world.client.run("ip l s c1 down; ip l s c2 down");
    let unreachable = errors("10.61.1.2", &right);
    assert!(unreachable.contains("no address of this host has a route"), "{unreachable}");
    for text in [refused, wrong, unreachable] {
        assert!(!text.contains("does not support"), "{text}");
    }
}

#[test]
fn rejects_own_redirected_connections() {
    let world = requires_world!();
    // Rules that do not exclude the proxy: for its plain connections, then for its sessions.
    for (number, port) in [80, 8684].into_iter().enumerate() {
        let words = ["--forward", "127.0.0.1:1090=10.99.0.1:80", "--allow-plain"];
        let _proxy = world.proxy(&words);
        world.client.run(&format!(
            "nft 'table inet loops {{
               chain o {{
                 type nat hook output priority -100
                 tcp dport {port} redirect to :1090
               }}
             }}'"
        ));
        assert!(!world.fetches_key("http://127.0.0.1:1090"));
        assert_few_sockets(&world);
        let refused = world.status("proxy")["refused_total"].as_u64().unwrap();
        assert!(refused > 0, "{number}");
        world.client.run("nft delete table inet loops");
    }
}
