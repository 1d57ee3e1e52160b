//! Spectra: which there are, their counts, and as files for other programs.
//!
//! ```text
//!  ids=1,2:77 ─► SpectrumSet ─► [ id u32 │ revision u64 │ entries u64 │ bins u32 │ bytes u32 │ packed counts ] …
//! ```
//! Numbers are little endian. `2:77` asks for spectrum 2 unless its revision is still 77: then it is left out.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thalweg_analysis::spectrum::{At, Axis, Info, Kind, SpectrumError, SpectrumSet, pack};

use super::request::{JsonBody, query};
use super::{Answer, Shared};
use crate::experiment::Experiment;
use crate::refusal::Refusal;

/// Most spectra in one answer.
const MOST_SPECTRA: usize = 4096;
/// Most bins in one answer.
const MOST_BINS: usize = 1 << 24;
/// Most bins of one that is exported: as JSON, a bin takes 32 bytes while it is made.
const MOST_EXPORTED: usize = 1 << 22;

/// Bytes before the counts of each spectrum.
const HEADER_BYTES: usize = 28;

fn set(experiment: &dyn Experiment) -> Result<SpectrumSet, Refusal> {
    experiment.spectra().ok_or_else(|| Refusal::not_found("there are no spectra yet", "start a run"))
}

fn too_much(error: String, advice: &str) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error, advice)
}

fn find(set: &SpectrumSet, id: u32) -> Result<&Info, Refusal> {
    set.info(id).map_err(|error| {
        Refusal::not_found(error.to_string(), "ask /api/spectra again: another run has others")
    })
}

/// How many axes a spectrum has.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) enum Dimensions {
    /// One axis.
    #[serde(rename = "1d")]
    One,
    /// Two axes.
    #[serde(rename = "2d")]
    Two,
}

/// One spectrum, but for its counts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Spectrum {
    /// Its number in this run.
    id: u32,
    /// What it is called.
    name: String,
    /// How many axes it has.
    kind: Dimensions,
    /// What it is filled with.
    what: Kind,
    /// Where it is filled.
    at: At,
    /// The channel whose hits it has, if it is of one.
    channel: Option<u16>,
    /// The source of that channel.
    source: Option<String>,
    /// Its axes, one or two.
    axes: Vec<Axis>,
    /// How many hits or events it has.
    entries: u64,
    /// Rises as it is filled: counts of the same revision are the same.
    revision: u64,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    let list = shared.ask(|experiment| {
        let Some(set) = experiment.spectra() else { return Vec::new() };
        let line = |info: &Info| Spectrum {
            id: info.id,
            name: info.name.clone(),
            kind: if info.axes.len() == 1 { Dimensions::One } else { Dimensions::Two },
            what: info.kind,
            at: info.at,
            channel: info.channel,
            source: info.channel.and_then(|channel| experiment.source_of(channel)),
            axes: info.axes.clone(),
            entries: set.totals(info.id).map_or(0, |totals| totals.entries),
            revision: set.revision(info.id).unwrap_or(0),
        };
        // There is space for calibrations and cuts that come later; what is not filled is not offered.
        set.spectra().iter().filter(|info| set.is_filled(info)).map(line).collect()
    });
    Ok(Json(list.await?).into_response())
}

/// Numbers of spectra, and the revisions that the asker has.
fn wanted(text: &str) -> Result<Vec<(u32, Option<u64>)>, Refusal> {
    let one = |part: &str| {
        let (id, revision) = part.split_once(':').map_or((part, None), |(id, revision)| (id, Some(revision)));
        let id = id.trim().parse().ok()?;
        match revision {
            None => Some((id, None)),
            Some(revision) => revision.trim().parse().ok().map(|revision| (id, Some(revision))),
        }
    };
    let advice =
        "write ids=1,2:77 with numbers of /api/spectra, and after a colon the revision that you have";
    let wanted: Vec<_> = text
        .split(',')
        .filter(|part| !part.is_empty())
        .take(MOST_SPECTRA + 1)
        .map(|part| {
            one(part).ok_or_else(|| Refusal::bad(format!("\"{part}\" is no spectrum's number"), advice))
        })
        .collect::<Result<_, _>>()?;
    match wanted.len() {
        0 => Err(Refusal::bad("no spectrum is asked for", advice)),
        count if count > MOST_SPECTRA => Err(too_much(
            format!("more than {MOST_SPECTRA} spectra are asked for"),
            "ask for those that are seen",
        )),
        _ => Ok(wanted),
    }
}

