//! Converts nodes and edges with free attributes to a graph: names, positions, delays and rates.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::{Bandwidth, Ratio, Span};

use super::place::Place;
use crate::{Error, Graph, LinkSpec, MAX_ELEMENTS, Node, Problem, Role};

/// An attribute's name, text and place.
pub(super) type Attribute = (String, String, Place);

/// Attributes of nodes that are read, in lower case.
const OF_NODES: &[&str] = &[
    "graphics.x",
    "graphics.y",
    "host_bandwidth_down",
    "host_bandwidth_up",
    "kind",
    "label",
    "latitude",
    "longitude",
    "name",
    "role",
    "x",
    "y",
];

/// Attributes of edges that are read, in lower case.
const OF_EDGES: &[&str] = &[
    "delay",
    "latency",
    "linkspeed",
    "linkspeedraw",
    "linkspeedunits",
    "loss",
    "metric",
    "name",
    "packet_loss",
    "rate",
];

/// Attributes that describe and are no properties of a network, in lower case.
const DESCRIPTIONS: &[&str] = &[
    "country",
    "description",
    "doubted",
    "geocode_append",
    "geocode_country",
    "geocode_id",
    "geocode_name",
    "hyperedge",
    "id",
    "internal",
    "label",
    "linklabel",
    "linknote",
    "linktype",
    "type",
    "url",
];

/// Attributes without a meaning outside of their format, in lower case.
const INTERNAL: &[&str] = &["fields", "key"];

/// Attributes of the network as a whole that are its title or belong to the format.
const TITLES: &[&str] = &["comment", "hierarchic", "id", "label", "name", "version"];

/// A graph under construction.
#[derive(Default)]
pub(super) struct Assembly {
    directed: bool,
    /// Default attributes of nodes and edges.
    node_defaults: Vec<Attribute>,
    edge_defaults: Vec<Attribute>,
    graph: Graph,
    /// Node index by the file's id.
    ids: HashMap<String, u32>,
    names: HashSet<String>,
    /// Ids of nodes that contain nodes.
    groups: HashSet<String>,
    /// Latitude and longitude in degrees.
    coordinates: Vec<Option<[f64; 2]>>,
    /// Properties of arcs of a directed file, by direction, without a counterpart so far.
    unpaired: HashMap<[u32; 2], Vec<LinkSpec>>,
}

impl Assembly {
    /// Sets whether an arc and its reverse form one link.
    pub(super) fn set_directed(&mut self, directed: bool) {
        self.directed = directed;
    }

    pub(super) fn add_default(&mut self, node: bool, edge: bool, default: &Attribute) {
        if node {
            self.count_unused(std::slice::from_ref(default), OF_NODES);
            self.node_defaults.push(default.clone());
        }
        if edge {
            self.count_unused(std::slice::from_ref(default), OF_EDGES);
            self.edge_defaults.push(default.clone());
        }
    }

    /// Counts attributes that are not read.
    fn count_unused(&mut self, attributes: &[Attribute], read: &[&str]) {
        for (name, text, _) in attributes {
            let lower = name.to_ascii_lowercase();
            let is_in = |list: &[&str]| list.contains(&lower.as_str());
            let is_known = is_in(read) || is_in(INTERNAL) || lower.starts_with("graphics.");
            if is_known || text.trim().is_empty() {
                continue;
            }
            if is_in(DESCRIPTIONS) {
                self.graph.unused.descriptions.insert(name.clone());
            } else {
                self.graph.unused.add_attribute(name);
            }
        }
    }

    /// Adds an attribute of the network as a whole.
    pub(super) fn describe(&mut self, name: &str, text: &str) {
        let is_title = TITLES.iter().any(|title| name.eq_ignore_ascii_case(title));
        if !is_title && !text.trim().is_empty() {
            self.graph.unused.of_network.insert(shortened(name));
        }
    }

    /// Adds a node that contains nodes; it is not in the graph.
    pub(super) fn group(&mut self, id: String) {
        self.graph.unused.groups += 1;
        self.groups.insert(id);
    }

    fn check_room(&self, place: Place) -> Result<(), Error> {
        if self.graph.elements() < MAX_ELEMENTS {
            return Ok(());
        }
        Err(place.error(Problem::TooMany { what: "nodes and links", limit: MAX_ELEMENTS }))
    }

    pub(super) fn nodes(&self) -> usize {
        self.graph.nodes.len()
    }

