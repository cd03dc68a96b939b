//! The differences of two resolved labs.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// Values are cut to this number of characters.
const MAX_VALUE: usize = 40;

/// Keys with their values: `link.core.up.delay`.
type Keys = BTreeMap<String, String>;

/// The keys whose values differ, each with both values, except the seed. Empty if one of the labs
/// cannot be read.
pub(super) fn differences(first: &str, second: &str) -> Vec<String> {
    let (Ok(first), Ok(second)) = (first.parse::<Table>(), second.parse::<Table>()) else {
        return Vec::new();
    };
    let [first, second] = [first, second].map(|lab| {
        let mut keys = Keys::new();
        flatten("", &Value::Table(lab), &mut keys);
        keys
    });
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| *name != "lab.seed" && first.get(*name) != second.get(*name));
    let value = |keys: &Keys, name| match keys.get(name) {
        None => "absent".to_owned(),
        Some(value) if value.chars().count() <= MAX_VALUE => value.clone(),
        Some(value) => value.chars().take(MAX_VALUE - 1).chain(['…']).collect(),
    };
    differing
        .map(|name| format!("{name} is {} and {}", value(&first, name), value(&second, name)))
        .collect()
}

/// Adds the keys of a value. Entries of an array of tables have their `name`, or their number.
fn flatten(path: &str, value: &Value, keys: &mut Keys) {
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| flatten(&below(key), value, keys));
        }
        Value::Array(entries) if entries.iter().all(Value::is_table) && !entries.is_empty() => {
            for (at, entry) in entries.iter().enumerate() {
                let name = entry.get("name").and_then(Value::as_str);
                let name = name.map_or_else(|| (at + 1).to_string(), str::to_owned);
                flatten(&below(&name), entry, keys);
            }
        }
        Value::String(text) => {
            keys.insert(path.to_owned(), text.clone());
        }
        other => {
            keys.insert(path.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differing_keys_with_values() {
        let lab = "[lab]\nseed = 1\n\n[[link]]\nname = \"core\"\nends = [\"a\", \"b\"]\n\
                   up = { delay = \"10 ms\", mtu = 1500 }\n\n[[expect]]\nthat = \"a\"\n\n\
                   [[expect]]\nthat = \"b\"\n";
        let other = lab.replace("seed = 1", "seed = 2").replace("10 ms", "20 ms");
        let other = other.replace("\"b\"\n", &format!("\"{}\"\n", "c".repeat(50)));
        let long = format!("expect.2.that is b and {}…", "c".repeat(39));
        let other = other + "\n[node.x]\nkind = \"host\"\n";
        assert_eq!(
            differences(lab, &other),
            [
                long.as_str(),
                "link.core.up.delay is 10 ms and 20 ms",
                "node.x.kind is absent and host"
            ]
        );
        assert!(differences(lab, lab).is_empty() && differences("[", lab).is_empty());
    }
}
