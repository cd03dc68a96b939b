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
        // A lab written by someone else must not send other files of this host to its programs.
        if lab::leads_outside(dir, &from) {
            return Err(Error::Usage {
                text: format!(
                    "{} is a link to another folder, which is not sent to agents: copy the file",
                    from.display()
                ),
            });
        }
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
    let mut parts: Vec<&str> =
        pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.last() == Some(&"**") {
        // A file in any of these folders.
        parts.push("*");
    }
    let names: Vec<String> =
        name.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let part_matches = |part: &&str, name: &String| {
        let (part, name): (Vec<char>, Vec<char>) = (part.chars().collect(), name.chars().collect());
        all_match(&part, &name, |part| *part == '*', |part, name| *part == '?' || part == name)
    };
    all_match(&parts, &names, |part| *part == "**", part_matches)
}

/// Whether the parts of a name match those of a pattern, in which a part with `is_any` stands for
/// any number of parts. The time is proportional to the product of both lengths, also for a pattern
/// that someone else has chosen.
fn all_match<P, N>(
    pattern: &[P],
    name: &[N],
    is_any: impl Fn(&P) -> bool,
    matches: impl Fn(&P, &N) -> bool,
) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut last_any = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(part) if is_any(part) => {
                last_any = Some((p, n));
                p += 1;
            }
            Some(part) if matches(part, &name[n]) => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, from)) = last_any else { return false };
                last_any = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(is_any)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
            ("a?", "aä", true),
            ("**/a/**/b", "a/c/a/b", true),
            ("**/a/**", "b/a", false),
        ] {
            assert_eq!(matches_pattern(pattern, Path::new(name)), wanted, "{pattern} {name}");
        }
        // A search with backtracking would need exponential time.
        let (many, long) = ("*a".repeat(100) + "b", "a".repeat(200));
        assert!(!matches_pattern(&many, Path::new(&long)));
        let (many, deep) = ("**/a/".repeat(100) + "b", "a/".repeat(200));
        assert!(!matches_pattern(&many, Path::new(&deep)));
    }

    #[test]
    fn splits_shell_commands() {
        let line = "python3 ./serve.py --root=site; cat <in.txt | tee 'out'";
        let words: Vec<&str> = words(line).collect();
        let wanted = ["python3", "./serve.py", "--root", "site", "cat", "in.txt", "tee", "out"];
        assert_eq!(words, wanted);
    }

    /// The programs of a lab written by someone else run on other machines, and must not get files
    /// of this host.
    #[test]
    fn sends_no_file_of_another_folder() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("lab");
        fs::create_dir(&dir).unwrap();
        fs::write(place.path().join("secret"), "x").unwrap();
        fs::write(dir.join("own"), "x").unwrap();
        symlink("own", dir.join("inside")).unwrap();
        symlink("../secret", dir.join("outside")).unwrap();
        symlink("..", dir.join("folder")).unwrap();
        let lab = |file: &str| {
            let text = format!(
                "node.a = {{}}\nprogram = [{{ node = \"a\", run = \"cat {file}\" }}]\n\
                 [lab]\nduration = \"1 s\"\n"
            );
            lab::parse("lab.toml", &text, &dir).unwrap().plans.remove(0)
        };
        assert!(!pack(&lab("inside"), &dir).unwrap().is_empty());
        for file in ["outside", "folder/secret"] {
            let error = pack(&lab(file), &dir).unwrap_err().to_string();
            assert!(error.contains("is a link to another folder"), "{file}: {error}");
        }
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
