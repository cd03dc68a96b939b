use base::{Bandwidth, Span};
use proptest::prelude::*;

use super::*;
use crate::Role;

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.name.as_str()).collect()
}

fn error(format: Format, text: &str) -> String {
    format.read(text).unwrap_err().to_string()
}

/// Two cities and an unplaced node in the format of the Topology Zoo.
const ZOO_GML: &str = r#"# made by hand
Creator "tests"
graph [
  directed 0
  Network "Example"
  hierarchic [ deep [ x 1 ] ]
  node [
    id 0
    label "K&#246;ln"
    Country "Germany"
    Longitude 6.95
    Internal 1
    Latitude 50.93333
  ]
  node [ id 1 label "Paris" Longitude 2.3488 Latitude 48.85341 ]
  node [ id 7 label "7" graphics [ x 3.5 y -2 ] role "host" ]
  edge [ source 0 target 1 LinkLabel "10 Gbps" LinkSpeedRaw 10000000000.0 ]
  edge [ source 1 target 7 delay "3 ms" rate "1 Gbit/s" metric 4 ]
  edge [ source 0 target 1 ]
]
"#;

const ZOO_GRAPHML: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d35" />
  <key attr.name="label" for="node" id="d33"/>
  <key attr.name="Latitude" for="node" id="d29"/>
  <key attr.name="Longitude" for="node" id="d32"/>
  <key attr.name="metric" for="edge" id="m"><default>4</default></key>
  <graph edgedefault="undirected">
    <edge source="a" target="b"><data key="d35">10000000000.0</data></edge>
    <node id="a"><data key="d29">50.93333</data><data key="d32">6.95</data>
      <data key="d33">K&#246;ln &amp; <![CDATA[Bonn]]></data></node>
    <node id="b"><data key="d29">48.85341</data><data key="d32">2.3488</data></node>
  </graph>
</graphml>
"#;

const ALT: &str = "GRAPH (#nodes #edges id uu vv ww xx yy zz):\n\
    3 4 transtub(0,0,{1,20,3,-1.000}) 2 \n\n\
    VERTICES (index name u v w x y z):\n\
    0 T:0.0 12 7 \n1 T:0.1 3 4 \n2 S:0.1/0.0 1 2 3 \n\n\
    EDGES (from-node to-node length a b):\n\
    0 1 25 0 \n1 2 3 1 \n";

const CSV: &str =
    "# core\na,b,rate,delay\nParis,\"K\u{f6}ln, Bonn\",10 Gbit/s,2 ms\nparis,Paris,,\n";

#[test]
fn gml_of_the_zoo() {
    let graph = gml(ZOO_GML).unwrap();
    assert_eq!(names(&graph), ["k-ln", "paris", "n7"]);
    assert_eq!(graph.nodes[0].attributes["label"], "Köln");
    assert_eq!(graph.nodes[0].attributes["Country"], "Germany");
    assert_eq!(graph.nodes[0].position, Some([6.95, -50.93333]));
    assert_eq!((graph.nodes[2].position, graph.nodes[2].role), (Some([3.5, -2.0]), Role::Host));
    assert_eq!(graph.links.len(), 3);
    let [fibre, stated, parallel] = [0, 1, 2].map(|link| graph.links[link].spec);
    assert_eq!(fibre.rate, Some(Bandwidth::from_mbits_per_sec(10_000)));
    // 401.5 km at 199,862 km/s.
    let millis = fibre.delay.unwrap().as_secs_f64() * 1e3;
    assert!((millis - 2.009).abs() < 0.02, "{millis}");
    assert_eq!((parallel.delay, parallel.rate), (fibre.delay, None));
    assert_eq!(stated.delay, Some(Span::from_millis(3)));
    assert_eq!(stated.rate, Some(Bandwidth::from_mbits_per_sec(1_000)));
    assert_eq!(stated.metric, Some(4));
}

