//! Rogue peers cannot execute anything on an agent, whichever side opened the link.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster_live::authority::{Authority, CA_KEY_FILE};
use cluster_live::credentials::{CA_FILE, CERT_FILE, KEY_FILE, Role};
use rcgen::{CertificateParams, DistinguishedName, DnType, Issuer, KeyPair};
use zenoh::Wait;
use zenoh::sample::Locality;

use super::bench::{requires_labs, until};
use super::loopback::{Loopback, free_address};
use super::rogue;

fn foreign_credentials(cluster: &Loopback, role: Role) -> PathBuf {
    let dir = cluster.bench.path().join("foreign").join(role.to_string());
    let authority = Authority::generate(1).unwrap();
    authority.issue(role, "m1", 1).unwrap().store(&dir).unwrap();
    dir
}

/// Credentials of the cluster's authority with a name that is not a role, similar to a server with
/// a certificate of a public authority, which the connecting side of Zenoh accepts.
fn roleless_credentials(cluster: &Loopback, common_name: &str) -> PathBuf {
    let pki = cluster.bench.path().join("pki");
    let read = |file: &str| fs::read_to_string(pki.join(file)).unwrap();
    let signer = KeyPair::from_pem(&read(CA_KEY_FILE)).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read(CA_FILE), signer).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let cert = params.signed_by(&key, &issuer).unwrap();
    let dir = cluster.bench.path().join("roleless");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join(CA_FILE), read(CA_FILE)).unwrap();
    fs::write(dir.join(CERT_FILE), cert.pem()).unwrap();
    fs::write(dir.join(KEY_FILE), key.serialize_pem()).unwrap();
    dir
}

fn instance(cluster: &Loopback, agent: SocketAddr) -> u64 {
    until("the agent to answer its coordinator", || {
        cluster.status(agent)?["agents"][0]["instance"].as_u64()
    })
}

fn marker(cluster: &Loopback) -> (PathBuf, String) {
    let path = cluster.bench.path().join("attacked");
    let command = format!("touch {}", path.display());
    (path, command)
}

/// Waits for a link that is expected, or long enough that an unexpected one would exist.
fn await_link(session: &zenoh::Session, expected: bool, wait: Duration) {
    if expected {
        until("a link", || rogue::is_linked(session).then_some(()));
    } else {
        std::thread::sleep(wait);
    }
}

/// Connects a peer with `credentials` to agent m1 and attacks it; returns whether it had a link.
fn attack_from_opener(
    cluster: &Loopback,
    agent: SocketAddr,
    credentials: &Path,
    expects_link: bool,
) -> bool {
    let instance = instance(cluster, agent);
    let (path, command) = marker(cluster);
    let session = rogue::open(credentials, None, Some(agent));
    // A handshake on this host takes milliseconds; failed ones are retried meanwhile.
    await_link(&session, expects_link, Duration::from_secs(2));
    let linked = rogue::is_linked(&session);
    assert!(rogue::status(&session).is_none(), "the agent sent its status");
    assert!(!rogue::run_on_agent(&session, instance, &command), "the agent answered a command");
    assert!(!path.exists(), "the agent ran a command");
    assert!(!cluster.printed("m1").contains("attack"), "{}", cluster.printed("m1"));
    linked
}

#[test]
fn coordinator_runs_a_command_with_the_same_messages() {
    requires_labs!("touch");
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    let instance = instance(&cluster, agent);
    let (path, command) = marker(&cluster);
    let session = rogue::open(&cluster.coordinator_credentials(), None, Some(agent));
    until("a link", || rogue::is_linked(&session).then_some(()));
    until("a status", || rogue::status(&session));
    assert!(rogue::run_on_agent(&session, instance, &command), "{}", cluster.printed("m1"));
    until("the command to run", || path.exists().then_some(()));
}

#[test]
fn foreign_opener_gets_no_link() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    for role in [Role::Agent, Role::Coordinator] {
        let credentials = foreign_credentials(&cluster, role);
        assert!(!attack_from_opener(&cluster, agent, &credentials, false), "{role}");
    }
}

#[test]
fn agent_opener_cannot_command() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    let credentials = cluster.agent_credentials("m2");
    assert!(attack_from_opener(&cluster, agent, &credentials, true), "agents have links");
}

#[test]
fn roleless_opener_cannot_command() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    let credentials = roleless_credentials(&cluster, "agent.example.org");
    assert!(attack_from_opener(&cluster, agent, &credentials, true), "the handshake succeeds");
}

/// Lets agent m1 join a rogue listener with `credentials`, which attacks it and records its
/// messages; returns whether there was a link, and the messages.
fn attack_from_listener(
    cluster: &mut Loopback,
    credentials: &Path,
    expects_link: bool,
) -> (bool, Vec<String>) {
    let address = free_address();
    let session = rogue::open(credentials, Some(address), None);
    let received = session.declare_subscriber("netarium/**").allowed_origin(Locality::Remote);
    let received = received.wait().unwrap();
    let agent = cluster.start("m1", Some(address));
    let instance = instance(cluster, agent);
    let (path, command) = marker(cluster);
    // The agent sends heartbeats every 500 ms, and tries to connect at least every 2 s.
    await_link(&session, expects_link, Duration::from_secs(4));
    std::thread::sleep(Duration::from_secs(2));
    let linked = rogue::is_linked(&session);
    assert!(rogue::status(&session).is_none(), "the agent sent its status");
    assert!(!rogue::run_on_agent(&session, instance, &command), "the agent answered a command");
    assert!(!path.exists(), "the agent ran a command");
    let keys = received.drain().map(|sample| sample.key_expr().to_string()).collect();
    (linked, keys)
}

#[test]
fn foreign_listener_cannot_command_joining_agent() {
    let mut cluster = Loopback::new();
    let credentials = foreign_credentials(&cluster, Role::Coordinator);
    let (linked, received) = attack_from_listener(&mut cluster, &credentials, false);
    assert!(!linked && received.is_empty(), "{received:?}");
}

#[test]
fn roleless_listener_receives_nothing_from_joining_agent() {
    let mut cluster = Loopback::new();
    let credentials = roleless_credentials(&cluster, "agent.example.org");
    let (linked, received) = attack_from_listener(&mut cluster, &credentials, true);
    assert!(linked, "the handshake succeeds");
    assert!(received.is_empty(), "{received:?}");
}

#[test]
fn agent_listener_receives_heartbeats_but_cannot_command() {
    let mut cluster = Loopback::new();
    let credentials = cluster.agent_credentials("m2");
    let (linked, received) = attack_from_listener(&mut cluster, &credentials, true);
    assert!(
        linked && received.contains(&"netarium/agent/1/m1/heartbeat".to_owned()),
        "{received:?}"
    );
}
