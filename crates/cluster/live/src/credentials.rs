//! The certificate of an agent or a coordinator, its key, and the authority that signed it.
//!
//! The common name of a certificate consists of a role and a number, which sessions enforce. Public
//! authorities do not sign such names, because they are not DNS names. The organizational unit is
//! the name of the owner with that number.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cluster::control::is_name;
use rcgen::{KeyPair, PublicKeyData as _};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::{Error, Result};

/// The authority's certificate in a folder of credentials.
pub const CA_FILE: &str = "ca.pem";
pub const CERT_FILE: &str = "cert.pem";
/// The private key of the certificate in [`CERT_FILE`].
pub const KEY_FILE: &str = "key.pem";
/// The authority's list of revoked certificates (RFC 5280), if there is one.
pub const CRL_FILE: &str = "crl.pem";

/// Role of the owner of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs shards of labs for coordinators.
    Agent,
    /// Runs labs on agents.
    Coordinator,
}

impl Role {
    pub(crate) const ALL: [Self; 2] = [Self::Agent, Self::Coordinator];

    /// The highest number for certificates with this role: a session has a rule for each number.
    pub fn max_number(self) -> u16 {
        match self {
            Self::Agent => 1024,
            Self::Coordinator => 64,
        }
    }

    /// The common name of a certificate with this role and number.
    pub fn common_name(self, number: u16) -> String {
        format!("netarium {self} {number}")
    }
}

/// Identity of the owner of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub role: Role,
    /// Number of the owner, unique within the role.
    pub number: u16,
    /// The name; `prefix*` permits all names that start with the prefix.
    pub name: String,
}

impl Identity {
    /// Whether the owner may use `name`.
    pub fn permits(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix) && is_name(name),
            None => name == self.name,
        }
    }

    /// Reads the identity from a certificate of the authority `ca`, both in PEM.
    pub(crate) fn read(cert: &str, ca: &str) -> Result<Self, String> {
        let (ca_pem, cert_pem) = (pem(ca, CA_FILE)?, pem(cert, CERT_FILE)?);
        let (authority, own) = (x509(&ca_pem, CA_FILE)?, x509(&cert_pem, CERT_FILE)?);
        own.verify_signature(Some(authority.public_key()))
            .map_err(|_| format!("{CERT_FILE} is not signed by the authority in {CA_FILE}"))?;
        Self::of(&own)
    }

    fn of(certificate: &X509Certificate<'_>) -> Result<Self, String> {
        let subject = certificate.subject();
        let common = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let name = subject.iter_organizational_unit().next().and_then(|name| name.as_str().ok());
        let identity = common.zip(name).and_then(|(common, name)| {
            let (role, number) = common.strip_prefix("netarium ")?.split_once(' ')?;
            let number: u16 = number.parse().ok()?;
            let role = Role::ALL.into_iter().find(|known| known.to_string() == role)?;
            (common == role.common_name(number)).then(|| Self { role, number, name: name.into() })
        });
        identity.ok_or_else(|| {
            format!(
                "{CERT_FILE} has the common name {common:?}, which is not a role and number of a \
                 cluster: make a new authority if this one is of an earlier version"
            )
        })
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

/// Credentials in PEM, read once so that a process needs no access to the files later.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub identity: Identity,
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) crl: Option<String>,
    /// The folder of the files.
    pub(crate) dir: Option<PathBuf>,
}

/// Debug output without the private key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("identity", &self.identity).finish_non_exhaustive()
    }
}

pub fn default_dir() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let config = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")))?;
    Some(config.join("netarium/credentials"))
}

