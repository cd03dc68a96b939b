//! The connection of a command to the agents of a cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::control::{AgentStatus, PROTOCOL};
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, QueryTarget};

use crate::address::Cluster;
use crate::session::{self, Bus, Peer, key};
use crate::{Error, Result};

/// Max time to find all agents.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between requests until all agents have answered.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

pub struct Connection {
    pub(crate) bus: Bus,
    /// The status of all agents that have answered, by name.
    pub agents: Vec<AgentStatus>,
    /// Agents that others report as alive, but that do not answer.
    pub silent: Vec<String>,
    /// The numbers of the agents that have answered, by name.
    numbers: BTreeMap<String, u16>,
}

impl Connection {
    /// Connects to a cluster and requests the status of all its agents.
    ///
    /// # Errors
    /// If no agent answers, with the reason.
    pub fn open(cluster: &Cluster) -> Result<Self> {
        let bus = Bus::open(&cluster.credentials, "", &[], &cluster.agents)?;
        let (agents, silent, numbers) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut connection = Self { bus, agents, silent, numbers };
        let since = Instant::now();
        loop {
            connection.refresh()?;
            let all_answered = connection.agents.len() >= cluster.agents.len();
            if all_answered && connection.silent.is_empty() {
                return Ok(connection);
            }
            if since.elapsed() > CONNECT_TIMEOUT {
                break;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        if connection.agents.is_empty() { Err(cluster.unreachable()) } else { Ok(connection) }
    }

    /// Requests the status of all agents again.
    ///
    /// # Errors
    /// If the session is closed.
    pub fn refresh(&mut self) -> Result<()> {
        let replies = self
            .bus
            .session()
            .get(key::command_to_all(self.bus.own.number, "status"))
            .target(QueryTarget::All)
            .consolidation(ConsolidationMode::None)
            .timeout(REQUEST_TIMEOUT)
            .wait()
            .map_err(Error::session("request the agents' status"))?;
        let mut found: BTreeMap<String, AgentStatus> =
            self.agents.drain(..).map(|agent| (agent.name.clone(), agent)).collect();
        while let Ok(reply) = replies.recv() {
            let respondent = reply.result().ok().and_then(|sample| self.bus.respondent(sample));
            let status = session::answer::<AgentStatus>(&reply);
            if let (Some(agent), Ok(status)) = (respondent, status)
                && status.name == agent.name
            {
                self.numbers.insert(agent.name, agent.number);
                found.insert(status.name.clone(), status);
            }
        }
        let mut silent: Vec<String> = found
            .values()
            .flat_map(|agent| &agent.peers)
            .filter(|peer| peer.alive && !found.contains_key(&peer.name))
            .map(|peer| peer.name.clone())
            .collect();
        silent.sort();
        silent.dedup();
        self.silent = silent;
        self.agents = found.into_values().collect();
        Ok(())
    }

    /// The address of the agent `name`. An agent that has not answered has the number 0, which does
    /// not occur in certificates.
    pub(crate) fn peer(&self, name: &str) -> Peer {
        Peer::agent(self.numbers.get(name).copied().unwrap_or(0), name)
    }

    /// Checks that all agents have the version of this command.
    ///
    /// # Errors
    /// The first agent with another version.
    pub fn check_versions(&self) -> Result<()> {
        let ours = env!("CARGO_PKG_VERSION");
        let other = self.agents.iter().find(|a| a.version != ours || a.protocol != PROTOCOL);
        other.map_or(Ok(()), |agent| {
            Err(Error::Version {
                agent: agent.name.clone(),
                theirs: format!("{} (protocol {})", agent.version, agent.protocol),
                ours: format!("{ours} (protocol {PROTOCOL})"),
            })
        })
    }
}