#[test]
fn graphml_of_the_zoo() {
    let graph = graphml(ZOO_GRAPHML).unwrap();
    assert_eq!(names(&graph), ["k-ln-bonn", "b"]);
    assert_eq!(graph.nodes[0].attributes["label"], "Köln & Bonn");
    let spec = graph.links[0].spec;
    assert_eq!(spec.delay, gml(ZOO_GML).unwrap().links[0].spec.delay);
    assert_eq!(spec.rate, Some(Bandwidth::from_mbits_per_sec(10_000)));
    assert_eq!(spec.metric, Some(4));
}

#[test]
fn gt_itm_alternative_format() {
    let graph = alt(ALT).unwrap();
    assert_eq!(names(&graph), ["t-0-0", "t-0-1", "s-0-1-0-0"]);
    assert_eq!(graph.nodes[0].position, Some([12.0, 7.0]));
    assert_eq!(graph.nodes[2].attributes["fields"], "1 2 3");
    let links: Vec<_> = graph.links.iter().map(|link| (link.ends, link.spec.metric)).collect();
    assert_eq!(links, [([0, 1], Some(25)), ([1, 2], Some(3))]);
    let both = alt(&format!("{ALT}1 0 25 0\n")).unwrap();
    assert_eq!(both.links, graph.links);
}

#[test]
fn edge_list() {
    let graph = csv(CSV).unwrap();
    assert_eq!(names(&graph), ["paris", "k-ln-bonn", "paris-2"]);
    assert_eq!(graph.links[0].spec.delay, Some(Span::from_millis(2)));
    assert_eq!(graph.links[0].spec.rate, Some(Bandwidth::from_mbits_per_sec(10_000)));
    assert_eq!(graph.links[1].spec.delay, None);
}

/// A network of Shadow: each node has an edge to itself, and properties have other names.
#[test]
fn gml_of_shadow() {
    let text = r#"graph [ directed 0
        node [ id 0 label "site a" host_bandwidth_down "100 Mbit" host_bandwidth_up "20 Mbit" ]
        node [ id 1 label "site b" ]
        edge [ source 0 target 0 label "local" latency "5 ms" packet_loss 0.0 ]
        edge [ source 1 target 1 latency "5 ms" ]
        edge [ source 0 target 1 label "path" latency "40 ms" jitter "1 ms" packet_loss 0.01 ]
    ]"#;
    let graph = gml(text).unwrap();
    assert_eq!(names(&graph), ["site-a", "site-b"]);
    let rates = [20, 100].map(|rate| Some(Bandwidth::from_mbits_per_sec(rate)));
    assert_eq!((graph.nodes[0].host_rates, graph.nodes[1].host_rates), (rates, [None; 2]));
    let spec = graph.links[0].spec;
    assert_eq!((graph.links.len(), spec.delay), (1, Some(Span::from_millis(40))));
    assert_eq!(spec.loss, Some("1 %".parse().unwrap()));
    let unused = "2 edges from a node to itself, attribute `jitter` (once), \
                  1 description of nodes and links";
    assert_eq!(graph.unused.to_string(), unused);
    let unused = "2 edges from a node to itself, 1 attribute, 1 description of nodes and links";
    assert_eq!(graph.unused.without_text().to_string(), unused);
    let other = |old: &str, new: &str| gml(&text.replace(old, new));
    let error = other("0.01", "1.01").unwrap_err().to_string();
    assert!(error.ends_with("`1.01` is no probability from 0 to 1"), "{error}");
    assert_eq!(other("0.01", "\"1 %\"").unwrap().links, graph.links);
    assert!(other("40 ms", "40").unwrap_err().to_string().ends_with("delay: `40` needs a unit"));
}

