//! Sets `NETARIUM_VERSION`, the text of `netarium --version`: the version, the commit and its date
//! if this is a git checkout of the project, and the enabled features.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    // Without such a line, each change of a file of the crate would run this script.
    println!("cargo:rerun-if-changed=build.rs");
    let details = [commit(), features()].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let details = if details.is_empty() { details } else { format!(" ({details})") };
    println!("cargo:rustc-env=NETARIUM_VERSION={version}{details}");
}

fn commit() -> Option<String> {
    let root = Path::new("../../..").canonicalize().ok()?;
    // The sources may be in another project's repository.
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // Files that git changes when HEAD moves. For a missing file, Cargo
    // would run this script in each build.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    for name in
        ["HEAD", "logs/HEAD", "packed-refs", &branch].into_iter().filter(|it| !it.is_empty())
    {
        let file = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    let commit = git(&["log", "-1", "--no-show-signature", "--format=%H %cs"])?;
    let (hash, date) = commit.split_once(' ')?;
    Some(format!("{} {date}", hash.get(..8)?))
}

/// Standard output of git; `None` without git or if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

fn features() -> Option<String> {
    let variables = env::vars().filter_map(|(name, _)| {
        let feature = name.strip_prefix("CARGO_FEATURE_")?;
        Some(feature.to_lowercase().replace('_', "-"))
    });
    let mut features: Vec<String> = variables.filter(|feature| feature != "default").collect();
    features.sort();
    (!features.is_empty()).then(|| format!("features: {}", features.join(", ")))
}
