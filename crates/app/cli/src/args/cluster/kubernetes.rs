//! The files of deploy/kubernetes: their arguments, names and privileges, and the schemas of
//! Kubernetes' API.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;
use placement::hosts::{Hosts, PORT};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::args::cluster::ClusterCommand;
use crate::args::{self, Cli};

/// The newest version, and the oldest with all used fields (`appArmorProfile`).
const VERSIONS: [&str; 2] = ["1.37", "1.30"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join("deploy/kubernetes").join(file)).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    serde_norway::Deserializer::from_str(text).map(|one| Value::deserialize(one).unwrap()).collect()
}

/// The object of this kind and name.
fn object(kind: &str, name: &str) -> Value {
    let files = documents(&read("kustomization.yaml"))[0]["resources"].clone();
    let files = files.as_array().unwrap().iter().map(|file| read(file.as_str().unwrap()));
    let mut all = files.flat_map(|text| documents(&text));
    all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name).unwrap()
}

fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

/// A command line with the variables that Kubernetes replaces, as the parser reads it.
fn parse(words: Vec<String>) -> args::Command {
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).command
}

fn words(container: &Value) -> Vec<String> {
    let lists = ["command", "args"].map(|key| container[key].as_array().unwrap());
    let words = lists.into_iter().flatten().map(|word| word.as_str().unwrap().to_owned());
    let variables = container["env"].as_array().unwrap();
    let replaced = words.map(|word| {
        variables.iter().fold(word, |word, variable| {
            let value = match &variable["valueFrom"] {
                from if from["fieldRef"]["fieldPath"] == "spec.nodeName" => "node-1",
                from if from["fieldRef"]["fieldPath"] == "status.podIP" => "192.0.2.1",
                from if from["resourceFieldRef"]["resource"] == "limits.cpu" => "4",
                _ => variable["value"].as_str().unwrap(),
            };
            word.replace(&format!("$({})", variable["name"].as_str().unwrap()), value)
        })
    });
    replaced.inspect(|word| assert!(!word.contains("$("), "{word}")).collect()
}

fn is_mounted(container: &Value, path: &Path) -> bool {
    let mounts = container["volumeMounts"].as_array().unwrap();
    mounts.iter().any(|mount| path.starts_with(mount["mountPath"].as_str().unwrap()))
}

#[test]
fn agents_have_valid_arguments_names_and_ports() {
    let (service, workload) =
        (object("Service", "netarium-agents"), object("DaemonSet", "netarium-agents"));
    let container = &pod(&workload)["containers"][0];
    let args::Command::Agent(agent) = parse(words(container)) else {
        panic!("no agent: {container}")
    };
    let port = |address: &str| address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    // The certificate is for names with this prefix.
    assert_eq!(agent.name.as_deref(), Some("netarium-node-1"));
    assert_eq!(agent.listen, [format!("192.0.2.1:{PORT}")]);
    assert_eq!(agent.join, [format!("{}:{PORT}", service["metadata"]["name"].as_str().unwrap())]);
    assert_eq!(agent.allowed.cores, Some(4.0));
    assert!(is_mounted(container, agent.dir.as_deref().unwrap()));
    assert!(is_mounted(container, agent.access.credentials.as_deref().unwrap()));
    assert_eq!(container["ports"][0]["containerPort"], port(&agent.listen[0]));
    assert_eq!(service["spec"]["ports"][0]["port"], port(&agent.join[0]));
}

#[test]
fn job_waits_for_the_agents_and_runs_the_lab() {
    let workload = object("Job", "netarium-run");
    let containers = [&pod(&workload)["initContainers"][0], &pod(&workload)["containers"][0]];
    let args::Command::Run(run) = parse(words(containers[1])) else { panic!("no run: {workload}") };
    let hosts = Path::new(run.spread.cluster().unwrap());
    for container in containers {
        assert!([&run.labs[0], hosts].iter().all(|file| is_mounted(container, file)));
        let variable = &container["env"][0];
        assert_eq!(variable["name"], "NETARIUM_CREDENTIALS");
        assert!(is_mounted(container, Path::new(variable["value"].as_str().unwrap())));
        assert!(is_mounted(container, Path::new(container["workingDir"].as_str().unwrap())));
    }

    let script = words(containers[0]).pop().unwrap();
    let status = script.split("until ").nth(1).unwrap().split(';').next().unwrap();
    let status =
        status.replace("$agent", "netarium-agents").split(' ').map(str::to_owned).collect();
    let args::Command::Cluster(status) = parse(status) else { panic!("{script}") };
    assert!(matches!(status.command, ClusterCommand::Status(_)));
    // The script waits for each agent in the file.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hosts.toml"), read("numbered/hosts.toml")).unwrap();
    let called = script.replace("/lab/", "").replace("netarium cluster status", "echo");
    let output = Command::new("sh").args(["-c", &called]).current_dir(&folder).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3, "{script}");
}

