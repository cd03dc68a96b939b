//! A cluster in Kubernetes: agents as pods, and a job that runs a lab on them.
//!
//! Kubernetes starts, distributes and restarts agents; the coordinator in the job decides which
//! agent runs which hosts. No pod uses Kubernetes' API, so pods have no service account.

use serde_json::{Map, Value, json};

use crate::address::PORT;
use crate::{Error, Result};

/// Max size of a Kubernetes `ConfigMap`.
const MAX_TEXT_BYTES: usize = 1 << 20;
const LAB_FILE: &str = "lab.toml";
const HOSTS_FILE: &str = "hosts.toml";
const TUN: &str = "/dev/net/tun";
const AGENT_DIR: &str = "/var/lib/netarium";
const RESULTS_DIR: &str = "/results";
const CREDENTIALS_DIR: &str = "/etc/netarium/credentials";
/// The profile's path below the node's folder of seccomp profiles.
const SECCOMP_PROFILE: &str = "netarium/agent.json";
/// The name of the profile in `deploy/apparmor`.
const APPARMOR_PROFILE: &str = "netarium-agent";
/// User and group of the job: neither root nor a user of the image.
const JOB_USER: u32 = 65_532;

/// Capabilities of an agent. `SETFCAP` is required for mapping root into the user namespaces of
/// labs, in which labs have all other capabilities. The others permit real-time scheduling for the
/// agent and the data paths.
const CAPABILITIES: [&str; 3] = ["SETFCAP", "SYS_NICE", "SYS_RESOURCE"];

/// The nodes that run an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// All nodes with these labels; without labels all nodes. A `DaemonSet`.
    Labelled(Vec<(String, String)>),
    /// This number of agents on different nodes: a `StatefulSet`.
    Count(u32),
}

/// Parameters of a manifest for a cluster and a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Prefix of all names.
    pub name: String,
    /// Namespace of all objects; `None`: the default of `kubectl`.
    pub namespace: Option<String>,
    /// The container image, with `netarium` in its path and the programs of the lab.
    pub image: String,
    /// The nodes of the agents.
    pub nodes: Nodes,
    /// The secret with the credentials of all agents: `ca.pem`, `cert.pem` and `key.pem`.
    pub agent_secret: String,
    /// The secret with the credentials of the job.
    pub coordinator_secret: String,
    /// Whether nodes have the `AppArmor` profile of agents. Nodes without `AppArmor` reject pods
    /// with a profile.
    pub apparmor: bool,
    /// Whether agents use the nodes' network, which is faster than most pod networks.
    pub host_network: bool,
    /// Cores of each agent in Kubernetes' notation; `None`: no limit.
    pub cpu: Option<String>,
    /// Memory of each agent; `None`: no limit.
    pub memory: Option<String>,
    /// Persistent volume claim for the results; `None`: they are lost with the job's pod.
    pub results: Option<String>,
    /// The lab file's text.
    pub lab: String,
    /// Additional arguments of `netarium run`.
    pub arguments: Vec<String>,
}

impl Manifest {
    /// The documents, in the order in which they must be created.
    ///
    /// # Errors
    /// If a name is invalid in Kubernetes, or the lab file is too large for a `ConfigMap`.
    pub fn documents(&self) -> Result<Vec<Value>> {
        self.check()?;
        Ok(vec![
            self.files(),
            self.service(),
            self.agents_policy(),
            self.job_policy(),
            self.agents(),
            self.job(),
        ])
    }