/// The attributes of the 276 GML files of the Topology Zoo (github.com/mroughan/InternetTopologyZoo
/// at a725bbc, all files in `gml/`) with a value of each: of the network, of nodes, of edges.
const ZOO_NETWORK: &[&str] = &[
    "Access 1",
    "Backbone 1",
    "Classification \"Backbone Customer\"",
    "Commercial 0",
    "Creator \"Topology Zoo Toolset\"",
    "Customer 1",
    "DateModifier \"=\"",
    "DateMonth \"08\"",
    "DateObtained \"3/08/10\"",
    "DateType \"Current\"",
    "DateYear \"2010\"",
    "Developed 0",
    "GeoExtent \"Country\"",
    "GeoLocation \"Australia\"",
    "IX 0",
    "LastAccess \"3/08/10\"",
    "LastProcessed \"2011_09_01\"",
    "Layer \"Fibre\"",
    "Network \"AARNET\"",
    "NetworkDate \"2010_08\"",
    "Note \"3 nodes\"",
    "Provenance \"Primary\"",
    "Source \"http://example.net\"",
    "SourceGitVersion \"e278b1b\"",
    "SvnVersion 8123",
    "Testbed 0",
    "ToolsetVersion \"0.3\"",
    "Transit 1",
    "Type \"COM\"",
    "Version \"1.0\"",
    "label \"Aarnet\"",
];
const ZOO_NODES: &[&str] = &[
    "Country \"Australia\"",
    "Internal 1",
    "Latitude -35.28",
    "Longitude 149.12",
    "doubted 1",
    "geocode_append \"Alabama\"",
    "geocode_country \"Belize\"",
    "geocode_id \"1258875\"",
    "geocode_name \"Breclav\"",
    "hyperedge 1",
    "label \"Canberra\"",
    "type \"Small Node\"",
    "x \"104.0\"",
    "y \"270.0\"",
];
const ZOO_EDGES: &[&str] = &[
    "LinkLabel \"45 Mbps DS-3\"",
    "LinkNote \" PDH\"",
    "LinkSpeed \"2.5\"",
    "LinkSpeedRaw 2500000000.0",
    "LinkSpeedUnits \"G\"",
    "LinkStatus \"Planned\"",
    "LinkType \"ATM\"",
    "description \"Dark Fibre\"",
    "id \"e0\"",
    "label \"None\"",
];

/// A graph with these attributes of the network, of a node and of an edge.
fn with_attributes(format: Format, [network, node, edge]: [&[&str]; 3]) -> Graph {
    let placed = "Latitude 48.85 Longitude 2.35 x 1 y 1";
    let gml = || {
        format!(
            "graph [ {} node [ id 0 {} ] node [ id 1 {placed} ] edge [ source 0 target 1 {} ] ]",
            network.join(" "),
            node.join(" "),
            edge.join(" ")
        )
    };
    let data = |attributes: &[&str]| {
        let pairs = attributes.iter().map(|text| text.split_once(' ').unwrap());
        let data = pairs.map(|(name, value)| {
            format!("<data key=\"{name}\">{}</data>", value.trim_matches('"'))
        });
        data.collect::<String>()
    };
    let graphml = || {
        format!(
            "<graphml><graph>{}<node id=\"0\">{}</node><node id=\"1\">{}</node>\
             <edge source=\"0\" target=\"1\">{}</edge></graph></graphml>",
            data(network),
            data(node),
            data(&["Latitude 48.85", "Longitude 2.35", "x 1", "y 1"]),
            data(edge)
        )
    };
    let text = if format == Format::Gml { gml() } else { graphml() };
    format.read(&text).unwrap()
}

/// Attributes that are read only together.
const ZOO_PAIRS: &[[&str; 2]] =
    &[["Latitude", "Longitude"], ["x", "y"], ["LinkSpeed", "LinkSpeedUnits"]];

