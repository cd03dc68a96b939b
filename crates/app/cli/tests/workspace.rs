//! Checks of the architecture: allowed dependencies between crates, and style of files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Allowed dependencies of each crate on crates of this project. Lowest layer first.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("base-quota", &[]),
    ("network-wire", &["base"]),
    ("network-topology", &["base"]),
    ("network-sharing", &["base"]),
    ("network-queue", &["base"]),
    (
        "network-fabric",
        &["base", "network-wire", "network-topology", "network-sharing", "network-queue"],
    ),
    ("network-agreement", &["base", "network-sharing", "network-fabric"]),
    ("network-transport", &["base"]),
    ("network-workload", &["base"]),
    ("network-testnet", &["base", "network-fabric"]),
    ("ratecontrol-core", &["base", "network-sharing"]),
    ("bgp-codec", &["base"]),
    ("bundler-core", &["base", "network-wire", "network-queue"]),
    ("mctcp-core", &["base", "base-quota"]),
    ("bgp-collector", &["base", "network-wire", "bgp-codec"]),
    (
        "lab-file",
        &[
            "base",
            "network-wire",
            "network-topology",
            "network-fabric",
            "network-transport",
            "network-workload",
            "ratecontrol-core",
            "bundler-core",
            "mctcp-core",
        ],
    ),
    ("cluster-core", &["base"]),
    (
        "cluster-placement",
        &[
            "base",
            "network-topology",
            "network-sharing",
            "network-fabric",
            "network-agreement",
            "cluster-core",
            "lab-file",
        ],
    ),
    ("bundler-lab", &["base", "network-fabric", "bundler-core", "lab-file"]),
    ("lab-timeline", &["base"]),
    ("base-sys", &["base"]),
    ("app-ops", &["base", "base-quota"]),
    (
        "lab-run",
        &[
            "base",
            "network-topology",
            "network-fabric",
            "bundler-core",
            "lab-file",
            "network-workload",
        ],
    ),
    (
        "lab-emu",
        &[
            "base",
            "network-wire",
            "network-topology",
            "network-sharing",
            "network-fabric",
            "network-agreement",
            "network-workload",
            "bundler-core",
            "cluster-core",
            "lab-file",
            "mctcp-core",
            "mctcp-live",
            "bundler-lab",
            "base-sys",
            "lab-timeline",
            "lab-run",
        ],
    ),
    (
        "lab-sim",
        &[
            "base",
            "network-topology",
            "network-fabric",
            "network-transport",
            "network-workload",
            "network-sharing",
            "network-wire",
            "network-agreement",
            "ratecontrol-core",
            "bundler-core",
            "lab-file",
            "mctcp-core",
            "bundler-lab",
            "lab-timeline",
            "lab-run",
        ],
    ),
    ("tls-listener", &["base-quota"]),
    (
        "cluster-live",
        &[
            "base",
            "base-quota",
            "cluster-core",
            "cluster-placement",
            "lab-emu",
            "lab-file",
            "lab-run",
            "base-sys",
        ],
    ),
    ("bgp-live", &["base", "bgp-codec", "bgp-collector", "base-sys"]),
    (
        "bundler-live",
        &["base", "network-wire", "network-queue", "bundler-core", "lab-file", "base-sys"],
    ),
    ("mctcp-live", &["base", "base-quota", "mctcp-core", "base-sys"]),
    ("mctcp-proxy", &["base", "base-quota", "mctcp-core", "mctcp-live", "base-sys"]),
    ("app-serve", &["base", "bgp-codec", "bgp-collector", "bgp-live", "app-ops"]),
    ("app-watch", &["base", "lab-emu", "lab-run", "lab-sim", "app-ops", "base-sys"]),
    ("app-top", &["base", "lab-emu", "lab-run", "lab-report"]),
    ("lab-report", &["base", "network-topology", "lab-file", "lab-run"]),
    (
        "cli",
        &[
            "base",
            "network-sharing",
            "network-topology",
            "ratecontrol-core",
            "lab-file",
            "lab-run",
            "lab-emu",
            "lab-sim",
            "lab-report",
            "bgp-codec",
            "bgp-collector",
            "bgp-live",
            "bundler-live",
            "cluster-core",
            "cluster-placement",
            "cluster-live",
            "mctcp-core",
            "mctcp-live",
            "mctcp-proxy",
            "app-ops",
            "app-serve",
            "app-watch",
            "app-top",
            "base-sys",
        ],
    ),
    (
        "fuzz",
        &[
            "base",
            "network-agreement",
            "network-sharing",
            "network-topology",
            "network-wire",
            "network-workload",
            "bgp-codec",
            "bgp-collector",
            "bundler-core",
            "bundler-live",
            "cluster-core",
            "cluster-placement",
            "lab-file",
            "lab-run",
            "mctcp-core",
            "mctcp-proxy",
        ],
    ),
    (
        "bench",
        &[
            "base",
            "bgp-codec",
            "bgp-collector",
            "bgp-live",
            "network-topology",
            "network-fabric",
            "lab-file",
            "mctcp-live",
            "cluster-core",
            "cluster-placement",
            "ratecontrol-core",
            "lab-run",
            "network-sharing",
            "lab-sim",
            "base-sys",
            "network-transport",
        ],
    ),
];

