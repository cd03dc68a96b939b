//! Any text as a lab file: plans or diagnostics, and what is resolved can be read again.
#![no_main]

use std::path::Path;

use lab::{Overrides, parse_with, resolved};
use libfuzzer_sys::fuzz_target;

/// A million sessions are valid, and only take long.
fn has_large_number(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 4)
}

fuzz_target!(|text: &str| {
    if has_large_number(text) {
        return;
    }
    let overrides = Overrides { trust_programs: true, ..Overrides::default() };
    let folder = Path::new("/nonexistent");
    let Ok(lab) = parse_with("fuzz.toml", text, folder, &overrides) else { return };
    let Some(plan) = lab.plans.first() else { return };
    if plan.links.len() < 1000 {
        let text = resolved(plan);
        let again = parse_with("resolved.toml", &text, folder, &overrides);
        assert!(again.is_ok(), "{text}\n{:#?}", again.map_err(|errors| errors.list().to_vec()));
    }
});
