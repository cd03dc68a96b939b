//! The Zenoh session of agents and coordinators, and the keys of their messages.
//!
//! All processes are Zenoh peers with direct connections. A new process receives the addresses of
//! the others from the agents that it joins, without multicast discovery.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cluster::AgentId;
use cluster::control::{Heartbeat, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zenoh::pubsub::Subscriber;
use zenoh::qos::Priority;
use zenoh::query::{Query, Queryable};
use zenoh::sample::{Locality, Sample};
use zenoh::{Session, Wait};

use crate::credentials::{Credentials, Identity, Role};
use crate::trust::Trust;
use crate::{Error, Result, priority};

/// All files of a lab are in one message.
const MAX_MESSAGE_BYTES: usize = 160 << 20;
/// Time in µs that a droppable message waits for space in a full queue. It is short so that a
/// hanging agent does not delay messages to the others.
const DROP_TIMEOUT_US: u64 = 5_000;
/// Time in µs without progress after which a connection is closed.
const PROGRESS_TIMEOUT_US: u64 = 30_000_000;
/// Time in ms after which a connection with an incomplete TLS handshake is closed.
const HANDSHAKE_TIMEOUT_MS: u64 = 3_000;
/// Time to receive a heartbeat through a temporary session.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in ms after which an authenticated link that is not open is closed.
const OPEN_TIMEOUT_MS: u64 = 5_000;

/// A process of the cluster, as identified by the keys of its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) role: Role,
    /// The number in its certificate.
    pub(crate) number: u16,
    /// Name of an agent; empty for coordinators.
    pub(crate) name: String,
}

impl Peer {
    pub(crate) fn agent(number: u16, name: &str) -> Self {
        Self { role: Role::Agent, number, name: name.to_owned() }
    }

    /// The sender of a message. A link only accepts keys with the number of its certificate.
    fn sender(key: &str) -> Option<Self> {
        let chunks: Vec<&str> = key.split('/').collect();
        match *chunks {
            ["netarium", "agent", number, name, ..]
            | ["netarium", "to", _, _, "from", number, name, ..] => {
                Some(Self::agent(number.parse().ok()?, name)).filter(|peer| is_name(&peer.name))
            }
            ["netarium", "coordinator", number, ..] => Some(Self {
                role: Role::Coordinator,
                number: number.parse().ok()?,
                name: String::new(),
            }),
            _ => None,
        }
    }
}

/// The agents of a lab, by [`AgentId`].
#[derive(Clone)]
pub(crate) struct LabPeers(Arc<[Peer]>);

impl LabPeers {
    pub(crate) fn id(&self, sender: &Peer) -> Option<AgentId> {
        self.0.iter().position(|peer| peer == sender).map(AgentId::at)
    }

