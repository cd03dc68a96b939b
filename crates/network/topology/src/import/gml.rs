//! GML (Himsolt 1997): keys with numbers, strings or bracketed lists of the same.

use super::assemble::{Assembly, Attribute, shortened};
use super::place::Place;
use super::place::check_length;
use crate::{Error, Graph, Problem};

/// Maximum nesting depth of lists.
const MAX_DEPTH: usize = 8;
/// Maximum number of attributes of a node or an edge.
const MAX_ATTRIBUTES: usize = 1_000;

/// Parses GML. See [`crate::import`] for the attributes.
pub fn gml(text: &str) -> Result<Graph, Error> {
    check_length(text)?;
    let mut reader = Reader { rest: text, place: Place::START };
    let mut assembly = Assembly::default();
    let mut seen = false;
    loop {
        match reader.next()? {
            (place, Token::End) if !seen => {
                return Err(place.error(Problem::Expected { expected: "`graph [`" }));
            }
            (place, Token::End) => return assembly.finish(place),
            (_, Token::Word(key)) => match reader.next()? {
                (_, Token::Open) if key == "graph" && !seen => {
                    seen = true;
                    read_graph(&mut reader, &mut assembly)?;
                }
                (place, Token::Open) if key == "graph" => {
                    let what = "a second graph";
                    return Err(place.error(Problem::Unsupported { what }));
                }
                (_, Token::Open) => reader.skip_list()?,
                (_, Token::Word(_) | Token::Text(_)) => {}
                (place, _) => return Err(place.error(Problem::Expected { expected: "a value" })),
            },
            (place, _) => return Err(place.error(Problem::Expected { expected: "a key" })),
        }
    }
}

fn read_graph(reader: &mut Reader<'_>, assembly: &mut Assembly) -> Result<(), Error> {
    // Edges may precede their nodes.
    let mut edges = Vec::new();
    loop {
        let (place, token) = reader.next()?;
        let key = match token {
            Token::Close => break,
            Token::Word(key) => key,
            _ => return Err(place.error(Problem::Expected { expected: "a key or `]`" })),
        };
        match (key, reader.next()?) {
            ("node", (_, Token::Open)) => {
                let mut attributes = Vec::new();
                reader.attributes(&mut attributes, "", 0)?;
                let id = take(&mut attributes, "id", "node", place)?;
                assembly.node(place, &id.1, &attributes)?;
            }
            ("edge", (_, Token::Open)) => {
                let mut attributes = Vec::new();
                reader.attributes(&mut attributes, "", 0)?;
                if edges.len() as u64 >= 2 * crate::MAX_ELEMENTS {
                    let limit = 2 * crate::MAX_ELEMENTS;
                    return Err(place.error(Problem::TooMany { what: "edges", limit }));
                }
                edges.push((place, attributes));
            }
            ("directed", (_, Token::Word(value))) => assembly.set_directed(value == "1"),
            (key, (_, Token::Open)) => {
                reader.skip_list()?;
                assembly.describe(key, "[ … ]");
            }
            (key, (_, Token::Word(value))) => assembly.describe(key, value),
            (key, (_, Token::Text(value))) => assembly.describe(key, &value),
            (_, (place, _)) => return Err(place.error(Problem::Expected { expected: "a value" })),
        }
    }
    for (place, mut attributes) in edges {
        let source = take(&mut attributes, "source", "edge", place)?;
        let target = take(&mut attributes, "target", "edge", place)?;
        let ends = [assembly.find(source.2, &source.1)?, assembly.find(target.2, &target.1)?];
        assembly.edge(place, ends, &attributes)?;
    }
    Ok(())
}

fn take(
    attributes: &mut Vec<Attribute>,
    field: &'static str,
    element: &'static str,
    place: Place,
) -> Result<Attribute, Error> {
    let at = attributes.iter().position(|(name, ..)| name == field);
    let at = at.ok_or_else(|| place.error(Problem::Missing { element, field }))?;
    Ok(attributes.remove(at))
}

enum Token<'a> {
    /// A key or a number.
    Word(&'a str),
    /// A string with resolved entities.
    Text(String),
    Open,
    Close,
    End,
}

struct Reader<'a> {
    rest: &'a str,
    place: Place,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, bytes: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at(bytes);
        skipped.chars().for_each(|character| self.place.step(character));
        self.rest = rest;
        skipped
    }

    fn next(&mut self) -> Result<(Place, Token<'a>), Error> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if !self.rest.starts_with('#') {
                break;
            }
            let comment = self.rest.find('\n').unwrap_or(self.rest.len());
            self.skip(comment);
        }
        let place = self.place;
        let token = match self.rest.chars().next() {
            None => Token::End,
            Some('[') => {
                self.skip(1);
                Token::Open
            }
            Some(']') => {
                self.skip(1);
                Token::Close
            }
            Some('"') => {
                let Some(length) = self.rest[1..].find('"') else {
                    return Err(place.error(Problem::Expected { expected: "a closing `\"`" }));
                };
                let text = self.skip(length + 2);
                Token::Text(resolve_entities(&text[1..=length]))
            }
            Some(_) => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"' | '#');
                let length = self.rest.find(ends).unwrap_or(self.rest.len());
                Token::Word(self.skip(length))
            }
        };
        Ok((place, token))
    }

    /// Parses a list after its bracket. Keys of inner lists are prefixed with the list's key.
    fn attributes(
        &mut self,
        into: &mut Vec<Attribute>,
        prefix: &str,
        depth: usize,
    ) -> Result<(), Error> {
        loop {
            let (place, token) = self.next()?;
            let key = match token {
                Token::Close => return Ok(()),
                Token::Word(key) => format!("{prefix}{}", shortened(key)),
                _ => return Err(place.error(Problem::Expected { expected: "a key or `]`" })),
            };
            if into.len() >= MAX_ATTRIBUTES {
                let limit = MAX_ATTRIBUTES as u64;
                return Err(place.error(Problem::TooMany { what: "attributes", limit }));
            }
            match self.next()? {
                (place, Token::Word(value)) => into.push((key, value.to_owned(), place)),
                (place, Token::Text(value)) => into.push((key, value, place)),
                (place, Token::Open) if depth + 1 >= MAX_DEPTH => {
                    let limit = MAX_DEPTH as u64;
                    return Err(place.error(Problem::TooMany { what: "nested lists", limit }));
                }
                (_, Token::Open) => self.attributes(into, &format!("{key}."), depth + 1)?,
                (place, _) => return Err(place.error(Problem::Expected { expected: "a value" })),
            }
        }
    }

    fn skip_list(&mut self) -> Result<(), Error> {
        let mut depth = 1u64;
        while depth > 0 {
            match self.next()? {
                (_, Token::Open) => depth += 1,
                (_, Token::Close) => depth -= 1,
                (place, Token::End) => {
                    return Err(place.error(Problem::Expected { expected: "`]`" }));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Resolves the numeric ISO 8859 entities of GML and the five named entities of XML;
/// other text stays unchanged.
fn resolve_entities(text: &str) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        resolved.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest is `&#1114111;`.
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        let found = end.and_then(|end| Some((end, entity(&rest[1..end])?)));
        let (character, length) = found.map_or(('&', 1), |(end, found)| (found, end + 1));
        resolved.push(character);
        rest = &rest[length..];
    }
    resolved.push_str(rest);
    resolved
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => char::from_u32(name.strip_prefix('#')?.parse().ok()?),
    }
}
