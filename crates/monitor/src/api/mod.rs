//! What can be asked: every place, and who answers there.
//!
//! ```text
//!  request ─► guard ─► /api/state, /api/events, … ─► Experiment, on a thread that may wait ─► JSON
//!               └► refused
//! ```

mod control;
#[cfg(test)]
mod describe;
mod download;
mod live;
mod pulses;
mod request;
mod runs;
mod spectra;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use tokio::sync::Semaphore;

use crate::experiment::Experiment;
use crate::guard::{Admitted, Asked, Guard};
use crate::hub::Hub;
use crate::page;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::traffic::Traffic;

/// Questions to the experiment at once; others wait.
const QUESTIONS: usize = 6;
/// And for no longer than this.
const WAIT: Duration = Duration::from_secs(15);
/// Files sent at once.
const DOWNLOADS: usize = 8;

/// The state that every request may need.
pub(crate) struct Shared {
    pub experiment: Arc<dyn Experiment>,
    pub guard: Guard,
    pub hub: Hub,
    pub traffic: Traffic,
    questions: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
}

/// The answer to a request.
type Answer = Result<Response, Refusal>;

impl Shared {
    /// For a server of these settings.
    pub fn new(experiment: Arc<dyn Experiment>, guard: Guard, settings: &Settings) -> Arc<Shared> {
        Arc::new(Shared {
            hub: Hub::new(experiment.clone(), settings.period(), settings.streams),
            experiment,
            guard,
            traffic: Traffic::default(),
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            downloads: Arc::new(Semaphore::new(DOWNLOADS)),
        })
    }

    /// Asks the experiment, where waiting delays nobody else.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Experiment) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let busy = |_| {
            let advice = "wait for verifications and long listings to end, and ask again";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many questions wait for an answer", advice)
        };
        let place = tokio::time::timeout(WAIT, self.questions.clone().acquire_owned()).await.map_err(busy)?;
        let experiment = self.experiment.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let answer = question(&*experiment);
            // Given back when it is answered, also when nobody waits for it any more.
            drop(place);
            answer
        });
        asking.await.map_err(|failed| {
            tracing::error!("a question of the page failed: {failed}");
            let advice = "look into the log of the program; taking data goes on";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the question failed", advice)
        })
    }
}

/// Method, place and who answers. `openapi.json` describes the same: it is generated, and tests compare it.
pub(crate) fn places() -> Vec<(&'static str, &'static str, MethodRouter<Arc<Shared>>)> {
    vec![
        ("get", "/api/state", get(live::state)),
        ("get", "/api/events", get(live::events)),
        ("get", "/api/history", get(live::history)),
        ("get", "/api/spectra", get(spectra::list)),
        ("get", "/api/spectra/counts", get(spectra::counts)),
        ("get", "/api/spectra/{id}/export", get(spectra::export)),
        ("post", "/api/spectra/reset", post(spectra::reset)),
        ("post", "/api/view/calibrate", post(view::calibrate)),
        ("post", "/api/view/cut", post(view::cut)),
        ("post", "/api/view/revert", post(view::revert)),
        ("get", "/api/pulses", get(pulses::channels)),
        ("get", "/api/pulses/{channel}", get(pulses::latest)),
        ("post", "/api/pulses/filter", post(pulses::filter)),
        ("get", "/api/runs", get(runs::list)),
        ("get", "/api/runs/{name}", get(runs::one)),
        ("get", "/api/runs/{name}/files/{file}", get(runs::file)),
        ("post", "/api/runs/{name}/comment", post(runs::comment)),
        ("post", "/api/runs/{name}/labels", post(runs::label)),
        ("post", "/api/runs/{name}/notes", post(runs::add_note)),
        ("post", "/api/runs/{name}/verify", post(runs::verify)),
        ("get", "/api/notes/next", get(runs::notes_for_next)),
        ("post", "/api/notes/next", post(runs::add_note_for_next)),
        ("post", "/api/run/start", post(control::start)),
        ("post", "/api/run/stop", post(control::stop)),
        ("post", "/api/run/pause", post(control::pause)),
        ("post", "/api/run/resume", post(control::resume)),
        ("post", "/api/alarms/acknowledge", post(control::acknowledge)),
        ("get", "/api/configuration", get(live::configuration)),
        ("get", "/api/topology", get(live::topology)),
        ("get", "/api/system", get(live::system)),
        ("get", "/api/openapi.json", get(live::openapi)),
        ("get", "/metrics", get(live::metrics)),
    ]
}

/// All places behind the guard.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for (_, path, answer) in places() {
        router = router.route(path, answer);
    }
    router
        .fallback(get(page::file))
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(shared.clone(), guarded))
        .with_state(shared)
}

async fn not_so(method: Method) -> Refusal {
    let advice = "ask with GET, move with POST; /api/openapi.json says which";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not for this path"), advice)
}

/// The rules before, the headers of every answer behind.
async fn guarded(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let asked = Asked { method: request.method(), uri: request.uri(), headers: request.headers() };
    let mut response = match shared.guard.admit(asked) {
        Ok(Admitted::Plain) => next.run(request).await,
        Ok(Admitted::WithCookie(cookie)) => with_cookie(next.run(request).await, &cookie),
        Ok(Admitted::LeadTo { place, cookie }) => with_cookie(lead_to(&place), &cookie),
        // What a refused request still has to say is not read.
        Err(refusal) => ([(header::CONNECTION, "close")], refusal).into_response(),
    };
    shared.traffic.answered(response.status().as_u16());
    secure(&mut response);
    response
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// A page that leads on. A redirection would not do: it belongs to the site that led here, and takes no strict cookie along.
fn lead_to(place: &str) -> Response {
    let mut quoted = String::new();
    for character in place.chars() {
        match character {
            '&' => quoted.push_str("&amp;"),
            '"' => quoted.push_str("&quot;"),
            '\'' => quoted.push_str("&#39;"),
            '<' => quoted.push_str("&lt;"),
            '>' => quoted.push_str("&gt;"),
            other => quoted.push(other),
        }
    }
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={quoted}\"><title>thalweg</title>\
         <a href=\"{quoted}\">on</a>"
    );
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// The headers of every answer.
pub(crate) fn secure(response: &mut Response) {
    const ALWAYS: [(HeaderName, &str); 6] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
