//! TLS below subflows; keys and certificates from files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mctcp_live::{Encrypted, EncryptedStream, Encryption, Handshake};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ConnectionCommon;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::{Error, Result};

/// Minimum length of a pre-shared key in bytes: a shorter one could be guessed.
const MIN_KEY_BYTES: usize = 16;

/// Maximum size of a file. The certificates of all public authorities have 0.2 MB.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Label of the secret that TLS exports for the session's key (RFC 8446 §7.5).
const EXPORTER: &[u8] = b"EXPORTER-mctcp";
/// Record type of a handshake, the first byte of a TLS connection (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;

/// TLS of a client.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// Trusted authorities, and the client's own certificate.
    pub config: Arc<ClientConfig>,
    /// The server's name in its certificate.
    pub name: ServerName<'static>,
}

#[derive(Clone, Debug)]
pub struct ServerTls(pub Arc<ServerConfig>);

impl Encryption for ClientTls {
    fn handshake(&self, stream: TcpStream) -> Handshake {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let handshake = connector.connect(self.name.clone(), stream);
        Box::pin(async move {
            let stream = handshake.await?;
            let secret = exported(stream.get_ref().1)?;
            Ok(Encrypted { stream: Box::new(Connection(stream.into())), secret })
        })
    }

    fn is_handshake(&self, first: u8) -> bool {
        first == HANDSHAKE
    }
}

impl Encryption for ServerTls {
    fn handshake(&self, stream: TcpStream) -> Handshake {
        let handshake = TlsAcceptor::from(Arc::clone(&self.0)).accept(stream);
        Box::pin(async move {
            let stream = handshake.await?;
            let secret = exported(stream.get_ref().1)?;
            Ok(Encrypted { stream: Box::new(Connection(stream.into())), secret })
        })
    }

    fn is_handshake(&self, first: u8) -> bool {
        first == HANDSHAKE
    }
}

fn exported<D>(connection: &ConnectionCommon<D>) -> io::Result<Box<[u8]>> {
    let secret = connection.export_keying_material([0; 32], EXPORTER, None);
    secret.map(|secret| Box::from(&secret[..])).map_err(io::Error::other)
}

#[derive(Debug)]
struct Connection(TlsStream<TcpStream>);

impl EncryptedStream for Connection {
    fn tcp(&self) -> &TcpStream {
        self.0.get_ref().0
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, space)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A certificate with its chain, and its private key, both in PEM.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// File with the certificate chain, own certificate first.
    pub certificates: &'a Path,
    /// File with the key.
    pub key: &'a Path,
}

/// Reads a pre-shared key: the file's bytes without surrounding white space.
///
/// # Errors
/// If it cannot be read, or is too short.
pub fn load_key(path: &Path) -> Result<Arc<[u8]>> {
    let bytes = read(path).map_err(|cause| Error::file("read", path, cause))?;
    let key = bytes.trim_ascii();
    if key.len() < MIN_KEY_BYTES {
        let option = format!("--key-file {}", path.display());
        let why = format!("a key of {} bytes is too short", key.len());
        let help = format!("create a key with `openssl rand -hex 32 > {}`", path.display());
        return Err(Error::option(option, why, help));
    }
    Ok(key.into())
}

/// Reads a file of keys, certificates or users. It can be a pipe, but a device may never end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    let is_complete = bytes.len() as u64 <= MAX_FILE_BYTES;
    if is_complete { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

/// Parses the name of a server for certificates.
///
/// # Errors
/// If it is not valid in certificates.
pub fn name(text: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(text.to_owned()).map_err(|_| {
        let help = "write a name such as example.org, or an address";
        Error::option(format!("--tls-name {text}"), "it is not a valid name in certificates", help)
    })
}

/// An error of the content of a file.
fn invalid<E: ToString>(path: &Path) -> impl Fn(E) -> Error {
    |why| Error::Tls { path: path.to_owned(), why: why.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read(path).map_err(invalid(path))?;
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let list = list.map_err(invalid(path))?;
    if list.is_empty() { Err(invalid(path)("the file has no certificate")) } else { Ok(list) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let bytes = read(path).map_err(invalid(path))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(invalid(path))
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(invalid(path))?;
    }
    Ok(roots)
}

/// TLS of a server. With `clients`, only clients whose certificate one of these authorities issued.
///
/// # Errors
/// If a file cannot be read, or its content is invalid.
pub fn server(own: Identity<'_>, clients: Option<&Path>) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(path)?)).build();
            builder.with_client_cert_verifier(verifier.map_err(invalid(path))?)
        }
    };
    let (chain, key) = (certificates(own.certificates)?, private_key(own.key)?);
    let config = builder.with_single_cert(chain, key);
    Ok(Arc::new(config.map_err(invalid(own.certificates))?))
}

/// TLS of a client that trusts these authorities, optionally with its own certificate.
///
/// # Errors
/// If a file cannot be read, or its content is invalid.
pub fn client(trusted: &Path, own: Option<Identity<'_>>) -> Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder().with_root_certificates(authorities(trusted)?);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let (chain, key) = (certificates(own.certificates)?, private_key(own.key)?);
            builder.with_client_auth_cert(chain, key).map_err(invalid(own.certificates))?
        }
    };
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_short_and_endless_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "  0123456789abcdef\n").unwrap();
        assert_eq!(&*load_key(&path).unwrap(), b"0123456789abcdef");
        // A device that never ends.
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(load_key(&path).unwrap_err().to_string().contains("too large"));
        std::fs::write(&path, "secret\n").unwrap();
        let error = load_key(&path).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("6 bytes"), "{error}");
        assert!(error.help().unwrap().contains("openssl"));
    }

    #[test]
    fn loads_certificates_and_keys() {
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
