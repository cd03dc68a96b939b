//! Packet filters of mirrors.

use base::NodeId;

use crate::plan::Filter;

/// An invalid word in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterError {
    /// An unexpected word.
    Word(String),
    /// The text ends too early.
    End,
    /// An unknown node.
    Node(String),
    /// A word that contradicts an earlier one.
    Twice(String),
}

/// Parses a filter; `node` looks up names.
pub(crate) fn parse(
    text: &str,
    node: &dyn Fn(&str) -> Option<NodeId>,
) -> Result<Filter, FilterError> {
    let mut filter = Filter::default();
    let mut words = text.split_whitespace();
    let mut joined = true;
    while let Some(word) = words.next() {
        if word == "and" {
            if joined {
                return Err(FilterError::Word(word.to_owned()));
            }
            joined = true;
            continue;
        }
        joined = false;
        let twice = || FilterError::Twice(word.to_owned());
        match word {
            "ip" => once(&mut filter.version, 4, twice)?,
            "ip6" => once(&mut filter.version, 6, twice)?,
            "tcp" => once(&mut filter.protocol, 6, twice)?,
            "udp" => once(&mut filter.protocol, 17, twice)?,
            "icmp" => once(&mut filter.protocol, 1, twice)?,
            "icmp6" => once(&mut filter.protocol, 58, twice)?,
            "proto" => once(&mut filter.protocol, number(words.next())?, twice)?,
            "port" => once(&mut filter.port, number(words.next())?, twice)?,
            "host" => once(&mut filter.host, host(words.next(), node)?, twice)?,
            "src" => match words.next() {
                Some("port") => once(&mut filter.src_port, number(words.next())?, twice)?,
                Some("host") => once(&mut filter.src_host, host(words.next(), node)?, twice)?,
                other => return Err(unexpected(other)),
            },
            "dst" => match words.next() {
                Some("port") => once(&mut filter.dst_port, number(words.next())?, twice)?,
                Some("host") => once(&mut filter.dst_host, host(words.next(), node)?, twice)?,
                other => return Err(unexpected(other)),
            },
            _ => return Err(FilterError::Word(word.to_owned())),
        }
    }
    if joined { Err(FilterError::End) } else { Ok(filter) }
}

fn unexpected(word: Option<&str>) -> FilterError {
    word.map_or(FilterError::End, |word| FilterError::Word(word.to_owned()))
}

fn once<T: PartialEq>(
    field: &mut Option<T>,
    value: T,
    twice: impl Fn() -> FilterError,
) -> Result<(), FilterError> {
    if field.as_ref().is_some_and(|known| *known != value) {
        return Err(twice());
    }
    *field = Some(value);
    Ok(())
}

fn number<T: std::str::FromStr>(word: Option<&str>) -> Result<T, FilterError> {
    let word = word.ok_or(FilterError::End)?;
    word.parse().map_err(|_| FilterError::Word(word.to_owned()))
}

fn host(word: Option<&str>, node: &dyn Fn(&str) -> Option<NodeId>) -> Result<NodeId, FilterError> {
    let word = word.ok_or(FilterError::End)?;
    node(word).ok_or_else(|| FilterError::Node(word.to_owned()))
}

impl Filter {
    /// The filter in the syntax of lab files; `name` returns the names of nodes. Empty for the
    /// filter that matches everything.
    pub(crate) fn text(&self, name: &dyn Fn(NodeId) -> String) -> String {
        let mut words = Vec::new();
        match self.version {
            Some(4) => words.push("ip".to_owned()),
            Some(_) => words.push("ip6".to_owned()),
            None => {}
        }
        match self.protocol {
            Some(1) => words.push("icmp".to_owned()),
            Some(6) => words.push("tcp".to_owned()),
            Some(17) => words.push("udp".to_owned()),
            Some(58) => words.push("icmp6".to_owned()),
            Some(other) => words.push(format!("proto {other}")),
            None => {}
        }
        let ports = [("port", self.port), ("src port", self.src_port), ("dst port", self.dst_port)];
        words.extend(ports.iter().filter_map(|(word, port)| Some(format!("{word} {}", (*port)?))));
        let hosts = [("host", self.host), ("src host", self.src_host), ("dst host", self.dst_host)];
        words.extend(
            hosts.iter().filter_map(|(word, node)| Some(format!("{word} {}", name((*node)?)))),
        );
        words.join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Filter, FilterError> {
        parse(text, &|name| (name == "alice").then_some(NodeId(3)))
    }

    #[test]
    fn filters_are_read_and_written() {
        let filter = read("tcp port 179").unwrap();
        assert_eq!((filter.protocol, filter.port), (Some(6), Some(179)));
        let filter = read("ip6 and src host alice and udp and dst port 53").unwrap();
        assert_eq!((filter.version, filter.src_host), (Some(6), Some(NodeId(3))));
        let text = filter.text(&|_| "alice".to_owned());
        assert_eq!(text, "ip6 and udp and dst port 53 and src host alice");
        assert_eq!(read(&text), Ok(filter));
    }

    #[test]
    fn invalid_filters_are_rejected() {
        assert_eq!(read(""), Err(FilterError::End));
        assert_eq!(read("tcp and"), Err(FilterError::End));
        assert_eq!(read("and tcp"), Err(FilterError::Word("and".into())));
        assert_eq!(read("tcp udp"), Err(FilterError::Twice("udp".into())));
        assert_eq!(read("host bob"), Err(FilterError::Node("bob".into())));
        assert_eq!(read("port 99999"), Err(FilterError::Word("99999".into())));
        assert_eq!(read("src"), Err(FilterError::End));
    }
}