fn packed(set: &SpectrumSet, wanted: &[(u32, Option<u64>)]) -> Result<Vec<u8>, Refusal> {
    let (mut bytes, mut counts, mut bins) = (Vec::new(), Vec::new(), 0);
    for (id, known) in wanted {
        let info = find(set, *id)?;
        // Taken before the counts: what is filled meanwhile is asked for again.
        let revision = set.revision(*id).unwrap_or(0);
        if *known == Some(revision) {
            continue;
        }
        bins += info.bins();
        if bins > MOST_BINS {
            return Err(too_much(
                format!("more than {MOST_BINS} bins are asked for"),
                "ask in several parts",
            ));
        }
        let totals = set.read(*id, &mut counts).map_err(|error| Refusal::not_found(error.to_string(), ""))?;
        let start = bytes.len();
        bytes.extend(id.to_le_bytes());
        bytes.extend(revision.to_le_bytes());
        bytes.extend(totals.entries.to_le_bytes());
        bytes.extend((counts.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        pack(&counts, &mut bytes);
        let length = (bytes.len() - start - HEADER_BYTES) as u32;
        bytes[start + HEADER_BYTES - 4..start + HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    }
    Ok(bytes)
}

pub(super) async fn counts(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    let wanted = wanted(&query(&uri, "ids").unwrap_or_default())?;
    let bytes = shared.ask(move |experiment| packed(&set(experiment)?, &wanted)).await??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

pub(super) async fn export(State(shared): State<Arc<Shared>>, Path(id): Path<String>, uri: Uri) -> Answer {
    let id: u32 = id
        .parse()
        .map_err(|_| Refusal::not_found(format!("there is no spectrum {id}"), "see /api/spectra"))?;
    let format = query(&uri, "format").unwrap_or_else(|| "uhi".to_owned());
    let named = format!("attachment; filename=\"spectrum-{id}.{format}.json\"");
    let make: fn(&SpectrumSet, u32) -> Result<String, SpectrumError> = match format.as_str() {
        "uhi" => |set, id| Ok(serde_json::to_string(&set.uhi(id)?).unwrap_or_default()),
        "root" => |set, id| Ok(set.root(id)?.to_string()),
        other => {
            return Err(Refusal::bad(
                format!("format \"{other}\" is not known"),
                "write format=uhi or format=root",
            ));
        }
    };
    let text = shared.ask(move |experiment| {
        let set = set(experiment)?;
        let bins = find(&set, id)?.bins();
        if bins > MOST_EXPORTED {
            let advice = "read it by /api/spectra/counts, or describe it with fewer bins";
            return Err(too_much(format!("{bins} bins are too many for JSON"), advice));
        }
        make(&set, id).map_err(|error| Refusal::not_found(error.to_string(), ""))
    });
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, named)];
    Ok((headers, text.await??).into_response())
}

/// Which are to be empty.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SpectraToEmpty")]
pub(super) struct Reset {
    /// These, or all.
    #[serde(default)]
    ids: Option<Vec<u32>>,
}

pub(super) async fn reset(State(shared): State<Arc<Shared>>, JsonBody(reset): JsonBody<Reset>) -> Answer {
    let done = shared.ask(move |experiment| {
        let set = set(experiment)?;
        let ids = reset.ids.map_or(vec![None], |ids| ids.into_iter().map(Some).collect());
        for id in ids.iter().flatten() {
            find(&set, *id)?;
        }
        ids.into_iter()
            .try_for_each(|id| set.empty(id))
            .map_err(|error| Refusal::not_found(error.to_string(), ""))
    });
    done.await??;
    Ok(Json(json!({})).into_response())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_may_have_revisions() {
        assert_eq!(wanted("1,2:77,").expect("meant"), [(1, None), (2, Some(77))]);
        assert!(
            wanted("").is_err() && wanted("1,x").is_err() && wanted("1:").is_err() && wanted("-1").is_err()
        );
        let many = vec!["1"; MOST_SPECTRA + 1].join(",");
        assert_eq!(wanted(&many).expect_err("too many").status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_fall(text in "[0-9:, a-z-]{0,40}") {
            let _ = wanted(&text);
        }
    }
}
