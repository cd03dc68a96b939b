//! The trusted certificates of a process: those that the authority has signed and not revoked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use crate::credentials::{CRL_FILE, Credentials, Identity, Revoked, Role};

/// Modification time and size of the list of revoked certificates.
type Version = Option<(SystemTime, u64)>;

pub(crate) struct Trust {
    ca: String,
    file: Option<PathBuf>,
    read: Mutex<Version>,
    revoked: RwLock<Revoked>,
    /// Checked certificates, by their number.
    known: Mutex<BTreeMap<u16, (Vec<u8>, Identity)>>,
}

impl Trust {
    pub(crate) fn of(own: &Credentials) -> Result<Self, String> {
        let file = own.dir.as_ref().map(|dir| dir.join(CRL_FILE));
        let revoked = Revoked::read(own.crl.as_deref(), &own.ca)?;
        let read = Mutex::new(file.as_ref().and_then(version));
        let revoked = RwLock::new(revoked);
        Ok(Self { ca: own.ca.clone(), file, read, revoked, known: Mutex::default() })
    }

    /// Reads the list again if its file has changed. If it is invalid, the previous
    /// one stays valid.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = version(file);
        if now == *read {
            return Ok(());
        }
        *read = now;
        let wrong = |why: String| format!("{why}; the previous list remains in use");
        let text = std::fs::read_to_string(file)
            .map_err(|error| wrong(format!("cannot read {}: {error}", file.display())))?;
        let revoked = Revoked::read(Some(&text), &self.ca).map_err(wrong)?;
        *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = revoked;
        Ok(())
    }

    /// Whether messages from the owner of this number are accepted.
    pub(crate) fn admits(&self, role: Role, number: u16) -> bool {
        !self.revoked.read().unwrap_or_else(PoisonError::into_inner).has(role, number)
    }

    /// Whether `cert` permits the agent with this number to use `name`.
    pub(crate) fn permits(&self, number: u16, name: &str, cert: &[u8]) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, identity)) = known.get(&number).filter(|(same, _)| same == cert) {
            return identity.permits(name);
        }
        let text = std::str::from_utf8(cert).map_err(|error| error.to_string());
        let Ok(identity) = text.and_then(|text| Identity::read(text, &self.ca)) else {
            return false;
        };
        let permits =
            (identity.role, identity.number) == (Role::Agent, number) && identity.permits(name);
        if permits {
            known.insert(number, (cert.to_vec(), identity));
        }
        permits
    }
}

fn version(file: &PathBuf) -> Version {
    let about = std::fs::metadata(file).ok()?;
    Some((about.modified().ok()?, about.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;

    #[test]
    fn a_name_needs_the_certificate_of_its_number() {
        let authority = Authority::generate(1).unwrap();
        let [a, b] = ["a", "b"].map(|name| authority.issue(Role::Agent, name, 1).unwrap());
        let other = Authority::generate(1).unwrap().issue(Role::Agent, "a", 1).unwrap();
        let trust = Trust::of(&a).unwrap();
        let permits =
            |number, name, cert: &Credentials| trust.permits(number, name, cert.cert.as_bytes());
        assert!(permits(1, "a", &a) && permits(2, "b", &b));
        assert!(!permits(2, "a", &a), "the number is of another owner");
        assert!(!permits(2, "a", &b), "the name is of another owner");
        assert!(!permits(1, "a", &other), "another authority");
        assert!(permits(1, "a", &a));
    }

    #[test]
    fn a_changed_list_counts_and_a_foreign_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path(), 1).unwrap();
        let folder = dir.path().join("agents/a");
        authority.issue(Role::Agent, "a", 1).unwrap().store(&folder).unwrap();
        authority.issue(Role::Agent, "b", 1).unwrap();
        let trust = Trust::of(&Credentials::load(&folder, Role::Agent).unwrap()).unwrap();
        trust.refresh().unwrap();
        assert!(trust.admits(Role::Agent, 2));
        authority.revoke("b", None).unwrap();
        trust.refresh().unwrap();
        assert!(!trust.admits(Role::Agent, 2) && trust.admits(Role::Agent, 1));
        assert!(trust.admits(Role::Coordinator, 2), "an agent was revoked");
        std::fs::write(folder.join(CRL_FILE), "damaged").unwrap();
        assert!(trust.refresh().unwrap_err().contains("no X509 CRL"));
        let elsewhere = tempfile::tempdir().unwrap();
        let foreign = Authority::open_or_create(elsewhere.path(), 1).unwrap();
        foreign.issue(Role::Agent, "a", 1).unwrap();
        foreign.revoke("a", None).unwrap();
        std::fs::copy(elsewhere.path().join(CRL_FILE), folder.join(CRL_FILE)).unwrap();
        assert!(trust.refresh().unwrap_err().contains("not signed"));
        assert!(!trust.admits(Role::Agent, 2), "the list before still counts");
        authority.revoke("a", None).unwrap();
        std::fs::copy(dir.path().join(CRL_FILE), folder.join(CRL_FILE)).unwrap();
        let error = Credentials::load(&folder, Role::Agent).unwrap_err().to_string();
        assert!(error.contains("is revoked"), "{error}");
    }
}