    /// The documents as YAML.
    ///
    /// # Errors
    /// As [`Self::documents`].
    pub fn yaml(&self) -> Result<String> {
        let Self { name, agent_secret, coordinator_secret, .. } = self;
        let space = self.namespace.as_ref().map(|n| format!(" -n {n}")).unwrap_or_default();
        let mut text = format!(
            "# Agents of netarium, and a job that runs a lab on them. Before:\n\
             #   netarium cluster init --agent '{name}-*'\n\
             #   kubectl create secret generic {agent_secret}{space} \
             --from-file=netarium-authority/agents/{name}-all\n\
             #   kubectl create secret generic {coordinator_secret}{space} \
             --from-file=netarium-authority/coordinators/coordinator\n\
             #   on each node: deploy/seccomp.json as \
             /var/lib/kubelet/seccomp/{SECCOMP_PROFILE}\n"
        );
        if self.apparmor {
            text += "#   on each node: apparmor_parser -r -W deploy/apparmor, or --no-apparmor here if \
                     nodes have none\n";
        }
        for document in self.documents()? {
            let written = serde_norway::to_string(&document)
                .map_err(|error| Error::Usage { text: error.to_string() })?;
            text += "---\n";
            text += &written;
        }
        Ok(text)
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: &str, name: &str| Error::Usage {
            text: format!(
                "`{name}` is not a {what}: Kubernetes takes small letters, digits and hyphens, \
                 beginning and ending with a letter or digit, at most 40 here"
            ),
        };
        let names = [("name", Some(&self.name)), ("namespace", self.namespace.as_ref())];
        let rest = [
            ("name of a secret", Some(&self.agent_secret)),
            ("name of a secret", Some(&self.coordinator_secret)),
            ("name of a volume claim", self.results.as_ref()),
        ];
        for (what, name) in names.into_iter().chain(rest) {
            if let Some(name) = name.filter(|name| !is_label(name)) {
                return Err(wrong(what, name));
            }
        }
        if self.lab.len() > MAX_TEXT_BYTES {
            let text = format!(
                "the lab has {} bytes, and Kubernetes takes {MAX_TEXT_BYTES} in a ConfigMap: put it \
                 into the image, and run netarium there",
                self.lab.len()
            );
            return Err(Error::Usage { text });
        }
        Ok(())
    }

