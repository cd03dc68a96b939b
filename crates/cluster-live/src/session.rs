//! The session that agents and coordinators speak through, and the names they use on it.
//!
//! All are peers that know each other directly: whoever joins hears of the others from whom it
//! joins, and connects to them. Nothing is discovered by multicast.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zenoh::query::Query;
use zenoh::{Session, Wait};

use crate::credentials::{Credentials, Role};
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

/// Keys of messages.
pub(crate) mod key {
    use cluster::AgentId;

    /// All commands to agents.
    pub(crate) const COMMANDS: &str = "netarium/agent/*/*";
    /// All that agents publish.
    pub(crate) const FROM_AGENTS: [&str; 4] = [
        "netarium/heartbeat/*",
        "netarium/lab/*/report/*",
        "netarium/lab/*/notice/*/*",
        "netarium/lab/*/program/*",
    ];
    /// All that coordinators publish.
    pub(crate) const FROM_COORDINATORS: &str = "netarium/lab/*/coordinator";

    /// What an agent is asked; verbs are the last chunk.
    pub(crate) fn agent(name: &str, verb: &str) -> String {
        format!("netarium/agent/{name}/{verb}")
    }

    /// Where an agent says that it is there.
    pub(crate) fn heartbeat(name: &str) -> String {
        format!("netarium/heartbeat/{name}")
    }

    /// What a lab's members say of their pieces.
    pub(crate) fn report(lab: &str, agent: AgentId) -> String {
        format!("netarium/lab/{lab}/report/{agent}")
    }

    /// See [`report`], of all members.
    pub(crate) fn reports(lab: &str) -> String {
        format!("netarium/lab/{lab}/report/*")
    }

    /// Where a lab's coordinator says that it is there.
    pub(crate) fn coordinator(lab: &str) -> String {
        format!("netarium/lab/{lab}/coordinator")
    }

    /// Notices of `from` to `to`; `None`: to all.
    pub(crate) fn notice(lab: &str, to: Option<AgentId>, from: AgentId) -> String {
        match to {
            None => format!("netarium/lab/{lab}/notice/all/{from}"),
            Some(to) => format!("netarium/lab/{lab}/notice/{to}/{from}"),
        }
    }

    /// Notices that are for `to`, or for all.
    pub(crate) fn notices(lab: &str, to: Option<AgentId>) -> String {
        match to {
            None => format!("netarium/lab/{lab}/notice/all/*"),
            Some(to) => format!("netarium/lab/{lab}/notice/{to}/*"),
        }
    }

    /// What happens to programs of `from`.
    pub(crate) fn program(lab: &str, from: AgentId) -> String {
        format!("netarium/lab/{lab}/program/{from}")
    }

    /// See [`program`], of all members.
    pub(crate) fn programs(lab: &str) -> String {
        format!("netarium/lab/{lab}/program/*")
    }
}

pub use cluster::control::is_name;

/// Opens a session: listening on `listen`, connecting to the agents at `join`.
pub(crate) fn open(own: &Credentials, listen: &[String], join: &[String]) -> Result<Session> {
    let config = zenoh::Config::from_json5(&config(own, listen, join).to_string())
        .map_err(Error::session("configure the session"))?;
    urgent::of(|| zenoh::open(config).wait()).map_err(Error::session("open the session"))
}

fn config(own: &Credentials, listen: &[String], join: &[String]) -> Value {
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
        "access_control": access_control(),
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

/// What a link may carry, by the role in the certificate of its other end: nothing, in either
/// direction, unless a rule allows it. Only coordinators send queries, which are the commands to
/// agents, and only agents answer them.
fn access_control() -> Value {
    let rule = |id: &str, flow: &str, messages: &[&str], keys: &[&str]| {
        json!({
            "id": id, "permission": "allow", "flows": [flow], "messages": messages,
            "key_exprs": keys,
        })
    };
    let subscriptions = &["declare_subscriber"];
    let rules = [
        rule("sent", "egress", &ALL_MESSAGES, &["netarium/**"]),
        rule("subscriptions", "ingress", subscriptions, &["netarium/**"]),
        rule("agent-reports", "ingress", &["put"], &key::FROM_AGENTS),
        rule("agent-answers", "ingress", &["declare_queryable", "reply"], &[key::COMMANDS]),
        rule("commands", "ingress", &["query"], &[key::COMMANDS]),
        rule("coordinators", "ingress", &["put"], &[key::FROM_COORDINATORS]),
    ];
    let subject = |role: Role| {
        let name = role.common_name();
        json!({"id": name, "cert_common_names": [name]})
    };
    let policy = |role: Role, rules: &[&str]| json!({"id": role.common_name(), "subjects": [role.common_name()], "rules": rules});
    json!({
        "enabled": true,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [subject(Role::Agent), subject(Role::Coordinator)],
        "policies": [
            policy(Role::Agent, &["sent", "subscriptions", "agent-reports", "agent-answers"]),
            policy(Role::Coordinator, &["sent", "subscriptions", "commands", "coordinators"]),
        ],
    })
}

/// Messages that are used.
const ALL_MESSAGES: [&str; 5] =
    ["put", "query", "reply", "declare_subscriber", "declare_queryable"];

/// An answer that did not come as it should.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The agent refuses.
    Refused(cluster::control::Refusal),
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

/// Answers a question. Whoever asked may be gone, and needs no answer then.
pub(crate) fn reply<T: Serialize>(query: &Query, answer: &Result<T, cluster::control::Refusal>) {
    let _ = match answer {
        Ok(answer) => query.reply(query.key_expr().clone(), bytes(answer)).wait(),
        Err(refusal) => query.reply_err(bytes(refusal)).wait(),
    };
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
        let config = config(&own, &["127.0.0.1:1".to_owned()], &["127.0.0.1:2".to_owned()]);
        zenoh::Config::from_json5(&config.to_string()).unwrap();
    }
}
