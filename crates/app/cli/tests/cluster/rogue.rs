//! A peer that uses the protocol of a coordinator, with arbitrary credentials.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cluster::AgentId;
use cluster::control::{AgentStatus, Offer, OnLoss, Prepare, Reserve, Reserved, Start, Started};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zenoh::query::{ConsolidationMode, QueryTarget};
use zenoh::{Session, Wait};

/// The lab that an attack runs.
const LAB: &str = "0123456789abcdef";

/// Opens a session with the three files in `credentials`, without any access control.
pub(crate) fn open(
    credentials: &Path,
    listen: Option<SocketAddr>,
    connect: Option<SocketAddr>,
) -> Session {
    let file = |name: &str| credentials.join(name).to_str().unwrap().to_owned();
    let endpoints = |address: Option<SocketAddr>| -> Vec<String> {
        address.iter().map(|address| format!("tls/{address}")).collect()
    };
    let config = json!({
        "mode": "peer",
        "listen": {"endpoints": endpoints(listen)},
        "connect": {
            "endpoints": endpoints(connect), "timeout_ms": -1, "exit_on_failure": false,
        },
        "scouting": {"multicast": {"enabled": false}},
        "open": {"return_conditions": {"connect_scouted": false, "declares": false}},
        "transport": {"link": {"tls": {
            "root_ca_certificate": file("ca.pem"),
            "listen_private_key": file("key.pem"),
            "listen_certificate": file("cert.pem"),
            "connect_private_key": file("key.pem"),
            "connect_certificate": file("cert.pem"),
            "enable_mtls": true,
            "verify_name_on_connect": false,
        }}},
    });
    zenoh::open(zenoh::Config::from_json5(&config.to_string()).unwrap()).wait().unwrap()
}

/// Whether the session has a link to another process.
pub(crate) fn is_linked(session: &Session) -> bool {
    session.info().peers_zid().wait().next().is_some()
}

fn ask<T: DeserializeOwned>(session: &Session, name: &str, message: &impl Serialize) -> Option<T> {
    let replies = session
        .get(format!("netarium/agent/1/m1/command/1/{name}"))
        .payload(serde_json::to_vec(message).unwrap())
        .target(QueryTarget::All)
        .consolidation(ConsolidationMode::None)
        .timeout(Duration::from_millis(1500))
        .wait()
        .unwrap();
    while let Ok(reply) = replies.recv() {
        if let Ok(sample) = reply.result() {
            return Some(serde_json::from_slice(&sample.payload().to_bytes()).unwrap());
        }
    }
    None
}

/// The status of agent m1, if it answers.
pub(crate) fn status(session: &Session) -> Option<AgentStatus> {
    ask(session, "status", &json!({}))
}

/// Sends agent m1 all messages to run `command` on a host of a lab; returns whether
/// it answered any.
pub(crate) fn run_on_agent(session: &Session, instance: u64, command: &str) -> bool {
    let needs = Offer { cores: 0.0, memory: 0, nic: None, traffic: None, hosts: 1 };
    let reserve = Reserve {
        lab: LAB.to_owned(),
        name: "attack".to_owned(),
        instance,
        own: AgentId::at(0),
        agents: vec!["m1".to_owned()],
        numbers: vec![1],
        needs,
        overcommit: true,
        on_loss: OnLoss::Continue,
    };
    let reserved: Option<Reserved> = ask(session, "reserve", &reserve);
    let trunk = reserved.map_or(SocketAddr::from(([127, 0, 0, 1], 9)), |reserved| reserved.trunk);
    let prepare = Prepare {
        lab: LAB.to_owned(),
        text: format!(
            "lab = {{ name = \"attack\", duration = \"3 s\", model = \"collapsed\" }}\n\
             node = {{ a = {{}} }}\n\
             program = [{{ node = \"a\", run = \"{command}\" }}]\n"
        ),
        owners: vec![Some(AgentId::at(0))],
        trunks: vec![trunk],
        datagram: reserved.map_or(1200, |reserved| reserved.datagram),
        key: "00".repeat(32),
        encrypt: true,
        stay: false,
        engine: None,
    };
    let prepared: Option<Value> = ask(session, "prepare", &prepare);
    let start = Start { lab: LAB.to_owned(), origin_ns: None };
    // If the first commands get no answer, no further one is sent.
    let attempts = if reserved.is_some() || prepared.is_some() { 30 } else { 1 };
    let started = (0..attempts).any(|_| {
        // Prevents that the lab counts as abandoned.
        session.put(format!("netarium/coordinator/1/lab/{LAB}"), "").wait().unwrap();
        ask::<Started>(session, "start", &start).is_some() || {
            std::thread::sleep(Duration::from_millis(300));
            false
        }
    });
    reserved.is_some() || prepared.is_some() || started
}
