//! Messages between the agents of a lab for the agreement on shares, on the virtual clock.

use std::path::Path;

use placement::agreement_cost::{self, DEFAULT_DURATION, LAN, Load, Scene, delays};
use sharing::{Sharing, SharingPolicy, Window};

use crate::{Outcome, print};

/// Prints a line of JSON for each protocol.
pub(crate) fn cost(lab: &str, agents: &str, flows: &str, changes: &str) -> Outcome {
    let lab = lab::load(Path::new(lab), &lab::Overrides::default());
    let lab = lab.map_err(|wrong| format!("{wrong:?}"))?;
    let scene = Scene::new(lab.plans.first().ok_or("a lab without plans")?);
    let (agents, flows, changes) = (agents.parse()?, flows.parse()?, changes.parse()?);
    let load =
        Load { agents, flows, changes, time: DEFAULT_DURATION, seed: 1, measures_shares: true };
    for (way, sharing) in [("notices", Sharing::RttMaxMin), ("slbn", Sharing::Slbn)] {
        let law = SharingPolicy { sharing, window: Window::Off };
        let cost = agreement_cost::cost(&scene, law, LAN, &load);
        let mut delays = delays(&scene, law, LAN, &load, 50);
        delays.sort_unstable();
        let ms = |place: usize| delays[place].as_secs_f64() * 1e3;
        let (messages, bytes) = cost.per_agent(&load);
        print(&format!(
            "{{\"way\": \"{way}\", \"messages_per_s\": {messages:.1}, \
             \"bytes_per_s\": {bytes:.1}, \"near\": {:.5}, \
             \"median_ms\": {:.1}, \"most_ms\": {:.1}}}",
            cost.accuracy(),
            ms(delays.len() / 2),
            ms(delays.len() - 1),
        ));
    }
    Ok(())
}