/// Crates that serve sockets of many peers at once.
const ASYNCHRONOUS: &[&str] = &[
    "app-ops",
    "app-serve",
    "app-watch",
    "mctcp-live",
    "mctcp-proxy",
    "cluster-live",
    "tls-listener",
];

/// Asynchronous runtimes are not allowed in the datapath or below it.
const RUNTIMES: &[&str] = &["tokio", "async-std", "smol"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn short(package: &str) -> &str {
    match package.strip_prefix("netarium-") {
        Some(name) => name,
        None if package == "netarium" => "cli",
        None => package,
    }
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let layers: BTreeMap<_, _> = ALLOWED_DEPENDENCIES.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages() {
        let from = short(package["name"].as_str().unwrap()).to_owned();
        let Some(allowed) = layers.get(from.as_str()) else {
            wrong.push(format!("crate `{from}` has no place in the list of layers"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let to = short(name);
            let ours = name == "netarium" || name.starts_with("netarium-");
            let for_tests = dependency["kind"] == "dev";
            if ours && !for_tests && !allowed.contains(&to) {
                wrong.push(format!("{from} -> {to}"));
            }
            if RUNTIMES.contains(&name) && !ASYNCHRONOUS.contains(&from.as_str()) {
                wrong.push(format!("{from} -> {name} (no asynchronous runtime here)"));
            }
        }
    }
    assert!(wrong.is_empty(), "dependencies that are not allowed:\n  {}", wrong.join("\n  "));
}

/// Hash functions whose result, or whose key, senders can predict or cancel. Tables use the
/// standard library's `RandomState`: SipHash-1-3 with a random key.
const PREDICTABLE_HASHES: &[&str] = &[
    "ahash",
    "foldhash",
    "fnv",
    "fxhash",
    "hashbrown",
    "nohash-hasher",
    "rapidhash",
    "rustc-hash",
    "seahash",
    "twox-hash",
];

#[test]
fn hash_tables_are_keyed() {
    for package in packages() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let is_test = dependency["kind"] == "dev";
            assert!(
                is_test || !PREDICTABLE_HASHES.contains(&name),
                "{} depends on {name}: see docs/src/security/collector.md",
                package["name"]
            );
        }
    }
}

/// A newer version of a dependency may not use a replacement of this project any more.
#[test]
fn replacements_of_crates_are_in_use() {
    let root = root();
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
    assert!(read("Cargo.toml").contains("[patch.crates-io]\n"));
    assert!(!read("Cargo.lock").contains("[[patch.unused]]"));
}

#[test]
fn forbids_unsafe_code_outside_sys() {
    for package in packages() {
        let name = short(package["name"].as_str().unwrap()).to_owned();
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap();
        let lib = folder.join("src/lib.rs");
        let main = if lib.exists() { lib } else { folder.join("src/main.rs") };
        let forbids = fs::read_to_string(&main).unwrap().contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, name != "base-sys", "forbid(unsafe_code) in {}", main.display());
    }
}