impl Credentials {
    /// Reads and checks the credentials in `dir`, which must be those of a `role`.
    ///
    /// # Errors
    /// If a file is missing, other users can read the key, or the files do not belong together.
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
        let mut found =
            Self::parse(read(CA_FILE)?, read(CERT_FILE)?, read(KEY_FILE)?).map_err(wrong)?;
        found.dir = Some(dir.to_owned());
        found.crl = dir.join(CRL_FILE).exists().then(|| read(CRL_FILE)).transpose()?;
        let identity = &found.identity;
        if identity.role != role {
            let theirs = identity.role;
            let text = format!("{CERT_FILE} is the certificate of a {theirs}, not of a {role}");
            return Err(wrong(text.replace("a agent", "an agent")));
        }
        let revoked = Revoked::read(found.crl.as_deref(), &found.ca).map_err(wrong)?;
        if revoked.has(identity.role, identity.number) {
            let text = format!("the certificate of {role} {} is revoked", identity.name);
            return Err(wrong(format!("{text}: `netarium cluster invite` makes a new one")));
        }
        Ok(found)
    }

    /// Checks that the authority signed the certificate, that it is valid now, and that it belongs
    /// to the key.
    pub(crate) fn parse(ca: String, cert: String, key: String) -> Result<Self, String> {
        let identity = Identity::read(&cert, &ca)?;
        let (ca_pem, cert_pem) = (pem(&ca, CA_FILE)?, pem(&cert, CERT_FILE)?);
        let (authority, own) = (x509(&ca_pem, CA_FILE)?, x509(&cert_pem, CERT_FILE)?);
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
        Ok(Self { identity, ca, cert, key, crl: None, dir: None })
    }

    /// Writes the files to `dir`, which is created, with access only for this user.
    ///
    /// # Errors
    /// If a file already exists, or cannot be written.
    pub fn store(&self, dir: &Path) -> Result<()> {
        make_private_dir(dir)?;
        for (file, text) in [(CA_FILE, &self.ca), (CERT_FILE, &self.cert), (KEY_FILE, &self.key)] {
            write_private(&dir.join(file), text)?;
        }
        self.crl.iter().try_for_each(|crl| write_private(&dir.join(CRL_FILE), crl))
    }
}

/// Creates a folder and its parents with access only for this user.
pub(crate) fn make_private_dir(dir: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(Error::file("make", dir))
}

/// Writes a new file with access only for this user.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file("write", path))
}

/// Atomically replaces a file, with access only for this user.
pub(crate) fn replace_private(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    let _ = std::fs::remove_file(&new);
    write_private(&new, text)?;
    std::fs::rename(&new, path).map_err(Error::file("replace", path))
}

pub(crate) fn pem(text: &str, file: &str) -> Result<Pem, String> {
    let first = Pem::iter_from_buffer(text.as_bytes()).next();
    let found = first.and_then(|pem| pem.ok().filter(|pem| pem.label == "CERTIFICATE"));
    found.ok_or_else(|| format!("{file}: no CERTIFICATE in PEM format"))
}

pub(crate) fn x509<'a>(pem: &'a Pem, file: &str) -> Result<X509Certificate<'a>, String> {
    pem.parse_x509().map_err(|error| format!("{file}: {error}"))
}

/// First byte of a serial number, by role; the number follows in two bytes.
pub(crate) fn serial_role(role: Role) -> u8 {
    match role {
        Role::Agent => 1,
        Role::Coordinator => 2,
    }
}

/// Owners of revoked certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Revoked(BTreeSet<(Role, u16)>);

impl Revoked {
    /// Reads the list in `crl`, which the authority `ca` must have signed, both in PEM.
    pub(crate) fn read(crl: Option<&str>, ca: &str) -> Result<Self, String> {
        let Some(text) = crl else { return Ok(Self::default()) };
        let first = Pem::iter_from_buffer(text.as_bytes()).next().and_then(Result::ok);
        let list = first
            .as_ref()
            .filter(|pem| pem.label == "X509 CRL")
            .and_then(|pem| CertificateRevocationList::from_der(&pem.contents).ok())
            .ok_or_else(|| format!("{CRL_FILE}: there is no X509 CRL in PEM"))?
            .1;
        let ca_pem = pem(ca, CA_FILE)?;
        list.verify_signature(x509(&ca_pem, CA_FILE)?.public_key())
            .map_err(|_| format!("{CRL_FILE} is not signed by the authority in {CA_FILE}"))?;
        let owner = |serial: &[u8]| {
            let (&[role, high, low], _) = serial.split_first_chunk()?;
            let role = Role::ALL.into_iter().find(|known| serial_role(*known) == role)?;
            Some((role, u16::from_be_bytes([high, low])))
        };
        let owners = list.iter_revoked_certificates().filter_map(|one| owner(one.raw_serial()));
        Ok(Self(owners.collect()))
    }

    /// Whether the certificates with this number are revoked.
    pub(crate) fn has(&self, role: Role, number: u16) -> bool {
        self.0.contains(&(role, number))
    }
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
        assert_eq!(Credentials::load(&dir, Role::Agent).unwrap().cert, own.cert);
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
    fn a_prefix_permits_the_names_that_begin_with_it() {
        let authority = Authority::generate(1).unwrap();
        let own = authority.issue(Role::Agent, "pod-*", 1).unwrap().identity;
        for (name, permitted) in [("pod-1", true), ("pod-", true), ("po", false), ("pod-/x", false)]
        {
            assert_eq!(own.permits(name), permitted, "{name}");
        }
        assert!(!issue(&authority, Role::Agent).identity.permits("m10"), "the name is m1");
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