#[test]
fn lab_and_lists_of_agents_are_valid() {
    let overrides = lab::Overrides { trust_programs: true, ..lab::Overrides::default() };
    let lab = lab::load(&root().join("deploy/kubernetes/lab.toml"), &overrides).unwrap();
    assert_eq!(lab.plans.len(), 1);
    assert!(lab.warnings.is_empty());

    let hosts = Hosts::parse("hosts.toml", &read("hosts.toml")).unwrap();
    assert_eq!(hosts.agents, [format!("netarium-agents:{PORT}")]);
    let component = &documents(&read("numbered/kustomization.yaml"))[0];
    let patch = documents(component["patches"][0]["patch"].as_str().unwrap()).remove(0);
    let added = |path: &str| {
        let all = patch.as_array().unwrap();
        all.iter().find(|one| one["path"] == path).unwrap()["value"].clone()
    };
    let service = added("/spec/serviceName");
    let address = |number| {
        let service = service.as_str().unwrap();
        format!("netarium-agents-{number}.{service}:{PORT}")
    };
    let expected: Vec<_> = (0..added("/spec/replicas").as_u64().unwrap()).map(address).collect();
    let hosts = Hosts::parse("numbered/hosts.toml", &read("numbered/hosts.toml")).unwrap();
    assert_eq!(hosts.agents, expected);
    // The patch addresses these by their position.
    let workload = object("DaemonSet", "netarium-agents");
    let container = &pod(&workload)["containers"][0];
    assert_eq!(container["args"][1], "--name=netarium-$(AGENT_NAME)");
    assert_eq!(container["env"][0]["name"], "AGENT_NAME");
}

#[test]
fn selectors_match_pods_and_policies_admit_only_them() {
    let labels = |part: &str| {
        json!({
            "app.kubernetes.io/name": "netarium",
            "app.kubernetes.io/component": part,
        })
    };
    let service = object("Service", "netarium-agents");
    assert_eq!(service["spec"]["selector"], labels("agents"));
    for (kind, part) in [("DaemonSet", "agents"), ("Job", "run")] {
        let name = format!("netarium-{part}");
        let workload = object(kind, &name);
        assert_eq!(workload["spec"]["template"]["metadata"]["labels"], labels(part));
        let policy = &object("NetworkPolicy", &name)["spec"];
        assert_eq!(policy["podSelector"]["matchLabels"], labels(part));
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
        let rules = policy["ingress"].as_array().unwrap();
        assert_eq!(rules.is_empty(), part == "run");
        for rule in rules {
            let from = &rule["from"][0]["podSelector"]["matchLabels"];
            assert!(*from == labels("agents") || *from == labels("run"), "{rule}");
            assert_eq!(rule["ports"][0], json!({ "protocol": "TCP", "port": PORT }));
        }
    }
    let selector = &object("DaemonSet", "netarium-agents")["spec"]["selector"];
    assert_eq!(selector["matchLabels"], labels("agents"));
}

