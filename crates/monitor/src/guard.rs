//! Admission of requests: host, origin and token, checked before any handler.
//!
//! ```text
//!  Asked { method, path, headers } ─► Guard::admit ─► Admitted · a page that sets the cookie · Refusal
//! ```
//! Three attackers are meant. A page of another site in the operator's browser: it can send requests here, and must neither move a run nor
//! hold the streams; its requests bear `Origin` and `Sec-Fetch-Site`, cannot bear `x-thalweg` or `application/json` without asking first (Fetch
//! standard, CORS preflight, which is never answered), and cannot bear a cookie that is `SameSite=Strict`. A name of the attacker's that
//! resolves to 127.0.0.1 (DNS rebinding): it comes with its own name in `host`. And anyone in the network: they need the token.

use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, Method, StatusCode, header};

use crate::refusal::Refusal;
use crate::token::Token;

/// The rules of one server.
#[derive(Debug)]
pub(crate) struct Guard {
    pub token: Option<Token>,
    pub is_loopback: bool,
    pub is_secure: bool,
    pub port: u16,
    /// Further names by which it is asked for.
    pub hosts: Vec<String>,
}

/// A request, as far as the rules look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'r> {
    pub method: &'r Method,
    pub uri: &'r Uri,
    pub headers: &'r HeaderMap,
}

/// An answer may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// As asked.
    Plain,
    /// As asked, and this cookie with it.
    WithCookie(String),
    /// A page that sets the cookie and leads to this place, without the token in its address.
    LeadTo { place: String, cookie: String },
}

impl Guard {
    /// Whether a request is answered.
    pub fn admit(&self, asked: Asked<'_>) -> Result<Admitted, Refusal> {
        let host = self.check_host(asked)?;
        check_site(asked, &host)?;
        self.check_token(asked)
    }

    /// The one host that the request names.
    fn check_host(&self, asked: Asked<'_>) -> Result<Authority, Refusal> {
        let refuse = |error: String| {
            Err(Refusal::new(
                StatusCode::MISDIRECTED_REQUEST,
                error,
                "ask for localhost or an address of this host, or name the host in [monitor] hosts",
            ))
        };
        let mut named = asked.headers.get_all(header::HOST).iter();
        let (Some(value), None) = (named.next(), named.next()) else {
            return refuse("the request names no host, or several".to_owned());
        };
        let Some(host) = value.to_str().ok().and_then(|text| text.parse::<Authority>().ok()) else {
            return refuse("the request's host is no name of a host".to_owned());
        };
        if host.as_str().contains('@') || !self.is_known(host.host()) {
            return refuse(format!("this is not {}", host.host()));
        }
        Ok(host)
    }

    /// Whether this server goes by that name.
    fn is_known(&self, name: &str) -> bool {
        if self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
            || name.eq_ignore_ascii_case("localhost")
        {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<std::net::IpAddr>() {
            // An address cannot be made to point elsewhere.
            Ok(address) => address.is_loopback() || !self.is_loopback,
            // From other hosts the token is asked for, which a rebound name does not have.
            Err(_) => !self.is_loopback && self.token.is_some(),
        }
    }

    fn check_token(&self, asked: Asked<'_>) -> Result<Admitted, Refusal> {
        let Some(token) = &self.token else { return Ok(Admitted::Plain) };
        let bearer = asked.headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        if let Some(shown) = bearer.and_then(|value| value.strip_prefix(b"Bearer "))
            && token.is(shown.trim_ascii())
        {
            return Ok(Admitted::Plain);
        }
        let mut cookies = asked.headers.get_all(header::COOKIE).iter();
        let has_cookie = cookies.any(|header| token.is_in_cookies(header.as_bytes(), self.port));
        match shown_in_query(asked.uri) {
            Some((shown, rest)) if token.is(shown.as_bytes()) => {
                let cookie = token.cookie(self.port, self.is_secure);
                Ok(match is_page(asked) {
                    true => Admitted::LeadTo { place: place(asked.uri.path(), &rest), cookie },
                    false => Admitted::WithCookie(cookie),
                })
            }
            _ if has_cookie => Ok(Admitted::Plain),
            _ => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "this page needs its token",
                "open it once as http://HOST:PORT/?token=…, or send `authorization: Bearer …`; the token is in [monitor] token_file",
            )),
        }
    }
}

