//! The new host: creates a key, proves the secret to the authority in the invitation, and
//! stores the certificate.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::{Fingerprint, IO_TIMEOUT, Invitation, Request, Response, fingerprint, receive, send};
use crate::credentials::{Credentials, KEY_FILE};
use crate::{Error, Result};

/// Enrols under `name`, and stores the credentials in `dir`.
///
/// # Errors
/// If the authority cannot be reached, is another one than expected, or rejects the request.
pub fn enrol(invitation: &Invitation, name: &str, dir: &Path) -> Result<Credentials> {
    let failed = |why: String| Error::Enrolment { host: invitation.host.clone(), why };
    if dir.join(KEY_FILE).exists() {
        let text = format!("{} has credentials already: remove them first", dir.display());
        return Err(Error::Usage { text });
    }
    let key = KeyPair::generate().map_err(|e| failed(e.to_string()))?;
    let csr = CertificateParams::default().serialize_request(&key);
    let csr = csr.and_then(|csr| csr.pem()).map_err(|e| failed(e.to_string()))?;
    let request = Request { secret: invitation.secret, name: name.to_owned(), csr };
    let response = ask(invitation, &request).map_err(|error| {
        let text = error.to_string();
        failed(if text.contains("BadEncoding") || text.contains("ApplicationVerificationFailure") {
            "the certificate of the server does not match the invitation".to_owned()
        } else {
            text
        })
    })?;
    match response {
        Response::Refused { why } => Err(failed(why)),
        Response::Signed { ca, cert, crl } => {
            let own = Credentials::parse(ca, cert, key.serialize_pem()).map_err(failed)?;
            let own = Credentials { crl, ..own };
            own.store(dir)?;
            Ok(own)
        }
    }
}

fn ask(invitation: &Invitation, request: &Request) -> std::io::Result<Response> {
    let other = |error: rustls::Error| std::io::Error::other(error);
    let mut last = std::io::Error::other("the name has no address");
    for address in invitation.host.to_socket_addrs()? {
        let stream = match TcpStream::connect_timeout(&address, IO_TIMEOUT) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        let provider = Arc::new(ring::default_provider());
        let verifier = Pinned { fingerprint: invitation.fingerprint, provider: provider.clone() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // The name is ignored: the fingerprint identifies the certificate.
        let name = ServerName::IpAddress(address.ip().into());
        let session = ClientConnection::new(Arc::new(config), name).map_err(other)?;
        let mut stream = StreamOwned::new(session, stream);
        send(&mut stream, request)?;
        return receive(&mut stream);
    }
    Err(last)
}

/// Accepts only the certificate with this fingerprint.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint(end_entity) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
