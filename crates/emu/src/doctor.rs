//! What this machine can do for a lab, which engine a run would use and why, and the line that
//! mends what is missing.

mod facts;
mod findings;

pub use facts::{Facts, PROBE_ARGUMENT, Refusal, probe_main};
pub use findings::{Finding, Level, findings};

use crate::enclosure::Engine;

/// Which engine carries packets, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The engine.
    pub engine: Engine,
    /// Why this one.
    pub why: String,
    /// Engines that were not possible, or not wanted, and why.
    pub rejected: Vec<(Engine, String)>,
}

/// Picks an engine: `wanted`, or the first that works.
///
/// # Errors
/// Why each engine, or the wanted one, does not work.
pub fn choose(
    facts: &Facts,
    wanted: Option<Engine>,
) -> std::result::Result<Choice, Vec<(Engine, Refusal)>> {
    if let Some(refusal) = &facts.namespaces {
        return Err(vec![(Engine::Tun, refusal.clone()), (Engine::Packet, refusal.clone())]);
    }
    let refusal = |engine| match engine {
        Engine::Tun => facts.tun.as_ref(),
        Engine::Packet => facts.packet.as_ref(),
    };
    if let Some(engine) = wanted {
        return match refusal(engine) {
            Some(refusal) => Err(vec![(engine, refusal.clone())]),
            None => Ok(Choice { engine, why: "it was asked for".to_owned(), rejected: Vec::new() }),
        };
    }
    let mut refused = Vec::new();
    for engine in [Engine::Tun, Engine::Packet] {
        let Some(refusal) = refusal(engine) else {
            let why = match engine {
                Engine::Tun => "TUN devices with super-packets are the fastest engine",
                Engine::Packet => "TUN is not possible here; veth and packet sockets come next",
            };
            let rejected = refused
                .into_iter()
                .map(|(engine, refusal): (_, Refusal)| (engine, refusal.to_string()))
                .collect();
            return Ok(Choice { engine, why: why.to_owned(), rejected });
        };
        refused.push((engine, refusal.clone()));
    }
    Err(refused)
}

#[cfg(test)]
mod tests;