fn is_page(asked: Asked<'_>) -> bool {
    let path = asked.uri.path();
    asked.method == Method::GET && !path.starts_with("/api/") && path != "/metrics"
}

/// The token in a query, and the query without it.
fn shown_in_query(uri: &Uri) -> Option<(String, String)> {
    let pairs = || url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let token = pairs().find(|(key, _)| key == "token")?.1.into_owned();
    let rest = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs().filter(|(key, _)| key != "token"))
        .finish();
    Some((token, rest))
}

/// A place on this server, whatever the path looks like: `//elsewhere` would be another host.
fn place(path: &str, query: &str) -> String {
    let path = format!("/{}", path.trim_start_matches(['/', '\\']));
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

/// Whether the request comes from this server's own page, or from no page at all.
fn check_site(asked: Asked<'_>, host: &Authority) -> Result<(), Refusal> {
    let refuse = |error: &str| {
        Err(Refusal::new(StatusCode::FORBIDDEN, error, "open the page itself, or use the API from a program"))
    };
    let is_reading = matches!(*asked.method, Method::GET | Method::HEAD);
    let text = |name: &str| asked.headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    let is_own = matches!(text("sec-fetch-site"), None | Some("same-origin" | "none"));
    // A link in a logbook leads here from another site; whatever such a page fetches or embeds does not.
    let is_link = is_reading && text("sec-fetch-mode") == Some("navigate");
    if !is_own && !is_link {
        return refuse("asked by a page of another site");
    }
    if let Some(origin) = text("origin") {
        let of_origin = origin.split_once("://").map(|(_, authority)| authority);
        if of_origin.is_none_or(|authority| !authority.eq_ignore_ascii_case(host.as_str())) {
            return refuse("asked by a page of another origin");
        }
    }
    if is_reading {
        return Ok(());
    }
    if text("x-thalweg").is_none() {
        return refuse("what changes something needs the header `x-thalweg: 1`");
    }
    let is_json = text("content-type").is_some_and(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    match is_json {
        true => Ok(()),
        false => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a request that changes something is sent as JSON",
            "send `content-type: application/json`, and {} where there is nothing to say",
        )),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn guard(token: Option<&str>, is_loopback: bool) -> Guard {
        let hosts = vec!["daq.lab".to_owned()];
        Guard { token: token.map(Token::new), is_loopback, is_secure: false, port: 8090, hosts }
    }

    fn ask(guard: &Guard, method: Method, uri: &str, headers: &[(&str, &str)]) -> Result<Admitted, u16> {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(pair) {
            map.append(name, value);
        }
        let uri = uri.parse().expect("a place");
        guard
            .admit(Asked { method: &method, uri: &uri, headers: &map })
            .map_err(|refusal| refusal.status.as_u16())
    }

    const LOCAL: (&str, &str) = ("host", "localhost:8090");
    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const OURS: (&str, &str) = ("x-thalweg", "1");

    #[test]
    fn only_its_own_names_are_answered() {
        let guard = guard(None, true);
        let with = |host: &str| ask(&guard, Method::GET, "/", &[("host", host)]);
        for known in ["localhost", "LOCALHOST:1", "127.0.0.1:8090", "[::1]:8090", "daq.lab"] {
            assert_eq!(with(known), Ok(Admitted::Plain), "{known}");
        }
        for strange in ["evil.example", "localhost.evil.example", "192.168.0.1", "user@localhost", "a b"] {
            assert_eq!(with(strange), Err(421), "{strange}");
        }
        assert_eq!(ask(&guard, Method::GET, "/", &[]), Err(421));
        assert_eq!(ask(&guard, Method::GET, "/", &[LOCAL, ("host", "localhost")]), Err(421));
    }

    #[test]
    fn pages_of_other_sites_move_nothing() {
        let guard = guard(None, true);
        let post =
            |more: &[(&str, &str)]| ask(&guard, Method::POST, "/api/run/stop", &[&[LOCAL], more].concat());
        assert_eq!(post(&[JSON, OURS]), Ok(Admitted::Plain));
        assert_eq!(
            post(&[JSON, OURS, ("origin", "http://localhost:8090"), ("sec-fetch-site", "same-origin")]),
            Ok(Admitted::Plain)
        );
        assert_eq!(post(&[JSON]), Err(403));
        assert_eq!(post(&[OURS, ("content-type", "text/plain")]), Err(415));
        assert_eq!(post(&[OURS]), Err(415));
        for origin in ["https://evil.example", "null", "http://localhost:9999", "localhost:8090"] {
            assert_eq!(post(&[JSON, OURS, ("origin", origin)]), Err(403), "{origin}");
        }
        for site in ["cross-site", "same-site", "nonsense"] {
            assert_eq!(
                post(&[JSON, OURS, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]),
                Err(403),
                "{site}"
            );
        }
    }

    #[test]
    fn other_sites_may_link_and_not_fetch() {
        let guard = guard(None, true);
        let get = |mode: &str| {
            let headers = [LOCAL, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)];
            ask(&guard, Method::GET, "/api/events", &headers)
        };
        assert_eq!(get("navigate"), Ok(Admitted::Plain));
        assert_eq!(get("cors"), Err(403));
        assert_eq!(get("no-cors"), Err(403));
    }

    #[test]
    fn reading_from_a_foreign_origin_is_refused() {
        let guard = guard(None, true);
        let get = |origin: &str| ask(&guard, Method::GET, "/api/state", &[LOCAL, ("origin", origin)]);
        for foreign in ["https://evil.example", "null", "http://localhost:9999"] {
            assert_eq!(get(foreign), Err(403), "{foreign}");
        }
        assert_eq!(get("http://localhost:8090"), Ok(Admitted::Plain));
    }

    #[test]
    fn the_token_is_asked_for_and_becomes_a_cookie() {
        let guard = guard(Some("0123456789abcdef"), false);
        let host = ("host", "board-room:8090");
        let get = |uri: &str, more: &[(&str, &str)]| ask(&guard, Method::GET, uri, &[&[host], more].concat());
        assert_eq!(get("/api/state", &[]), Err(401));
        assert_eq!(get("/api/state", &[("authorization", "Bearer 0123456789abcdef")]), Ok(Admitted::Plain));
        assert_eq!(get("/api/state", &[("authorization", "Bearer 0123456789abcdeF")]), Err(401));
        assert_eq!(get("/api/state", &[("cookie", "thalweg_8090=0123456789abcdef")]), Ok(Admitted::Plain));
        assert!(matches!(get("/api/state?token=0123456789abcdef", &[]), Ok(Admitted::WithCookie(_))));
        assert_eq!(get("/?token=wrong", &[]), Err(401));
        let Ok(Admitted::LeadTo { place, .. }) = get("//evil.example/x?a=1&token=0123456789abcdef", &[])
        else {
            panic!("a page with the token leads on");
        };
        assert_eq!(place, "/evil.example/x?a=1");
    }

    proptest! {
        #[test]
        fn nothing_is_answered_without_the_token(
            path in "/[a-z/.%]{0,20}",
            headers in proptest::collection::vec(("(host|cookie|authorization|origin|x-thalweg|content-type)", "[ -~]{0,30}"), 0..8),
        ) {
            let guard = guard(Some("0123456789abcdef"), false);
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            for method in [Method::GET, Method::POST, Method::OPTIONS] {
                prop_assert!(ask(&guard, method, &path, &headers).is_err());
            }
        }
    }
}
