//! Programs: nodes, start conditions, and whether their commands exist.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base::{NodeId, ProgramId, Time};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::PROGRAM;
use crate::plan::{Command, Program, Ready};
use crate::tree::{At, Data, Table, Value};

const MAX_PROGRAMS: usize = 10_000;

impl Compiler<'_> {
    pub(super) fn read_programs(&mut self) {
        let entries = self.entries("program");
        let mut waits = Vec::new();
        for (at, table) in &entries {
            let nodes =
                table.get(PROGRAM.node).map_or_else(Vec::new, |value| self.program_nodes(value));
            let Some(run) = table.get(PROGRAM.run) else { continue };
            let Some(command) = self.command(run) else { continue };
            let dir = table.read(PROGRAM.dir).map(PathBuf::from);
            let env = environment(table);
            if self.has_folder(table) {
                self.look_up(&command, dir.as_deref(), env.get("PATH"), &run.at);
            }
            let ready = table.get(PROGRAM.ready).and_then(|value| self.ready(value));
            let start = self.moment(&table.value(PROGRAM.start)).unwrap_or(Time::ZERO);
            let user = table.get(PROGRAM.user).and_then(|value| self.user(value));
            let first = self.plan.programs.len();
            for node in &nodes {
                if !self.no_switch(*node, at, "runs no programs")
                    || !self.room(self.plan.programs.len(), MAX_PROGRAMS, "programs", at)
                {
                    continue;
                }
                let name = self.program_name(table, *node, nodes.len() > 1, &command, at);
                self.places.programs.push(at.clone());
                let place = self.plan.programs.len();
                self.places.program_names.entry(name.clone()).or_insert(place);
                self.plan.programs.push(Program {
                    name,
                    node: *node,
                    command: command.clone(),
                    start,
                    after: Vec::new(),
                    service: table
                        .read(PROGRAM.service)
                        .unwrap_or_else(|| table.get(PROGRAM.ready).is_some()),
                    ready: ready.clone(),
                    ready_timeout: table.read(PROGRAM.ready_timeout),
                    restart: table.read(PROGRAM.restart),
                    env: env.clone(),
                    dir: dir.clone(),
                    user: user
                        .clone()
                        .or_else(|| self.plan.nodes[node.index()].user.as_deref().cloned()),
                    exit: statuses(&table.read(PROGRAM.exit)),
                    grace: table.read(PROGRAM.grace),
                    privileged: table.read(PROGRAM.privileged),
                    output: table.read(PROGRAM.output),
                });
            }
            waits.push((*table, first..self.plan.programs.len()));
        }
        for (table, programs) in waits {
            let after = self.program_group(&table.read(PROGRAM.after));
            for index in programs {
                self.plan.programs[index].after.clone_from(&after);
            }
        }
        self.refuse_cycles();
    }

    fn command(&mut self, value: &Value) -> Option<Command> {
        match &value.data {
            Data::Text(line) if !line.trim().is_empty() => Some(Command::Shell(line.clone())),
            Data::List(words) => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| Some(word.text()?.to_owned())).collect();
                let words = words?;
                if words.first().is_none_or(String::is_empty) {
                    self.sink
                        .report(Code::ProgramNotFound, &value.at, "the command is empty")
                        .help("the first word of the list is the program");
                    return None;
                }
                Some(Command::Exec(words))
            }
            Data::Text(_) => {
                self.sink.report(Code::ProgramNotFound, &value.at, "the command is empty");
                None
            }
            _ => None,
        }
    }

    fn program_name(
        &mut self,
        table: &Table,
        node: NodeId,
        several: bool,
        command: &Command,
        at: &At,
    ) -> String {
        let node = self.plan.nodes[node.index()].name.clone();
        let given = table.get(PROGRAM.name).and_then(|value| {
            let name = value.text()?;
            self.label(name, &value.at, "program")
        });
        let Some(given) = given else {
            let names = &self.places.program_names;
            let base = format!("{node}.{}", short_name(command));
            return self.places.free_program_names.next(&base, |name| names.contains_key(name));
        };
        let name = if several { format!("{given}.{node}") } else { given.clone() };
        self.label(&name, at, "program");
        if let Some(other) = self.places.program_names.get(&name) {
            let first = self.places.programs[*other].clone();
            self.sink
                .report(Code::Duplicate, at, format!("there is a program `{name}` already"))
                .also(&first, "the first");
        }
        let group = self.places.program_groups.entry(given).or_default();
        group.push(self.plan.programs.len());
        name
    }

    /// The programs that names refer to; a name given to several programs refers to all of them.
    pub(super) fn program_group(&mut self, value: &Value) -> Vec<ProgramId> {
        let mut found = Vec::new();
        for value in value.one_or_more() {
            let Some(name) = value.text() else { continue };
            if let Some(index) = self.places.program_names.get(name) {
                found.push(ProgramId::at(*index));
            } else if let Some(group) = self.places.program_groups.get(name) {
                found.extend(group.iter().map(|index| ProgramId::at(*index)));
            } else {
                let known = self.plan.programs.iter().map(|program| program.name.as_str());
                let help = suggest(name, known, "programs");
                self.sink
                    .report(Code::UnknownName, &value.at, format!("unknown program `{name}`"))
                    .help(help);
            }
        }
        found
    }

    fn refuse_cycles(&mut self) {
        let programs = &self.plan.programs;
        // Remove programs that wait for none until no more can be removed (A. B. Kahn, 1962).
        let mut waiting: Vec<usize> = programs.iter().map(|program| program.after.len()).collect();
        let mut followers = vec![Vec::new(); programs.len()];
        for (index, program) in programs.iter().enumerate() {
            program.after.iter().for_each(|other| followers[other.index()].push(index));
        }
        let mut ready: Vec<usize> =
            (0..waiting.len()).filter(|index| waiting[*index] == 0).collect();
        while let Some(index) = ready.pop() {
            for follower in &followers[index] {
                waiting[*follower] -= 1;
                if waiting[*follower] == 0 {
                    ready.push(*follower);
                }
            }
        }
        if let Some(first) = waiting.iter().position(|count| *count > 0) {
            let names: Vec<String> = (0..waiting.len())
                .filter(|index| waiting[*index] > 0)
                .map(|index| format!("`{}`", programs[index].name))
                .collect();
            let at = self.places.programs[first].clone();
            let message = format!("these programs wait for each other: {}", names.join(", "));
            self.sink.report(Code::Cycle, &at, message).help("remove one of the `after`");
        }
    }

    fn ready(&mut self, value: &Value) -> Option<Ready> {
        let text = value.text()?.trim();
        let ready = parse_ready(text);
        if ready.is_none() {
            self.sink
                .report(Code::BadReady, &value.at, format!("`{text}` is not a ready condition"))
                .help(Code::BadReady.explanation());
        }
        ready
    }

    /// Whether the program's `dir` exists, if programs are looked up.
    fn has_folder(&mut self, table: &Table) -> bool {
        let Some(value) = table.get(PROGRAM.dir) else { return true };
        let Some(dir) = value.text().filter(|_| self.files.path.is_some()) else { return true };
        let message = match self.files.resolve(dir).metadata() {
            Ok(facts) if facts.is_dir() => return true,
            Ok(_) => format!("`{dir}` is not a folder"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                format!("the folder `{dir}` does not exist")
            }
            Err(error) => format!("cannot read the folder `{dir}`: {error}"),
        };
        self.sink
            .report(Code::Unreadable, &value.at, message)
            .help("the program starts in it; the path is relative to the folder of the lab file");
        false
    }

    /// Whether the command exists, if this can be determined.
    fn look_up(&mut self, command: &Command, dir: Option<&Path>, path: Option<&String>, at: &At) {
        let Some(search) = self.files.path.clone() else { return };
        let search = path.map_or(search, std::convert::Into::into);
        let word = match first(command) {
            FirstWord::Program(word) => Some(word),
            FirstWord::Builtin => None,
            FirstWord::Unclear => {
                self.sink
                    .report(Code::Unchecked, at, "the program of this line is not checked")
                    .help("a list of words (`run = [\"prog\", \"arg\"]`) is always checked");
                None
            }
        };
        let Some(word) = word else { return };
        let dir = dir.map_or_else(|| self.files.resolve(""), |d| self.files.resolve_path(d));
        if found(&word, &dir, &search) {
            return;
        }
        let diagnostic =
            self.sink.report(Code::ProgramNotFound, at, format!("`{word}` is not installed"));
        if word.contains('/') {
            diagnostic.message = format!("`{word}` is not an executable file");
            diagnostic.help("paths are relative to `dir`, or else to the folder of the lab file");
        } else {
            diagnostic.help("install it, or give the path of the file; `PATH` does not have it");
        }
    }
}

