//! An agent acts under the name in its certificate only.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::control::{ClockKey, Heartbeat};
use serde_json::Value;
use zenoh::sample::Locality;
use zenoh::{Session, Wait};

use super::bench::until;
use super::loopback::{Loopback, free_address};
use super::rogue;

/// Instances of all agents, by their names; each must know the clock of one other agent.
fn instances(status: &Value) -> Option<Vec<(String, u64)>> {
    let agents = status["agents"].as_array()?;
    let known = |agent: &Value| {
        let peers = agent["peers"].as_array()?;
        (peers.len() == 1 && peers[0]["alive"] == true && peers[0]["clock"].is_object())
            .then_some(())?;
        Some((agent["name"].as_str()?.to_owned(), agent["instance"].as_u64()?))
    };
    agents.iter().map(known).collect()
}

/// Sends all that would make others take the sender, agent m2, for m1 or m3.
fn claim_names(session: &Session, certificates: &[String], claimed_address: SocketAddr) {
    let put = |key: String, message: Vec<u8>| {
        for certificate in certificates {
            session.put(&key, message.clone()).attachment(certificate.as_bytes()).wait().unwrap();
        }
    };
    let beat = |instance, leaves| {
        let beat = Heartbeat { instance, clock: claimed_address, leaves };
        serde_json::to_vec(&beat).unwrap()
    };
    let clock_key = serde_json::to_vec(&ClockKey { secret: [9; 32] }).unwrap();
    for number in [2, 3] {
        for (instance, leaves) in [(7, false), (7, true)] {
            put(format!("netarium/agent/{number}/m3/heartbeat"), beat(instance, leaves));
        }
        put(format!("netarium/to/1/m1/from/{number}/m3/clock"), clock_key.clone());
    }
    for number in [1, 2] {
        // An agent gives up its name for another one with a lower instance.
        put(format!("netarium/agent/{number}/m1/heartbeat"), beat(0, false));
    }
}

#[test]
fn agent_that_claims_the_names_of_others_disturbs_nothing() {
    let mut cluster = Loopback::new();
    cluster.authority(&["init", "--agent", "m3"]);
    let first = cluster.start("m1", None);
    cluster.start("m3", Some(first));
    let before = until("m1 and m3 to know each other", || {
        instances(&cluster.status(first)?).filter(|agents| agents.len() == 2)
    });
    let certificates: Vec<String> = ["m1", "m2", "m3"]
        .map(|name| fs::read_to_string(cluster.agent_credentials(name).join("cert.pem")).unwrap())
        .into();
    let listen = Some(free_address());
    let session = rogue::open(&cluster.agent_credentials("m2"), listen, Some(first));
    let received = Arc::new(Mutex::new(Vec::new()));
    let note = {
        let received = Arc::clone(&received);
        move |key: &str| received.lock().unwrap().push(key.to_owned())
    };
    let commands = session.declare_queryable("netarium/agent/**").callback({
        let note = note.clone();
        move |query| note(query.key_expr().as_str())
    });
    let _commands = commands.allowed_origin(Locality::Remote).wait().unwrap();
    let keys = session
        .declare_subscriber("netarium/to/**")
        .callback(move |sample| note(sample.key_expr().as_str()));
    let _keys = keys.allowed_origin(Locality::Remote).wait().unwrap();
    until("links to both", || (session.info().peers_zid().wait().count() == 2).then_some(()));
    for _ in 0..20 {
        claim_names(&session, &certificates, free_address());
        let status = until("a status", || cluster.status(first));
        assert_eq!(instances(&status), Some(before.clone()), "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
    for name in ["m1", "m3"] {
        let log = cluster.said(name);
        assert!(!log.contains("not heard") && !log.contains("m2"), "{name}: {log}");
    }
    let mut received = received.lock().unwrap();
    received.retain(|key| key != "netarium/agent/*/*/command/1/status");
    assert_eq!(*received, Vec::<String>::new(), "messages for others");
}

#[test]
fn agent_with_another_name_than_its_certificate_does_not_start() {
    let cluster = Loopback::new();
    let mut command = cluster.bench.command(&["agent", "--name", "m2", "--listen", "127.0.0.1:0"]);
    let output = command.arg("--credentials").arg(cluster.agent_credentials("m1")).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the certificate is that of agent m1, and not of m2"), "{text}");
}

#[test]
fn one_of_two_agents_with_one_name_ends_with_the_reason() {
    let mut cluster = Loopback::new();
    let first = cluster.start("m1", None);
    let credentials = cluster.agent_credentials("m1");
    let own = free_address().to_string();
    let mut command = cluster.bench.command(&["agent", "--listen", &own, "--dir", "second"]);
    command.args(["--join", &first.to_string(), "--credentials"]).arg(&credentials);
    let log = fs::File::create(cluster.bench.path().join("second.log")).unwrap();
    let mut second = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let text = until("one of both to end", || {
        ["m1", "second"]
            .map(|name| cluster.said(name))
            .into_iter()
            .find(|log| log.contains("error"))
    });
    let _ = second.kill();
    let _ = second.wait();
    assert!(text.contains("the cluster has an agent m1 already"), "{text}");
}
