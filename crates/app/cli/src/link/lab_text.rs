//! The lab of `link` as the text of a lab file, with one line for each option.

use std::fmt::Write as _;

use serde_json::Value;

use crate::Failure;
use crate::args::link::Link;

/// The text, and the option of each line.
pub(super) struct LabText {
    text: String,
    options: Vec<Option<String>>,
}

impl LabText {
    /// The lab of these arguments: the host `here`, the link, and the host `peer` or the router
    /// `outside`.
    pub(super) fn of(args: &Link) -> Result<Self, Failure> {
        let mut lab = Self { text: String::new(), options: Vec::new() };
        let end = if args.to.is_some() { "peer" } else { "outside" };
        lab.fixed("[lab]\nname = \"link\"\ninterval = \"1 s\"");
        lab.value("seed", "--seed", args.seed.as_deref());
        match &args.duration {
            Some(duration) => lab.value("duration", "--duration", Some(duration)),
            None => lab.fixed("duration = \"720 h\""),
        }
        if args.to.is_some() {
            lab.fixed("[node.here]\n[node.peer]");
        } else {
            lab.fixed("uplink = \"outside\"\n[node.here]\n[node.outside]\nkind = \"router\"");
        }
        lab.fixed(&format!("[[link]]\nname = \"link\"\nends = [\"here\", \"{end}\"]"));
        // Addresses for benchmarks (RFC 2544), which no other network uses.
        lab.fixed(&format!(
            "addresses = {{ here = \"198.18.0.1/30\", {end} = \"198.18.0.2/30\" }}"
        ));
        let properties = [
            ("rate", &args.rate),
            ("delay", &args.delay),
            ("jitter", &args.jitter),
            ("loss", &args.loss),
            ("queue", &args.queue),
            ("trace", &args.trace),
            ("duplicate", &args.duplicate),
            ("corrupt", &args.corrupt),
            ("reorder", &args.reorder),
            ("mtu", &args.mtu),
        ];
        for (key, value) in properties {
            lab.value(key, &format!("--{key}"), value.as_deref());
        }
        lab.direction("up", &args.up)?;
        lab.direction("down", &args.down)?;
        if let Some(program) = &args.to {
            lab.fixed("[[program]]\nname = \"peer\"\nnode = \"peer\"\nservice = true");
            lab.line(&format!("run = {}", quoted(program)), Some("--to".to_owned()));
            lab.value("ready", "--ready", args.ready.as_deref());
        }
        Ok(lab)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The option of a line, from 1.
    pub(super) fn option(&self, line: u32) -> Option<&str> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        self.options.get(index)?.as_deref()
    }

    fn fixed(&mut self, lines: &str) {
        for line in lines.lines() {
            self.line(line, None);
        }
    }

    fn line(&mut self, line: &str, option: Option<String>) {
        let _ = writeln!(self.text, "{line}");
        self.options.push(option);
    }

    fn value(&mut self, key: &str, option: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(&format!("{key} = {}", toml(value)), Some(option.to_owned()));
        }
    }

    fn direction(&mut self, direction: &str, given: &[String]) -> Result<(), Failure> {
        if given.is_empty() {
            return Ok(());
        }
        self.fixed(&format!("[link.{direction}]"));
        for part in given.iter().flat_map(|given| parts(given)) {
            let Some((key, value)) = part.split_once('=') else {
                let message = format!("--{direction}: `{part}` is not KEY=VALUE");
                let example = format!("--{direction} 'rate=10 Mbit/s,delay=20 ms'");
                return Err(Failure::usage(message).help(format!("for example {example}")));
            };
            let (key, option) = (key.trim(), format!("--{direction} {}", key.trim()));
            self.value(&quoted(key), &option, Some(value.trim()));
        }
        Ok(())
    }
}

/// The parts between the commas outside of brackets and quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut in_quotes) = (Vec::new(), 0, 0_u32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => in_quotes = !in_quotes,
            '{' | '[' if !in_quotes => depth += 1,
            '}' | ']' if !in_quotes => depth = depth.saturating_sub(1),
            ',' if !in_quotes && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// An option's value in TOML: a table, a list or a number as it is, everything else as a text.
fn toml(value: &str) -> String {
    let value = value.trim();
    if value.starts_with(['{', '[', '"']) || value.parse::<f64>().is_ok_and(f64::is_finite) {
        return value.replace('\n', " ");
    }
    quoted(value)
}

/// A string of JSON is one of TOML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_only_at_outer_commas() {
        let text = r#"rate=1 Mbit/s,queue={ kind = "red", limit = "1, 2" },loss=1 %"#;
        let expected = ["rate=1 Mbit/s", r#"queue={ kind = "red", limit = "1, 2" }"#, "loss=1 %"];
        assert_eq!(parts(text), expected);
    }

    #[test]
    fn quotes_values_that_are_not_toml() {
        assert_eq!(toml("10 Mbit/s"), r#""10 Mbit/s""#);
        assert_eq!(toml(" 10 "), "10");
        assert_eq!(toml("codel"), r#""codel""#);
        assert_eq!(toml("{ kind = \"red\" }"), "{ kind = \"red\" }");
        assert_eq!(toml("a\"b\nc"), r#""a\"b\nc""#);
    }
}
