//! Texts over HTTP, for programs that take no data: their state, their metrics, a page that shows them.
//!
//! ```text
//!  GET /path ─► guard ─► Texts ─► content type, text
//! ```
//! The limits on connections, heads and slow readers, and the rules on hosts and sites, are those of the page.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::secure;
use crate::error::MonitorError;
use crate::guard::{Asked, Guard};
use crate::refusal::Refusal;
use crate::server::{Serving, listen, serve_plainly};

/// A text and its content type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// As HTTP says it: `application/json`.
    pub content_type: &'static str,
    /// The text.
    pub text: String,
}

/// Gives the text at a path; `None` where there is none. Asked on the server's thread: it may not wait.
pub type Texts = Arc<dyn Fn(&str) -> Option<Text> + Send + Sync>;

/// Serves texts, as long as this lives.
#[derive(Debug)]
pub struct TextServer {
    address: SocketAddr,
    _serving: Serving,
}

impl TextServer {
    /// Serves texts at an address that was `given_by` an option or a key.
    ///
    /// # Errors
    /// When it cannot be listened at.
    pub fn start(
        (given_by, address): (&'static str, SocketAddr),
        texts: Texts,
    ) -> Result<TextServer, MonitorError> {
        let listener = listen(given_by, address)?;
        let address = listener.local_addr().unwrap_or(address);
        let guard = Guard {
            token: None,
            is_loopback: address.ip().is_loopback(),
            is_secure: false,
            port: address.port(),
            hosts: Vec::new(),
        };
        let router = Router::new().fallback(answer).with_state((Arc::new(guard), texts));
        Ok(TextServer { address, _serving: serve_plainly(listener, router)? })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn answer(State((guard, texts)): State<(Arc<Guard>, Texts)>, request: Request) -> Response {
    let asked = Asked { method: request.method(), uri: request.uri(), headers: request.headers() };
    let mut response = match guard.admit(asked).and_then(|_| text(&texts, asked)) {
        Ok(Text { content_type, text }) => {
            ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-store")], text)
                .into_response()
        }
        // What a refused request still has to say is not read.
        Err(refusal) => ([(header::CONNECTION, "close")], refusal).into_response(),
    };
    secure(&mut response);
    response
}

fn text(texts: &Texts, asked: Asked<'_>) -> Result<Text, Refusal> {
    if !matches!(*asked.method, Method::GET | Method::HEAD) {
        let error = format!("{} is not for this path", asked.method);
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error, "ask with GET"));
    }
    let path = asked.uri.path();
    texts(path).ok_or_else(|| Refusal::not_found(format!("there is no {path}"), "the page is at /"))
}
