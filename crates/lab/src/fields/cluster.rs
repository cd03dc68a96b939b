//! `[cluster]`, and what nodes ask of the machine that they are on.

use base::Bytes;

use super::elements::NAMES;
use super::{Field, Section, Shape, optional};

const GROUPS: Shape = Shape::List(&Shape::List(&Shape::Text));
pub(super) const CPUS: Shape = Shape::Number(0.0, 4096.0);
pub(super) const MEMORY: Shape = Shape::Data(Bytes::new(1 << 20), Bytes::new(1 << 50));

/// `[cluster]`
pub(crate) const CLUSTER: Section = Section {
    noun: "`[cluster]`",
    doc: "With `netarium run --cluster`: which machines have which hosts, and what follows when a \
          machine is lost. Without effect on one machine.",
    fields: &[
        optional(
            "on_agent_loss",
            Shape::Word(&["stop", "continue"]),
            "stop",
            "When a machine is lost, or the coordinator: the lab ends everywhere, or the other \
             machines' hosts go on.",
        ),
        optional(
            "apart",
            GROUPS,
            "[]",
            "Groups of nodes, names or patterns; the nodes of a group are all on different \
             machines: `[[\"a\", \"b\"], [\"server*\"]]`.",
        ),
        optional(
            "together",
            GROUPS,
            "[]",
            "Groups of nodes, names or patterns; the nodes of a group are on the same machine.",
        ),
        optional(
            "machines",
            Shape::Map(&NAMES),
            "{}",
            "The nodes, names or patterns, that an agent's machine must have: \
             `{ rack1 = [\"a\", \"l*\"] }`. As `machine` of each of them.",
        ),
        optional(
            "spread",
            Shape::Word(&["even", "pack"]),
            "even",
            "Where nothing else decides: hosts over all machines in proportion to their cores, or \
             over no more machines than it takes.",
        ),
        optional("cpus", CPUS, "0", "Cores for the programs of each host that says nothing."),
        optional(
            "memory",
            MEMORY,
            "nothing",
            "Memory for the programs of each host that says nothing.",
        ),
        optional(
            "files",
            Shape::List(&Shape::Text),
            "[]",
            "Files that programs need, beside those that their commands name: patterns relative \
             to the lab file's folder, such as `apps/**`.",
        ),
    ],
};

/// Keys of `[node.NAME]`.
pub(super) const MACHINE: Field = optional(
    "machine",
    Shape::Text,
    "any",
    "With `netarium run --cluster`: the agent whose machine has this node.",
);
pub(super) const NODE_CPUS: Field = optional(
    "cpus",
    CPUS,
    "as `[cluster]` says",
    "With `netarium run --cluster`: cores that its programs need.",
);
pub(super) const NODE_MEMORY: Field = optional(
    "memory",
    MEMORY,
    "as `[cluster]` says",
    "With `netarium run --cluster`: memory that its programs need.",
);
