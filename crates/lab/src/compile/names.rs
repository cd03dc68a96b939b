//! Names: what is fit for one, and patterns over them.

/// Whether a host may be called so (RFC 1123 §2.1), and is not mistaken for a number.
pub(crate) fn fit_for_a_host(name: &str) -> bool {
    let hyphen = |c: char| c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || hyphen(c))
        && !name.starts_with(hyphen)
        && !name.ends_with(hyphen)
        && !is_a_number(name)
        && !name.eq_ignore_ascii_case("localhost")
}

/// A resolver reads `1` and `0x1f` as addresses.
fn is_a_number(name: &str) -> bool {
    let hex = name.strip_prefix("0x").or_else(|| name.strip_prefix("0X"));
    hex.map_or_else(
        || name.bytes().all(|b| b.is_ascii_digit()),
        |hex| hex.bytes().all(|b| b.is_ascii_hexdigit()),
    )
}

/// With an ending it still is a file name.
const LONGEST: usize = 240;

/// Whether a lab, link, program, flow or mirror may be called so: a safe file name.
pub(crate) fn fit_for_a_label(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether it stands for several names.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether `name` fits a pattern: `*` stands for any characters, `?` for one.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
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

/// `base`, or `base.2`, `base.3`, … if that is taken.
pub(super) fn free_name(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_owned();
    }
    let mut number = 2u64;
    loop {
        let name = format!("{base}.{number}");
        if !taken(&name) {
            return name;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_told_from_numbers() {
        assert!(fit_for_a_host("alice") && fit_for_a_host("h1") && fit_for_a_host("1a-b"));
        for name in ["", "-a", "a-", "a_b", "a.b", "1", "0x1f", "localhost", "ä"] {
            assert!(!fit_for_a_host(name), "{name}");
        }
    }

    #[test]
    fn patterns_match() {
        assert!(matches("l*", "l12") && matches("*", "") && matches("h?-*x", "h1-yxx"));
        assert!(!matches("l*", "r1") && !matches("h?", "h12") && !matches("", "a"));
    }
}