fn environment(table: &Table) -> BTreeMap<String, String> {
    let pairs = table.read(PROGRAM.env).entries.iter();
    pairs.filter_map(|e| Some((e.key.clone(), e.value.text()?.to_owned()))).collect()
}

/// Accepted exit statuses; `None`: any.
fn statuses(value: &Value) -> Option<Vec<i32>> {
    let statuses = value.one_or_more().iter().filter_map(Value::whole);
    value.text().is_none().then(|| statuses.map(|status| status as i32).collect())
}

/// `port 80`, `udp port 53`, `output "text"`, `file "path"`, `command "line"` or a time.
fn parse_ready(text: &str) -> Option<Ready> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let quoted = |text: &str| {
        let text = text.trim();
        let inner = ['"', '\'']
            .iter()
            .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
            .unwrap_or(text);
        (!inner.is_empty()).then(|| inner.to_owned())
    };
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "port" => port(rest).map(Ready::Port),
        "tcp" => port(rest.trim().strip_prefix("port ")?).map(Ready::Port),
        "udp" => port(rest.trim().strip_prefix("port ")?).map(Ready::UdpPort),
        "output" => quoted(rest).map(Ready::Output),
        "file" => quoted(rest).map(|path| Ready::File(path.into())),
        "command" => quoted(rest).map(Ready::Command),
        _ => text.parse().ok().map(Ready::After),
    }
}

