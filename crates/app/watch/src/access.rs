//! Access control: only the user who started the server can open the page.
//!
//! The URL has a token that is valid once; the response to it sets a cookie, which all other
//! requests need. The host name is checked, so that names which other servers resolve to a loopback
//! address cannot be used (DNS rebinding). No response permits use by other sites.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Shared;

const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

const NO_COOKIE_TEXT: &str = "This link was used before, or it is wrong. Start `netarium watch` again \
                         for a new one.\n";

#[derive(Debug)]
pub(crate) struct Access {
    /// Valid values of the header `Host`.
    hosts: [String; 2],
    /// The token of the URL, until it is used.
    token: Mutex<Option<String>>,
    /// Name and value of the cookie. The name has the port, because browsers send cookies to all
    /// ports of a host.
    cookie: (String, String),
}

impl Access {
    /// Access to a server at this address, and the token.
    pub(crate) fn new(address: SocketAddr) -> io::Result<(Self, String)> {
        let (token, port) = (random()?, address.port());
        let access = Self {
            hosts: [address.to_string(), format!("localhost:{port}")],
            token: Mutex::new(Some(token.clone())),
            cookie: (format!("netarium-watch-{port}"), random()?),
        };
        Ok((access, token))
    }

    fn has_host(&self, headers: &HeaderMap) -> bool {
        single_value(headers, &header::HOST)
            .is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }

    /// Whether a page of this server opens the WebSocket.
    pub(crate) fn has_origin(&self, headers: &HeaderMap) -> bool {
        let host = single_value(headers, &header::ORIGIN)
            .and_then(|origin| origin.strip_prefix("http://"));
        host.is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::COOKIE).into_iter();
        let pairs = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        let (name, value) = &self.cookie;
        pairs.any(|(other, given)| other == name && is_equal(given, value))
    }

    /// Whether this is the valid token; it is valid once.
    fn use_token(&self, given: &str) -> bool {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.take_if(|token| is_equal(given, token)).is_some()
    }
}

/// The value of a header that is present once.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Compares secrets in a time that does not depend on their contents.
fn is_equal(given: &str, secret: &str) -> bool {
    let pairs = given.bytes().zip(secret.bytes());
    given.len() == secret.len() && pairs.fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// 128 random bits as hexadecimal digits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

pub(crate) async fn check(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match refusal(&shared.access, &request) {
        Some(response) => response,
        None => next.run(request).await,
    };
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

/// The response to a request that is not permitted, or to one with the token.
fn refusal(access: &Access, request: &Request) -> Option<Response> {
    let headers = request.headers();
    if !access.has_host(headers) {
        let text = format!("This server is at http://{}.\n", access.hosts[0]);
        return Some((StatusCode::MISDIRECTED_REQUEST, text).into_response());
    }
    if request.method() != Method::GET {
        return Some(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    let query = request.uri().query().unwrap_or_default();
    let token = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    let token = token.filter(|_| request.uri().path() == "/");
    if let Some(token) = token
        && access.use_token(token)
    {
        let (name, value) = &access.cookie;
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/");
        let headers = [(header::SET_COOKIE, cookie.as_str()), (header::LOCATION, "/")];
        return Some((StatusCode::SEE_OTHER, headers).into_response());
    }
    if !access.has_cookie(headers) {
        return Some((StatusCode::FORBIDDEN, NO_COOKIE_TEXT).into_response());
    }
    // The link is loaded again in the browser that has the cookie.
    token.map(|_| (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response())
}
