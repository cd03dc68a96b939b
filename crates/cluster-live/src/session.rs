//! The session that agents and coordinators speak through, and the names they use on it.
//!
//! All are peers that know each other directly: whoever joins hears of the others from whom it
//! joins, and connects to them. Nothing is discovered by multicast.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cluster::control::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zenoh::pubsub::Subscriber;
use zenoh::qos::Priority;
use zenoh::query::Query;
use zenoh::sample::{Locality, Sample};
use zenoh::{Session, Wait};

use crate::credentials::{Credentials, Identity, Role};
use crate::trust::Trust;
use crate::{Error, Result, urgent};

/// Largest message: files of a lab come in one.
const LARGEST: usize = 160 << 20;
/// A message that can be repaired waits so long for room, in µs, before it is dropped: an agent
/// that hangs shall not hold up what is said to the others.
const PATIENCE: u64 = 5_000;

/// A connection through which nothing goes for so long, in µs, is given up.
const STUCK: u64 = 30_000_000;

/// A connection whose TLS handshake is not complete after this time, in ms, is closed.
const HANDSHAKE_TIMEOUT: u64 = 3_000;

/// A link that is authenticated but not open after this time, in ms, is closed.
const OPEN_TIMEOUT: u64 = 5_000;

/// A process of the cluster, as the keys of its messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) role: Role,
    /// The number in its certificate.
    pub(crate) number: u16,
    /// An agent's name; coordinators need none.
    pub(crate) name: String,
}

impl Peer {
    pub(crate) fn agent(number: u16, name: &str) -> Self {
        Self { role: Role::Agent, number, name: name.to_owned() }
    }

    /// The sender of a message: links only carry it under the number of their certificate.
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

/// Keys of messages: each has the number of its sender, which the access control checks against the
/// certificate at the other end of the link.
pub(crate) mod key {
    use std::fmt::Display;

    use cluster::AgentId;

    use super::Peer;

    /// All that an agent sends to all others, and all that it answers.
    pub(crate) fn agent(peer: &Peer) -> String {
        format!("netarium/agent/{}/{}", peer.number, peer.name)
    }

    /// A coordinator's command to an agent.
    pub(crate) fn command(to: &Peer, coordinator: u16, verb: &str) -> String {
        format!("{}/command/{coordinator}/{verb}", agent(to))
    }

    /// The commands of all coordinators.
    pub(crate) fn commands(to: &Peer) -> String {
        format!("{}/command/*/*", agent(to))
    }

    /// A command to all agents.
    pub(crate) fn command_to_all(coordinator: impl Display, verb: &str) -> String {
        format!("netarium/agent/*/*/command/{coordinator}/{verb}")
    }

    /// The coordinator's number and the verb of a command.
    pub(crate) fn parse_command(key: &str) -> Option<(u16, String)> {
        let (_, command) = key.split_once("/command/")?;
        let (coordinator, verb) = command.split_once('/')?;
        Some((coordinator.parse().ok()?, verb.to_owned()))
    }

    /// Where an agent says that it is there.
    pub(crate) fn heartbeat(peer: &Peer) -> String {
        format!("{}/heartbeat", agent(peer))
    }

    /// See [`heartbeat`], of all agents.
    pub(crate) const HEARTBEATS: &str = "netarium/agent/*/*/heartbeat";

    /// What one agent sends to one other agent.
    pub(crate) fn clock_key(to: &Peer, from: &Peer) -> String {
        let (to_name, from_name) = (&to.name, &from.name);
        format!("netarium/to/{}/{to_name}/from/{}/{from_name}/clock", to.number, from.number)
    }

    /// See [`clock_key`], of all agents.
    pub(crate) fn clock_keys(to: &Peer) -> String {
        format!("netarium/to/{}/{}/from/*/*/clock", to.number, to.name)
    }

    /// What a lab's members say of their pieces.
    pub(crate) fn report(lab: &str, from: &Peer) -> String {
        format!("{}/lab/{lab}/report", agent(from))
    }

