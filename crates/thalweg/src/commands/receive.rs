//! `thalweg receive`: takes what `thalweg ship` sends.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use thalweg_ship::receiver::{Received, Receiver};
use thalweg_transport::peer::SharedKey;
use thalweg_transport::tls::{ServerConfig, server_config};

use super::Ended;
use crate::arguments;
use crate::report::{CommandOutcome, Failure, print, si};
use crate::signals::Signals;
use crate::terminal;

/// Fewest characters of a token.
const SHORTEST_TOKEN: usize = thalweg_transport::peer::SHORTEST_KEY;

pub(crate) fn receive(options: &arguments::Receive, json: bool) -> Ended {
    let key = options.token_file.as_deref().map(token).transpose().map_err(Failure::Usage)?;
    let signals = Signals::install()?;
    let receiver = Receiver::listen(options.listen, options.directory.clone(), key)
        .map_err(|error| Failure::Usage(error.into()))?;
    let receiver = match options.tls_certificate.as_deref().zip(options.tls_key.as_deref()) {
        Some((certificate, key)) => receiver.with_tls(tls(certificate, key).map_err(Failure::Usage)?),
        None => receiver,
    };
    let (address, directory) = (receiver.address()?, options.directory.display());
    terminal::notice(&format!("thalweg receive: listening at {address}, into {directory}"));
    let received = receiver.serve(signals.stop_flag());
    print(&received, json, summary)?;
    Ok(CommandOutcome::Done)
}

fn tls(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let config = server_config(&read(certificate)?, &read(key)?);
    config
        .with_context(|| format!("--tls-certificate {}, --tls-key {}", certificate.display(), key.display()))
}

/// The token in a file.
pub(super) fn token(file: &Path) -> anyhow::Result<SharedKey> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN {
        anyhow::bail!(
            "{}: the token has {} characters; write at least {SHORTEST_TOKEN}, such as the output of `openssl rand -hex 32`",
            file.display(),
            token.len()
        );
    }
    Ok(SharedKey::new(token.as_bytes())?)
}

fn summary(received: &Received) -> String {
    let Received { connections, bytes, ranges_proved, files_finished, refused } = received;
    format!(
        "{}B over {connections} connections: {files_finished} files complete, {ranges_proved} ranges proved, {refused} refused",
        si(*bytes as f64)
    )
}
