//! `GraphML` (Brandes et al. 2002), also as yEd writes it. Nested graphs are parsed as part of the
//! outer one, without the node that contains them; hyperedges are rejected, as are entities other
//! than those of XML.

use std::collections::HashMap;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::assemble::{Assembly, Attribute, shortened};
use super::place::check_length;
use super::place::{Locator, Place};
use crate::{Error, Graph, MAX_ELEMENTS, Problem};

/// Maximum nesting depth of elements.
const MAX_DEPTH: usize = 64;
/// Maximum number of attribute declarations in a file.
const MAX_KEYS: usize = 200;

/// Parses `GraphML`. See [`crate::import`] for the attributes.
pub fn graphml(text: &str) -> Result<Graph, Error> {
    check_length(text)?;
    let mut reader = Reader::from_str(text);
    let mut locator = Locator::new(text);
    let mut document = Document::default();
    loop {
        let place = locator.at(usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX));
        let event = reader.read_event().map_err(|error| xml_error(place, &error))?;
        match event {
            Event::Start(start) => document.open(place, &start)?,
            Event::Empty(start) => {
                document.open(place, &start)?;
                document.close(place)?;
            }
            Event::End(_) => document.close(place)?,
            Event::Text(text) => document.push(&text.xml10_content()),
            Event::CData(text) => document.push(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref();
                let character = character.map_err(|error| xml_error(place, &error))?;
                let named = resolve_predefined_entity(&reference);
                match (character, named) {
                    (Some(character), _) => document.push(character.encode_utf8(&mut [0; 4])),
                    (None, Some(text)) => document.push(text),
                    (None, None) => {
                        let what = "a custom entity";
                        return Err(place.error(Problem::Unsupported { what }));
                    }
                }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => return document.finish(place),
        }
    }
}

fn xml_error(place: Place, error: &quick_xml::Error) -> Error {
    place.error(Problem::Xml { message: error.to_string() })
}

#[derive(Default)]
struct Document {
    assembly: Assembly,
    keys: HashMap<String, Key>,
    open: Vec<Element>,
    /// Edges may precede their nodes.
    edges: Vec<(Place, [String; 2], Vec<Attribute>)>,
}

struct Key {
    node: bool,
    edge: bool,
    name: String,
    default: Option<(String, Place)>,
}

enum Element {
    Node {
        place: Place,
        id: String,
        attributes: Vec<Attribute>,
        is_group: bool,
    },
    Edge {
        place: Place,
        ends: [String; 2],
        attributes: Vec<Attribute>,
    },
    Data {
        place: Place,
        key: String,
        text: String,
    },
    /// The text of a node or edge in a drawing, and its attribute.
    Label {
        place: Place,
        name: &'static str,
        text: String,
    },
    Key {
        id: String,
        key: Key,
    },
    Default {
        place: Place,
        text: String,
    },
    Other,
}

impl Document {
    fn open(&mut self, place: Place, start: &BytesStart<'_>) -> Result<(), Error> {
        if self.open.len() >= MAX_DEPTH {
            let limit = MAX_DEPTH as u64;
            return Err(place.error(Problem::TooMany { what: "nested elements", limit }));
        }
        let element = match start.local_name().as_ref() {
            "graph" => {
                if let Some(default) = attribute(place, start, "edgedefault")? {
                    self.assembly.set_directed(default == "directed");
                }
                if let Some(Element::Node { is_group, .. }) = self.open.last_mut() {
                    *is_group = true;
                }
                Element::Other
            }
            "node" => Element::Node {
                place,
                id: needed(place, start, "node", "id")?,
                attributes: Vec::new(),
                is_group: false,
            },
            "edge" => Element::Edge {
                place,
                ends: [
                    needed(place, start, "edge", "source")?,
                    needed(place, start, "edge", "target")?,
                ],
                attributes: Vec::new(),
            },
            "data" => {
                let key = needed(place, start, "data", "key")?;
                Element::Data { place, key, text: String::new() }
            }
            "NodeLabel" => Element::Label { place, name: "label", text: String::new() },
            "EdgeLabel" => Element::Label { place, name: "EdgeLabel", text: String::new() },
            "Geometry" => {
                let position = [attribute(place, start, "x")?, attribute(place, start, "y")?];
                if let [Some(x), Some(y)] = position {
                    self.draw(place, "x", x);
                    self.draw(place, "y", y);
                }
                Element::Other
            }
            "key" => Self::key(place, start)?,
            "default" => Element::Default { place, text: String::new() },
            "hyperedge" => {
                return Err(place.error(Problem::Unsupported { what: "a hyperedge" }));
            }
            _ => Element::Other,
        };
        self.open.push(element);
        Ok(())
    }