    /// Adds the node with this id.
    pub(super) fn node(
        &mut self,
        place: Place,
        id: &str,
        attributes: &[Attribute],
    ) -> Result<u32, Error> {
        self.check_room(place)?;
        if self.ids.contains_key(id) {
            return Err(place.error(Problem::DuplicateNode { id: id.to_owned() }));
        }
        let get = |names: &[&str]| {
            let found = find(attributes, names).or_else(|| find(&self.node_defaults, names));
            found.filter(|a| !a.1.trim().is_empty())
        };
        // A label in another script has no characters of host names.
        let is_usable = |label: &str| label.contains(|c: char| c.is_ascii_alphanumeric());
        let label = get(&["label", "name"]).map(|(_, text, _)| text.as_str());
        let label = label.filter(|label| is_usable(label)).unwrap_or(id);
        let role = get(&["role", "kind"]).map(|(_, text, place)| role(text, *place));
        let label = label.to_owned();
        let degrees =
            |names, most: f64| get(names).map(|a| number(a, "degrees", -most..=most)).transpose();
        let latitude = degrees(&["Latitude"], 90.0)?;
        let longitude = degrees(&["Longitude"], 360.0)?;
        let finite = |names| get(names).map(|a| number(a, "number", -1e12..=1e12)).transpose();
        let drawn = finite(&["x", "graphics.x"])?.zip(finite(&["y", "graphics.y"])?);
        let coordinates = latitude.zip(longitude);
        let host_rate = |name| get(&[name]).map(|(_, text, place)| rate(text, *place)).transpose();
        let host_rates = [host_rate("host_bandwidth_up")?, host_rate("host_bandwidth_down")?];
        let mut node = Node::new(self.unique_name(&label), role.unwrap_or(Ok(Role::Router))?);
        // North is up on a map, but y grows downwards in a drawing.
        node.position = coordinates.map(|(lat, lon)| [lon, -lat]).or(drawn.map(|(x, y)| [x, y]));
        node.host_rates = host_rates;
        let kept = attributes.iter().map(|(name, text, _)| (name.clone(), text.clone()));
        node.attributes = kept.collect::<BTreeMap<_, _>>();
        self.count_unused(attributes, OF_NODES);
        let index = self.graph.add_node(node);
        self.ids.insert(id.to_owned(), index);
        self.coordinates.push(coordinates.map(|(lat, lon)| [lat, lon]));
        Ok(index)
    }

    /// The node with this id.
    pub(super) fn find(&self, place: Place, id: &str) -> Result<u32, Error> {
        self.ids.get(id).copied().ok_or_else(|| {
            let (is_group, id) = (self.groups.contains(id), id.to_owned());
            place.error(if is_group { Problem::Group { id } } else { Problem::UnknownNode { id } })
        })
    }

    /// Adds a link between two nodes of the file.
    pub(super) fn edge(
        &mut self,
        place: Place,
        ends: [u32; 2],
        attributes: &[Attribute],
    ) -> Result<(), Error> {
        self.check_room(place)?;
        let [a, b] = ends;
        if a == b {
            self.graph.unused.self_loops += 1;
            return Ok(());
        }
        let spec = self.spec(ends, attributes)?;
        self.count_unused(attributes, OF_EDGES);
        if let Some((name, ..)) = find(attributes, &["LinkSpeed"]).filter(|_| spec.rate.is_none()) {
            self.graph.unused.add_attribute(name);
        }
        if self.directed {
            if let Some(reverse) = self.unpaired.get_mut(&[b, a]).and_then(Vec::pop) {
                self.graph.unused.reverse_arcs += u64::from(spec != reverse);
                return Ok(());
            }
            self.unpaired.entry(ends).or_default().push(spec);
        }
        let name = self.of_edge(attributes, &["name"]).map(|(_, text, _)| text.trim());
        let name = name.filter(|name| !name.is_empty()).map(|name| host_name(name, "link"));
        self.graph.add_link(a, b, spec).name = name;
        Ok(())
    }

    fn of_edge<'a>(&'a self, stated: &'a [Attribute], names: &[&str]) -> Option<&'a Attribute> {
        find(stated, names).or_else(|| find(&self.edge_defaults, names))
    }

    fn spec(&self, [a, b]: [u32; 2], attributes: &[Attribute]) -> Result<LinkSpec, Error> {
        let mut spec = LinkSpec::default();
        if let Some((_, text, place)) = self.of_edge(attributes, &["delay", "latency"]) {
            spec.delay = Some(delay(text, *place)?);
        } else if let (Some(from), Some(to)) =
            (self.coordinates[a as usize], self.coordinates[b as usize])
        {
            spec.delay = Some(fibre_delay(from, to));
        }
        if let Some((_, text, place)) = self.of_edge(attributes, &["rate"]) {
            spec.rate = Some(rate(text, *place)?);
        } else if let Some(speed) = self.of_edge(attributes, &["LinkSpeedRaw"]) {
            // Some files of the Zoo have a speed of zero if it is unknown.
            let speed = number(speed, "rate in bit/s", 0.0..=1e18)? as u64;
            spec.rate = (speed > 0).then(|| Bandwidth::from_bits_per_sec(speed));
        } else if let Some((_, speed, _)) = self.of_edge(attributes, &["LinkSpeed"])
            && let Some((_, units, _)) = self.of_edge(attributes, &["LinkSpeedUnits"])
        {
            // `K`, `M` or `G`.
            let text = format!("{} {units}bit/s", speed.trim()).replace('K', "k");
            spec.rate = text.parse().ok();
        }
        if let Some(share) = self.of_edge(attributes, &["loss", "packet_loss"]) {
            spec.loss = Some(loss(share)?);
        }
        if let Some((_, text, place)) = self.of_edge(attributes, &["metric"]) {
            spec.metric = Some(integer(text, *place, "routing cost")?);
        }
        Ok(spec)
    }

