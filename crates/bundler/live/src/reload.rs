//! Changes of the bundles of a running gateway.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::AtomicBool;

/// How a running gateway is controlled from outside.
pub struct Control<'a, C> {
    /// Set to end the gateway.
    pub stop: &'a AtomicBool,
    /// Set to read the configuration again; the gateway clears it.
    pub reload: &'a AtomicBool,
    /// Reads the configuration; `None` if it is wrong, which has been reported.
    pub load: &'a mut dyn FnMut() -> Option<C>,
}

/// The bundles that a new configuration adds, changes and removes, by name. A changed bundle starts
/// anew; all others keep their state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl Changes {
    /// The changes between two configurations, whose bundles are given by name.
    pub(crate) fn between<'a, B: PartialEq + 'a>(
        old: impl Iterator<Item = &'a B>,
        new: impl Iterator<Item = &'a B>,
        name: impl Fn(&B) -> &str,
    ) -> Self {
        let mut old: BTreeMap<&str, &B> = old.map(|bundle| (name(bundle), bundle)).collect();
        let mut changes = Self::default();
        for bundle in new {
            let name = name(bundle);
            match old.remove(name) {
                None => changes.added.push(name.to_owned()),
                Some(before) if before != bundle => changes.changed.push(name.to_owned()),
                Some(_) => {}
            }
        }
        changes.removed = old.into_keys().map(str::to_owned).collect();
        changes
    }
}

impl Display for Changes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts =
            [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> =
            parts.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
        f.write_str(if parts.is_empty() { "no bundle has changed" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_are_compared_by_name() {
        let of = |old: &[(&str, u32)], new: &[(&str, u32)]| {
            Changes::between(old.iter(), new.iter(), |bundle| bundle.0).to_string()
        };
        assert_eq!(of(&[("a", 1)], &[("a", 1)]), "no bundle has changed");
        let text = of(&[("a", 1), ("b", 1), ("c", 1)], &[("d", 1), ("b", 2), ("a", 1)]);
        assert_eq!(text, "added d; changed b; removed c");
    }
}
