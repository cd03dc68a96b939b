//! Manifests are accepted by Kubernetes: checked against the schemas of its API in strict mode.

use std::path::PathBuf;
use std::process::Command;

use cluster_live::manifest::{Manifest, Nodes};
use serde_json::{Value, json};

/// The newest version, and the oldest with all used fields (`appArmorProfile`).
const VERSIONS: [&str; 2] = ["1.37", "1.30"];

fn manifest() -> Manifest {
    Manifest {
        name: "netarium".to_owned(),
        namespace: None,
        image: "registry.example/netarium:1".to_owned(),
        nodes: Nodes::Labelled(Vec::new()),
        agent_secret: "netarium-agent".to_owned(),
        coordinator_secret: "netarium-coordinator".to_owned(),
        apparmor: true,
        host_network: false,
        cpu: None,
        memory: None,
        results: None,
        lab: "[lab]\nname = \"a\"\n# 'quotes' \"and\" --- and: colons\n".to_owned(),
        arguments: Vec::new(),
    }
}

fn all() -> Vec<Manifest> {
    vec![
        manifest(),
        Manifest {
            namespace: Some("labs".to_owned()),
            nodes: Nodes::Labelled(vec![("pool".to_owned(), "labs".to_owned())]),
            apparmor: false,
            host_network: true,
            cpu: Some("4".to_owned()),
            memory: Some("8Gi".to_owned()),
            arguments: vec!["--seed=7".to_owned()],
            ..manifest()
        },
        Manifest { nodes: Nodes::Count(3), results: Some("results".to_owned()), ..manifest() },
    ]
}

/// The validator that `dev/test` installs, or the one in the path.
fn validator(test: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let own = cache.map(|dir| dir.join("netarium/kubernetes-validate/bin/kubernetes-validate"));
    let known = own.into_iter().chain([PathBuf::from("kubernetes-validate")]);
    for program in known {
        let probe = Command::new(&program).arg("--version").output();
        if probe.is_ok_and(|output| output.status.success()) {
            return Some(program);
        }
    }
    let why = format!("{test}: kubernetes-validate is not here: pip install kubernetes-validate");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    eprintln!("SKIPPED {why}");
    None
}

#[test]
fn manifests_keep_to_the_api() {
    let Some(validator) = validator("manifests_keep_to_the_api") else { return };
    let dir = tempfile::tempdir().unwrap();
    for (index, manifest) in all().iter().enumerate() {
        let file = dir.path().join(format!("{index}.yaml"));
        std::fs::write(&file, manifest.yaml().unwrap()).unwrap();
        for version in VERSIONS {
            let output = Command::new(&validator)
                .args(["--strict", "-k", version])
                .arg(&file)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{version}: {said}\n{}", manifest.yaml().unwrap());
        }
    }
    // The validator detects errors.
    let wrong = manifest().yaml().unwrap().replace("hostPath", "hostsPath");
    let file = dir.path().join("wrong.yaml");
    std::fs::write(&file, wrong).unwrap();
    let output = Command::new(&validator).arg("--strict").arg(&file).output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn the_apparmor_profile_is_the_one_that_pods_name() {
    let profile = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/apparmor");
    let text = std::fs::read_to_string(&profile).unwrap();
    for manifest in all() {
        let agent = &manifest.documents().unwrap()[4]["spec"]["template"]["spec"]["containers"][0];
        let named = &agent["securityContext"]["appArmorProfile"];
        match named["localhostProfile"].as_str() {
            Some(name) => assert!(text.contains(&format!("\nprofile {name} ")), "{name}"),
            None => assert!(named["type"] == "Unconfined" && !manifest.apparmor),
        }
    }
    // Debian has it in a folder that only root's path contains.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut parser = Command::new("apparmor_parser");
    let Ok(output) = parser.env("PATH", path).args(["-Q", "-K"]).arg(&profile).output() else {
        return eprintln!("SKIPPED the syntax of deploy/apparmor: no apparmor_parser");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_lab_arrives_as_it_is() {
    for manifest in all() {
        let text = manifest.yaml().unwrap();
        let documents: Vec<Value> = text
            .split("\n---\n")
            .skip(1)
            .map(|document| serde_norway::from_str(document).unwrap())
            .collect();
        assert_eq!(documents, manifest.documents().unwrap());
        assert_eq!(documents[0]["data"]["lab.toml"], manifest.lab.as_str());
    }
}

#[test]
fn agents_are_known_by_name_where_their_number_is() {
    let labelled = manifest().documents().unwrap();
    assert_eq!(labelled[0]["data"]["hosts.toml"], "agents = [\n    \"netarium-agents:7447\",\n]\n");
    assert_eq!(labelled[4]["kind"], "DaemonSet");
    let counted = Manifest { nodes: Nodes::Count(2), ..manifest() }.documents().unwrap();
    assert_eq!(
        counted[0]["data"]["hosts.toml"],
        "agents = [\n    \"netarium-agents-0.netarium-agents:7447\",\n    \
         \"netarium-agents-1.netarium-agents:7447\",\n]\n"
    );
    assert_eq!(
        (&counted[4]["kind"], &counted[4]["spec"]["replicas"]),
        (&"StatefulSet".into(), &2.into())
    );
}

#[test]
fn pods_get_certificates_and_no_more_than_they_need() {
    for manifest in all() {
        let documents = manifest.documents().unwrap();
        let agent = &documents[4]["spec"]["template"]["spec"];
        let security = &agent["containers"][0]["securityContext"];
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(security["seccompProfile"]["type"], "Localhost");
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_ne!(security["privileged"], true);
        let job = &documents[5]["spec"]["template"]["spec"];
        assert_eq!(job["securityContext"]["runAsNonRoot"], true);
        let of = |pod: &Value| {
            let volumes = pod["volumes"].as_array().unwrap().iter();
            let secret = volumes.filter_map(|volume| volume["secret"]["secretName"].as_str());
            secret.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            (of(agent), of(job)),
            (vec!["netarium-agent".to_owned()], vec!["netarium-coordinator".to_owned()])
        );
        for container in [&agent["containers"][0], &job["containers"][0]] {
            assert!(
                !container["env"].to_string().contains("secretKeyRef"),
                "no secret in variables"
            );
        }
    }
}

#[test]
fn only_pods_of_the_cluster_reach_agents() {
    let documents = manifest().documents().unwrap();
    let [agents, run] = [&documents[2], &documents[3]].map(|policy| {
        assert_eq!(policy["kind"], "NetworkPolicy");
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        policy
    });
    assert_eq!(run["spec"]["ingress"], json!([]));
    for rule in agents["spec"]["ingress"].as_array().unwrap() {
        let from = rule["from"].as_array().unwrap();
        assert!(from.iter().all(|peer| peer["podSelector"]["matchLabels"].is_object()), "{rule}");
        assert!(rule["ports"].as_array().is_some_and(|ports| !ports.is_empty()), "{rule}");
    }
}

#[test]
fn rejects_what_kubernetes_rejects() {
    let long = Manifest { lab: "#".repeat(1_100_000), ..manifest() };
    assert!(long.yaml().unwrap_err().to_string().contains("1100000 bytes"));
    let named = Manifest { namespace: Some("My_Labs".to_owned()), ..manifest() };
    assert!(named.yaml().unwrap_err().to_string().contains("`My_Labs` is not a namespace"));
}