#[test]
fn every_attribute_of_the_zoo_is_used_or_named() {
    // What a lab gets of a file.
    let used = |graph: &Graph| {
        let nodes = graph.nodes.iter().map(|node| (node.name.clone(), node.position));
        (nodes.collect::<Vec<_>>(), graph.links.clone())
    };
    let name = |attribute: &str| attribute.split(' ').next().unwrap().to_owned();
    for (place, all) in [ZOO_NETWORK, ZOO_NODES, ZOO_EDGES].into_iter().enumerate() {
        for (attribute, format) in
            all.iter().flat_map(|attribute| [Format::Gml, Format::GraphMl].map(|f| (attribute, f)))
        {
            let pair = ZOO_PAIRS.iter().find(|pair| pair.contains(&&*name(attribute)));
            let is_other = |other: &&&str| {
                *other != attribute && pair.is_some_and(|pair| pair.contains(&&*name(other)))
            };
            let others: Vec<&str> = all.iter().filter(is_other).copied().collect();
            let graph_of = |attributes: &[&str]| {
                let mut places: [&[&str]; 3] = [&[]; 3];
                places[place] = attributes;
                with_attributes(format, places)
            };
            let graph = graph_of(&[&others[..], &[*attribute]].concat());
            let is_used = used(&graph) != used(&graph_of(&others));
            let unused = graph.unused.to_string();
            let message = unused + &graph.unused.named_descriptions().unwrap_or_default();
            let is_named = message.contains(&format!("`{}`", name(attribute)));
            // The title of the file, and the version of its format.
            let is_title = place == 0 && ["label", "Version"].contains(&&*name(attribute));
            assert_eq!(is_used || is_title, !is_named, "{attribute}: {message}");
        }
    }
}

#[test]
fn speed_with_units_is_the_rate() {
    let spec = |edge: &[&str]| with_attributes(Format::Gml, [&[], &[], edge]).links[0].spec.rate;
    let rate = |text: &str| Some(text.parse().unwrap());
    assert_eq!(spec(&["LinkSpeed \"2.5\"", "LinkSpeedUnits \"G\""]), rate("2.5 Gbit/s"));
    assert_eq!(spec(&["LinkSpeed \"155\"", "LinkSpeedUnits \"M\""]), rate("155 Mbit/s"));
    assert_eq!(spec(&["LinkSpeed \"64\"", "LinkSpeedUnits \"K\""]), rate("64 kbit/s"));
    for edge in [&["LinkSpeed \"2.5\""][..], &["LinkSpeed \"<2\"", "LinkSpeedUnits \"G\""]] {
        let graph = with_attributes(Format::Gml, [&[], &[], edge]);
        assert_eq!(graph.links[0].spec.rate, None);
        assert_eq!(graph.unused.to_string(), "attribute `LinkSpeed` (once)");
    }
}

