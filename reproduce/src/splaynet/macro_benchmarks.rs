//! The macro-benchmarks: real programs whose speed is a matter of delay (Chord), of bandwidth
//! (multicast over parallel trees) and of topology (network coding), each on both models.
//!
//! The paper shows curves of each beside those of `ModelNet` and Emulab and says that they are the
//! same. Here packets through queues, the model `hop`, stand for those emulators.

pub(super) mod chord;
pub(super) mod coding;
pub(super) mod multicast;

use serde::de::DeserializeOwned;

use crate::{Error, Evidence, Model, Result, Run, quantile};

/// The lines of JSON of one kind that a lab's program wrote, on whatever nodes it ran; lines of
/// other kinds are passed over.
fn lines<T: DeserializeOwned>(run: &Run, program: &str) -> Result<Vec<T>> {
    let of_node = format!("{program}.");
    let mut found = Vec::new();
    for summary in &run.record.programs {
        if summary.name == program || summary.name.starts_with(&of_node) {
            let text = run.output(&summary.name)?;
            found.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
    }
    if found.is_empty() {
        let run = run.folder.path().display().to_string();
        return Err(Error::Missing { run, what: format!("results of its program {program}") });
    }
    Ok(found)
}

/// Claims that the models agree on a quantile of times, within a share of it; nothing where one of
/// them did not run.
fn agree(evidence: &mut Evidence, what: &str, at: f64, times: &[(Model, Vec<f64>)], within: f64) {
    let of = |model| {
        let (_, values) = times.iter().find(|(other, _)| *other == model)?;
        quantile(values, at)
    };
    let (Some(hop), Some(collapsed)) = (of(Model::Hop), of(Model::Collapsed)) else { return };
    let apart = (collapsed / hop - 1.0).abs();
    evidence.claim(
        format!("{what}, collapsed beside hop, within {:.0} %", within * 100.0),
        "same curves as the reference emulators",
        format!("{collapsed:.4} beside {hop:.4}, {:.2} % apart", apart * 100.0),
        apart <= within,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_agree_within_a_share() {
        let mut evidence = Evidence::default();
        let times = [(Model::Hop, vec![1.0, 2.0, 4.0]), (Model::Collapsed, vec![1.0, 2.1, 8.0])];
        agree(&mut evidence, "median", 0.5, &times, 0.06);
        agree(&mut evidence, "last", 1.0, &times, 0.06);
        agree(&mut evidence, "alone", 0.5, &times[..1], 0.06);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, false]);
    }
}