/// Source files of the project: path relative to the root, and text.
fn sources(folders: &[&str], extension: &str) -> Vec<(PathBuf, String)> {
    let root = root();
    let mut open: Vec<PathBuf> = folders.iter().map(|f| root.join(f)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n == "target") {
                continue;
            }
            open.extend(fs::read_dir(&path).unwrap().map(|item| item.unwrap().path()));
        } else if path.extension().is_some_and(|e| e == extension) {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(&root).unwrap().to_owned(), text));
        }
    }
    found.sort();
    found
}

#[test]
fn rust_files_keep_to_house_style() {
    let markers =
        ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "unimple".to_owned() + "mented!"];
    let vague = ["utils", "util", "common", "helpers", "helper", "manager", "misc"];
    let mut wrong = Vec::new();
    let files = sources(&["crates", "fuzz"], "rs");
    assert!(files.len() > 30, "the sources were not found");
    for (path, text) in files {
        let place = path.display();
        let stem = path.file_stem().unwrap().to_string_lossy();
        if stem == "mod" || vague.contains(&stem.as_ref()) {
            wrong.push(format!("{place}: the file name must state the contents"));
        }
        let lines = text.lines().count();
        if lines > 1000 {
            wrong.push(format!("{place}: {lines} lines"));
        }
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let width = columns(line);
            if width > 100 || line.chars().count() > 160 {
                wrong.push(format!("{place}:{number}: {width} columns"));
            }
            if line != line.trim_end() {
                wrong.push(format!("{place}:{number}: white space at the end"));
            }
            if markers.iter().any(|marker| line.contains(marker.as_str())) {
                wrong.push(format!("{place}:{number}: unfinished"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} places:\n  {}", wrong.len(), wrong.join("\n  "));
}

/// Columns of a line without a string at its end: messages are not split, so that a
/// search finds them.
fn columns(line: &str) -> usize {
    let all = line.chars().count();
    match (line.find('"'), line.rfind('"')) {
        (Some(first), Some(last)) if first < last => all - line[first..last].chars().count(),
        (Some(first), _) if line.ends_with('\\') => line[..first].chars().count(),
        // Links and rows of tables cannot be wrapped.
        _ if line.contains("://") || line.starts_with("//! |") => 0,
        _ => all,
    }
}

#[test]
fn examples_are_short_and_state_the_expected_result() {
    let files = sources(&["examples"], "toml");
    assert!(files.len() >= 10, "{} examples", files.len());
    for (path, text) in files {
        let place = path.display();
        assert!(text.lines().count() <= 40, "{place} has more than 40 lines");
        assert!(text.starts_with('#'), "{place} does not begin with a comment on its purpose");
        assert!(text.contains("Expect"), "{place} does not state the expected result");
    }
}

#[test]
fn book_lists_every_page_and_has_no_dead_link() {
    let pages = sources(&["docs/src"], "md");
    let root = root();
    let summary = fs::read_to_string(root.join("docs/src/SUMMARY.md")).unwrap();
    let mut wrong = Vec::new();
    for (path, text) in &pages {
        let inside = path.strip_prefix("docs/src").unwrap().to_string_lossy().into_owned();
        if inside != "SUMMARY.md" && !summary.contains(&format!("({inside})")) {
            wrong.push(format!("{inside} is not in SUMMARY.md"));
        }
        for target in links(text) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            if !root.join(path).parent().unwrap().join(file).exists() {
                wrong.push(format!("{inside} links to {target}, which does not exist"));
            }
        }
    }
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for target in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !root.join(file).exists() {
                wrong.push(format!("{document} links to {target}, which does not exist"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

/// Targets of Markdown links outside code blocks.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push(&rest[..end]);
            }
        }
    }
    found
}

/// Ways to open a file for writing. `run::files` follows no link.
const WRITES: &[&str] = &[
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions::new(",
    "OFlags::CREATE",
    "fs::write(",
    "fs::copy(",
];

/// Files with one of [`WRITES`], and the reason why programs of a lab, or the author of a run
/// folder, cannot redirect it with a link.
const WRITERS: &[(&str, &str)] = &[
    ("app/cli/src/args/cluster/kubernetes.rs", "only tests"),
    ("app/cli/src/files.rs", "creates only new files; replaces links; writes streams"),
    ("app/top/src/driver.rs", "creates only new files"),
    ("base/sys/src/confine/private.rs", "a new file system in memory, before programs start"),
    ("base/sys/src/confine/view.rs", "a new file system in memory, before programs start"),
    ("base/sys/src/namespace/user.rs", "/proc"),
    ("base/sys/src/sysctl.rs", "/proc/sys"),
    ("base/sys/src/tun.rs", "/dev/net/tun"),
    ("bgp/live/src/archive/finish.rs", "the archive, which only the collector's user can change"),
    ("bgp/live/src/archive/ledger.rs", "the archive"),
    ("bgp/live/src/archive/recovery.rs", "the archive"),
    ("bgp/live/src/archive/snapshot.rs", "the archive"),
    ("bgp/live/src/archive/store.rs", "the archive"),
    ("bgp/live/src/archive.rs", "the archive"),
    ("bgp/live/src/convert/output.rs", "new files under unused names, and streams"),
    ("bgp/live/src/input.rs", "opened to read"),
    ("bgp/live/src/job/retention.rs", "the archive"),
    ("cluster/live/src/coordinate/files.rs", "a new folder that only its user can open"),
    ("cluster/live/src/credentials.rs", "new files in a folder that only its user can change"),
    ("cluster/live/src/local/init.rs", "a new file system in memory of the cluster's user"),
    ("cluster/live/src/local/network.rs", "a new file system in memory of the cluster's user"),
    ("lab/emu/src/enclosure/names.rs", "a new file system in memory, before programs start"),
    ("lab/emu/src/program/readiness.rs", "/dev/null"),
    ("lab/emu/src/registry.rs", "a folder of its user, which labs do not see"),
    ("lab/file/src/files.rs", "opened to read"),
    ("lab/run/src/files.rs", "follows no link"),
];

/// A file that is written in another way is in the list of reasons, or uses `run::files`.
#[test]
fn written_files_cannot_be_redirected() {
    let opens = |text: &str, way: &str| {
        let starts_word = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric());
        text.match_indices(way).any(|(at, _)| starts_word(at))
    };
    let mut found = Vec::new();
    for (path, text) in sources(&["crates"], "rs") {
        let path = path.strip_prefix("crates").unwrap().display().to_string();
        let no_product = ["/tests/", "/testnet/", "/examples/", "tests.rs", "testing.rs"];
        if no_product.iter().any(|part| path.contains(part)) || !path.contains("/src/") {
            continue;
        }
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        if WRITES.iter().any(|way| opens(product, way)) {
            found.push(path);
        }
    }
    let known: Vec<_> = WRITERS.iter().map(|(path, _)| *path).collect();
    assert_eq!(found, known, "give the reason in WRITERS");
}

/// With `autotests = false`, other files are not even compiled.
#[test]
fn files_of_integration_tests_are_modules_of_their_binary() {
    let mut wrong = Vec::new();
    for package in packages() {
        let folder =
            PathBuf::from(package["manifest_path"].as_str().unwrap()).with_file_name("tests");
        let Ok(main) = fs::read_to_string(folder.join("main.rs")) else { continue };
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let module = format!("mod {};", path.file_stem().unwrap().display());
            let is_module = path.ends_with("main.rs") || main.lines().any(|line| line == module);
            if path.extension().is_some_and(|extension| extension == "rs") && !is_module {
                wrong.push(path.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "tests/main.rs does not name:\n  {}", wrong.join("\n  "));
}

#[test]
fn pages_name_tests_that_exist() {
    let (scope, security) = ("docs/src/concepts/scope.md", "docs/src/security");
    let pages = fs::read_dir(root().join(security)).unwrap();
    let pages = pages.map(|entry| entry.unwrap().path());
    for page in pages.chain([root().join(scope)]).filter(|page| !page.ends_with("overview.md")) {
        let page_text = fs::read_to_string(&page).unwrap();
        let codes = page_text.split('`').filter(|code| code.starts_with("crates/"));
        let named: Vec<_> = codes.filter_map(|code| code.split_once("::")).collect();
        assert!(named.len() >= 10, "{} has {} tests", page.display(), named.len());
        for (file, test) in named {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            let forms = [format!("fn {test}("), format!("in_cluster!({test},")];
            let exists = forms.iter().any(|form| text.contains(form));
            assert!(exists, "{}: {file} has no test {test}", page.display());
        }
    }
}