    fn named(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    fn metadata(&self, part: &str) -> Value {
        let mut metadata = json!({ "name": self.named(part), "labels": self.labels(part) });
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata
    }

    fn labels(&self, part: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "netarium",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": part,
        })
    }

    /// The lab, and the addresses of its agents.
    fn files(&self) -> Value {
        let agents = self.addresses().into_iter().map(|agent| format!("    \"{agent}\",\n"));
        let hosts = format!("agents = [\n{}]\n", agents.collect::<String>());
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.metadata("lab"),
            "data": { LAB_FILE: self.lab, HOSTS_FILE: hosts },
        })
    }

    /// The addresses of the agents: one per agent, or one for all of them.
    fn addresses(&self) -> Vec<String> {
        let service = self.named("agents");
        match self.nodes {
            Nodes::Labelled(_) => vec![format!("{service}:{PORT}")],
            Nodes::Count(count) => {
                (0..count).map(|pod| format!("{service}-{pod}.{service}:{PORT}")).collect()
            }
        }
    }

    /// A headless service: one name for all agents, including those that have not found
    /// each other yet.
    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata("agents"),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": self.labels("agents"),
                "ports": [{ "name": "agents", "port": PORT, "protocol": "TCP" }],
            },
        })
    }

    /// Agents accept connections of agents and of the job, and connect to agents. Clocks and trunks
    /// use UDP ports that are selected at run time.
    fn agents_policy(&self) -> Value {
        let commands = json!({ "protocol": "TCP", "port": PORT });
        let [agents, run] = ["agents", "run"].map(|part| self.pods(part));
        self.policy(
            "agents",
            &[
                json!({ "from": [agents], "ports": [commands, { "protocol": "UDP" }] }),
                json!({ "from": [run], "ports": [commands] }),
            ],
            &json!({ "to": [agents], "ports": [commands, { "protocol": "UDP" }] }),
        )
    }

    /// The job accepts no connections, and connects to agents.
    fn job_policy(&self) -> Value {
        let commands = json!({ "protocol": "TCP", "port": PORT });
        self.policy("run", &[], &json!({ "to": [self.pods("agents")], "ports": [commands] }))
    }

    fn pods(&self, part: &str) -> Value {
        json!({ "podSelector": { "matchLabels": self.labels(part) } })
    }

    fn policy(&self, part: &str, ingress: &[Value], egress: &Value) -> Value {
        let dns = json!({ "ports": [
            { "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 },
        ] });
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(part),
            "spec": {
                "podSelector": { "matchLabels": self.labels(part) },
                "policyTypes": ["Ingress", "Egress"],
                "ingress": ingress,
                "egress": [egress, dns],
            },
        })
    }

    fn agents(&self) -> Value {
        let template = json!({
            "metadata": { "labels": self.labels("agents") },
            "spec": self.agent_pod(),
        });
        let selector = json!({ "matchLabels": self.labels("agents") });
        match self.nodes {
            Nodes::Labelled(_) => json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": self.metadata("agents"),
                "spec": { "selector": selector, "template": template },
            }),
            Nodes::Count(count) => json!({
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": self.metadata("agents"),
                "spec": {
                    "serviceName": self.named("agents"),
                    "replicas": count,
                    "podManagementPolicy": "Parallel",
                    "selector": selector,
                    "template": template,
                },
            }),
        }
    }

    fn agent_pod(&self) -> Value {
        let mut pod = json!({
            "automountServiceAccountToken": false,
            // Programs of labs get SIGTERM and their grace time.
            "terminationGracePeriodSeconds": 30,
            "containers": [self.agent()],
            "volumes": [
                { "name": "tun", "hostPath": { "path": TUN, "type": "CharDevice" } },
                { "name": "pieces", "emptyDir": {} },
                { "name": "scratch", "emptyDir": {} },
                credentials(&self.agent_secret, 0o400),
            ],
        });
        if self.host_network {
            pod["hostNetwork"] = json!(true);
            pod["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        }
        match &self.nodes {
            Nodes::Labelled(labels) if labels.is_empty() => {}
            Nodes::Labelled(labels) => {
                let labels = labels.iter().map(|(key, value)| (key.clone(), json!(value)));
                pod["nodeSelector"] = Value::Object(labels.collect::<Map<String, Value>>());
            }
            Nodes::Count(_) => {
                pod["affinity"] = json!({
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": { "matchLabels": self.labels("agents") },
                        }],
                    },
                });
            }
        }
        pod
    }

    fn agent(&self) -> Value {
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        // All agents share a certificate for names with the prefix, like the names of pods.
        let (own_name, prefix) = match self.nodes {
            Nodes::Labelled(_) => ("spec.nodeName", self.named("")),
            Nodes::Count(_) => ("metadata.name", String::new()),
        };
        let mut arguments = vec![
            "agent".to_owned(),
            format!("--name={prefix}$(AGENT_NAME)"),
            format!("--listen=$(POD_IP):{PORT}"),
            format!("--join={}:{PORT}", self.named("agents")),
            format!("--dir={AGENT_DIR}"),
            format!("--credentials={CREDENTIALS_DIR}"),
        ];
        // Labs get the resources of the pod.
        arguments.extend(self.cpu.as_ref().map(|_| "--cores=$(AGENT_CORES)".to_owned()));
        arguments.extend(self.memory.as_ref().map(|_| "--memory=$(AGENT_MEMORY) MiB".to_owned()));
        let mut environment = vec![
            field("AGENT_NAME", own_name),
            field("POD_IP", "status.podIP"),
            json!({ "name": "XDG_RUNTIME_DIR", "value": "/tmp" }),
        ];
        let limit = |name: &str, resource: &str, divisor: &str| {
            let from = json!({ "resource": resource, "divisor": divisor });
            json!({ "name": name, "valueFrom": { "resourceFieldRef": from } })
        };
        environment.extend(self.cpu.as_ref().map(|_| limit("AGENT_CORES", "limits.cpu", "1")));
        environment
            .extend(self.memory.as_ref().map(|_| limit("AGENT_MEMORY", "limits.memory", "1Mi")));
        let mut container = json!({
            "name": "agent",
            "image": self.image,
            "command": ["netarium"],
            "args": arguments,
            "env": environment,
            "ports": [{ "name": "agents", "containerPort": PORT, "protocol": "TCP" }],
            "securityContext": {
                "runAsUser": 0,
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"], "add": CAPABILITIES },
                "appArmorProfile": self.apparmor_profile(),
                "seccompProfile": { "type": "Localhost", "localhostProfile": SECCOMP_PROFILE },
            },
            "readinessProbe": { "tcpSocket": { "port": "agents" }, "periodSeconds": 2 },
            "livenessProbe": {
                "tcpSocket": { "port": "agents" },
                "initialDelaySeconds": 10,
                "periodSeconds": 10,
                "failureThreshold": 6,
            },
            "volumeMounts": [
                { "name": "tun", "mountPath": TUN },
                { "name": "pieces", "mountPath": AGENT_DIR },
                { "name": "scratch", "mountPath": "/tmp" },
                { "name": "credentials", "mountPath": CREDENTIALS_DIR, "readOnly": true },
            ],
        });
        let resources = self.resources();
        if resources.as_object().is_some_and(|resources| !resources.is_empty()) {
            container["resources"] = json!({ "requests": resources, "limits": resources });
        }
        container
    }

    /// The profiles of container engines forbid mounts, including those in user namespaces.
    fn apparmor_profile(&self) -> Value {
        if self.apparmor {
            json!({ "type": "Localhost", "localhostProfile": APPARMOR_PROFILE })
        } else {
            json!({ "type": "Unconfined" })
        }
    }

    fn resources(&self) -> Value {
        let cpu = self.cpu.iter().map(|cpu| ("cpu".to_owned(), json!(cpu)));
        let memory = self.memory.iter().map(|memory| ("memory".to_owned(), json!(memory)));
        Value::Object(cpu.chain(memory).collect())
    }

    fn job(&self) -> Value {
        let lab = format!("/lab/{LAB_FILE}");
        let hosts = format!("--cluster=/lab/{HOSTS_FILE}");
        let files = json!([
            { "name": "lab", "mountPath": "/lab", "readOnly": true },
            { "name": "results", "mountPath": RESULTS_DIR },
            { "name": "scratch", "mountPath": "/tmp" },
            { "name": "credentials", "mountPath": CREDENTIALS_DIR, "readOnly": true },
        ]);
        let container = |name: &str, arguments: Value| {
            json!({
                "name": name,
                "image": self.image,
                "workingDir": RESULTS_DIR,
                "args": arguments,
                "env": [{ "name": "NETARIUM_CREDENTIALS", "value": CREDENTIALS_DIR }],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": { "drop": ["ALL"] },
                    "readOnlyRootFilesystem": true,
                },
                "volumeMounts": files,
            })
        };
        let wait = format!(
            "for agent in {}; do until netarium cluster status --cluster $agent; do sleep 2; done; \
             done",
            self.addresses().join(" ")
        );
        let mut first = container("agents", json!([wait]));
        first["command"] = json!(["sh", "-c"]);
        let mut arguments = vec!["run".to_owned(), lab, hosts];
        arguments.extend(self.arguments.iter().cloned());
        let mut run = container("run", json!(arguments));
        run["command"] = json!(["netarium"]);
        let results = self.results.as_ref().map_or_else(
            || json!({ "name": "results", "emptyDir": {} }),
            |claim| json!({ "name": "results", "persistentVolumeClaim": { "claimName": claim } }),
        );
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata("run"),
            "spec": {
                // A failed lab would fail again.
                "backoffLimit": 0,
                "template": {
                    "metadata": { "labels": self.labels("run") },
                    "spec": {
                        "automountServiceAccountToken": false,
                        "restartPolicy": "Never",
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": JOB_USER,
                            "runAsGroup": JOB_USER,
                            "fsGroup": JOB_USER,
                            "seccompProfile": { "type": "RuntimeDefault" },
                        },
                        "initContainers": [first],
                        "containers": [run],
                        "volumes": [
                            { "name": "lab", "configMap": { "name": self.named("lab") } },
                            results,
                            { "name": "scratch", "emptyDir": {} },
                            credentials(&self.coordinator_secret, 0o440),
                        ],
                    },
                },
            },
        })
    }
}

/// A volume with a secret; `mode` denies access to users other than its owner and group.
fn credentials(secret: &str, mode: u32) -> Value {
    let secret = json!({ "secretName": secret, "defaultMode": mode });
    json!({ "name": "credentials", "secret": secret })
}

/// Whether a name is a DNS label (RFC 1123) with room for a suffix.
fn is_label(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=40).contains(&name.len())
        && name.chars().all(|c| fine(c) || c == '-')
        && name.starts_with(fine)
        && name.ends_with(fine)
}
