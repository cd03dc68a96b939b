//! Runs of labs as child processes of the same program: their commands and what they print.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use report::format::shell_word;
use run::Exit;
use serde_json::Value;

use crate::{Error, Result};

/// Lines of standard error that an error quotes.
const LOG_LINES: usize = 12;

/// What a child has printed.
pub(crate) struct Child {
    /// The command as a shell reads it.
    command: String,
    /// The last line of its standard output: the run's record, or an error.
    output: String,
    /// The last lines of its standard error.
    log: VecDeque<String>,
}

impl Child {
    /// A child that has printed nothing, and the command that starts it.
    pub(crate) fn new(program: &Path, words: &[String], hold: bool) -> (Self, Command) {
        let mut command = Command::new(program);
        // Variables that would change the figure's lab.
        for name in ["NETARIUM_SEED", "NETARIUM_DURATION", "NETARIUM_NAME"] {
            command.env_remove(name);
        }
        command.args(words).args(hold.then_some("--await-start"));
        let words = words.iter().map(|word| shell_word(word));
        let words: Vec<String> = std::iter::once("netarium".to_owned()).chain(words).collect();
        let child = Self { command: words.join(" "), output: String::new(), log: VecDeque::new() };
        (child, command)
    }

    pub(crate) fn output(&mut self, line: String) {
        self.output = line;
    }

    pub(crate) fn log(&mut self, line: String) {
        if !line.trim().is_empty() {
            self.log.push_back(line);
        }
        if self.log.len() > LOG_LINES {
            self.log.pop_front();
        }
    }

    /// The folder of a run that came to its end, trusted or not.
    pub(crate) fn finish(self, status: ExitStatus) -> Result<PathBuf> {
        let said: Option<Value> = serde_json::from_str(&self.output).ok();
        let folder = said.as_ref().and_then(|said| said["folder"].as_str()).map(PathBuf::from);
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(70);
        match (Exit::from(code), folder) {
            (Exit::Ok | Exit::Expectation | Exit::Untrusted, Some(folder)) => Ok(folder),
            (Exit::Interrupted, _) => Err(Error::Interrupted),
            (exit, _) => {
                let said = complaint(said.as_ref(), &self.log, code);
                let exit = if exit == Exit::Ok { Exit::Internal } else { exit };
                Err(Error::Child { said, command: self.command, exit })
            }
        }
    }
}

/// Why a child failed, from what it printed.
fn complaint(said: Option<&Value>, log: &VecDeque<String>, code: u8) -> String {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|item| item["message"].as_str().map(str::to_owned)).collect()
    };
    let mut parts = Vec::new();
    if let Some(said) = said {
        parts.extend(said["message"].as_str().map(str::to_owned));
        parts.extend(texts(&said["errors"]));
        for program in said["programs"].as_array().into_iter().flatten() {
            if program["as_expected"] == false {
                let name = program["name"].as_str().unwrap_or_default();
                let node = program["node"].as_str().unwrap_or_default();
                let lines = program["last_stderr"].as_array().into_iter().flatten();
                let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
                parts.push(format!("program {name} on {node} failed\n{}", lines.join("\n")));
            }
        }
    }
    if parts.is_empty() {
        parts.extend(log.iter().cloned());
    }
    if parts.is_empty() {
        parts.push(format!("the run ended with code {code}"));
    }
    parts.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn child() -> Child {
        Child::new(Path::new("netarium"), &["run".to_owned()], true).0
    }

    #[test]
    fn failed_run_gives_reason_and_command() {
        let cases = [
            ("{\"message\":\"no engine\"}", "", 4 << 8, "no engine", Exit::Machine),
            ("{\"errors\":[{\"message\":\"no link\"}]}", "", 2 << 8, "no link", Exit::Usage),
            ("", "broken", 70 << 8, "broken", Exit::Internal),
            ("", "", 9 << 8, "ended with code 9", Exit::Internal),
            ("", "", 0, "ended with code 0", Exit::Internal),
            ("", "", 9, "ended with code 70", Exit::Internal),
        ];
        for (output, log, status, text, exit) in cases {
            let mut child = child();
            child.output(output.to_owned());
            child.log(log.to_owned());
            let error = child.finish(ExitStatus::from_raw(status)).unwrap_err();
            let told = error.text();
            assert!(told.contains(text) && told.ends_with("repeat: netarium run"), "{told}");
            assert_eq!(error.exit_code(), exit);
        }
    }

    #[test]
    fn untrusted_run_has_results() {
        let mut child = child();
        child.output("{\"folder\":\"/x/y-1\"}".to_owned());
        let status = ExitStatus::from_raw(3 << 8);
        assert_eq!(child.finish(status).unwrap(), PathBuf::from("/x/y-1"));
    }

    #[test]
    fn error_quotes_last_lines_of_log() {
        let mut child = child();
        for line in 0..20 {
            child.log(line.to_string());
        }
        let text = child.finish(ExitStatus::from_raw(1 << 8)).unwrap_err().text();
        assert!(text.starts_with("8\n9\n"), "{text}");
    }
}
