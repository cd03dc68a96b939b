//! CONNECT of HTTP/1.1 (RFC 9110 §9.3.6): parses requests and formats responses, without sockets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::socks::{Credentials, Parsed};
use super::target::{Target, TargetError};

/// Maximum length of a request's head in bytes.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Maximum number of header fields of a request.
const MAX_FIELDS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub target: Target,
    /// Credentials (RFC 7617), if present.
    pub credentials: Option<Credentials>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Not HTTP/1.
    #[error("not an HTTP/1 request: {0}")]
    Malformed(httparse::Error),
    /// The head is longer than [`MAX_REQUEST_BYTES`].
    #[error("the request's head is longer than {MAX_REQUEST_BYTES} bytes")]
    TooLong,
    #[error("the method is not CONNECT, the only one that this proxy supports")]
    Method,
    /// The target is not a host with a port.
    #[error("the request's target: {0}")]
    Target(#[from] TargetError),
}

impl HttpError {
    /// Status of the response to the client.
    pub fn status(&self) -> Status {
        match self {
            Self::Method => Status::Method,
            Self::TooLong => Status::TooLong,
            Self::Malformed(_) | Self::Target(_) => Status::BadRequest,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Connected,
    BadRequest,
    /// The rules do not allow the target.
    Forbidden,
    Method,
    Authentication,
    TooLong,
    BadGateway,
    /// The target does not answer in time.
    Timeout,
}

/// Parses the head of a request.
///
/// # Errors
/// If it is not a CONNECT request.
pub fn request(bytes: &[u8]) -> Result<Parsed<Request>, HttpError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let seen = &bytes[..bytes.len().min(MAX_REQUEST_BYTES)];
    let length = match head.parse(seen).map_err(HttpError::Malformed)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if bytes.len() >= MAX_REQUEST_BYTES => {
            return Err(HttpError::TooLong);
        }
        httparse::Status::Partial => return Ok(Parsed::Partial),
    };
    if head.method != Some("CONNECT") {
        return Err(HttpError::Method);
    }
    let target = head.path.unwrap_or_default().parse()?;
    let given = head.headers.iter();
    let mut given = given.filter(|field| field.name.eq_ignore_ascii_case("Proxy-Authorization"));
    let credentials = given.next_back().and_then(|field| basic(field.value));
    Ok(Parsed::Complete(Request { target, credentials }, length))
}

/// Parses `Basic` credentials: name and password in Base64.
fn basic(value: &[u8]) -> Option<Credentials> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(Credentials { name: decoded[..colon].to_vec(), password: decoded[colon + 1..].to_vec() })
}

/// Formats a response; `why` is the reason for the user.
pub fn reply(status: Status, why: &str) -> String {
    let line = match status {
        // No body and no length (RFC 9110 §9.3.6).
        Status::Connected => return "HTTP/1.1 200 Connection established\r\n\r\n".to_owned(),
        Status::BadRequest => "400 Bad Request",
        Status::Forbidden => "403 Forbidden",
        Status::Method => "405 Method Not Allowed\r\nAllow: CONNECT",
        Status::Authentication => {
            "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"netarium\""
        }
        Status::TooLong => "431 Request Header Fields Too Large",
        Status::BadGateway => "502 Bad Gateway",
        Status::Timeout => "504 Gateway Timeout",
    };
    let (kind, length) = ("text/plain; charset=utf-8", why.len() + 1);
    format!(
        "HTTP/1.1 {line}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{why}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";

    #[test]
    fn parses_a_request_after_partial_reads() {
        for end in 0..PLAIN.len() {
            assert_eq!(request(&PLAIN[..end]), Ok(Parsed::Partial), "{end}");
        }
        let more = [PLAIN, &[22, 3, 1]].concat();
        let target = "example.org:443".parse().unwrap();
        let expected = Request { target, credentials: None };
        assert_eq!(request(&more), Ok(Parsed::Complete(expected, PLAIN.len())));
    }

    #[test]
    fn parses_basic_credentials() {
        // `Aladdin:open sesame` is the example of RFC 7617.
        let head = "CONNECT [2001:db8::1]:22 HTTP/1.0\r\nproxy-authorization: basic \
                    QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n";
        let Ok(Parsed::Complete(request, _)) = request(head.as_bytes()) else { panic!() };
        let credentials = request.credentials.unwrap();
        assert_eq!(credentials.name, b"Aladdin");
        assert_eq!(credentials.password, b"open sesame");
        for invalid in
            [&b"Basic"[..], b"Basic !!", b"Basic QQ==", b"Bearer QTpi", b"Basic ", b"\xff"]
        {
            assert_eq!(basic(invalid), None);
        }
    }

    #[test]
    fn reports_the_status_of_invalid_requests() {
        let status = |text: &str| request(text.as_bytes()).unwrap_err().status();
        assert_eq!(status("GET http://example.org/ HTTP/1.1\r\n\r\n"), Status::Method);
        assert_eq!(status("CONNECT example.org HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(status("CONNECT a:b HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(status("\x05\x01\x00"), Status::BadRequest);
        let fields = "x: y\r\n".repeat(65);
        assert_eq!(status(&format!("CONNECT a:1 HTTP/1.1\r\n{fields}\r\n")), Status::BadRequest);
        let long = "a".repeat(MAX_REQUEST_BYTES);
        let head = format!("CONNECT a:1 HTTP/1.1\r\nx: {long}");
        assert_eq!(status(&head), Status::TooLong);
        assert_eq!(status(&format!("{head}\r\n\r\n")), Status::TooLong);
    }

    #[test]
    fn responses_have_a_content_length() {
        for status in [Status::BadRequest, Status::Method, Status::Authentication] {
            let text = reply(status, "because");
            assert!(text.contains("Content-Length: 8\r\n") && text.ends_with("\r\n\r\nbecause\n"));
        }
        assert!(reply(Status::Connected, "x").ends_with("established\r\n\r\n"));
    }
}
