//! Names: validity, and patterns over them.

use std::collections::BTreeMap;

/// Whether a name is a valid host name (RFC 1123 §2.1) and cannot be read as a number.
pub(crate) fn fit_for_a_host(name: &str) -> bool {
    let hyphen = |c: char| c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || hyphen(c))
        && !name.starts_with(hyphen)
        && !name.ends_with(hyphen)
        && !is_a_number(name)
        && !name.eq_ignore_ascii_case("localhost")
}

/// Resolvers read `1` and `0x1f` as addresses.
fn is_a_number(name: &str) -> bool {
    let hex = name.strip_prefix("0x").or_else(|| name.strip_prefix("0X"));
    hex.map_or_else(
        || name.bytes().all(|b| b.is_ascii_digit()),
        |hex| hex.bytes().all(|b| b.is_ascii_hexdigit()),
    )
}

/// With an extension it must still be a valid file name.
const MAX_NAME_BYTES: usize = 240;

/// Whether a lab, link, program, flow or mirror may have this name: a safe file name.
pub(crate) fn fit_for_a_label(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether `name` matches a pattern: `*` matches any characters, `?` one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == b'?' || pattern[p] == name[n]) {
            p += 1;
            n += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            n = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// The next number to try for each base of a name, so that many equal bases take linear time.
#[derive(Debug, Default)]
pub(super) struct FreeNames(BTreeMap<String, u64>);

impl FreeNames {
    /// `base`, or `base.2`, `base.3`, … if that is taken. A name that is taken must remain taken.
    pub(super) fn next(&mut self, base: &str, taken: impl Fn(&str) -> bool) -> String {
        if !taken(base) {
            return base.to_owned();
        }
        let number = self.0.entry(base.to_owned()).or_insert(2);
        loop {
            let name = format!("{base}.{number}");
            *number += 1;
            if !taken(&name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn host_names_are_told_from_numbers() {
        assert!(fit_for_a_host("alice") && fit_for_a_host("h1") && fit_for_a_host("1a-b"));
        for name in ["", "-a", "a-", "a_b", "a.b", "1", "0x1f", "localhost", "ä"] {
            assert!(!fit_for_a_host(name), "{name}");
        }
    }

    #[test]
    fn free_names_are_found_with_a_constant_number_of_tries() {
        for taken_before in [0, 3] {
            let mut names: BTreeSet<String> =
                (2..2 + taken_before).map(|n| format!("a-b.{n}")).collect();
            let (mut free, tries) = (FreeNames::default(), Cell::new(0));
            for number in 0..2_000 {
                let taken = |name: &str| {
                    tries.set(tries.get() + 1);
                    names.contains(name)
                };
                let name = free.next("a-b", taken);
                let suffix = if number == 0 { 0 } else { number + 1 + taken_before };
                assert_eq!(name, if suffix == 0 { "a-b".into() } else { format!("a-b.{suffix}") });
                names.insert(name);
            }
            assert!(tries.get() < 2 * 2_000 + 10, "{} tries", tries.get());
        }
    }

    #[test]
    fn patterns_match() {
        assert!(matches("l*", "l12") && matches("*", "") && matches("h?-*x", "h1-yxx"));
        assert!(!matches("l*", "r1") && !matches("h?", "h12") && !matches("", "a"));
    }
}
