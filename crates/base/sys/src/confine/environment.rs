//! The environment variables that programs of a lab inherit.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// Variables for the user, the language and the terminal. Others may contain secrets, or change
/// what programs load.
const ALLOWED: [&str; 15] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "TMPDIR",
    "COLUMNS",
    "LINES",
    "PWD",
];

/// Whether programs inherit the variable `name`.
pub fn is_inherited(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"LC_") || ALLOWED.iter().any(|allowed| name == *allowed)
}

/// The part of this process's environment that programs of a lab inherit.
pub fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_inherited(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherits_locale_but_no_secrets() {
        for name in ["PATH", "LC_ALL", "TERM"] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in ["NETARIUM_TOKEN", "NETARIUM_CLUSTER", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD"] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }
}
