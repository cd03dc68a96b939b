//! The scripts of `packaging/ci`, the GitHub Action and the GitLab template, run as a CI runner
//! runs them, with labs on the virtual clock.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_norway::Value;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

const LAB: &str = "[lab]\nduration = \"2 s\"\n[node.a]\n[node.b]\n[[link]]\nname = \"l\"\n\
    ends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
    control = \"cubic\"\n";

/// A job: a checkout with three labs, and the files of the runner.
struct Job(TempDir);

impl Job {
    fn new() -> Self {
        let job = Self(tempfile::tempdir().unwrap());
        fs::create_dir(job.path("labs")).unwrap();
        fs::create_dir(job.path("temp")).unwrap();
        let lab = |name: &str, more: &str| {
            fs::write(job.path("labs").join(name), format!("{LAB}{more}")).unwrap();
        };
        lab("good.toml", "[[expect]]\nthat = \"flow.f.goodput.mean >= 1 Mbit/s\"\n");
        lab(
            "bad.toml",
            "[[expect]]\nthat = \"flow.f.goodput.mean >= 1 Mbit/s\"\n[[expect]]\n\
             that = \"flow.f.goodput.mean >= 99 Mbit/s\"\n",
        );
        lab("wrong.toml", "[[flow]]\nfrom = \"a\"\nto = \"nobody\"\n");
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Runs a command with the environment of a runner.
    fn command(&self, command: &[&str], variables: &BTreeMap<String, String>) -> Output {
        let binary = Path::new(env!("CARGO_BIN_EXE_netarium"));
        let path = format!(
            "{}:{}",
            binary.parent().unwrap().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut process = Command::new(command[0]);
        let foreign = |name: &str| {
            ["NETARIUM", "GITHUB_", "RUNNER_", "CI_"].iter().any(|p| name.starts_with(p))
        };
        for (name, _) in std::env::vars().filter(|(name, _)| foreign(name)) {
            process.env_remove(name);
        }
        process.env("PATH", path).env("XDG_RUNTIME_DIR", self.0.path()).env("NO_COLOR", "1");
        process.env("NETARIUM_NO_PROGRESS", "true").envs(variables);
        process.args(&command[1..]).current_dir(self.0.path()).output().unwrap()
    }

    /// The variables that a runner of GitHub sets for each step.
    fn github(&self) -> BTreeMap<String, String> {
        let files = ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_PATH"];
        let mut variables: BTreeMap<String, String> = files
            .map(|name| (name.to_owned(), self.path(name).display().to_string()))
            .into_iter()
            .collect();
        variables.insert("GITHUB_ACTIONS".to_owned(), "true".to_owned());
        variables.insert("GITHUB_ACTION_PATH".to_owned(), root().display().to_string());
        variables.insert("RUNNER_TEMP".to_owned(), self.path("temp").display().to_string());
        variables
    }

    fn run_labs(&self, arguments: &[&str]) -> Output {
        let script = root().join("packaging/ci/run-labs");
        let mut command = vec!["sh", script.to_str().unwrap(), "--out", "out"];
        command.extend(arguments);
        self.command(&command, &self.github())
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}{errors}", out(output));
}

/// The `name="value"` of the first element of this kind.
fn attribute(xml: &str, element: &str, name: &str) -> String {
    let after = xml.split(&format!("<{element} ")).nth(1).unwrap();
    let after = after.split(&format!("{name}=\"")).nth(1).unwrap();
    after.split('"').next().unwrap().to_owned()
}

#[test]
fn passed_labs_pass_the_job() {
    let job = Job::new();
    let ended = job.run_labs(&["labs/good.toml"]);
    assert_code(&ended, 0);
    assert!(!out(&ended).contains("::error"), "{}", out(&ended));
    assert!(job.read("GITHUB_OUTPUT").starts_with("outcome=passed\nexit-code=0\n"));
    let summary = job.read("GITHUB_STEP_SUMMARY");
    assert!(summary.starts_with("### ✅ `good`: passed\n"), "{summary}");
    assert!(summary.contains("| ✅ passed | `flow.f.goodput.mean >= 1 Mbit/s` |"), "{summary}");
    let bars = |c: char| ('▁'..='█').contains(&c);
    assert_eq!(summary.chars().filter(|c| bars(*c)).count(), 3 * 24, "{summary}");
    // Two tests: an expectation, and the run.
    assert_eq!(attribute(&job.read("out/junit.xml"), "testsuites", "tests"), "2");
}

#[test]
fn failed_expectation_has_annotation_summary_and_failed_test() {
    let job = Job::new();
    let ended = job.run_labs(&["labs/good.toml", "labs/bad.toml"]);
    assert_code(&ended, 1);
    assert!(job.read("GITHUB_OUTPUT").starts_with("outcome=failed\nexit-code=1\n"));
    // The expectation is in line 17 of the lab.
    let note = "::error file=labs/bad.toml,line=17,title=expectation of lab bad::expected \
                flow.f.goodput.mean >= 99 Mbit/s, measured ";
    let found = out(&ended).lines().filter(|line| line.starts_with("::error")).count();
    assert!(found == 1 && out(&ended).contains(note), "{}", out(&ended));
    let summary = job.read("GITHUB_STEP_SUMMARY");
    assert!(summary.starts_with("## ❌ 1 of 2 runs passed, 1 failed, 0 not trusted"), "{summary}");
    assert!(summary.find("### ❌ `bad`").unwrap() < summary.find("### ✅ `good`").unwrap());
    let junit = job.read("out/junit.xml");
    assert_eq!(attribute(&junit, "testsuites", "tests"), "5");
    assert_eq!(attribute(&junit, "testsuites", "failures"), "1");
    assert!(junit.contains("name=\"flow.f.goodput.mean &gt;= 99 Mbit/s\""), "{junit}");
    let reports: Vec<_> = fs::read_dir(job.path("out/reports")).unwrap().collect();
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert!(report.unwrap().path().join("report.html").is_file());
    }
}

#[test]
fn lab_error_is_annotated_at_its_line_and_other_labs_run() {
    let job = Job::new();
    let ended = job.run_labs(&["labs/wrong.toml", "labs/good.toml"]);
    assert_code(&ended, 2);
    let note = "::error file=labs/wrong.toml,line=16,col=6,title=lab%3A%3AE0010::unknown node \
                `nobody`%0Ahelp: ";
    assert!(out(&ended).contains(note), "{}", out(&ended));
    let summary = job.read("GITHUB_STEP_SUMMARY");
    assert!(summary.contains("`good`: passed"), "{summary}");
    let failed = "❌ <code>labs/wrong.toml</code> did not run (exit code 2)";
    assert!(summary.contains(failed), "{summary}");
    assert!(job.read("out/junit-error-1.xml").contains("unknown node"));
}

#[test]
fn arguments_reach_every_lab() {
    let job = Job::new();
    let ended = job.run_labs(&["--arg", "--set=link.l.rate=200 Mbit/s", "labs/bad.toml"]);
    assert_code(&ended, 0);
}

/// Runs the steps of the action with these inputs until one fails. A skipped step has no output.
fn steps(job: &Job, inputs: &[(&str, &str)]) -> Vec<(String, Option<Output>)> {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let action: Value = serde_norway::from_str(&text).unwrap();
    let mut values = BTreeMap::new();
    for (name, input) in action["inputs"].as_mapping().unwrap() {
        let default = input.get("default").and_then(Value::as_str).unwrap_or_default();
        values.insert(format!("inputs.{}", name.as_str().unwrap()), default.to_owned());
    }
    for (name, value) in inputs {
        let old = values.insert(format!("inputs.{name}"), (*value).to_owned());
        assert!(old.is_some(), "the action has no input {name}");
    }
    values.insert("runner.temp".to_owned(), job.path("temp").display().to_string());
    let build = if values["inputs.source"] == "true" {
        root().display().to_string()
    } else {
        String::new()
    };
    values.insert("inputs.source == 'true' && github.action_path || ''".to_owned(), build);
    let mut done = Vec::new();
    for step in action["runs"]["steps"].as_sequence().unwrap() {
        let name = step["name"].as_str().unwrap().to_owned();
        let Some(script) = step.get("run").and_then(Value::as_str) else {
            // Actions of others are pinned to a version, and are not run here.
            let uses = step["uses"].as_str().unwrap();
            assert!(uses.rsplit_once("@v").is_some_and(|(_, v)| v.matches('.').count() == 2));
            assert!(uses.starts_with("actions/upload-artifact@"), "{uses}");
            continue;
        };
        assert_eq!(step["shell"].as_str(), Some("bash"));
        // Values of inputs are variables: they are not part of a script, which they could change.
        assert!(!script.contains("${{"), "{script}");
        let condition = step.get("if").and_then(Value::as_str);
        if condition == Some("${{ inputs.clock == 'run' }}") && values["inputs.clock"] != "run" {
            done.push((name, None));
            continue;
        }
        let mut variables = job.github();
        for (name, value) in step["env"].as_mapping().unwrap() {
            let value = substituted(value.as_str().unwrap(), &values);
            variables.insert(name.as_str().unwrap().to_owned(), value);
        }
        // As a runner runs `shell: bash`.
        let file = job.path("temp/step.sh");
        fs::write(&file, script).unwrap();
        let command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", file.to_str().unwrap()];
        let ended = job.command(&command, &variables);
        let failed = !ended.status.success();
        done.push((name, Some(ended)));
        if failed {
            break;
        }
    }
    done
}

/// Replaces `${{ expression }}` by its value.
fn substituted(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (expression, after) = after.split_once("}}").unwrap();
        let expression = expression.trim();
        let value = values.get(expression);
        out.push_str(before);
        out.push_str(value.unwrap_or_else(|| panic!("unknown expression {expression}")));
        rest = after;
    }
    out + rest
}

