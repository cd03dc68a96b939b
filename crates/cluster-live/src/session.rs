//! The session that agents and coordinators speak through, and the names they use on it.
//!
//! All are peers that know each other directly: whoever joins hears of the others from whom it
//! joins, and connects to them. Nothing is discovered by multicast.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use rustix::fs::MemfdFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zenoh::query::Query;
use zenoh::{Session, Wait};

use crate::address::{Access, Tls};
use crate::{Error, Result, urgent};

/// The name under which all prove to know the token.
const USER: &str = "netarium";
/// Largest message: files of a lab come in one.
const LARGEST: usize = 160 << 20;
/// A message that can be repaired waits so long for room, in µs, before it is dropped: an agent
/// that hangs shall not hold up what is said to the others.
const PATIENCE: u64 = 5_000;

/// A connection through which nothing goes for so long, in µs, is given up.
const STUCK: u64 = 30_000_000;

/// Keys of messages.
pub(crate) mod key {
    use cluster::AgentId;

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

/// Whether `name` can be an agent's: it is a part of keys, of file names and of lab files.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with(['.', '-'])
}

/// Opens a session: listening on `listen`, joining whoever is at `join`.
pub(crate) fn open(access: &Access, listen: &[String], join: &[String]) -> Result<Session> {
    access.tls.as_ref().map_or(Ok(()), Tls::check)?;
    let dictionary = access.token.as_deref().map(dictionary).transpose()?;
    let config = config(access, dictionary.as_ref(), listen, join);
    let config = zenoh::Config::from_json5(&config.to_string())
        .map_err(Error::session("configure the session"))?;
    urgent::of(|| zenoh::open(config).wait()).map_err(Error::session("open the session"))
}

/// Users and passwords, in a file without a name.
fn dictionary(token: &str) -> Result<File> {
    if token.chars().any(char::is_control) || token.trim() != token || token.is_empty() {
        return Err(Error::Usage {
            text: "a token is one line, without white space at its ends".to_owned(),
        });
    }
    let fd = rustix::fs::memfd_create("token", MemfdFlags::CLOEXEC)
        .map_err(Error::machine("keep the token in memory"))?;
    let mut file = File::from(fd);
    writeln!(file, "{USER}:{token}").map_err(Error::machine("keep the token in memory"))?;
    Ok(file)
}

fn config(access: &Access, dictionary: Option<&File>, listen: &[String], join: &[String]) -> Value {
    let protocol = if access.tls.is_some() { "tls" } else { "tcp" };
    let endpoints = |addresses: &[String]| -> Vec<String> {
        addresses.iter().map(|address| format!("{protocol}/{address}")).collect()
    };
    let mut config = json!({
        "mode": "peer",
        "listen": {"endpoints": endpoints(listen), "exit_on_failure": true},
        "connect": {
            "endpoints": endpoints(join),
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
        "transport": {
            "unicast": {"open_timeout": 5000, "accept_timeout": 5000, "max_links": 1},
            "link": {
                "tx": {
                    "lease": 5000,
                    "queue": {"congestion_control": {
                        "drop": {"wait_before_drop": PATIENCE},
                        "block": {"wait_before_close": STUCK},
                    }},
                },
                "rx": {"max_message_size": LARGEST},
            },
        },
    });
    if let (Some(token), Some(file)) = (&access.token, dictionary) {
        config["transport"]["auth"] = json!({"usrpwd": {
            "user": USER,
            "password": token,
            "dictionary_file": format!("/proc/self/fd/{}", file.as_raw_fd()),
        }});
    }
    if let Some(tls) = &access.tls {
        config["transport"]["link"]["tls"] = json!({
            "root_ca_certificate": tls.ca,
            "listen_private_key": tls.key,
            "listen_certificate": tls.cert,
            "enable_mtls": true,
            "connect_private_key": tls.key,
            "connect_certificate": tls.cert,
            // Machines are known by who has signed for them: agents have no names in DNS.
            "verify_name_on_connect": false,
        });
    }
    config
}

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
    fn zenoh_understands_the_configuration() {
        let tls = crate::address::Tls { ca: "a".into(), cert: "b".into(), key: "c".into() };
        for access in [
            Access::default(),
            Access { token: Some("x\"y".to_owned()), tls: None },
            Access { token: None, tls: Some(tls) },
        ] {
            let file = access.token.as_deref().map(|token| dictionary(token).unwrap());
            let config = config(&access, file.as_ref(), &["127.0.0.1:1".to_owned()], &[]);
            zenoh::Config::from_json5(&config.to_string()).unwrap();
        }
        for token in ["", " x", "a\nb"] {
            assert!(dictionary(token).is_err(), "{token:?}");
        }
    }
}
