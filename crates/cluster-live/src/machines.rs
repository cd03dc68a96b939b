//! What machines hold, as a file says it: plans can be made before any agent runs.

use std::path::Path;

use cluster::hosts::Hosts;
use cluster::placement::Machine;

use crate::address::usage;
use crate::{Error, Result};

/// The machines that a file describes, in the order of their names.
///
/// # Errors
/// If the file cannot be read, is wrong, or describes none.
pub fn of_file(path: &Path) -> Result<Vec<Machine>> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let hosts = Hosts::parse(&path.display().to_string(), &text).map_err(|e| usage(&e))?;
    if hosts.machines.is_empty() {
        let text = format!(
            "{}: no machine is described: `[machine.NAME]` with `cores` and `memory`, and `nic`, \
             `traffic` and `hosts` where they are limited",
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
    fn a_file_without_machines_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "agents = [\"a\"]\n").unwrap();
        let error = of_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("no machine is described"), "{error}");
    }
}