    /// See [`report`], of all members.
    pub(crate) fn reports(lab: &str) -> String {
        format!("netarium/agent/*/*/lab/{lab}/report")
    }

    /// Where a lab's coordinator says that it is there.
    pub(crate) fn coordinator(lab: &str, number: u16) -> String {
        format!("netarium/coordinator/{number}/lab/{lab}")
    }

    /// Notices of `from` to `to`; `None`: to all.
    pub(crate) fn notice(lab: &str, to: Option<AgentId>, from: &Peer) -> String {
        match to {
            None => format!("{}/lab/{lab}/notice/all", agent(from)),
            Some(to) => format!("{}/lab/{lab}/notice/{to}", agent(from)),
        }
    }

    /// Notices that are for `to`, or for all.
    pub(crate) fn notices(lab: &str, to: Option<AgentId>) -> String {
        match to {
            None => format!("netarium/agent/*/*/lab/{lab}/notice/all"),
            Some(to) => format!("netarium/agent/*/*/lab/{lab}/notice/{to}"),
        }
    }

    /// What happens to programs of `from`.
    pub(crate) fn program(lab: &str, from: &Peer) -> String {
        format!("{}/lab/{lab}/program", agent(from))
    }

    /// See [`program`], of all members.
    pub(crate) fn programs(lab: &str) -> String {
        format!("netarium/agent/*/*/lab/{lab}/program")
    }
}

pub use cluster::control::is_name;

/// A session, and whom it trusts.
#[derive(Clone)]
pub(crate) struct Bus {
    pub(crate) session: Session,
    pub(crate) trust: Arc<Trust>,
    pub(crate) own: Peer,
    /// Shows other processes that the own name belongs to the own number.
    certificate: Arc<str>,
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
        let config = serde_json::from_value(config(own, &trust, listen, join))
            .map_err(|error| Error::session("configure the session")(error.into()))?;
        let session = urgent::of(|| zenoh::open::<zenoh::Config>(config).wait())
            .map_err(Error::session("open the session"))?;
        let own_name = Peer { role, number, name: name.to_owned() };
        let certificate = own.cert.as_str().into();
        Ok(Self { session, trust: Arc::new(trust), own: own_name, certificate })
    }

    /// Receives what others publish at `place`. Messages of revoked senders are dropped.
    pub(crate) fn subscribe(
        &self,
        place: String,
        receive: impl Fn(&Peer, &Sample) + Send + Sync + 'static,
    ) -> Result<Subscriber<()>> {
        let trust = Arc::clone(&self.trust);
        let callback = move |sample: Sample| {
            let sender = Peer::sender(sample.key_expr().as_str());
            let admitted = |sender: &Peer| trust.admits(sender.role, sender.number);
            if let Some(sender) = sender.filter(admitted) {
                receive(&sender, &sample);
            }
        };
        let subscriber = self.session.declare_subscriber(place).callback(callback);
        let subscriber = subscriber.allowed_origin(Locality::Remote).wait();
        subscriber.map_err(Error::session("subscribe"))
    }

    /// Receives what agents publish at `place` with a certificate for their name.
    pub(crate) fn subscribe_certified<T: DeserializeOwned>(
        &self,
        place: String,
        receive: impl Fn(&Peer, T) + Send + Sync + 'static,
    ) -> Result<Subscriber<()>> {
        let trust = Arc::clone(&self.trust);
        self.subscribe(place, move |sender, sample| {
            let message = read::<T>(&sample.payload().to_bytes());
            if let Some(message) = message.filter(|_| shows_name(&trust, sender, sample)) {
                receive(sender, message);
            }
        })
    }

    /// Publishes with the own certificate.
    pub(crate) fn put_certified(&self, place: &str, payload: &[u8]) {
        let put = self.session.put(place, payload).attachment(self.certificate.as_bytes());
        // The next one comes soon.
        let _ = put.express(true).priority(Priority::InteractiveHigh).wait();
    }