#[test]
fn drawings_of_yed_have_labels_and_groups() {
    let label = |label| {
        format!(
            "<data key=\"d6\"><y:ShapeNode><y:Geometry x=\"1.5\" y=\"-2\" width=\"3\"/>
             <y:NodeLabel visible=\"true\">{label}<y:LabelModel>x</y:LabelModel></y:NodeLabel>
             </y:ShapeNode></data>"
        )
    };
    let text = format!(
        "<graphml xmlns:y=\"http://www.yworks.com/xml/graphml\">
         <key for=\"node\" id=\"d6\" yfiles.type=\"nodegraphics\"/>
         <key attr.name=\"delay\" for=\"edge\" id=\"d8\"/>
         <graph edgedefault=\"directed\"><node id=\"n0\">{}</node>
         <node id=\"n1\" yfiles.foldertype=\"group\">{}<graph><node id=\"n1::n0\">{}</node></graph>
         </node>
         <edge source=\"n0\" target=\"n1::n0\"><data key=\"d8\">7 ms</data>
         <data key=\"d10\"><y:EdgeLabel>fast</y:EdgeLabel></data></edge></graph></graphml>",
        label("gateway"),
        label("Campus"),
        label("library")
    );
    let graph = graphml(&text).unwrap();
    assert_eq!(names(&graph), ["gateway", "library"]);
    assert_eq!(graph.nodes[0].position, Some([1.5, -2.0]));
    assert_eq!(graph.links[0].spec.delay, Some(Span::from_millis(7)));
    let unused = "1 node that contains nodes, attribute `EdgeLabel` (once)";
    assert_eq!(graph.unused.to_string(), unused);
    let error = graphml(&text.replace("target=\"n1::n0\"", "target=\"n1\"")).unwrap_err();
    let expected = "`n1` is a group of nodes, and no edge ends at a group";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn text_comes_from_spreadsheets_and_in_other_scripts() {
    let links = [";", "\t"].map(|separator| {
        let text = "\u{feff}a,b,delay,rate\nParis,Wien,6 ms,\nWien,\"x\",,1 Gbit/s\n";
        Format::Csv.read(&text.replace(',', separator)).unwrap().links
    });
    assert_eq!(links[0], links[1]);
    assert_eq!(links[0][0].spec.delay, Some(Span::from_millis(6)));
    assert_eq!(links[0][1].spec.rate, Some(Bandwidth::from_mbits_per_sec(1_000)));
    let text = "\u{feff}graph [ node [ id 4 label \"Москва\" ] node [ id 5 label \"北京\" ] ]";
    assert_eq!(names(&Format::Gml.read(text).unwrap()), ["n4", "n5"]);
}

#[test]
fn examples_of_the_book_are_read() {
    let book = include_str!("../../../../../docs/src/guides/topologies.md");
    let blocks = book.split("```").skip(1).step_by(2);
    let texts = blocks.filter_map(|block| block.split_once('\n'));
    let files: Vec<_> = texts.filter(|(language, _)| *language != "toml").collect();
    assert_eq!(files.len(), 4);
    for ((_, text), format) in
        files.into_iter().zip([Format::Gml, Format::GraphMl, Format::Alt, Format::Csv])
    {
        let graph = format.read(text).unwrap();
        assert!(graph.is_connected() && !graph.links.is_empty(), "{}", format.as_str());
    }
}

#[test]
fn directed_files_state_a_link_twice() {
    let edges = "edge [source 0 target 1] edge [source 1 target 0] edge [source 0 target 1]";
    let text = |directed| format!("graph [ directed {directed} node [id 0] node [id 1] {edges} ]");
    assert_eq!(gml(&text(1)).unwrap().links.len(), 2);
    assert_eq!(gml(&text(0)).unwrap().links.len(), 3);
    assert!(gml(&text(1)).unwrap().unused.is_empty());
    let differs = gml(&text(1).replace("source 1 target 0", "source 1 target 0 delay \"1 s\""));
    assert_eq!(differs.unwrap().unused.to_string(), "1 arc unlike its reverse");
}

#[test]
fn errors_say_where_and_what() {
    let gml = |text| error(Format::Gml, text);
    assert_eq!(
        gml("graph [\n  node [ label \"x\" ]\n]"),
        "line 2, column 3: this node has no `id`"
    );
    assert_eq!(
        gml("graph [ node [ id 1 ]\n edge [ source 1 target 2 ] ]"),
        "line 2, column 25: unknown node `2`"
    );
    assert_eq!(gml("graph [ node [ id 1 ]"), "line 1, column 22: expected a key or `]`");
    assert_eq!(gml("node"), "line 1, column 5: expected a value");
    assert_eq!(gml(""), "line 1, column 1: expected `graph [`");
    assert_eq!(gml("graph [ ]"), "line 1, column 10: the file defines no node");
    assert_eq!(gml("graph [ node [ id 1 Latitude 91 ] ]"), "line 1, column 30: `91` is no degrees");
    let xml = |text| error(Format::GraphMl, text);
    assert!(xml("<graphml>\n<graph></grph>").starts_with("line 2, column 8: not well-formed XML"));
    assert_eq!(
        xml("<graphml><graph>\n <node/></graph></graphml>"),
        "line 2, column 2: this node has no `id`"
    );
    assert_eq!(
        xml("<graph><hyperedge/></graph>"),
        "line 1, column 8: a hyperedge cannot be imported"
    );
    let alt = |text: &str| error(Format::Alt, text);
    assert_eq!(alt("3 4 x"), "line 1, column 1: expected the section `GRAPH`");
    assert_eq!(
        alt(&ALT.replacen("3 4", "4 4", 1)),
        "line 2, column 1: the header announces 4 nodes, but the file has 3"
    );
    assert_eq!(alt(&format!("{ALT}0 x 1")), "line 12, column 3: unknown node `x`");
    let csv = |text| error(Format::Csv, text);
    assert_eq!(
        csv("a,c"),
        "line 1, column 3: unknown column `c`; columns are a, b, delay, rate, \
        metric and name"
    );
    assert_eq!(csv("a,delay"), "line 1, column 1: column `b` must be in the header exactly once");
    assert_eq!(csv("a,b,delay\nx,y,10"), "line 2, column 5: delay: `10` needs a unit");
    assert_eq!(csv("a,b\nx,\"y"), "line 2, column 3: expected a closing `\"`");
    assert_eq!(csv("a,b\nx"), "line 2, column 1: this link has no `b`");
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("graph [ node [ id 1 {} ] ]", "x [ ".repeat(100_000));
    assert!(gml(&deep).unwrap_err().to_string().ends_with("more than 8 nested lists"));
    let deep = "<a>".repeat(100_000);
    assert!(graphml(&deep).unwrap_err().to_string().ends_with("more than 64 nested elements"));
}

#[test]
fn many_equal_labels_stay_fast_and_unique() {
    let node = |id| format!("node [ id {id} label \"x\" ]");
    let nodes: Vec<String> = (0..20_000).map(node).collect();
    let graph = gml(&format!("graph [ {} ]", nodes.join("\n"))).unwrap();
    let unique: std::collections::BTreeSet<_> = names(&graph).into_iter().collect();
    assert_eq!(unique.len(), 20_000);
}

/// A text of tokens of the formats, so that random texts are not rejected at the first word.
fn pieces() -> impl Strategy<Value = String> {
    const PIECES: [&str; 34] = [
        "graph",
        "[",
        "]",
        "node",
        "edge",
        "id",
        "source",
        "target",
        "label",
        "\"a\"",
        "1",
        "2",
        "-1e9",
        "Latitude",
        "\n",
        "<graph>",
        "</graph>",
        "<node id=\"1\">",
        "</node>",
        "<edge source=\"1\" target=\"2\"/>",
        "<data key=\"delay\">",
        "</data>",
        "&amp;",
        "&#0;",
        "GRAPH",
        "VERTICES",
        "EDGES",
        "0",
        "a,b,delay",
        ",",
        "\"",
        "10 ms",
        "é",
        "<key id=\"d\">",
    ];
    prop::collection::vec((0..PIECES.len(), prop::bool::ANY), 0..40).prop_map(|chosen| {
        let word = |(piece, space): (usize, bool)| [PIECES[piece], if space { " " } else { "" }];
        chosen.into_iter().flat_map(word).collect()
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![pieces(), "\\PC{0,60}"]) {
        for format in Format::ALL {
            if let Ok(graph) = format.read(&text) {
                let ends = graph.links.iter().flat_map(|link| link.ends);
                prop_assert!(ends.into_iter().all(|end| (end as usize) < graph.nodes.len()));
            }
        }
    }

    #[test]
    fn a_text_cut_short_does_not_panic(cut in 0usize..1_200, format in 0usize..4) {
        let text = [ZOO_GRAPHML, ZOO_GML, ALT, CSV][format];
        let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let _ = Format::ALL[format].read(&text[..cut]);
    }

    #[test]
    fn edge_lists_round_trip(
        links in prop::collection::vec((0u32..9, 0u32..9, any::<u32>()), 1..20),
    ) {
        let links: Vec<_> = links.into_iter().filter(|(a, b, _)| a != b).collect();
        prop_assume!(!links.is_empty());
        let line = |&(a, b, nanos): &(u32, u32, u32)| {
            format!("n{a},n{b},{}\n", Span::from_nanos(nanos.into()))
        };
        let text: String = links.iter().map(line).collect();
        let graph = csv(&format!("a,b,delay\n{text}")).unwrap();
        let read = graph.links.iter().map(|link| {
            let [a, b] = link.ends.map(|end| graph.nodes[end as usize].name.clone());
            (a, b, link.spec.delay.unwrap())
        });
        let written = links.iter().map(|&(a, b, nanos)| {
            (format!("n{a}"), format!("n{b}"), Span::from_nanos(nanos.into()))
        });
        prop_assert!(read.eq(written));
    }
}