    fn key(place: Place, start: &BytesStart<'_>) -> Result<Element, Error> {
        let id = needed(place, start, "key", "id")?;
        let domain = attribute(place, start, "for")?;
        let is_for =
            |what| domain.as_deref().is_none_or(|domain| domain == what || domain == "all");
        let name = attribute(place, start, "attr.name")?;
        let name = shortened(name.as_deref().unwrap_or(&id));
        let (node, edge) = (is_for("node"), is_for("edge"));
        Ok(Element::Key { id, key: Key { node, edge, name, default: None } })
    }

    fn push(&mut self, more: &str) {
        if let Some(
            Element::Data { text, .. }
            | Element::Default { text, .. }
            | Element::Label { text, .. },
        ) = self.open.last_mut()
        {
            text.push_str(more);
        }
    }

    /// Adds an attribute of a drawing to the innermost node or edge, unless it has this attribute.
    fn draw(&mut self, place: Place, name: &str, text: String) {
        let inner = self.open.iter_mut().rev().find_map(|element| match element {
            Element::Node { attributes, .. } | Element::Edge { attributes, .. } => Some(attributes),
            _ => None,
        });
        let Some(attributes) = inner else { return };
        if attributes.iter().all(|(known, ..)| !known.eq_ignore_ascii_case(name)) {
            attributes.push((name.to_owned(), text, place));
        }
    }

    fn close(&mut self, end: Place) -> Result<(), Error> {
        match self.open.pop() {
            Some(Element::Label { place, name, text }) => {
                self.draw(place, name, text.trim().to_owned());
            }
            Some(Element::Node { id, is_group: true, .. }) => self.assembly.group(id),
            Some(Element::Node { place, id, attributes, .. }) => {
                self.assembly.node(place, &id, &attributes)?;
            }
            Some(Element::Edge { place, ends, attributes }) => {
                if self.edges.len() as u64 >= 2 * MAX_ELEMENTS {
                    let limit = 2 * MAX_ELEMENTS;
                    return Err(place.error(Problem::TooMany { what: "edges", limit }));
                }
                self.edges.push((place, ends, attributes));
            }
            Some(Element::Data { place, key, text }) => {
                let name = self.keys.get(&key).map_or(key, |key| key.name.clone());
                match self.open.last_mut() {
                    Some(Element::Node { attributes, .. } | Element::Edge { attributes, .. }) => {
                        attributes.push((name, text.trim().to_owned(), place));
                    }
                    _ => self.assembly.describe(&name, &text),
                }
            }
            Some(Element::Key { id, key }) => {
                if self.keys.len() >= MAX_KEYS {
                    let limit = MAX_KEYS as u64;
                    return Err(end.error(Problem::TooMany { what: "keys", limit }));
                }
                if let Some((text, place)) = &key.default {
                    let default = (key.name.clone(), text.clone(), *place);
                    self.assembly.add_default(key.node, key.edge, &default);
                }
                self.keys.insert(id, key);
            }
            Some(Element::Default { place, text }) => {
                if let Some(Element::Key { key, .. }) = self.open.last_mut() {
                    key.default = Some((text.trim().to_owned(), place));
                }
            }
            Some(Element::Other) | None => {}
        }
        Ok(())
    }

    fn finish(mut self, end: Place) -> Result<Graph, Error> {
        if !self.open.is_empty() {
            return Err(end.error(Problem::Expected { expected: "a closing tag" }));
        }
        for (place, [source, target], attributes) in self.edges {
            let ends = [self.assembly.find(place, &source)?, self.assembly.find(place, &target)?];
            self.assembly.edge(place, ends, &attributes)?;
        }
        self.assembly.finish(end)
    }
}

fn attribute(place: Place, start: &BytesStart<'_>, name: &str) -> Result<Option<String>, Error> {
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| xml_error(place, &error.into()))?;
        if attribute.key.as_ref() == name {
            let value = attribute.normalized_value(XmlVersion::default());
            return Ok(Some(value.map_err(|error| xml_error(place, &error))?.into_owned()));
        }
    }
    Ok(None)
}

fn needed(
    place: Place,
    start: &BytesStart<'_>,
    element: &'static str,
    field: &'static str,
) -> Result<String, Error> {
    let value = attribute(place, start, field)?;
    value.ok_or_else(|| place.error(Problem::Missing { element, field }))
}