/// A name for the program from its command, valid as a label.
fn short_name(command: &Command) -> String {
    let word = match command {
        Command::Exec(words) => words[0].clone(),
        Command::Shell(line) => match first_word(line) {
            FirstWord::Program(word) => word,
            FirstWord::Builtin | FirstWord::Unclear => "sh".to_owned(),
        },
    };
    let name: String = word
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
        .take(60)
        .collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

#[derive(Debug, PartialEq, Eq)]
enum FirstWord {
    Program(String),
    /// A builtin of the shell.
    Builtin,
    Unclear,
}

const BUILTINS: &[&str] = &[
    ".", ":", "[", "alias", "bg", "break", "case", "cd", "command", "continue", "echo", "eval",
    "exit", "export", "false", "fg", "for", "getopts", "hash", "if", "jobs", "kill", "printf",
    "pwd", "read", "readonly", "return", "set", "shift", "test", "time", "times", "trap", "true",
    "type", "ulimit", "umask", "unalias", "unset", "until", "wait", "while", "!", "{",
];

/// The first command of a shell line, after assignments and `exec`.
fn first_word(line: &str) -> FirstWord {
    for word in line.split_whitespace() {
        let assigned = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if word == "exec" {
            continue;
        }
        if assigned && !word.contains(['"', '\'', '$', '`', '\\']) {
            continue;
        }
        let end = word.find([';', '&', '|', '<', '>']).unwrap_or(word.len());
        let word = &word[..end];
        if BUILTINS.contains(&word) {
            return FirstWord::Builtin;
        }
        if word.is_empty() || word.contains(|c: char| "$`\"'\\(){}*?[]~#=".contains(c)) {
            return FirstWord::Unclear;
        }
        return FirstWord::Program(word.to_owned());
    }
    FirstWord::Unclear
}

fn first(command: &Command) -> FirstWord {
    match command {
        Command::Exec(words) => {
            words.first().map_or(FirstWord::Unclear, |word| FirstWord::Program(word.clone()))
        }
        Command::Shell(line) => first_word(line),
    }
}

/// The command of `program` if no such command is installed on this system, as far as this can be
/// determined. The lab's own files are in `base_dir`.
///
/// For labs that another host has loaded with [trust](crate::Overrides::trust_programs).
pub fn missing_program(program: &Program, base_dir: &Path) -> Option<String> {
    let FirstWord::Program(word) = first(&program.command) else { return None };
    let search = match program.env.get("PATH") {
        Some(path) => path.into(),
        None => std::env::var_os("PATH").unwrap_or_default(),
    };
    let dir = program.dir.as_ref().map_or_else(|| base_dir.to_owned(), |d| base_dir.join(d));
    (!found(&word, &dir, &search)).then_some(word)
}

fn found(word: &str, dir: &Path, search: &OsStr) -> bool {
    if word.contains('/') {
        return is_executable(&dir.join(word));
    }
    std::env::split_paths(search).any(|folder| is_executable(&dir.join(folder).join(word)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use base::Span;

    use super::*;

    #[test]
    fn the_first_word_of_a_shell_line_is_found() {
        let program = |word: &str| FirstWord::Program(word.to_owned());
        assert_eq!(first_word("iperf3 -s"), program("iperf3"));
        assert_eq!(first_word("A=1 exec ./server;"), program("./server"));
        assert_eq!(first_word("yes|head"), program("yes"));
        assert_eq!(first_word("cd x && y"), FirstWord::Builtin);
        assert_eq!(first_word("$SERVER -p 1"), FirstWord::Unclear);
        assert_eq!(first_word("(a; b)"), FirstWord::Unclear);
        assert_eq!(first_word("A=\"b c\" d"), FirstWord::Unclear);
    }

    #[test]
    fn ready_conditions_are_read() {
        assert_eq!(parse_ready("port 80"), Some(Ready::Port(80)));
        assert_eq!(parse_ready("udp port 53"), Some(Ready::UdpPort(53)));
        assert_eq!(parse_ready("output \"up now\""), Some(Ready::Output("up now".into())));
        assert_eq!(parse_ready("file /tmp/x"), Some(Ready::File("/tmp/x".into())));
        assert_eq!(parse_ready("2 s"), Some(Ready::After(Span::from_secs(2))));
        assert_eq!(parse_ready("command ss -ltn"), Some(Ready::Command("ss -ltn".into())));
        for wrong in ["port", "port 0", "port 70000", "udp 53", "soon", "output", "2"] {
            assert_eq!(parse_ready(wrong), None, "{wrong}");
        }
    }
}
