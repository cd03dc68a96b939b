//! The authority of a cluster: it signs the certificates of its agents and coordinators.

mod index;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData, RevokedCertParams, SerialNumber,
};
use time::{Duration, OffsetDateTime};

use crate::credentials::{
    CA_FILE, CERT_FILE, CRL_FILE, Credentials, Role, make_private_dir, replace_private,
    write_private,
};
use crate::session::is_name;
use crate::{Error, Result};
pub use index::INDEX_FILE;
use index::{Entry, Index};

/// The key of the authority, beside [`CA_FILE`].
pub const CA_KEY_FILE: &str = "ca.key";
/// Certificates are valid from this time before they are signed, because clocks differ.
const BACKDATING: Duration = Duration::hours(1);
/// Max validity in days.
const MAX_DAYS: u32 = 10_000;

/// An authority. It assigns each name a unique number, which is never reused.
pub struct Authority {
    ca: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
    /// Folder of the authority; `None`: in memory.
    dir: Option<PathBuf>,
    index: Mutex<Index>,
}

impl Authority {
    /// A new authority that is valid for `days`.
    ///
    /// # Errors
    /// If random numbers are not available.
    pub fn generate(days: u32) -> Result<Self> {
        let key = KeyPair::generate().map_err(failed("generate a key"))?;
        let mut params = params("netarium authority", None, days)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(failed("sign a certificate"))?;
        let (ca, pem) = (certificate.pem(), key.serialize_pem());
        let issuer = Issuer::new(params, key);
        Ok(Self { ca, key: pem, issuer, dir: None, index: Mutex::default() })
    }

    /// The authority in `dir`.
    ///
    /// # Errors
    /// If there is none, or its files are invalid.
    pub fn open(dir: &Path) -> Result<Self> {
        let read = |file: &str| {
            let path = dir.join(file);
            std::fs::read_to_string(&path).map_err(Error::file("read", path))
        };
        let (ca, key) = (read(CA_FILE)?, read(CA_KEY_FILE)?);
        let pair = KeyPair::from_pem(&key).map_err(failed("use the key of the authority"))?;
        let issuer = Issuer::from_ca_cert_pem(&ca, pair)
            .map_err(failed("use the certificate of the authority"))?;
        Ok(Self { ca, key, issuer, dir: Some(dir.to_owned()), index: Mutex::default() })
    }

    /// The authority in `dir`, which is created if there is none.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Self::generate`].
    pub fn open_or_create(dir: &Path, days: u32) -> Result<Self> {
        if dir.join(CA_FILE).exists() || dir.join(CA_KEY_FILE).exists() {
            return Self::open(dir);
        }
        let new = Self::generate(days)?;
        make_private_dir(dir)?;
        write_private(&dir.join(CA_KEY_FILE), &new.key)?;
        write_private(&dir.join(CA_FILE), &new.ca)?;
        Ok(Self { dir: Some(dir.to_owned()), ..new })
    }

    /// Creates a key and a certificate for it.
    ///
    /// # Errors
    /// If `name` or `days` is invalid.
    pub fn issue(&self, role: Role, name: &str, days: u32) -> Result<Credentials> {
        let key = KeyPair::generate().map_err(failed("generate a key"))?;
        let cert = self.certify(role, name, days, &key, false)?;
        let parsed = Credentials::parse(self.ca.clone(), cert, key.serialize_pem());
        let own = parsed.map_err(|text| Error::Usage { text })?;
        Ok(Credentials { crl: self.crl()?, ..own })
    }

    /// Signs a certificate for the public key of a request (PKCS #10). All other fields of the
    /// request are ignored: the authority decides on role and name. With `is_new`, the name
    /// must be new.
    pub(crate) fn sign(
        &self,
        request: &str,
        role: Role,
        name: &str,
        days: u32,
        is_new: bool,
    ) -> Result<String> {
        let request = CertificateSigningRequestParams::from_pem(request)
            .map_err(failed("read a request for a certificate"))?;
        self.certify(role, name, days, &request.public_key, is_new)
    }

    /// The list of revoked certificates, if there is one.
    pub(crate) fn crl(&self) -> Result<Option<String>> {
        let Some(path) = self.dir.as_ref().map(|dir| dir.join(CRL_FILE)) else { return Ok(None) };
        let read = |path: &PathBuf| std::fs::read_to_string(path);
        path.exists().then(|| read(&path).map_err(Error::file("read", &path))).transpose()
    }

