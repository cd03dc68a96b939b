//! GT-ITM's alternative format: three titled sections `GRAPH`, `VERTICES` and `EDGES`, with
//! one line per item.
//!
//! All nodes are routers, named after their labels if these are not plain numbers (`T:0.1` becomes
//! `t-0-1`). An edge's length, a distance without a unit, becomes the link's metric, not its delay.
//! If a node has two integers, they are its position; otherwise they become an attribute.

use super::assemble::{Assembly, Attribute, integer, shortened};
use super::place::check_length;
use super::place::{Place, words};
use crate::{Error, Graph, Problem};

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Start,
    Graph,
    Vertices,
    Edges,
}

/// Parses the output of GT-ITM's `sgb2alt`.
pub fn alt(text: &str) -> Result<Graph, Error> {
    check_length(text)?;
    let mut assembly = Assembly::default();
    // Each edge occurs once, but some converters write both arcs.
    assembly.set_directed(true);
    let mut section = Section::Start;
    let mut announced = None;
    let mut end = Place::START;
    for (index, line) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        end = Place { line: number, column: 1 };
        let mut words = words(number, line);
        let Some((place, first)) = words.next() else { continue };
        let next = match first {
            "GRAPH" => Some((Section::Start, Section::Graph)),
            "VERTICES" => Some((Section::Graph, Section::Vertices)),
            "EDGES" => Some((Section::Vertices, Section::Edges)),
            _ => None,
        };
        match (section, next) {
            (_, Some((before, after))) if before == section => section = after,
            (Section::Graph, None) if announced.is_none() => {
                announced = Some((place, integer::<u64>(first, place, "number of nodes")?));
            }
            (Section::Vertices, None) => vertex(&mut assembly, place, first, words)?,
            (Section::Edges, None) => edge(&mut assembly, place, first, words)?,
            _ => return Err(place.error(Problem::Expected { expected: section.next() })),
        }
    }
    if section != Section::Edges {
        return Err(end.error(Problem::Expected { expected: section.next() }));
    }
    let found = assembly.nodes() as u64;
    match announced {
        Some((place, announced)) if announced != found => {
            Err(place.error(Problem::Count { what: "nodes", announced, found }))
        }
        _ => assembly.finish(end),
    }
}

impl Section {
    fn next(self) -> &'static str {
        match self {
            Self::Start => "the section `GRAPH`",
            Self::Graph => "the section `VERTICES`",
            Self::Vertices | Self::Edges => "the section `EDGES`",
        }
    }
}

fn vertex<'a>(
    assembly: &mut Assembly,
    place: Place,
    index: &str,
    mut words: impl Iterator<Item = (Place, &'a str)>,
) -> Result<(), Error> {
    // Indices are positions, so they must count up from 0.
    if integer::<u64>(index, place, "node index")? != assembly.nodes() as u64 {
        let expected = "the next node index, counted from 0";
        return Err(place.error(Problem::Number { text: shortened(index), expected }));
    }
    let Some((name_place, name)) = words.next() else {
        return Err(place.error(Problem::Missing { element: "node", field: "name" }));
    };
    let mut attributes: Vec<Attribute> = vec![("label".to_owned(), name.to_owned(), name_place)];
    let mut fields = Vec::new();
    for (place, word) in words {
        integer::<i64>(word, place, "integer")?;
        if fields.len() == 6 {
            return Err(place.error(Problem::TooMany { what: "fields", limit: 6 }));
        }
        fields.push((word, place));
    }
    if let [(x, x_place), (y, y_place)] = fields[..] {
        attributes.push(("x".to_owned(), x.to_owned(), x_place));
        attributes.push(("y".to_owned(), y.to_owned(), y_place));
    } else if let [(_, first), ..] = fields[..] {
        let text: Vec<&str> = fields.iter().map(|(word, _)| *word).collect();
        attributes.push(("fields".to_owned(), text.join(" "), first));
    }
    assembly.node(place, index, &attributes)?;
    Ok(())
}

fn edge<'a>(
    assembly: &mut Assembly,
    place: Place,
    from: &str,
    mut words: impl Iterator<Item = (Place, &'a str)>,
) -> Result<(), Error> {
    let missing = |field| place.error(Problem::Missing { element: "edge", field });
    let (to_place, to) = words.next().ok_or_else(|| missing("to-node"))?;
    let (length_place, length) = words.next().ok_or_else(|| missing("length"))?;
    for (place, word) in words {
        integer::<i64>(word, place, "integer")?;
    }
    let ends = [assembly.find(place, from)?, assembly.find(to_place, to)?];
    assembly.edge(place, ends, &[("metric".to_owned(), length.to_owned(), length_place)])
}
