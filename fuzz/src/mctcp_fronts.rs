//! Any bytes as messages of clients of the proxy and of the server: messages have the same
//! boundaries for all read sizes and stay within their limits, and targets survive
//! encoding and decoding.

use std::fmt::Debug;

use mctcp_proxy::policy::{Policy, Rule};
use mctcp_proxy::socks::{self, Method, Parsed};
use mctcp_proxy::target::{Host, Target};
use mctcp_proxy::{PathOption, http_connect, proxy};

/// The result for all bytes, and the first result for a prefix that is not partial.
fn stepwise<T: Debug + PartialEq, E: Debug + PartialEq>(
    data: &[u8],
    longest: usize,
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, E>,
) -> Option<T> {
    for end in 0..=data.len() {
        match parse(&data[..end]) {
            Ok(Parsed::Partial) => assert!(end < longest, "it requests more than the max"),
            Ok(Parsed::Complete(message, length)) => {
                assert_eq!(length, end, "a prefix was complete");
                assert_eq!(parse(data), Ok(Parsed::Complete(message, length)));
                let Ok(Parsed::Complete(message, _)) = parse(data) else { unreachable!() };
                return Some(message);
            }
            Err(_) => return None,
        }
    }
    None
}

fn check(target: &Target) {
    let text = target.to_string();
    assert!(text.len() <= 255, "longer than the field in HELLO");
    assert_eq!(text.parse::<Target>().as_ref(), Ok(target));
    let allow = ["10.0.0.0/8:1-1023", "*.example.org"];
    let allow = allow.map(|rule| rule.parse().expect("a rule")).to_vec();
    let policy = Policy { allow };
    if let Host::Address(address) = target.host {
        assert_eq!(policy.permits(target, address), policy.may_permit(target));
    }
}

pub(crate) fn target(data: &[u8]) {
    for method in [Method::None, Method::Password] {
        stepwise(data, socks::MAX_REQUEST_BYTES, |bytes| socks::greeting(bytes, method));
    }
    stepwise(data, socks::MAX_REQUEST_BYTES, socks::credentials);
    if let Some(target) = stepwise(data, socks::MAX_REQUEST_BYTES, socks::request) {
        check(&target);
    }
    // Its parser restarts with each byte.
    if data.len() <= 512
        && let Some(request) =
            stepwise(data, http_connect::MAX_REQUEST_BYTES, http_connect::request)
    {
        check(&request.target);
    }
    let _ = http_connect::request(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(target) = text.parse::<Target>() {
        check(&target);
    }
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
    }
    if let Ok(path) = text.parse::<PathOption>() {
        assert_eq!(path.to_string().parse::<PathOption>(), Ok(path));
    }
    let _ = text.parse::<proxy::Forward>();
}
