//! `[[source]]`: the run's own keys, those of the endpoint, and those of the format, side by side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{SourceId, Unit};
use thalweg_frontend::format::{
    BoardFacts, EmulateSettings, Format, FormatSettings, SelfTriggeredSettings, keys_of,
};
use thalweg_readout::links::{LinkPlan, LinkSettings};

/// Those of them that only sources of hits may have.
pub(crate) const KEYS_OF_HITS: [&str; 5] = ["workers", "reader", "disorder_ps", "faults", "loss"];

/// The keys of a `[[source]]` that are the run's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceHead {
    /// A short name, unique in the file; used in the ledger, in metrics and on the page.
    pub name: String,
    /// What the board speaks.
    pub format: &'static Format,
    /// Threads that decode this source of hits; 0 decodes on the receiving thread.
    #[serde(default)]
    pub workers: usize,
    /// The thread that reads this source of hits: those with the same word share one, which has this name. Without it each source has a
    /// thread of its own, named like the source.
    #[serde(default)]
    pub reader: Option<String>,
    /// How far back in time a hit of this source may lie, picoseconds; without it `[order] disorder_ps`, and for
    /// files their whole length.
    #[serde(default)]
    pub disorder_ps: Option<u64>,
    /// Faults put between endpoint and framing of a source of hits, for tests of the system.
    #[serde(default)]
    pub faults: Option<thalweg_readout::FaultSettings>,
    /// In a source of hits, fraction of an emulated board's datagrams that are dropped before they are sent, by its seed.
    #[serde(default)]
    pub loss: f64,
}

impl SourceHead {
    /// The name of the thread that reads this source of hits.
    pub(crate) fn reader(&self) -> &str {
        self.reader.as_deref().unwrap_or(&self.name)
    }
}

/// One `[[source]]`, every key in its room.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// The run's keys.
    pub head: SourceHead,
    /// The endpoint's keys.
    pub endpoint: thalweg_readout::Settings,
    /// The format's keys.
    pub format: FormatSettings,
    /// `[source.emulate]`: the boards behind an `emulate://` URL.
    pub emulate: Option<EmulateSettings>,
}

impl SourceSettings {
    /// The keys that this source may have and that can help against its losses, and `dumps` where its format keeps some. What
    /// is set already, or has no effect on such a URL, is left out.
    pub(crate) fn keys_for_advice(&self) -> Vec<String> {
        let mut keys = keys_of::<SourceHead>();
        keys.extend(keys_of::<thalweg_readout::Settings>());
        keys.extend(self.head.format.keys());
        let has_socket = !matches!(self.endpoint.url.scheme(), "file" | "pcap");
        let has_part = matches!(&self.format, FormatSettings::Hits(format) if format.has_set("part"));
        keys.retain(|key| match key.as_str() {
            "receive_buffer_bytes" => has_socket,
            "part" => !has_part,
            _ => true,
        });
        if matches!(self.format, FormatSettings::Triggered(_)) {
            keys.push("dumps".to_owned());
        }
        keys
    }

    /// Returns true if the sender can report what was in the datagrams that did not come: it is emulated in this process. Where bits are
    /// flipped on the way it cannot, because flipped bits may turn one hit into another.
    pub(crate) fn asks_sender(&self) -> bool {
        let flips = self.head.faults.as_ref().is_some_and(|faults| faults.bit_flip > 0.0);
        let reports = match &self.format {
            FormatSettings::Hits(format) => format.wire_units(false, true).contains(&Unit::Hits),
            FormatSettings::Triggered(_) => true,
        };
        self.is_emulated() && reports && !flips
    }

    /// Returns true if its boards are emulated in this process.
    pub(crate) fn is_emulated(&self) -> bool {
        self.endpoint.url.scheme() == "emulate"
    }

    /// Returns the links of a triggered source, whose first board is `first_source`.
    pub(crate) fn links(&self, first_source: SourceId) -> Option<LinkSettings<'_>> {
        let FormatSettings::Triggered(boards) = &self.format else { return None };
        let emulated = match &self.emulate {
            Some(EmulateSettings::Triggered(boards)) => Some(&**boards),
            _ => None,
        };
        Some(LinkSettings { endpoint: &self.endpoint, boards: &**boards, emulated, first_source })
    }

    /// Returns true if its boards send streams rather than datagrams.
    pub(crate) fn gives_streams(&self) -> bool {
        match (self.links(SourceId(0)), &self.emulate) {
            (Some(settings), _) => settings.gives_streams(),
            (None, Some(EmulateSettings::SelfTriggered(board))) if self.is_emulated() => board.is_stream(),
            (None, _) => self.endpoint.gives_stream().unwrap_or(false),
        }
    }

    /// Returns how many links and boards a triggered source has.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub(crate) fn link_plan(&self) -> Result<Option<LinkPlan>, String> {
        self.links(SourceId(0)).map(|links| links.plan()).transpose()
    }

    /// Fills in what the configuration does not say of its board.
    ///
    /// # Errors
    /// Where the board contradicts it: with both values.
    pub(crate) fn complete(&mut self, facts: &BoardFacts) -> Result<(), String> {
        match &mut self.format {
            FormatSettings::Hits(format) => format.complete(facts),
            FormatSettings::Triggered(_) => Ok(()),
        }
    }

    /// The board behind an `emulate://` URL of self-triggered boards.
    ///
    /// # Errors
    /// When no board of the family is emulated.
    pub(crate) fn emulated_board(&self) -> Result<Box<dyn SelfTriggeredSettings>, String> {
        match self.emulate.clone().or_else(|| self.head.format.default_emulated()) {
            Some(EmulateSettings::SelfTriggered(board)) => Ok(board),
            _ => Err(format!(
                "there is no emulated board of format \"{}\"; write the address of a board, or the path of a file, as `url`",
                self.head.format
            )),
        }
    }
}
