//! The certificate of an agent or a coordinator, its key, and the authority that signed it.
//!
//! The common name of a certificate is its role, and the role is what a session enforces. No
//! public authority signs these names: they are not names of the DNS.

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rcgen::{KeyPair, PublicKeyData as _};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;

use crate::{Error, Result};

/// The authority's certificate in a folder of credentials.
pub const CA_FILE: &str = "ca.pem";
/// The own certificate.
pub const CERT_FILE: &str = "cert.pem";
/// The key of the own certificate.
pub const KEY_FILE: &str = "key.pem";

/// What the owner of a certificate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs parts of labs, and obeys coordinators.
    Agent,
    /// Runs labs on agents.
    Coordinator,
}

impl Role {
    /// The common name of certificates with this role.
    pub fn common_name(self) -> &'static str {
        match self {
            Self::Agent => "netarium agent",
            Self::Coordinator => "netarium coordinator",
        }
    }

    fn of_common_name(name: &str) -> Option<Self> {
        [Self::Agent, Self::Coordinator].into_iter().find(|role| role.common_name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Coordinator => "coordinator",
        })
    }
}

/// Credentials in PEM: read once, so that a process needs no access to the files later.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The role in the own certificate.
    pub role: Role,
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
}

/// The private key stays out of messages.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("role", &self.role).finish_non_exhaustive()
    }
}

/// Where credentials are if no folder is named.
pub fn default_dir() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let config = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")))?;
    Some(config.join("netarium/credentials"))
}

impl Credentials {
    /// Reads and checks the credentials in `dir`, which must be those of a `role`.
    ///
    /// # Errors
    /// Where a file is missing, others can read the key, or the files do not belong together.
    pub fn load(dir: &Path, role: Role) -> Result<Self> {
        let wrong = |text: String| Error::Usage { text: format!("{}: {text}", dir.display()) };
        let key = dir.join(KEY_FILE);
        let about = std::fs::metadata(&key).map_err(|cause| {
            wrong(format!(
                "there are no credentials ({KEY_FILE}: {cause}); `netarium cluster init` makes \
                 them, `netarium cluster invite` lets an agent make its own"
            ))
        })?;
        if about.permissions().mode() & 0o027 != 0 {
            let mode = about.permissions().mode() & 0o777;
            return Err(wrong(format!(
                "other users have access to {KEY_FILE} (mode {mode:04o}): chmod 600"
            )));
        }
        let read = |file: &str| {
            let path = dir.join(file);
            std::fs::read_to_string(&path).map_err(Error::file("read", path))
        };
        let found =
            Self::parse(read(CA_FILE)?, read(CERT_FILE)?, read(KEY_FILE)?).map_err(wrong)?;
        if found.role == role {
            Ok(found)
        } else {
            let text =
                format!("{CERT_FILE} is the certificate of a {}, not of a {role}", found.role);
            Err(wrong(text.replace("a agent", "an agent")))
        }
    }

    /// Checks that the certificate is signed by the authority, valid now, and that of the key.
    pub(crate) fn parse(ca: String, cert: String, key: String) -> Result<Self, String> {
        let (ca_pem, cert_pem) = (pem(&ca, CA_FILE)?, pem(&cert, CERT_FILE)?);
        let (authority, own) = (x509(&ca_pem, CA_FILE)?, x509(&cert_pem, CERT_FILE)?);
        own.verify_signature(Some(authority.public_key()))
            .map_err(|_| format!("{CERT_FILE} is not signed by the authority in {CA_FILE}"))?;
        let pair = KeyPair::from_pem(&key).map_err(|e| format!("{KEY_FILE}: {e}"))?;
        if pair.subject_public_key_info() != own.public_key().raw {
            return Err(format!("{KEY_FILE} is not the key of {CERT_FILE}"));
        }
        for (certificate, file) in [(&authority, CA_FILE), (&own, CERT_FILE)] {
            let validity = certificate.validity();
            if !validity.is_valid() {
                let (from, to) = (validity.not_before, validity.not_after);
                return Err(format!("{file} is valid from {from} to {to} only"));
            }
        }
        let name = own.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let role = name.and_then(Role::of_common_name).ok_or_else(|| {
            format!("{CERT_FILE} has the common name {name:?}, which is no role in a cluster")
        })?;
        Ok(Self { role, ca, cert, key })
    }

