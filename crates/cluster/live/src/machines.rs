//! The machines of a hosts file, for placement without running agents.

use std::path::Path;

use placement::Machine;
use placement::hosts::Hosts;

use crate::address::usage;
use crate::{Error, Result};

/// The machines of a hosts file, by name.
///
/// # Errors
/// If the file cannot be read, is invalid, or has no machines.
pub fn of_file(path: &Path) -> Result<Vec<Machine>> {
    let text = lab::read_text(path).map_err(Error::file("read", path))?;
    let hosts = Hosts::parse(&path.display().to_string(), &text).map_err(|e| usage(&e))?;
    if hosts.machines.is_empty() {
        let text = format!(
            "{}: no machines: add `[machine.NAME]` with `cores` and `memory`, and `nic`, \
             `traffic` and `hosts` if they are limited",
            path.display()
        );
        return Err(Error::Usage { text });
    }
    Ok(hosts.machines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_file_without_machines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "agents = [\"a\"]\n").unwrap();
        let error = of_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("no machines"), "{error}");
    }
}
