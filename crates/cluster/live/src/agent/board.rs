//! The status of an agent for local queries and metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::Metric;
use cluster::control::AgentStatus;
use serde_json::{Value, json};

/// Age of the latest status above which the agent is unhealthy.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The latest status of an agent, shared by all clones.
#[derive(Clone, Debug)]
pub struct Board {
    since: Instant,
    latest: Arc<Mutex<(Instant, AgentStatus)>>,
}

impl Board {
    pub(super) fn new(status: AgentStatus) -> Self {
        let since = Instant::now();
        Self { since, latest: Arc::new(Mutex::new((since, status))) }
    }

    pub(super) fn put(&self, status: AgentStatus) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), status);
    }

    fn get(&self) -> (Instant, AgentStatus) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The status as JSON, with the fields common to all long-running commands.
    pub fn json(&self) -> Value {
        let mut value = json!(self.get().1);
        value["schema"] = "netarium.agent/1".into();
        value["role"] = "agent".into();
        value["pid"] = std::process::id().into();
        value["uptime_s"] = self.since.elapsed().as_secs_f64().into();
        value
    }

    /// Total and free resources, labs and peers.
    pub fn metrics(&self) -> Vec<Metric> {
        let (_, status) = self.get();
        let (free, total) = (status.free, status.total);
        let alive = status.peers.iter().filter(|peer| peer.alive).count();
        let uptime = self.since.elapsed().as_secs_f64();
        let values = [
            ("uptime_s", "Time since the start.", uptime),
            ("cores", "Processors for labs.", total.cores),
            ("free_cores", "Free processors.", free.cores),
            ("memory_bytes", "Memory for labs.", total.memory as f64),
            ("free_memory_bytes", "Free memory.", free.memory as f64),
            ("hosts", "Max hosts of labs.", f64::from(total.hosts)),
            ("free_hosts", "Free hosts.", f64::from(free.hosts)),
            ("labs", "Labs that run or have results on this agent.", status.labs.len() as f64),
            ("peers", "Other agents that are alive.", alive as f64),
        ];
        values.map(|(name, help, value)| Metric::gauge(name, help, value)).to_vec()
    }

    /// Whether the status was updated within the last 10 s.
    pub fn is_healthy(&self) -> bool {
        self.get().0.elapsed() < MAX_AGE
    }
}
