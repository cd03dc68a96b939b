//! Template labs for new users.

/// Names of the templates, each with a short description.
pub const TEMPLATES: &[(&str, &str)] = &[
    ("two-hosts", "two hosts and a link, with ping"),
    ("dumbbell", "two TCP flows share a slow link"),
    ("star", "request-response traffic around a generated star"),
    ("client-server", "a web server, a client, and a link that breaks for a second"),
    ("sweep", "nine runs over delay and queue"),
    ("incast", "many answers at once, on the virtual clock"),
];

/// The lab file of a template.
pub fn template(name: &str) -> Option<&'static str> {
    Some(match name {
        "two-hosts" => include_str!("../templates/two-hosts.toml"),
        "dumbbell" => include_str!("../templates/dumbbell.toml"),
        "star" => include_str!("../templates/star.toml"),
        "client-server" => include_str!("../templates/client-server.toml"),
        "sweep" => include_str!("../templates/sweep.toml"),
        "incast" => include_str!("../templates/incast.toml"),
        _ => return None,
    })
}
