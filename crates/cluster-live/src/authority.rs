//! The authority of a cluster: it signs the certificates of its agents and coordinators.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use time::{Duration, OffsetDateTime};

use crate::credentials::{CA_FILE, Credentials, Role, make_private_dir, write_private};
use crate::session::is_name;
use crate::{Error, Result};

/// The key of the authority, beside [`CA_FILE`].
pub const CA_KEY_FILE: &str = "ca.key";
/// Certificates are valid from this long before they are signed: clocks differ.
const BACKDATING: Duration = Duration::hours(1);
/// Longest validity in days.
const MAX_DAYS: u32 = 10_000;

/// An authority.
pub struct Authority {
    ca: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority that is valid for `days`.
    ///
    /// # Errors
    /// Where there is no randomness.
    pub fn generate(days: u32) -> Result<Self> {
        let key = KeyPair::generate().map_err(failed("generate a key"))?;
        let mut params = params("netarium authority", None, days)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).map_err(failed("sign a certificate"))?;
        let (ca, pem) = (certificate.pem(), key.serialize_pem());
        Ok(Self { ca, key: pem, issuer: Issuer::new(params, key) })
    }

    /// The authority in `dir`.
    ///
    /// # Errors
    /// Where there is none, or its files are wrong.
    pub fn open(dir: &Path) -> Result<Self> {
        let read = |file: &str| {
            let path = dir.join(file);
            std::fs::read_to_string(&path).map_err(Error::file("read", path))
        };
        let (ca, key) = (read(CA_FILE)?, read(CA_KEY_FILE)?);
        let pair = KeyPair::from_pem(&key).map_err(failed("use the key of the authority"))?;
        let issuer = Issuer::from_ca_cert_pem(&ca, pair)
            .map_err(failed("use the certificate of the authority"))?;
        Ok(Self { ca, key, issuer })
    }

    /// The authority in `dir`; a new one if there is none.
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
        Ok(new)
    }

    /// Makes a key and a certificate for it.
    ///
    /// # Errors
    /// Where `name` or `days` is wrong.
    pub fn issue(&self, role: Role, name: &str, days: u32) -> Result<Credentials> {
        let key = KeyPair::generate().map_err(failed("generate a key"))?;
        let cert = self.certify(role, name, days, &key)?;
        let parsed = Credentials::parse(self.ca.clone(), cert, key.serialize_pem());
        parsed.map_err(|text| Error::Usage { text })
    }

    /// Signs a certificate for the public key of a request (PKCS #10). Nothing else in the request
    /// counts: role and name are the authority's decision.
    pub(crate) fn sign(&self, request: &str, role: Role, name: &str, days: u32) -> Result<String> {
        let request = CertificateSigningRequestParams::from_pem(request)
            .map_err(failed("read a request for a certificate"))?;
        self.certify(role, name, days, &request.public_key)
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
    ) -> Result<String> {
        if !is_name(name) {
            let text = format!("`{name}` cannot be a name: use letters, digits, `.`, `_` and `-`");
            return Err(Error::Usage { text });
        }
        let mut params = params(role.common_name(), Some(name), days)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match role {
            Role::Agent => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            // A listener that shows such a certificate is rejected in the handshake.
            Role::Coordinator => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let certificate =
            params.signed_by(key, &self.issuer).map_err(failed("sign a certificate"))?;
        Ok(certificate.pem())
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
        let wanted = params(Role::Coordinator.common_name(), Some("me"), 9000).unwrap();
        let request = wanted.serialize_request(&key).unwrap().pem().unwrap();
        let cert = authority.sign(&request, Role::Agent, "m1", 5).unwrap();
        let own = Credentials::parse(authority.ca.clone(), cert, key.serialize_pem()).unwrap();
        assert_eq!(own.role, Role::Agent);
        assert!(authority.sign("no request", Role::Agent, "m1", 5).is_err());
        assert!(authority.sign(&request, Role::Agent, "a/b", 5).is_err());
    }
}