    /// Answers a command. The requester may be gone, and needs no answer then.
    pub(crate) fn reply<T: Serialize>(&self, query: &Query, answer: &Result<T, Refusal>) {
        let _ = match answer {
            Ok(answer) => self.reply_bytes(query, bytes(answer)),
            Err(refusal) => query.reply_err(bytes(refusal)).wait(),
        };
    }

    /// Answers a command, which may be for several agents, under the own key.
    pub(crate) fn reply_bytes(&self, query: &Query, answer: Vec<u8>) -> zenoh::Result<()> {
        let Some((coordinator, verb)) = key::parse_command(query.key_expr().as_str()) else {
            return Ok(());
        };
        let own = key::command(&self.own, coordinator, &verb);
        query.reply(own, answer).attachment(self.certificate.as_bytes()).wait()
    }

    /// The agent that has answered; `None` if it does not show a certificate for its name.
    pub(crate) fn respondent(&self, sample: &Sample) -> Option<Peer> {
        let sender = Peer::sender(sample.key_expr().as_str())?;
        shows_name(&self.trust, &sender, sample).then_some(sender)
    }
}

fn shows_name(trust: &Trust, sender: &Peer, sample: &Sample) -> bool {
    let certificate = sample.attachment().map(zenoh::bytes::ZBytes::to_bytes).unwrap_or_default();
    sender.role == Role::Agent && trust.permits(sender.number, &sender.name, &certificate)
}

fn config(own: &Credentials, trust: &Trust, listen: &[String], join: &[String]) -> Value {
    let connect: Vec<String> = join.iter().map(|address| format!("tls/{address}")).collect();
    let timeout = format!("tls_handshake_timeout_ms={HANDSHAKE_TIMEOUT}");
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
                "open_timeout": OPEN_TIMEOUT,
                "accept_timeout": OPEN_TIMEOUT,
                "max_links": 1,
            },
            "link": {
                "protocols": ["tls"],
                "tx": {
                    "lease": 5000,
                    "queue": {"congestion_control": {
                        "drop": {"wait_before_drop": PATIENCE},
                        "block": {"wait_before_close": STUCK},
                    }},
                },
                "rx": {"max_message_size": LARGEST},
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
        // Agents connect to addresses that they learn from each other. What counts is the role.
        "verify_name_on_connect": false,
    })
}

/// What a link may carry, by role and number in the certificate of its other end: nothing, in
/// either direction, unless a rule allows it. Only coordinators send queries, which are the
/// commands to agents, and only agents answer them; each under its own number. Revoked numbers have
/// no rules.
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
                    // Zenoh also sends to peers whose declarations it does not know yet.
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

/// An answer that did not come as it should.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The agent refuses.
    Refused(Refusal),
    /// Nobody answered in time.
    Silence,
}

/// Understands the answer to a question.
pub(crate) fn answer<T: DeserializeOwned>(reply: &zenoh::query::Reply) -> Result<T, NoAnswer> {
    match reply.result() {
        Ok(sample) => read(&sample.payload().to_bytes()).ok_or(NoAnswer::Silence),
        Err(error) => Err(refusal(&error.payload().to_bytes())),
    }
}

/// What an agent says instead of an answer; Zenoh itself says when nobody answered.
pub(crate) fn refusal(bytes: &[u8]) -> NoAnswer {
    read(bytes).map_or(NoAnswer::Silence, NoAnswer::Refused)
}

/// A message of this version; `None` for any other bytes.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// A message in bytes.
pub(crate) fn bytes(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["m1", "node-3.example.org", "a_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a/b", "*", "-x", ".x", "a b", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn zenoh_accepts_the_configuration() {
        let authority = crate::authority::Authority::generate(1).unwrap();
        let own = authority.issue(Role::Agent, "m1", 1).unwrap();
        let trust = Trust::of(&own).unwrap();
        let places = ["127.0.0.1:1".to_owned()];
        serde_json::from_value::<zenoh::Config>(config(&own, &trust, &places, &places)).unwrap();
    }

    #[test]
    fn the_key_names_the_sender() {
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
