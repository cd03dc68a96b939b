//! The options of an agent.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use base::Span;
use cluster::detector::{MAX_SILENCE_TIMEOUT, MIN_SILENCE_TIMEOUT};

use super::machine::{self, Allowed};
use crate::credentials::Credentials;
use crate::session::is_name;
use crate::{Error, Result};

#[derive(Clone, Debug)]
pub struct Options {
    /// Unique in the cluster.
    pub name: String,
    /// Own addresses: `host:port`.
    pub listen: Vec<String>,
    /// Addresses of other agents: `host:port`.
    pub join: Vec<String>,
    pub credentials: Credentials,
    /// The address of its trunks; by default that of `listen`, or the first of the machine.
    pub trunk: Option<IpAddr>,
    pub ports: Option<RangeInclusive<u16>>,
    /// Limits of the operator.
    pub allowed: Allowed,
    /// The folder for shards and their results.
    pub dir: PathBuf,
    /// Max bytes of the results of finished labs.
    pub keep: u64,
    /// Time without heartbeats of this agent after which it is lost.
    pub silence_timeout: Span,
    /// Path of this executable.
    pub program: PathBuf,
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        if !is_name(&self.name) {
            let text = format!(
                "invalid agent name `{}`: use letters, digits, `.`, `_` and `-`",
                self.name
            );
            return Err(Error::Usage { text });
        }
        if !(MIN_SILENCE_TIMEOUT..=MAX_SILENCE_TIMEOUT).contains(&self.silence_timeout) {
            let text = format!(
                "the silence timeout {} is not from {MIN_SILENCE_TIMEOUT} to {MAX_SILENCE_TIMEOUT}",
                self.silence_timeout
            );
            return Err(Error::Usage { text });
        }
        let own = &self.credentials.identity;
        if !own.permits(&self.name) {
            let remedy = match own.name.strip_suffix('*') {
                Some(prefix) => format!("give it a --name that begins with `{prefix}`"),
                None => "omit --name, or enrol again".to_owned(),
            };
            let text = format!(
                "the certificate is that of agent {}, and not of {}: {remedy}",
                own.name, self.name
            );
            return Err(Error::Usage { text });
        }
        Ok(())
    }

    pub(super) fn trunk_address(&self) -> Result<IpAddr> {
        let listens = self.listen.iter().filter_map(|listen| listen.parse::<SocketAddr>().ok());
        let specific = listens.map(|at| at.ip()).find(|address| !address.is_unspecified());
        let localhost = IpAddr::from([127, 0, 0, 1]);
        let chosen = self.trunk.or(specific).or_else(machine::first_address).unwrap_or(localhost);
        if machine::is_own(chosen) || chosen.is_loopback() {
            return Ok(chosen);
        }
        let text = format!(
            "this machine does not have the address {chosen}: choose one of its own addresses \
             with --trunk-address"
        );
        Err(Error::Usage { text })
    }
}
