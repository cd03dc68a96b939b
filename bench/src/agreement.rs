//! What members of a lab say to each other to agree on shares, on the virtual clock.

use std::path::Path;

use cluster::agreement::rehearsal::load::{LAN, Load, Scene, TIME, burden, delays};
use sharing::{Law, Sharing, Window};

use crate::{Outcome, print};

/// Prints a line of JSON for each way of agreeing.
pub(crate) fn cost(lab: &str, members: &str, flows: &str, changes: &str) -> Outcome {
    let lab = lab::load(Path::new(lab), &lab::Overrides::default());
    let lab = lab.map_err(|wrong| format!("{wrong:?}"))?;
    let scene = Scene::new(lab.plans.first().ok_or("a lab without plans")?);
    let (members, flows, changes) = (members.parse()?, flows.parse()?, changes.parse()?);
    let load = Load { members, flows, changes, time: TIME, seed: 1, looks: true };
    for (way, sharing) in [("notices", Sharing::RttMaxMin), ("slbn", Sharing::Slbn)] {
        let law = Law { sharing, window: Window::Off };
        let cost = burden(&scene, law, LAN, &load);
        let mut delays = delays(&scene, law, LAN, &load, 50);
        delays.sort_unstable();
        let ms = |place: usize| delays[place].as_secs_f64() * 1e3;
        let (messages, bytes) = cost.per_member(&load);
        print(&format!(
            "{{\"way\": \"{way}\", \"messages_per_s\": {messages:.1}, \
             \"bytes_per_s\": {bytes:.1}, \"near\": {:.5}, \
             \"median_ms\": {:.1}, \"most_ms\": {:.1}}}",
            cost.nearness(),
            ms(delays.len() / 2),
            ms(delays.len() - 1),
        ));
    }
    Ok(())
}
