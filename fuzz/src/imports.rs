//! Any text is a consistent graph, or is rejected with a position in it.

use topology::{Error, Graph};

pub(crate) fn check(text: &str, result: Result<Graph, Error>) {
    match result {
        Ok(graph) => {
            let ends = graph.links.iter().flat_map(|link| link.ends);
            assert!(ends.into_iter().all(|end| (end as usize) < graph.nodes.len()));
            let mut names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), graph.nodes.len(), "names are unique");
            assert!(names.iter().all(|name| (1..64).contains(&name.len())));
        }
        Err(Error::Import { line, column, .. }) => {
            assert!(line >= 1 && column >= 1);
            assert!(line as usize <= text.matches('\n').count() + 1);
        }
        Err(error) => panic!("not an importer's error: {error}"),
    }
}