    pub(crate) fn get(&self, agent: AgentId) -> &Peer {
        &self.0[agent.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<Peer> for LabPeers {
    fn from_iter<I: IntoIterator<Item = Peer>>(peers: I) -> Self {
        Self(peers.into_iter().collect())
    }
}

/// Keys of messages. Each has the number of its sender, which the access control compares with the
/// certificate of the link.
pub(crate) mod key {
    use std::fmt::Display;

    use cluster::AgentId;

    use super::Peer;

    /// The prefix of all messages and replies of an agent, except those to one other agent.
    pub(crate) fn agent(peer: &Peer) -> String {
        format!("netarium/agent/{}/{}", peer.number, peer.name)
    }

    /// A coordinator's command to an agent.
    pub(crate) fn command(to: &Peer, coordinator: u16, command: &str) -> String {
        format!("{}/command/{coordinator}/{command}", agent(to))
    }

    pub(crate) fn commands(to: &Peer) -> String {
        format!("{}/command/*/*", agent(to))
    }

    pub(crate) fn command_to_all(coordinator: impl Display, command: &str) -> String {
        format!("netarium/agent/*/*/command/{coordinator}/{command}")
    }

    /// The coordinator's number and the name of a command.
    pub(crate) fn parse_command(key: &str) -> Option<(u16, String)> {
        let (_, rest) = key.split_once("/command/")?;
        let (coordinator, command) = rest.split_once('/')?;
        Some((coordinator.parse().ok()?, command.to_owned()))
    }

    pub(crate) fn heartbeat(peer: &Peer) -> String {
        format!("{}/heartbeat", agent(peer))
    }

    /// See [`heartbeat`], of all agents.
    pub(crate) const HEARTBEATS: &str = "netarium/agent/*/*/heartbeat";

    /// The clock key from one agent to one other agent.
    pub(crate) fn clock_key(to: &Peer, from: &Peer) -> String {
        let (to_name, from_name) = (&to.name, &from.name);
        format!("netarium/to/{}/{to_name}/from/{}/{from_name}/clock", to.number, from.number)
    }

    /// See [`clock_key`], of all agents.
    pub(crate) fn clock_keys(to: &Peer) -> String {
        format!("netarium/to/{}/{}/from/*/*/clock", to.number, to.name)
    }

    /// The reports of an agent on its shard of a lab.
    pub(crate) fn report(lab: &str, from: &Peer) -> String {
        format!("{}/lab/{lab}/report", agent(from))
    }

    /// See [`report`], of all agents of the lab.
    pub(crate) fn reports(lab: &str) -> String {
        format!("netarium/agent/*/*/lab/{lab}/report")
    }

    /// The heartbeats of a lab's coordinator.
    pub(crate) fn coordinator(lab: &str, number: u16) -> String {
        format!("netarium/coordinator/{number}/lab/{lab}")
    }

    /// Notices from `from` to `to`; `None`: to all agents of the lab.
    pub(crate) fn notice(lab: &str, to: Option<AgentId>, from: &Peer) -> String {
        match to {
            None => format!("{}/lab/{lab}/notice/all", agent(from)),
            Some(to) => format!("{}/lab/{lab}/notice/{to}", agent(from)),
        }
    }

    /// Notices from all agents to `to`, or those to all agents of the lab.
    pub(crate) fn notices(lab: &str, to: Option<AgentId>) -> String {
        match to {
            None => format!("netarium/agent/*/*/lab/{lab}/notice/all"),
            Some(to) => format!("netarium/agent/*/*/lab/{lab}/notice/{to}"),
        }
    }

    /// Events of the programs of `from`.
    pub(crate) fn program(lab: &str, from: &Peer) -> String {
        format!("{}/lab/{lab}/program", agent(from))
    }

    /// See [`program`], of all agents of the lab.
    pub(crate) fn programs(lab: &str) -> String {
        format!("netarium/agent/*/*/lab/{lab}/program")
    }
}

pub use cluster::control::is_name;

/// A session with its trusted certificates. [`Bus::replace`] opens it again with all declarations.
#[derive(Clone)]
pub(crate) struct Bus {
    link: Arc<Link>,
    pub(crate) trust: Arc<Trust>,
    pub(crate) own: Peer,
    /// Proves to other processes that the own name belongs to the own number.
    certificate: Arc<str>,
}

struct Link {
    credentials: Credentials,
    listen: Vec<String>,
    join: Vec<String>,
    session: RwLock<Session>,
    replacements: AtomicU64,
    declarations: Mutex<Declarations>,
}

#[derive(Default)]
struct Declarations {
    next: u64,
    active: BTreeMap<u64, (Declared, Entity)>,
    is_closed: bool,
}

type OnSample = Arc<dyn Fn(Sample) + Send + Sync>;
type OnQuery = Arc<dyn Fn(Query) + Send + Sync>;

/// A declaration with what a new session needs to repeat it.
#[derive(Clone)]
enum Declared {
    Subscriber { key: String, receive: OnSample },
    Queryable { key: String, receive: OnQuery },
}

/// A declaration in the current session; it ends when this value is dropped.
enum Entity {
    Subscriber { _entity: Subscriber<()> },
    Queryable { _entity: Queryable<()> },
}

impl Declared {
    fn declare(&self, session: &Session) -> Result<Entity> {
        match self.clone() {
            Self::Subscriber { key, receive } => {
                let entity =
                    session.declare_subscriber(key).callback(move |sample| receive(sample));
                let entity = entity.allowed_origin(Locality::Remote).wait();
                let entity = entity.map_err(Error::session("subscribe"))?;
                Ok(Entity::Subscriber { _entity: entity })
            }
            Self::Queryable { key, receive } => {
                let entity = session.declare_queryable(key).callback(move |query| receive(query));
                let entity = entity.wait().map_err(Error::session("receive commands"))?;
                Ok(Entity::Queryable { _entity: entity })
            }
        }
    }
}

/// A subscription or a queryable of all sessions of a [`Bus`], until it is dropped.
pub(crate) struct Declaration {
    link: Arc<Link>,
    number: u64,
}

impl Drop for Declaration {
    fn drop(&mut self) {
        let removed = self.link.declarations().active.remove(&self.number);
        // Outside of the lock, which the callbacks of other declarations do not need then.
        drop(removed);
    }
}

impl Link {
    fn open(
        own: &Credentials,
        trust: &Trust,
        listen: &[String],
        join: &[String],
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            credentials: own.clone(),
            listen: listen.to_owned(),
            join: join.to_owned(),
            session: RwLock::new(open(own, trust, listen, join)?),
            replacements: AtomicU64::new(0),
            declarations: Mutex::default(),
        }))
    }

