//! Labs of routers, some with routing daemons.

use std::fmt::Write as _;

/// A lab with these links between two nodes, each with further keys. Nodes `r1`, `r2`, … are
/// routers, `lan` is a switch, and all others are hosts. `keys` are those of `[lab]`.
pub(super) fn lab(keys: &str, links: &[(&str, &str, &str)]) -> String {
    let mut text = format!("[lab]\n{keys}\n");
    let mut nodes: Vec<&str> = links.iter().flat_map(|(one, other, _)| [*one, *other]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        let kind = match node {
            "lan" => "kind = \"switch\"",
            router if router.starts_with('r') => "kind = \"router\"",
            _ => "",
        };
        writeln!(text, "[node.{node}]\n{kind}").unwrap();
    }
    for (one, other, keys) in links {
        writeln!(text, "[[link]]\nends = [\"{one}\", \"{other}\"]\n{keys}").unwrap();
    }
    text
}

/// A program on one node, or a copy on each of several.
pub(super) fn program(name: &str, nodes: &[&str], run: &str) -> String {
    let node = if let [node] = nodes { format!("{node:?}") } else { format!("{nodes:?}") };
    format!("[[program]]\nname = \"{name}\"\nnode = {node}\nrun = '''\n{run}'''\n")
}

/// BIRD on routers, which `birdc -s $NETARIUM_RUN_DIR/r1.ctl` controls. Its configuration is
/// `r1.conf` and so on, or `bird.conf`, in which `NUMBER` is the number of the router.
pub(super) fn bird(nodes: &[&str]) -> String {
    let run = r"
own=$NETARIUM_RUN_DIR/$NETARIUM_NODE
cat $NETARIUM_NODE.conf bird.conf 2>/dev/null | sed s/NUMBER/${NETARIUM_NODE#r}/ > $own.conf
exec bird -f -c $own.conf -s $own.ctl
";
    program("bird", nodes, run) + "service = true\n"
}