    /// Revokes all certificates of `name`, and writes the list of revoked certificates to the
    /// folders of the authority and of the credentials below it. Returns the files.
    ///
    /// # Errors
    /// If the certificate does not exist, or the name has several roles and no role is given.
    pub fn revoke(&self, name: &str, role: Option<Role>) -> Result<Vec<PathBuf>> {
        let (mut index, _lock) = self.locked_index()?;
        index.revoke(name, role)?;
        let crl = CertificateRevocationListParams {
            this_update: OffsetDateTime::now_utc() - BACKDATING,
            next_update: OffsetDateTime::now_utc() + Duration::days(i64::from(MAX_DAYS)),
            crl_number: SerialNumber::from(index.revoked().count() as u64),
            issuing_distribution_point: None,
            revoked_certs: index.revoked().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let crl = crl.signed_by(&self.issuer).and_then(|crl| crl.pem());
        let crl = crl.map_err(failed("sign a list of revoked certificates"))?;
        let Some(dir) = &self.dir else { return Ok(Vec::new()) };
        replace_private(&dir.join(INDEX_FILE), &index.to_string())?;
        let folders = Role::ALL.iter().map(|role| dir.join(format!("{role}s")));
        let members = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let members = members.filter_map(|entry| Some(entry.ok()?.path()));
        let with_key = members.filter(|folder| folder.join(CERT_FILE).exists());
        let files: Vec<PathBuf> =
            [dir.clone()].into_iter().chain(with_key).map(|dir| dir.join(CRL_FILE)).collect();
        files.iter().try_for_each(|file| replace_private(file, &crl))?;
        Ok(files)
    }

    /// The index, locked against changes by other processes.
    fn locked_index(&self) -> Result<(MutexGuard<'_, Index>, Option<File>)> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(dir) = &self.dir else { return Ok((index, None)) };
        let lock = File::open(dir).map_err(Error::file("open", dir))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(Error::machine("lock the folder of the authority"))?;
        let path = dir.join(INDEX_FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(Error::file("read", &path))?,
        };
        *index = Index::parse(&text).map_err(|(line, why)| Error::Usage {
            text: format!("{}:{line}: {why}", path.display()),
        })?;
        Ok((index, Some(lock)))
    }

    /// The certificate of the authority.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    fn certify(
        &self,
        role: Role,
        name: &str,
        days: u32,
        key: &impl PublicKeyData,
        is_new: bool,
    ) -> Result<String> {
        if !is_name(name.strip_suffix('*').unwrap_or(name)) {
            let text = format!(
                "`{name}` cannot be a name: use letters, digits, `.`, `_` and `-`, and for agents \
                 that share a certificate a `*` at the end"
            );
            return Err(Error::Usage { text });
        }
        let (mut index, _lock) = self.locked_index()?;
        let entry = index.enter(role, name, is_new)?;
        let serial = entry.serial.clone();
        let unit = Some(name);
        let mut params = params(&role.common_name(entry.number), unit, days)?;
        params.serial_number = Some(SerialNumber::from(serial));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match role {
            Role::Agent => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            // The handshake rejects a listener with such a certificate.
            Role::Coordinator => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let certificate =
            params.signed_by(key, &self.issuer).map_err(failed("sign a certificate"))?;
        if let Some(dir) = &self.dir {
            replace_private(&dir.join(INDEX_FILE), &index.to_string())?;
        }
        Ok(certificate.pem())
    }
}

fn revoked(entry: &Entry) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from(entry.serial.clone()),
        revocation_time: OffsetDateTime::now_utc(),
        reason_code: None,
        invalidity_date: None,
    }
}

fn params(common_name: &str, unit: Option<&str>, days: u32) -> Result<CertificateParams> {
    if !(1..=MAX_DAYS).contains(&days) {
        let text = format!("a certificate is valid for 1 to {MAX_DAYS} days, not {days}");
        return Err(Error::Usage { text });
    }
    let now = OffsetDateTime::now_utc();
    let mut params = CertificateParams::default();
    params.not_before = now - BACKDATING;
    params.not_after = now + Duration::days(i64::from(days));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(unit) = unit {
        params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
    }
    Ok(params)
}

fn failed(action: &'static str) -> impl FnOnce(rcgen::Error) -> Error {
    move |cause| Error::Certificate { action, cause: cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_made_once_and_then_reused() {
        let dir = tempfile::tempdir().unwrap();
        let first = Authority::open_or_create(dir.path(), 10).unwrap();
        let again = Authority::open_or_create(dir.path(), 10).unwrap();
        assert_eq!(first.ca, again.ca);
        let issued = again.issue(Role::Agent, "m1", 5).unwrap();
        assert_eq!(issued.ca, first.ca);
        std::fs::remove_file(dir.path().join(CA_KEY_FILE)).unwrap();
        assert!(Authority::open_or_create(dir.path(), 10).is_err(), "a certificate without a key");
    }

    #[test]
    fn a_request_gets_the_role_that_the_authority_chooses() {
        let authority = Authority::generate(10).unwrap();
        let key = KeyPair::generate().unwrap();
        let wanted = params(&Role::Coordinator.common_name(7), Some("me"), 9000).unwrap();
        let request = wanted.serialize_request(&key).unwrap().pem().unwrap();
        let cert = authority.sign(&request, Role::Agent, "m1", 5, true).unwrap();
        let own = Credentials::parse(authority.ca.clone(), cert, key.serialize_pem()).unwrap();
        assert_eq!((own.identity.role, own.identity.number), (Role::Agent, 1));
        assert!(authority.sign("no request", Role::Agent, "m1", 5, false).is_err());
        assert!(authority.sign(&request, Role::Agent, "a/b", 5, false).is_err());
    }
}
