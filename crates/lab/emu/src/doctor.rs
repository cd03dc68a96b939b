//! Diagnosis of this host: its capabilities for labs, the engine that a run would use and why, and
//! commands that fix problems.

mod facts;
mod findings;
mod timer;

pub use facts::{Facts, PROBE_ARGUMENT, Refusal, probe_main};
pub use findings::{Finding, Level, findings, no_namespaces, prediction};
pub use timer::measure;

use crate::enclosure::Engine;

/// The engine that carries packets, and the reason for the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub engine: Engine,
    pub why: String,
    /// Engines that do not work or were not requested, with reasons.
    pub rejected: Vec<(Engine, String)>,
}

/// Selects an engine: `wanted`, or the first one that works.
///
/// # Errors
/// The reasons why each engine, or the wanted one, does not work.
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
            None => Ok(Choice {
                engine,
                why: "selected in the command".to_owned(),
                rejected: Vec::new(),
            }),
        };
    }
    let mut refused = Vec::new();
    for engine in [Engine::Tun, Engine::Packet] {
        let Some(refusal) = refusal(engine) else {
            let why = match engine {
                Engine::Tun => "TUN devices with super-packets are the fastest engine",
                Engine::Packet => {
                    "TUN does not work here; veth with packet sockets is the next fastest"
                }
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
