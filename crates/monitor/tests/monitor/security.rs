//! Who is answered, over real sockets.

use proptest::prelude::*;
use thalweg_monitor::Token;

use super::{serve, serve_with};

const JSON: (&str, &str) = ("content-type", "application/json");
const OURS: (&str, &str) = ("x-thalweg", "1");

#[test]
fn pages_of_other_sites_and_other_names_are_refused() {
    let served = serve();
    let client = served.client();
    let status = |headers: &[(&str, &str)]| client.ask("POST", "/api/run/start", headers, b"{}").status;
    assert_eq!(status(&[JSON, OURS, ("origin", "https://evil.example")]), 403);
    assert_eq!(status(&[JSON, OURS, ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(status(&[JSON]), 403);
    assert_eq!(status(&[OURS, ("content-type", "text/plain")]), 415);
    assert_eq!(status(&[JSON, OURS, ("host", "evil.example")]), 421);
    assert_eq!(client.ask("GET", "/api/state", &[("host", "evil.example:8090")], b"").status, 421);
    assert_eq!(
        client
            .ask("GET", "/api/events", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")], b"")
            .status,
        403
    );
    assert_eq!(served.fake.requests(), Vec::<String>::new());
    let origin = format!("http://{}", served.monitor.address());
    assert_eq!(status(&[JSON, OURS, ("origin", &origin), ("sec-fetch-site", "same-origin")]), 200);
}

#[test]
fn nothing_is_changed_by_asking_and_no_preflight_is_answered() {
    let served = serve();
    let client = served.client();
    for path in [
        "/api/run/start",
        "/api/run/stop",
        "/api/spectra/reset",
        "/api/view/calibrate",
        "/api/view/cut",
        "/api/view/revert",
        "/api/runs/run-000017/verify",
    ] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{path}");
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(client.ask(method, "/api/state", &[JSON, OURS], b"{}").status, 405, "{method}");
    }
    let asked = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let preflight = client.ask("OPTIONS", "/api/run/start", &asked, b"");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (403, None));
    assert!(served.fake.requests().is_empty());
}

#[test]
fn every_answer_bears_the_headers_that_protect_it() {
    let served = serve();
    for path in ["/", "/api/state", "/api/nothing", "/metrics"] {
        let answer = served.client().get(path);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
}

#[test]
fn with_a_token_nothing_is_answered_without_it() {
    let token = "0123456789abcdefghij";
    let served = serve_with(|settings| {
        settings.listen = "0.0.0.0:0".into();
        settings.token = Some(Token::new(token));
    });
    let client = super::Client::new(([127, 0, 0, 1], served.monitor.address().port()).into());
    for path in ["/", "/api/state", "/metrics", "/api/events", "/api/runs/run-000017/files/hits.arrows"] {
        assert_eq!(client.get(path).status, 401, "{path}");
    }
    let shown = format!("Bearer {token}");
    assert_eq!(client.ask("GET", "/api/state", &[("authorization", &shown)], b"").status, 200);
    assert_eq!(
        client.ask("GET", "/api/state", &[("authorization", "Bearer 0123456789abcdefghiJ")], b"").status,
        401
    );
    assert_eq!(
        client.ask("POST", "/api/run/start", &[JSON, OURS, ("authorization", "Bearer x")], b"{}").status,
        401
    );
    let page = client.get(&format!("/runs?token={token}&a=%22%3E"));
    let cookie = page.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(page.text().contains("url=/runs?a=%22%3E") && !page.text().contains(token), "{}", page.text());
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(client.ask("GET", "/api/state", &[("cookie", pair)], b"").status, 200);
    assert_eq!(client.get(&format!("/api/state?token={token}")).status, 200);
    assert!(served.fake.requests().is_empty());
}

#[test]
fn no_path_leads_out_of_the_runs() {
    let served = serve();
    let beside = served.fake.runs.path().join(".ssh");
    std::fs::create_dir(&beside).expect("made");
    std::fs::write(beside.join("id"), "root: somebody's key").expect("written");
    let client = served.client();
    let paths = [
        "/api/runs/../../etc/passwd",
        "/api/runs/..%2f..%2fetc/files/passwd",
        "/api/runs/%2e%2e/files/secret",
        "/api/runs/run-000017/files/..%2f..%2f..%2fetc%2fpasswd",
        "/api/runs/run-000017/files/%2e%2e%2fsecret",
        "/api/runs/run-000017/files/link",
        "/api/runs/run-000017/files/hits.arrows%00",
        "/api/runs/%ff/files/%fe",
        "/api/runs/.ssh/files/id",
        "/../../../../etc/passwd.txt",
        "/..%2f..%2fetc%2fpasswd.txt",
        "//etc/passwd.txt",
    ];
    for path in paths {
        let answer = client.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.text().contains("root:"), "{path}");
    }
    for path in ["/api/runs/..%2f/verify", "/api/runs/%2e/comment", "/api/runs/run-9/verify"] {
        assert_eq!(client.post(path, r#"{"comment": "x"}"#).status / 100, 4, "{path}");
    }
    assert!(served.fake.requests().is_empty(), "the experiment gets names of the listing only");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_place_gives_what_is_outside(parts in proptest::collection::vec("(\\.\\.|%2e%2e|%2f|etc|passwd|run-000017|files|api|runs|\\.)", 1..8)) {
        static SERVED: std::sync::OnceLock<super::Served> = std::sync::OnceLock::new();
        let served = SERVED.get_or_init(serve);
        let answer = served.client().get(&format!("/{}", parts.join("/")));
        prop_assert!(!answer.text().contains("root:"));
        prop_assert!(answer.status < 500);
    }
}
