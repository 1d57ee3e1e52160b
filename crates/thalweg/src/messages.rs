//! Copies log messages to the page.

use std::fmt::{Debug, Write};

use thalweg_run::serve::MessageLog;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Passes messages of information and worse on to the page's log.
pub(crate) struct PageLayer(pub(crate) MessageLog);

impl<S: Subscriber> Layer<S> for PageLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => return,
        };
        if event.metadata().target().starts_with("thalweg") {
            let mut text = Text::default();
            event.record(&mut text);
            self.0.push(level, &text.0);
        }
    }
}

/// The words of a message.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a String cannot fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