    /// Writes the three files to `dir`, which is made, with access for the own user only.
    ///
    /// # Errors
    /// Where a file exists already, or cannot be written.
    pub fn store(&self, dir: &Path) -> Result<()> {
        make_private_dir(dir)?;
        for (file, text) in [(CA_FILE, &self.ca), (CERT_FILE, &self.cert), (KEY_FILE, &self.key)] {
            write_private(&dir.join(file), text)?;
        }
        Ok(())
    }
}

/// Makes a folder, and those above it, with access for the own user only.
pub(crate) fn make_private_dir(dir: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(Error::file("make", dir))
}

/// Writes a new file with access for the own user only.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file("write", path))
}

fn pem(text: &str, file: &str) -> Result<Pem, String> {
    let first = Pem::iter_from_buffer(text.as_bytes()).next();
    let found = first.and_then(|pem| pem.ok().filter(|pem| pem.label == "CERTIFICATE"));
    found.ok_or_else(|| format!("{file}: there is no CERTIFICATE in PEM"))
}

fn x509<'a>(pem: &'a Pem, file: &str) -> Result<X509Certificate<'a>, String> {
    pem.parse_x509().map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;

    fn issue(authority: &Authority, role: Role) -> Credentials {
        authority.issue(role, "m1", 1).unwrap()
    }

    #[test]
    fn stored_credentials_are_private_and_load_again() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("a/b");
        let own = issue(&Authority::generate(1).unwrap(), Role::Agent);
        own.store(&dir).unwrap();
        assert_eq!(Credentials::load(&dir, Role::Agent).unwrap(), own);
        for file in [CA_FILE, CERT_FILE, KEY_FILE] {
            let mode = std::fs::metadata(dir.join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        assert!(own.store(&dir).is_err(), "existing files are not replaced");
        assert!(!format!("{own:?}").contains("KEY"), "the key stays out of messages");
    }

    #[test]
    fn rejects_credentials_of_another_role() {
        let dir = tempfile::tempdir().unwrap();
        issue(&Authority::generate(1).unwrap(), Role::Coordinator).store(dir.path()).unwrap();
        let error = Credentials::load(dir.path(), Role::Agent).unwrap_err().to_string();
        assert!(error.contains("of a coordinator, not of an agent"), "{error}");
    }

    #[test]
    fn rejects_a_key_that_others_can_read() {
        let dir = tempfile::tempdir().unwrap();
        issue(&Authority::generate(1).unwrap(), Role::Agent).store(dir.path()).unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(dir.path().join(KEY_FILE), open).unwrap();
        let error = Credentials::load(dir.path(), Role::Agent).unwrap_err().to_string();
        assert!(error.contains("mode 0644"), "{error}");
    }

    #[test]
    fn rejects_files_that_do_not_belong_together() {
        let (ours, theirs) = (Authority::generate(1).unwrap(), Authority::generate(1).unwrap());
        let (own, other) = (issue(&ours, Role::Agent), issue(&theirs, Role::Agent));
        let parse = |ca: &Credentials, cert: &Credentials, key: &Credentials| {
            Credentials::parse(ca.ca.clone(), cert.cert.clone(), key.key.clone())
        };
        assert!(parse(&own, &own, &own).is_ok());
        assert!(parse(&other, &own, &own).unwrap_err().contains("not signed"));
        assert!(parse(&own, &own, &other).unwrap_err().contains("not the key"));
        let old = ours.issue(Role::Agent, "m1", 0).unwrap_err().to_string();
        assert!(old.contains("days"), "{old}");
    }
}