#[test]
fn action_installs_and_runs_labs() {
    let job = Job::new();
    let binary = env!("CARGO_BIN_EXE_netarium");
    let inputs = [("binary", binary), ("labs", "labs/good.toml\n"), ("args", "--seed=7\n")];
    let done = steps(&job, &inputs);
    let names: Vec<&str> = done.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Install netarium", "Permit user namespaces", "Run labs"]);
    for ended in done.iter().filter_map(|(_, ended)| ended.as_ref()) {
        assert_code(ended, 0);
    }
    assert!(job.read("GITHUB_STEP_SUMMARY").contains("seed 7"));
    let outputs = job.read("GITHUB_OUTPUT");
    let reports = outputs.lines().find_map(|line| line.strip_prefix("reports=")).unwrap();
    assert!(Path::new(reports).starts_with(job.path("temp")), "{outputs}");
    assert!(job.read("GITHUB_PATH").contains("netarium-command"));
}

#[test]
fn action_fails_with_its_labs_and_ignores_commands_in_inputs() {
    let job = Job::new();
    let binary = env!("CARGO_BIN_EXE_netarium");
    let labs = "labs/b*.toml\nlabs/good.toml\n$(touch injected).toml";
    let inputs = [("binary", binary), ("labs", labs), ("args", "\"; touch injected; \"")];
    let done = steps(&job, &inputs);
    let (name, ended) = done.last().unwrap();
    assert_eq!(name, "Run labs");
    assert!(!ended.as_ref().unwrap().status.success());
    assert!(!job.path("injected").exists());
    let inputs = [("binary", binary), ("labs", "labs/[bg]*.toml")];
    let done = steps(&job, &inputs);
    assert_code(done.last().unwrap().1.as_ref().unwrap(), 1);
}

