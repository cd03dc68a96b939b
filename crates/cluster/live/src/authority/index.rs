//! The index of the certificates that an authority has issued, one line each: `role number name
//! serial [revoked]`.

use std::fmt;
use std::str::FromStr as _;

use crate::credentials::{Role, serial_role};
use crate::shard::{from_hex, hex};
use crate::system::random;
use crate::{Error, Result};

/// The index of all issued certificates, beside [`CA_FILE`](crate::credentials::CA_FILE).
pub const INDEX_FILE: &str = "certificates.txt";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    role: Role,
    pub(super) number: u16,
    name: String,
    /// Role, number and 8 random bytes.
    pub(super) serial: Vec<u8>,
    revoked: bool,
}

/// All certificates, in the order of issue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index(Vec<Entry>);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { role, number, name, serial, revoked } in &self.0 {
            let revoked = if *revoked { " revoked" } else { "" };
            writeln!(f, "{role} {number} {name} {}{revoked}", hex(serial))?;
        }
        Ok(())
    }
}

impl Index {
    /// Parses a file; the error has the line and the reason.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let line = |(at, line): (usize, &str)| {
            let wrong = "write `agent` or `coordinator`, a number, a name, a serial number in \
                         hexadecimal digits and, if the certificate is revoked, `revoked`";
            entry(line).ok_or_else(|| (at + 1, format!("`{line}` is invalid: {wrong}")))
        };
        text.lines().enumerate().map(line).collect::<Result<_, _>>().map(Self)
    }

    /// Adds a certificate for `name`, with its existing number or a new one.
    pub(super) fn enter(&mut self, role: Role, name: &str, is_new: bool) -> Result<&Entry> {
        let usage = |text: String| Err(Error::Usage { text });
        let valid = self.0.iter().filter(|entry| entry.role == role && !entry.revoked);
        let mut overlapping = valid.filter(|entry| overlap(&entry.name, name));
        let number = match overlapping.next() {
            Some(entry) if entry.name == name && !is_new => entry.number,
            Some(entry) if entry.name == name => {
                return usage(format!(
                    "there is a certificate of {role} {name} already: use another name, or renew \
                     it with `netarium cluster invite --name {name}`"
                ));
            }
            Some(entry) => {
                return usage(format!(
                    "{role} {name} and {role} {} have names in common: use another name",
                    entry.name
                ));
            }
            None => {
                let used = self.0.iter().filter(|entry| entry.role == role);
                used.map(|entry| entry.number).max().unwrap_or(0) + 1
            }
        };
        if number > role.max_number() {
            return usage(format!(
                "all {} numbers of {role}s are in use: make a new authority",
                role.max_number()
            ));
        }
        let mut serial = vec![serial_role(role)];
        serial.extend(number.to_be_bytes());
        serial.extend(random::<8>()?);
        self.0.push(Entry { role, number, name: name.to_owned(), serial, revoked: false });
        Ok(&self.0[self.0.len() - 1])
    }

    /// Revokes all certificates of `name`, including those already revoked.
    pub(super) fn revoke(&mut self, name: &str, role: Option<Role>) -> Result<()> {
        let named = self.0.iter_mut().filter(|entry| entry.name == name);
        let meant: Vec<&mut Entry> =
            named.filter(|entry| role.is_none_or(|role| role == entry.role)).collect();
        let Some(first) = meant.first().map(|entry| entry.role) else {
            let what = role.map(|role| format!("{role} ")).unwrap_or_default();
            let text = format!(
                "the authority has issued no certificate of {what}{name}: {INDEX_FILE} lists all"
            );
            return Err(Error::Usage { text });
        };
        if meant.iter().any(|entry| entry.role != first) {
            let text = format!("{name} is an agent and a coordinator: name one with --role");
            return Err(Error::Usage { text });
        }
        for entry in meant {
            entry.revoked = true;
        }
        Ok(())
    }

    pub(super) fn revoked(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(|entry| entry.revoked)
    }
}

/// Whether an agent could use both names.
fn overlap(one: &str, other: &str) -> bool {
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (None, None) => one == other,
        (Some(prefix), None) => other.starts_with(prefix),
        (None, Some(prefix)) => one.starts_with(prefix),
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
    }
}

fn entry(line: &str) -> Option<Entry> {
    let words: Vec<&str> = line.split(' ').collect();
    let (fields, revoked) = match *words {
        [role, number, name, serial] => ([role, number, name, serial], false),
        [role, number, name, serial, "revoked"] => ([role, number, name, serial], true),
        _ => return None,
    };
    let [role, number, name, serial] = fields;
    let role = Role::ALL.into_iter().find(|known| known.to_string() == role)?;
    let serial = from_hex::<11>(serial)?.to_vec();
    let number = u16::from_str(number).ok()?;
    let owns = serial[0] == serial_role(role) && serial[1..3] == number.to_be_bytes();
    owns.then(|| Entry { role, number, name: name.to_owned(), serial, revoked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_number_until_it_is_revoked() {
        let mut index = Index::default();
        let mut number = |role, name, is_new| index.enter(role, name, is_new).map(|e| e.number);
        assert_eq!(number(Role::Agent, "a", true).unwrap(), 1);
        assert_eq!(number(Role::Agent, "b", true).unwrap(), 2);
        assert_eq!(number(Role::Coordinator, "a", true).unwrap(), 1);
        assert_eq!(number(Role::Agent, "a", false).unwrap(), 1, "it is renewed");
        assert!(number(Role::Agent, "a", true).unwrap_err().to_string().contains("already"));
        assert!(index.revoke("a", None).unwrap_err().to_string().contains("--role"));
        index.revoke("a", Some(Role::Agent)).unwrap();
        assert_eq!(index.revoked().count(), 2, "both certificates of agent a");
        index.revoke("a", Some(Role::Agent)).unwrap();
        assert!(index.revoke("c", None).unwrap_err().to_string().contains("no certificate of c"));
        assert_eq!(index.enter(Role::Agent, "a", true).unwrap().number, 3);
        assert_eq!(Index::parse(&index.to_string()).unwrap(), index);
        assert_eq!(Index::parse("agent 1 a 01").unwrap_err().0, 1);
    }

    #[test]
    fn names_of_two_owners_do_not_overlap() {
        let mut index = Index::default();
        index.enter(Role::Agent, "pod-*", true).unwrap();
        for name in ["pod-1", "p*", "pod-a*"] {
            let error = index.enter(Role::Agent, name, false).unwrap_err().to_string();
            assert!(error.contains("in common"), "{name}: {error}");
        }
        index.enter(Role::Agent, "host*", false).unwrap();
    }

    #[test]
    fn numbers_are_limited() {
        let mut index = Index::default();
        for number in 1..=Role::Coordinator.max_number() {
            index.enter(Role::Coordinator, &format!("c{number}"), true).unwrap();
        }
        let error = index.enter(Role::Coordinator, "one-more", true).unwrap_err().to_string();
        assert!(error.contains("all 64 numbers"), "{error}");
    }
}
