//! The page's server over real sockets, asked by a client that can also misbehave, about a made-up experiment.

mod client;
mod dashboard;
mod fake;
mod hostile;
mod metrics;
mod places;
mod security;
mod state_keys;
mod streams;
mod tls;

use std::sync::Arc;

use thalweg_monitor::{Monitor, Settings};

use client::Client;
use fake::Fake;

/// A server on a free port.
struct Served {
    monitor: Monitor,
    fake: Arc<Fake>,
}

impl Served {
    fn client(&self) -> Client {
        Client::new(self.monitor.address())
    }
}

fn serve_with(change: impl FnOnce(&mut Settings)) -> Served {
    let mut settings = Settings { listen: "127.0.0.1:0".into(), ..Settings::default() };
    change(&mut settings);
    let fake = Arc::new(Fake::new());
    let monitor = Monitor::start(&settings, fake.clone()).expect("a free port");
    Served { monitor, fake }
}

fn serve() -> Served {
    serve_with(|_| {})
}