    fn unique_name(&mut self, label: &str) -> String {
        let stem = host_name(label, "n");
        let mut name = stem.clone();
        let mut count = 1u64;
        while !self.names.insert(name.clone()) {
            count += 1;
            // Many equal labels must not need quadratic time: continue at the number of nodes.
            if count > 16 {
                count = count.max(self.graph.nodes.len() as u64);
            }
            name = format!("{stem}-{count}");
        }
        name
    }

    pub(super) fn finish(self, end: Place) -> Result<Graph, Error> {
        if self.graph.nodes.is_empty() {
            return Err(end.error(Problem::Empty));
        }
        Ok(self.graph)
    }
}

fn find<'a>(attributes: &'a [Attribute], names: &[&str]) -> Option<&'a Attribute> {
    let named = |name: &&str| attributes.iter().find(|a| a.0.eq_ignore_ascii_case(name));
    names.iter().find_map(named)
}

/// Converts `label` to lower-case letters, digits and single dashes, not only digits,
/// at most 40 characters.
pub(super) fn host_name(label: &str, fallback: &str) -> String {
    let mut name = String::new();
    for character in label.chars() {
        if name.len() >= 40 {
            break;
        }
        if character.is_ascii_alphanumeric() {
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(name.trim_end_matches('-').len());
    // `ping 7` would refer to the address 0.0.0.7.
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        name.insert_str(0, fallback);
    }
    name
}

pub(super) fn role(text: &str, place: Place) -> Result<Role, Error> {
    match text.trim().to_ascii_lowercase().as_str() {
        "host" => Ok(Role::Host),
        "router" => Ok(Role::Router),
        "switch" => Ok(Role::Switch),
        _ => Err(place.error(Problem::Expected { expected: "`host`, `router` or `switch`" })),
    }
}

pub(super) fn delay(text: &str, place: Place) -> Result<Span, Error> {
    text.parse().map_err(|source| place.error(Problem::Quantity { field: "delay", source }))
}

/// A rate; Shadow's have no `/s`.
pub(super) fn rate(text: &str, place: Place) -> Result<Bandwidth, Error> {
    let with_time = || format!("{}/s", text.trim_end()).parse().ok();
    text.parse().or_else(|source| {
        with_time().ok_or_else(|| place.error(Problem::Quantity { field: "rate", source }))
    })
}

/// A probability, as a number from 0 to 1 or in percent.
fn loss(share: &Attribute) -> Result<Ratio, Error> {
    if let Ok(ratio) = share.1.trim().parse::<Ratio>() {
        return Ok(ratio);
    }
    let share = number(share, "probability from 0 to 1", 0.0..=1.0)?;
    Ok(Ratio::from_parts_per_billion((share * 1e9).round() as u64))
}

pub(super) fn integer<T: std::str::FromStr>(
    text: &str,
    place: Place,
    expected: &'static str,
) -> Result<T, Error> {
    let read = text.trim().parse();
    read.map_err(|_| place.error(Problem::Number { text: shortened(text), expected }))
}

fn number(
    (_, text, place): &Attribute,
    expected: &'static str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<f64, Error> {
    let read = text.trim().parse().ok().filter(|number| range.contains(number));
    read.ok_or_else(|| place.error(Problem::Number { text: shortened(text), expected }))
}

/// Truncates to 40 characters, for messages.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Mean radius of the Earth (IUGG), in metres.
const EARTH_RADIUS: f64 = 6_371_008.8;
/// Two thirds of the speed of light, in metres per second.
const FIBRE_SPEED: f64 = 299_792_458.0 * 2.0 / 3.0;

/// Delay of light in fibre along the great circle, by the haversine formula.
fn fibre_delay(from: [f64; 2], to: [f64; 2]) -> Span {
    let [from, to] = [from, to].map(|place| place.map(f64::to_radians));
    let half = |axis: usize| ((to[axis] - from[axis]) / 2.0).sin().powi(2);
    let haversine = half(0) + from[0].cos() * to[0].cos() * half(1);
    let metres = 2.0 * EARTH_RADIUS * haversine.clamp(0.0, 1.0).sqrt().asin();
    Span::from_nanos((metres / FIBRE_SPEED * 1e9) as u64)
}