#[test]
fn pods_have_certificates_and_few_privileges() {
    let (agents, run) = (object("DaemonSet", "netarium-agents"), object("Job", "netarium-run"));
    let agent = &pod(&agents)["containers"][0]["securityContext"];
    assert_eq!(agent["seccompProfile"]["type"], "Localhost");
    assert_eq!(pod(&run)["securityContext"]["runAsNonRoot"], true);
    for (workload, secret) in [(&agents, "netarium-agent"), (&run, "netarium-coordinator")] {
        let pod = pod(workload);
        assert_eq!(pod["automountServiceAccountToken"], false);
        let secrets = pod["volumes"].as_array().unwrap().iter();
        let secrets: Vec<_> =
            secrets.map(|one| &one["secret"]).filter(|one| !one.is_null()).collect();
        // Octal: 0400, or 0440 with the group of the job.
        let mode = if secret == "netarium-agent" { 0o400 } else { 0o440 };
        assert_eq!(secrets, [&json!({ "secretName": secret, "defaultMode": mode })]);
        for key in ["containers", "initContainers"] {
            for container in pod[key].as_array().into_iter().flatten() {
                let context = &container["securityContext"];
                assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
                assert_eq!(context["allowPrivilegeEscalation"], false);
                assert_eq!(context["readOnlyRootFilesystem"], true);
                assert_ne!(context["privileged"], true);
            }
        }
    }

    let profile = root().join("deploy/apparmor");
    let name = agent["appArmorProfile"]["localhostProfile"].as_str().unwrap();
    assert!(fs::read_to_string(&profile).unwrap().contains(&format!("\nprofile {name} ")));
    // Debian has it in a folder that only root's path contains.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut parser = Command::new("apparmor_parser");
    let Ok(output) = parser.env("PATH", path).args(["-Q", "-K"]).arg(&profile).output() else {
        return eprintln!("SKIPPED the syntax of deploy/apparmor: no apparmor_parser");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The validator that `dev/test` installs, or the one in the path.
fn validator() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let own = cache.map(|dir| dir.join("netarium/kubernetes-validate/bin/kubernetes-validate"));
    let mut known = own.into_iter().chain([PathBuf::from("kubernetes-validate")]);
    let found = known.find(|program| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        let why = "kubernetes-validate is not here: pip install kubernetes-validate";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        eprintln!("SKIPPED the schemas of Kubernetes: {why}");
    }
    found
}

/// The folder and the overlays in the book beside it, as Kustomize writes them; none without
/// `kubectl`.
fn overlays(folder: &Path) -> Vec<String> {
    let deploy = folder.join("netarium/deploy");
    let (base, overlay) = (deploy.join("kubernetes"), folder.join("my-lab"));
    fs::create_dir_all(base.join("numbered")).unwrap();
    fs::create_dir(&overlay).unwrap();
    for sub in ["", "numbered"] {
        for entry in fs::read_dir(root().join("deploy/kubernetes").join(sub)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), base.join(sub).join(entry.file_name())).unwrap();
            }
        }
    }
    fs::write(overlay.join("lab.toml"), "# 'quotes' \"and\" --- and: colons\n").unwrap();
    let book = fs::read_to_string(root().join("docs/src/guides/cluster.md")).unwrap();
    let texts = book.split("```yaml\n").skip(1).map(|text| text.split("```").next().unwrap());
    let mut written = Vec::new();
    for text in texts {
        fs::write(overlay.join("kustomization.yaml"), text).unwrap();
        for place in [&base, &overlay] {
            let Ok(output) = Command::new("kubectl").arg("kustomize").arg(place).output() else {
                eprintln!("SKIPPED the overlays of the book: no kubectl");
                return Vec::new();
            };
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}\n{text}");
            written.push(String::from_utf8(output.stdout).unwrap());
        }
    }
    written
}

#[test]
fn kubernetes_accepts_the_files_and_the_overlays_of_the_book() {
    let folder = tempfile::tempdir().unwrap();
    let overlays = overlays(folder.path());
    if let Some(all) = overlays.last() {
        let objects = documents(all);
        let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
        let agents = of("StatefulSet");
        let container = &pod(agents)["containers"][0];
        assert_eq!(container["args"][1], "--name=$(AGENT_NAME)");
        assert_eq!(container["image"], "registry.example/netarium");
        assert_eq!(pod(agents)["hostNetwork"], true);
        let files = &of("ConfigMap")["data"];
        assert_eq!(files["lab.toml"], "# 'quotes' \"and\" --- and: colons\n");
        assert_eq!(files["hosts.toml"], read("numbered/hosts.toml"));
        let args::Command::Run(run) = parse(words(&pod(of("Job"))["containers"][0])) else {
            panic!()
        };
        assert_eq!(run.edits.seed, Some(7));
    }

    let Some(validator) = validator() else { return };
    let file = folder.path().join("file.yaml");
    let check = |text: &str, version: &str| {
        fs::write(&file, text).unwrap();
        let mut process = Command::new(&validator);
        let output = process.args(["--strict", "-k", version]).arg(&file).output().unwrap();
        let report = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&report).into_owned())
    };
    let files = ["agents.yaml", "job.yaml", "network.yaml"].map(read);
    for text in files.iter().chain(&overlays) {
        for version in VERSIONS {
            let (accepted, report) = check(text, version);
            assert!(accepted, "{version}: {report}\n{text}");
        }
    }
    // The validator detects errors.
    assert!(!check(&files[0].replace("hostPath", "hostsPath"), VERSIONS[0]).0);
}