    fn declarations(&self) -> MutexGuard<'_, Declarations> {
        self.declarations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(own: &Credentials, trust: &Trust, listen: &[String], join: &[String]) -> Result<Session> {
    let config = serde_json::from_value(config(own, trust, listen, join))
        .map_err(|error| Error::session("configure the session")(error.into()))?;
    priority::raise_threads_of(|| zenoh::open::<zenoh::Config>(config).wait())
        .map_err(Error::session("open the session"))
}

impl Bus {
    /// Opens a session as `name`: listening on `listen`, connecting to the agents at `join`.
    pub(crate) fn open(
        own: &Credentials,
        name: &str,
        listen: &[String],
        join: &[String],
    ) -> Result<Self> {
        let trust = Trust::of(own).map_err(|text| Error::Usage { text })?;
        let Identity { role, number, .. } = own.identity;
        let link = Link::open(own, &trust, listen, join)?;
        let own_name = Peer { role, number, name: name.to_owned() };
        let certificate = own.cert.as_str().into();
        Ok(Self { link, trust: Arc::new(trust), own: own_name, certificate })
    }

    /// The current session. It is closed while [`Self::replace`] runs.
    pub(crate) fn session(&self) -> Session {
        self.link.session.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of replacements of the session. Publishers of earlier sessions are closed.
    pub(crate) fn replacements(&self) -> u64 {
        self.link.replacements.load(Ordering::Acquire)
    }

    /// Closes the session and opens a new one with all declarations. It blocks for up to seconds.
    /// After an error, the session is closed.
    pub(crate) fn replace(&self) -> Result<()> {
        let mut declarations = self.link.declarations();
        if declarations.is_closed {
            return Ok(());
        }
        // After a failed replacement it is closed already.
        let _ = self.session().close().wait();
        let Link { credentials, listen, join, .. } = &*self.link;
        let session = open(credentials, &self.trust, listen, join)?;
        for (declared, entity) in declarations.active.values_mut() {
            *entity = declared.declare(&session)?;
        }
        *self.link.session.write().unwrap_or_else(PoisonError::into_inner) = session;
        self.link.replacements.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Closes the session permanently.
    pub(crate) fn close(&self) -> Result<()> {
        self.link.declarations().is_closed = true;
        self.session().close().wait().map_err(Error::session("close the session"))
    }

    /// Searches for one of the agents `names` through a temporary session. Returns the first agent
    /// of which a heartbeat arrives.
    pub(crate) fn probe(&self, names: &[String]) -> Option<String> {
        let Link { credentials, join, .. } = &*self.link;
        let link = Link::open(credentials, &self.trust, &[], join).ok()?;
        let probe = Self { link, ..self.clone() };
        let (sender, received) = channel();
        let receive = move |peer: &Peer, beat: Heartbeat| {
            // It fails only if the probe is over.
            drop(sender.send((peer.name.clone(), beat.leaves)));
        };
        let subscribed = probe.subscribe_certified(key::HEARTBEATS.to_owned(), receive).ok();
        let end = Instant::now() + PROBE_TIMEOUT;
        let mut found = None;
        while let (None, Some(_)) = (&found, &subscribed) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok((name, leaves)) = received.recv_timeout(left) else { break };
            found = Some(name).filter(|name| !leaves && names.contains(name));
        }
        drop(subscribed);
        // An error means that it is closed.
        let _ = probe.close();
        found
    }

    fn declare(&self, declared: Declared) -> Result<Declaration> {
        let mut declarations = self.link.declarations();
        let entity = declared.declare(&self.session())?;
        let number = declarations.next;
        declarations.next += 1;
        declarations.active.insert(number, (declared, entity));
        Ok(Declaration { link: Arc::clone(&self.link), number })
    }

    /// Receives queries under `key`.
    pub(crate) fn receive_queries(
        &self,
        key: String,
        receive: impl Fn(Query) + Send + Sync + 'static,
    ) -> Result<Declaration> {
        self.declare(Declared::Queryable { key, receive: Arc::new(receive) })
    }

    /// Receives the messages of other processes under `key`, except those of revoked senders.
    pub(crate) fn subscribe(
        &self,
        key: String,
        receive: impl Fn(&Peer, &Sample) + Send + Sync + 'static,
    ) -> Result<Declaration> {
        let trust = Arc::clone(&self.trust);
        let callback = move |sample: Sample| {
            let sender = Peer::sender(sample.key_expr().as_str());
            let admitted = |sender: &Peer| trust.admits(sender.role, sender.number);
            if let Some(sender) = sender.filter(admitted) {
                receive(&sender, &sample);
            }
        };
        self.declare(Declared::Subscriber { key, receive: Arc::new(callback) })
    }

    /// Receives the messages of agents under `key` that carry a certificate for the agent's name.
    pub(crate) fn subscribe_certified<T: DeserializeOwned>(
        &self,
        key: String,
        receive: impl Fn(&Peer, T) + Send + Sync + 'static,
    ) -> Result<Declaration> {
        let trust = Arc::clone(&self.trust);
        self.subscribe(key, move |sender, sample| {
            let message = read::<T>(&sample.payload().to_bytes());
            if let Some(message) = message.filter(|_| proves_name(&trust, sender, sample)) {
                receive(sender, message);
            }
        })
    }

    /// Publishes with the certificate of this process.
    pub(crate) fn put_certified(&self, key: &str, payload: &[u8]) {
        let session = self.session();
        let put = session.put(key, payload).attachment(self.certificate.as_bytes());
        // After an error, the message is repeated with the next heartbeat.
        let _ = put.express(true).priority(Priority::InteractiveHigh).wait();
    }

    /// Replies to a command. Errors are ignored: the requester may have ended.
    pub(crate) fn reply<T: Serialize>(&self, query: &Query, answer: &Result<T, Refusal>) {
        let _ = match answer {
            Ok(answer) => self.reply_bytes(query, bytes(answer)),
            Err(refusal) => query.reply_err(bytes(refusal)).wait(),
        };
    }

    /// Replies to a command under the key of this agent: that of the command may match several.
    pub(crate) fn reply_bytes(&self, query: &Query, answer: Vec<u8>) -> zenoh::Result<()> {
        let Some((coordinator, command)) = key::parse_command(query.key_expr().as_str()) else {
            return Ok(());
        };
        let own = key::command(&self.own, coordinator, &command);
        query.reply(own, answer).attachment(self.certificate.as_bytes()).wait()
    }

    /// The agent that has replied; `None` if the reply has no certificate for its name.
    pub(crate) fn respondent(&self, sample: &Sample) -> Option<Peer> {
        let sender = Peer::sender(sample.key_expr().as_str())?;
        proves_name(&self.trust, &sender, sample).then_some(sender)
    }
}

fn proves_name(trust: &Trust, sender: &Peer, sample: &Sample) -> bool {
    let certificate = sample.attachment().map(zenoh::bytes::ZBytes::to_bytes).unwrap_or_default();
    sender.role == Role::Agent && trust.permits(sender.number, &sender.name, &certificate)
}

fn config(own: &Credentials, trust: &Trust, listen: &[String], join: &[String]) -> Value {
    let connect: Vec<String> = join.iter().map(|address| format!("tls/{address}")).collect();
    let timeout = format!("tls_handshake_timeout_ms={HANDSHAKE_TIMEOUT_MS}");
    let listen: Vec<String> =
        listen.iter().map(|address| format!("tls/{address}#{timeout}")).collect();
    json!({
        "mode": "peer",
        "listen": {"endpoints": listen, "exit_on_failure": true},
        "connect": {
            "endpoints": connect,
            "timeout_ms": -1,
            "exit_on_failure": false,
            "retry": {
                "period_init_ms": 200, "period_max_ms": 2000, "period_increase_factor": 2,
            },
        },
        "scouting": {
            "delay": 0,
            "multicast": {"enabled": false},
            "gossip": {"enabled": true, "autoconnect": {"router": [], "peer": ["peer"]}},
        },
        "open": {"return_conditions": {"connect_scouted": false, "declares": false}},
        "adminspace": {"enabled": false},
        "access_control": access_control(trust),
        "transport": {
            "unicast": {
                "open_timeout": OPEN_TIMEOUT_MS,
                "accept_timeout": OPEN_TIMEOUT_MS,
                "max_links": 1,
            },
            "link": {
                "protocols": ["tls"],
                "tx": {
                    "lease": 5000,
                    "queue": {"congestion_control": {
                        "drop": {"wait_before_drop": DROP_TIMEOUT_US},
                        "block": {"wait_before_close": PROGRESS_TIMEOUT_US},
                    }},
                },
                "rx": {"max_message_size": MAX_MESSAGE_BYTES},
                "tls": tls(own),
            },
        },
    })
}

/// Both ends show a certificate of the cluster's authority. The connecting side of Zenoh accepts
/// certificates of public authorities as well; [`access_control`] rejects them by their names.
fn tls(own: &Credentials) -> Value {
    let [ca, cert, key] = [&own.ca, &own.cert, &own.key].map(|pem| BASE64.encode(pem));
    json!({
        "root_ca_certificate_base64": ca,
        "listen_private_key_base64": key,
        "listen_certificate_base64": cert,
        "enable_mtls": true,
        "connect_private_key_base64": key,
        "connect_certificate_base64": cert,
        "close_link_on_expiration": true,
        // Agents connect to addresses that other agents report. The access control checks the role.
        "verify_name_on_connect": false,
    })
}

/// The rules for a link, by role and number in the certificate of its remote end. The default is to
/// deny all messages in both directions. Only coordinators send queries, which are the commands to
/// agents, and only agents reply, each under its own number. Revoked numbers have no rules.
fn access_control(trust: &Trust) -> Value {
    let rule = |id: &str, flow: &str, messages: &[&str], keys: &[String]| {
        json!({
            "id": id, "permission": "allow", "flows": [flow], "messages": messages,
            "key_exprs": keys,
        })
    };
    let all = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let subscriptions = ["declare_subscriber"];
    let sent = ["put", "reply", "declare_queryable"];
    let to_all = [key::command_to_all("*", "status")];
    let mut rules = vec![
        rule("sent", "egress", &sent, &all(&["netarium/agent/**", "netarium/coordinator/**"])),
        rule("status", "egress", &["query"], &to_all),
        rule("sent-subscriptions", "egress", &subscriptions, &all(&["netarium/**"])),
        rule("subscriptions", "ingress", &subscriptions, &all(&["netarium/**"])),
    ];
    let (mut subjects, mut policies) = (Vec::new(), Vec::new());
    for role in Role::ALL {
        for number in (1..=role.max_number()).filter(|number| trust.admits(role, *number)) {
            let id = role.common_name(number);
            let [first, second] = ["a", "b"].map(|part| format!("{id} {part}"));
            rules.extend(match role {
                Role::Agent => {
                    let own = [
                        format!("netarium/agent/{number}/**"),
                        format!("netarium/to/*/*/from/{number}/**"),
                    ];
                    // Zenoh also sends to peers whose declarations it has not received yet.
                    let to = ["to", "agent"].map(|part| format!("netarium/{part}/{number}/**"));
                    let messages = ["put", "declare_queryable", "reply"];
                    let own = rule(&first, "ingress", &messages, &own);
                    [own, rule(&second, "egress", &["put", "query"], &to)]
                }
                Role::Coordinator => {
                    let commands = [format!("netarium/agent/*/*/command/{number}/*")];
                    let own = [format!("netarium/coordinator/{number}/**")];
                    let commands = rule(&first, "ingress", &["query"], &commands);
                    [commands, rule(&second, "ingress", &["put"], &own)]
                }
            });
            subjects.push(json!({"id": id, "cert_common_names": [id]}));
            policies.push(json!({
                "id": id, "subjects": [id],
                "rules": ["sent", "status", "sent-subscriptions", "subscriptions", first, second],
            }));
        }
    }
    json!({
        "enabled": true,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    })
}

/// A request without a valid reply.
#[derive(Debug)]
pub(crate) enum NoReply {
    /// The agent has rejected the request.
    Refused(Refusal),
    /// No valid reply within the timeout.
    Timeout,
}

/// Parses the reply to a request.
pub(crate) fn answer<T: DeserializeOwned>(reply: &zenoh::query::Reply) -> Result<T, NoReply> {
    match reply.result() {
        Ok(sample) => read(&sample.payload().to_bytes()).ok_or(NoReply::Timeout),
        Err(error) => Err(refusal(&error.payload().to_bytes())),
    }
}

/// Parses an error reply, which comes from an agent or, after a timeout, from Zenoh.
pub(crate) fn refusal(bytes: &[u8]) -> NoReply {
    read(bytes).map_or(NoReply::Timeout, NoReply::Refused)
}

/// Parses a message; `None` if it is invalid.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

pub(crate) fn bytes(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have no maps with other keys than strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_names_only() {
        for name in ["m1", "node-3.example.org", "a_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a/b", "*", "-x", ".x", "a b", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn configuration_is_valid_for_zenoh() {
        let authority = crate::authority::Authority::generate(1).unwrap();
        let own = authority.issue(Role::Agent, "m1", 1).unwrap();
        let trust = Trust::of(&own).unwrap();
        let places = ["127.0.0.1:1".to_owned()];
        serde_json::from_value::<zenoh::Config>(config(&own, &trust, &places, &places)).unwrap();
    }

    #[test]
    fn parses_sender_and_command_of_key() {
        let (m1, m2) = (Peer::agent(1, "m1"), Peer::agent(2, "m2"));
        for key in [key::heartbeat(&m1), key::report("x", &m1), key::clock_key(&m2, &m1)] {
            assert_eq!(Peer::sender(&key), Some(m1.clone()), "{key}");
        }
        let coordinator = Peer::sender(&key::coordinator("x", 3)).unwrap();
        assert_eq!((coordinator.role, coordinator.number), (Role::Coordinator, 3));
        for key in ["", "netarium", "netarium/agent/x/m1", "netarium/agent/1/*/heartbeat"] {
            assert_eq!(Peer::sender(key), None, "{key}");
        }
        let command = key::command(&m1, 3, "status");
        assert_eq!(key::parse_command(&command), Some((3, "status".to_owned())));
    }
}
