//! The files that are sent with a lab to its agents: those in its commands, and those it lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use base::Bytes;
use lab::plan::{Command, Plan};

use crate::{Error, Result, results};

/// Max size of a lab's files.
const MAX_BYTES: u64 = 128 << 20;
/// Max files and folders to list.
const MAX_FILES: usize = 20_000;

/// The packed files of `plan`, relative to the folder `dir` of its lab file; empty if it
/// needs no files.
pub(super) fn pack(plan: &Plan, dir: &Path) -> Result<Vec<u8>> {
    let names = names(plan, dir)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir().map_err(Error::machine("make a temporary folder"))?;
    let copies = folder.path().join("files");
    let mut left = MAX_BYTES;
    for name in &names {
        let (from, to) = (dir.join(name), copies.join(name));
        let size = fs::metadata(&from).map_err(Error::file("read", &from))?.len();
        left = left.checked_sub(size).ok_or_else(|| Error::Usage {
            text: format!(
                "the lab's files have more than {}: copy large files to the machines and use \
                 absolute paths for them",
                Bytes::new(MAX_BYTES)
            ),
        })?;
        let parent = to.parent().unwrap_or(&copies);
        fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
        fs::copy(&from, &to).map_err(Error::file("copy", &from))?;
    }
    let place = folder.path().canonicalize().map_err(Error::machine("find a temporary folder"))?;
    let packed = place.join("packed");
    results::pack(&copies, &packed)?;
    fs::read(&packed).map_err(Error::file("read", &packed))
}

/// Files of `plan`, relative to `dir`.
fn names(plan: &Plan, dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut names = BTreeSet::new();
    for program in &plan.programs {
        let words: Vec<&str> = match &program.command {
            Command::Exec(words) => words.iter().map(String::as_str).collect(),
            Command::Shell(line) => words(line).collect(),
        };
        // Relative paths in a command may be relative to the program's folder.
        let below = program.dir.as_deref().filter(|below| below.is_relative());
        for word in words {
            let in_folder = below.map_or(PathBuf::from(word), |below| below.join(word));
            names.extend([in_folder, PathBuf::from(word)].into_iter().filter(|n| is_file(dir, n)));
        }
        if let Some(below) = below {
            let mut inside = Vec::new();
            list(dir, &normal(below), &mut inside)?;
            names.extend(inside);
        }
    }
    if !plan.cluster.files.is_empty() {
        let mut all = Vec::new();
        list(dir, Path::new(""), &mut all)?;
        for pattern in &plan.cluster.files {
            let before = names.len();
            names.extend(all.iter().filter(|name| matches_pattern(pattern, name)).cloned());
            if names.len() == before && !all.iter().any(|name| matches_pattern(pattern, name)) {
                let text = format!(
                    "[cluster] files: `{pattern}` matches no file in the folder of the lab file"
                );
                return Err(Error::Usage { text });
            }
        }
    }
    Ok(names.into_iter().map(|name| normal(&name)).collect())
}

/// The words of a shell command that can be paths.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "'\"`;|&<>(){}=$:,".contains(c);
    line.split(ends).filter(|word| !word.is_empty())
}

/// Whether `name` is the relative path of a file inside `dir`.
fn is_file(dir: &Path, name: &Path) -> bool {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !name.as_os_str().is_empty()
        && name.components().all(inside)
        && fs::metadata(dir.join(name)).is_ok_and(|about| about.is_file())
}

/// A path without `.` components.
fn normal(name: &Path) -> PathBuf {
    name.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// All files below `dir/below` except hidden ones.
fn list(dir: &Path, below: &Path, names: &mut Vec<PathBuf>) -> Result<()> {
    let mut open = vec![below.to_owned()];
    while let Some(folder) = open.pop() {
        let path = dir.join(&folder);
        for entry in fs::read_dir(&path).map_err(Error::file("read", &path))? {
            let entry = entry.map_err(Error::file("read", &path))?;
            let name = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(Error::file("read", &path))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                open.push(name);
            } else if is_file(dir, &name) {
                names.push(name);
            }
            if names.len() + open.len() > MAX_FILES {
                let text = format!(
                    "{} has more than {MAX_FILES} files and folders",
                    dir.join(below).display()
                );
                return Err(Error::Usage { text });
            }
        }
    }
    Ok(())
}

/// Whether `name` matches a pattern: `*` and `?` within a component, `**` for any folders.
fn matches_pattern(pattern: &str, name: &Path) -> bool {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let names: Vec<String> =
        name.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    parts_match(&parts, &names)
}

fn parts_match(parts: &[&str], names: &[&str]) -> bool {
    match (parts, names) {
        ([], []) => true,
        (["**"], names) => !names.is_empty(),
        (["**", rest @ ..], names) => (0..=names.len()).any(|at| parts_match(rest, &names[at..])),
        ([part, parts @ ..], [name, names @ ..]) => {
            let (part, name): (Vec<char>, Vec<char>) =
                (part.chars().collect(), name.chars().collect());
            part_matches(&part, &name) && parts_match(parts, names)
        }
        _ => false,
    }
}

fn part_matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        (['*', rest @ ..], name) => (0..=name.len()).any(|at| part_matches(rest, &name[at..])),
        (['?', rest @ ..], [_, name @ ..]) => part_matches(rest, name),
        ([a, rest @ ..], [b, name @ ..]) => a == b && part_matches(rest, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_wildcards() {
        for (pattern, name, wanted) in [
            ("apps/**", "apps/a/b.py", true),
            ("apps/**", "apps", false),
            ("apps/*", "apps/a/b.py", false),
            ("apps/*.py", "apps/b.py", true),
            ("**/*.py", "b.py", true),
            ("**/x/*.py", "a/b/x/c.py", true),
            ("./a?", "ab", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches_pattern(pattern, Path::new(name)), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn splits_shell_commands() {
        let line = "python3 ./serve.py --root=site; cat <in.txt | tee 'out'";
        let words: Vec<&str> = words(line).collect();
        let wanted = ["python3", "./serve.py", "--root", "site", "cat", "in.txt", "tee", "out"];
        assert_eq!(words, wanted);
    }

    #[test]
    fn accepts_only_files_inside_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "x").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        assert!(is_file(dir.path(), Path::new("./a")));
        for name in ["", "d", "b", "/etc/passwd", "../a", "d/../a"] {
            assert!(!is_file(dir.path(), Path::new(name)), "{name}");
        }
    }
}
