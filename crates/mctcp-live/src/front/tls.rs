//! Keys and certificates from files.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{Error, Result};

/// Fewest bytes of a pre-shared key: what is shorter can be guessed.
const SHORTEST_KEY: usize = 16;

/// A certificate with its chain, and its private key, both in PEM.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The file of certificates, the own one first.
    pub certificates: &'a Path,
    /// The file of the key.
    pub key: &'a Path,
}

/// Reads a pre-shared key: the file's bytes without white space around them.
///
/// # Errors
/// If it cannot be read, or is too short.
pub fn load_key(path: &Path) -> Result<Arc<[u8]>> {
    let bytes = std::fs::read(path).map_err(|cause| Error::file("read", path, cause))?;
    let key = bytes.trim_ascii();
    if key.len() < SHORTEST_KEY {
        let option = format!("--key-file {}", path.display());
        let why = format!("a key of {} bytes is too short", key.len());
        let help = format!("`openssl rand -hex 32 > {}` makes a good one", path.display());
        return Err(Error::option(option, why, help));
    }
    Ok(key.into())
}

/// The name of a server, as certificates have it.
///
/// # Errors
/// If certificates have no such names.
pub fn name(text: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(text.to_owned()).map_err(|_| {
        let help = "write a name such as example.org, or an address";
        Error::option(format!("--tls-name {text}"), "certificates have no such names", help)
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: String| Error::Tls { path: path.to_owned(), why };
    let list = CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))?;
    let list: Vec<_> = list.collect::<Result<_, _>>().map_err(|e| wrong(e.to_string()))?;
    if list.is_empty() { Err(wrong("there is no certificate in it".to_owned())) } else { Ok(list) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let wrong = |why: String| Error::Tls { path: path.to_owned(), why };
    PrivateKeyDer::from_pem_file(path).map_err(|e| wrong(e.to_string()))
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let wrong = |e: tokio_rustls::rustls::Error| e.to_string();
        let added = roots.add(certificate).map_err(wrong);
        added.map_err(|why| Error::Tls { path: path.to_owned(), why })?;
    }
    Ok(roots)
}

/// TLS of a server; with `clients`, of those only whom one of these authorities knows.
///
/// # Errors
/// If a file cannot be read or has something else in it.
pub fn server(own: Identity<'_>, clients: Option<&Path>) -> Result<Arc<ServerConfig>> {
    let wrong = |path: &Path, why: String| Error::Tls { path: path.to_owned(), why };
    let builder = ServerConfig::builder();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(path)?)).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| wrong(path, e.to_string()))?)
        }
    };
    let (chain, key) = (certificates(own.certificates)?, private_key(own.key)?);
    let config = builder.with_single_cert(chain, key);
    Ok(Arc::new(config.map_err(|e| wrong(own.certificates, e.to_string()))?))
}

/// TLS of a client that trusts these authorities, and perhaps says who it is.
///
/// # Errors
/// If a file cannot be read or has something else in it.
pub fn client(trusted: &Path, own: Option<Identity<'_>>) -> Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder().with_root_certificates(authorities(trusted)?);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let (chain, key) = (certificates(own.certificates)?, private_key(own.key)?);
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| Error::Tls { path: own.certificates.to_owned(), why: e.to_string() })?
        }
    };
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_enough() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "  0123456789abcdef\n").unwrap();
        assert_eq!(&*load_key(&path).unwrap(), b"0123456789abcdef");
        std::fs::write(&path, "secret\n").unwrap();
        let error = load_key(&path).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("6 bytes"), "{error}");
        assert!(error.help().unwrap().contains("openssl"));
    }

    #[test]
    fn certificates_are_read_with_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        let made = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
        std::fs::write(of("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(of("key.pem"), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(of("empty.pem"), "").unwrap();
        let (certificates, key, empty) = (of("cert.pem"), of("key.pem"), of("empty.pem"));
        let own = Identity { certificates: &certificates, key: &key };
        server(own, Some(&certificates)).unwrap();
        client(&certificates, Some(own)).unwrap();
        let why = |own, trusted: &Path| server(own, Some(trusted)).unwrap_err().to_string();
        assert!(why(own, &empty).contains("empty.pem"));
        assert!(why(Identity { key: &empty, ..own }, &certificates).contains("empty.pem"));
        assert!(why(Identity { certificates: &key, ..own }, &certificates).contains("key.pem"));
    }
}
