//! Any text as a lab file gives a plan or diagnostics, and the resolved lab can be read again.

use std::path::Path;

use lab::{Overrides, parse_with, resolved};

/// Maximum number of elements. A file may have two million sessions; the time is proportional to
/// their number, without new coverage above some thousands.
const MAX_ITEMS: usize = 5_000;

pub(crate) fn target(text: &str) {
    let trust_programs = true;
    let max_items = Some(MAX_ITEMS);
    let overrides = Overrides { trust_programs, max_items, ..Overrides::default() };
    let folder = Path::new("/nonexistent");
    let Ok(lab) = parse_with("fuzz.toml", text, folder, &overrides) else { return };
    let Some(plan) = lab.plans.first() else { return };
    assert!(plan.nodes.len() <= MAX_ITEMS && plan.links.len() <= MAX_ITEMS);
    let sessions: usize = plan.sessions.iter().map(|population| population.sessions.len()).sum();
    assert!(sessions <= MAX_ITEMS, "{sessions} sessions");
    if plan.links.len() < 1000 {
        let text = resolved(plan);
        let again = parse_with("resolved.toml", &text, folder, &overrides);
        assert!(again.is_ok(), "{text}\n{:#?}", again.map_err(|errors| errors.list().to_vec()));
    }
}