#[test]
fn action_reports_a_missing_command() {
    let job = Job::new();
    let done = steps(&job, &[("binary", "/no/such/netarium"), ("labs", "labs/good.toml")]);
    assert_eq!(done.len(), 1);
    assert_code(done[0].1.as_ref().unwrap(), 4);
}

#[test]
fn gitlab_job_runs_labs() {
    let text = fs::read_to_string(root().join("packaging/ci/gitlab.yml")).unwrap();
    let template: Value = serde_norway::from_str(&text).unwrap();
    let template = &template[".netarium"];
    let job = Job::new();
    let mut variables = BTreeMap::new();
    for (name, value) in template["variables"].as_mapping().unwrap() {
        variables.insert(name.as_str().unwrap().to_owned(), value.as_str().unwrap().to_owned());
    }
    variables.insert("NETARIUM_LABS".to_owned(), "labs/good.toml labs/b*.toml".to_owned());
    variables.insert("NETARIUM_BINARY".to_owned(), env!("CARGO_BIN_EXE_netarium").to_owned());
    let scripts = root().join("packaging/ci").display().to_string();
    variables.insert("NETARIUM_SCRIPTS".to_owned(), scripts);
    // A runner joins the lines of both lists to one script.
    let lines = |key: &str| {
        let list = template[key].as_sequence().unwrap();
        list.iter().map(|line| line.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let script = [lines("before_script"), lines("script")].concat().join("\n");
    let ended = job.command(&["sh", "-ec", &script], &variables);
    assert_code(&ended, 1);
    let junit = template["artifacts"]["reports"]["junit"].as_str().unwrap();
    assert_eq!(junit, "netarium-ci/junit*.xml");
    assert_eq!(attribute(&job.read("netarium-ci/junit.xml"), "testsuites", "failures"), "1");
    for path in template["artifacts"]["paths"].as_sequence().unwrap() {
        assert!(job.path(path.as_str().unwrap()).exists(), "{path:?}");
    }
    assert!(!out(&ended).contains("::error"), "annotations are for GitHub");
}
