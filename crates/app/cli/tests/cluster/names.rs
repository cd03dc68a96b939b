//! An agent can only use the name in its certificate.

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

/// Instances of all agents, by their names, and the name of the only other agent that each knows.
fn instances(status: &Value) -> Option<Vec<(String, u64, String)>> {
    let agents = status["agents"].as_array()?;
    let known = |agent: &Value| {
        let [peer] = &agent["peers"].as_array()?[..] else { return None };
        let [name, peer] = [agent, peer].map(|one| one["name"].as_str().map(str::to_owned));
        Some((name?, agent["instance"].as_u64()?, peer?))
    };
    agents.iter().map(known).collect()
}

/// Whether each agent receives heartbeats of the other one and knows its clock.
fn all_alive(status: &Value) -> bool {
    let agents = status["agents"].as_array().into_iter().flatten();
    let mut peers = agents.flat_map(|agent| agent["peers"].as_array().into_iter().flatten());
    peers.all(|peer| peer["alive"] == true && peer["clock"].is_object())
}

/// Sends all messages that could make others take the sender, agent m2, for m1 or m3.
fn claim_names(session: &Session, certificates: &[String], claimed_address: SocketAddr) {
    let put = |key: String, message: Vec<u8>| {
        for certificate in certificates {
            session.put(&key, message.clone()).attachment(certificate.as_bytes()).wait().unwrap();
        }
    };
    let beat = |instance, leaves| {
        let beat = Heartbeat { silence_timeout_ns: 0, instance, clock: claimed_address, leaves };
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
        // An agent releases its name to another one with a lower instance.
        put(format!("netarium/agent/{number}/m1/heartbeat"), beat(0, false));
    }
}

#[test]
fn ignores_agent_with_claimed_names() {
    let mut cluster = Loopback::new();
    cluster.authority(&["init", "--agent", "m3"]);
    let first = cluster.start("m1", None);
    cluster.start("m3", Some(first));
    let before = until("m1 and m3 to know each other", || {
        let status = cluster.status(first).filter(all_alive)?;
        instances(&status).filter(|agents| agents.len() == 2)
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
    for _ in 0..40 {
        claim_names(&session, &certificates, free_address());
        // On a busy host an agent may not answer in time.
        let status = until("a status of both", || {
            let status = cluster.status(first)?;
            (status["agents"].as_array()?.len() == before.len()).then_some(status)
        });
        assert_eq!(instances(&status), Some(before.clone()), "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
    until("both agents to be alive", || cluster.status(first).filter(all_alive));
    for name in ["m1", "m3"] {
        let log = cluster.printed(name);
        // An agent that accepted the claims would lose the other one every 500 ms; on a busy host
        // heartbeats may be late once or twice.
        let losses = log.matches("is lost").count();
        assert!(losses < 4 && !log.contains("m2"), "{name}: {log}");
    }
    let mut received = received.lock().unwrap();
    received.retain(|key| key != "netarium/agent/*/*/command/1/status");
    assert_eq!(*received, Vec::<String>::new(), "messages for others");
}

#[test]
fn rejects_agent_name_outside_certificate() {
    let cluster = Loopback::new();
    let mut command = cluster.bench.command(&["agent", "--name", "m2", "--listen", "127.0.0.1:0"]);
    let output = command.arg("--credentials").arg(cluster.agent_credentials("m1")).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the certificate is that of agent m1, and not of m2"), "{text}");
}

#[test]
fn duplicate_agent_name_ends_one_agent() {
    let mut cluster = Loopback::new();
    let first = cluster.start("m1", None);
    let credentials = cluster.agent_credentials("m1");
    let own = free_address().to_string();
    let mut command = cluster.bench.command(&["agent", "--listen", &own, "--dir", "second"]);
    command.args(["--join", &first.to_string(), "--credentials"]).arg(&credentials);
    let log = fs::File::create(cluster.bench.path().join("second.log")).unwrap();
    let mut second = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let text = until("one agent to end", || {
        ["m1", "second"]
            .map(|name| cluster.printed(name))
            .into_iter()
            .find(|log| log.contains("error"))
    });
    let _ = second.kill();
    let _ = second.wait();
    assert!(text.contains("the cluster has an agent m1 already"), "{text}");
}
