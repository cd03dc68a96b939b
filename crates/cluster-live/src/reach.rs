//! Agents as whoever uses a cluster reaches them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::control::{AgentStatus, PROTOCOL};
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, QueryTarget};

use crate::address::Cluster;
use crate::session::{self, Bus, Peer, key};
use crate::{Error, Result};

/// How long agents may take to be found.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(1);
/// Pause between two questions while not all are there.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection to a cluster.
pub struct Reached {
    pub(crate) bus: Bus,
    /// All agents, in the order of their names.
    pub agents: Vec<AgentStatus>,
    /// Agents that others say are there, and that do not answer.
    pub silent: Vec<String>,
    /// The numbers of the agents that have answered, by their names.
    numbers: BTreeMap<String, u16>,
}

impl Reached {
    /// Connects to a cluster and asks all its agents how they are.
    ///
    /// # Errors
    /// Where no agent answers, with why.
    pub fn open(cluster: &Cluster) -> Result<Self> {
        let bus = Bus::open(&cluster.credentials, "", &[], &cluster.agents)?;
        let (agents, silent, numbers) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut reached = Self { bus, agents, silent, numbers };
        let since = Instant::now();
        loop {
            reached.ask()?;
            let enough = reached.agents.len() >= cluster.agents.len();
            if enough && reached.silent.is_empty() {
                return Ok(reached);
            }
            if since.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        if reached.agents.is_empty() { Err(cluster.unreachable()) } else { Ok(reached) }
    }

    /// Asks all agents anew how they are.
    ///
    /// # Errors
    /// Where the session is gone.
    pub fn refresh(&mut self) -> Result<()> {
        self.ask()
    }

    /// Asks all agents anew.
    fn ask(&mut self) -> Result<()> {
        let replies = self
            .bus
            .session
            .get(key::command_to_all(self.bus.own.number, "status"))
            .target(QueryTarget::All)
            .consolidation(ConsolidationMode::None)
            .timeout(QUESTION)
            .wait()
            .map_err(Error::session("ask the agents"))?;
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

    /// Where the agent `name` is addressed. One that has not answered has the number of none.
    pub(crate) fn peer(&self, name: &str) -> Peer {
        Peer::agent(self.numbers.get(name).copied().unwrap_or(0), name)
    }

    /// Whether all agents are of this version.
    ///
    /// # Errors
    /// Names the first that is not.
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
