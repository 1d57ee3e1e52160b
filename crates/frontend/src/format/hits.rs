//! The interface of the settings of a source of hits.

use std::fmt;
use std::sync::Arc;

use thalweg_data::waveform_facts::WaveformFacts;
use thalweg_data::{Decode, Frames, Framing, SentRecord, SourceId, Unit};

use super::BoardFacts;

/// The framing of one source, with its decoders.
pub type HitFraming = (Box<dyn Framing<Output = Frames>>, Vec<Box<dyn Decode>>);

/// Properties of a source that its framing needs.
#[derive(Clone, Copy, Debug)]
pub struct FramingInput<'a> {
    /// The number of the source.
    pub source: SourceId,
    /// Whether it gives a stream or datagrams.
    pub is_stream: bool,
    /// The scheme of its URL.
    pub scheme: &'a str,
    /// The record of its sender, if that is in this process.
    pub asked: Option<&'a Arc<SentRecord>>,
    /// Number of blocks of its pool.
    pub blocks: usize,
    /// Bytes of each block.
    pub block_bytes: usize,
}

impl FramingInput<'_> {
    /// Limit of a unit in bytes: an incomplete unit holds its blocks, of which it may take a quarter.
    pub fn largest_unit_bytes(&self) -> u64 {
        (self.block_bytes * self.blocks / 4) as u64
    }
}

/// Copies settings behind the trait.
pub trait BoxedHitFormat {
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn HitFormat>;
}

impl<S: HitFormat + Clone + 'static> BoxedHitFormat for S {
    fn boxed(&self) -> Box<dyn HitFormat> {
        Box::new(self.clone())
    }
}

/// The settings of a source of self-triggered boards.
pub trait HitFormat: BoxedHitFormat + fmt::Debug + Send + Sync {
    /// Creates the framing of a source, and `decoders` decoders, which take its units in turn and share their knowledge
    /// of its clock.
    ///
    /// # Errors
    /// The settings that exclude each other.
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String>;

    /// Whether it needs a stream, for sources that do not define by themselves whether they give one.
    fn wants_stream(&self) -> bool {
        true
    }

    /// Units that the format's sequence numbers count, and those that the record of the sender counts; empty if there
    /// are none.
    fn wire_units(&self, _is_stream: bool, _is_asked: bool) -> &'static [Unit] {
        &[]
    }

    /// Time between samples of a waveform in nanoseconds, as the board takes them; `None` if neither the format nor the
    /// configuration defines it.
    fn ns_per_sample(&self) -> Option<f64> {
        None
    }

    /// What format and configuration say of the waveforms. By default, that there are none.
    fn waveforms(&self) -> WaveformFacts {
        WaveformFacts::default()
    }

    /// The first of the experiment's channels that this source has, and their number, for display.
    fn channels(&self) -> (u16, u16);

    /// Whether a key is configured already, so that no advice suggests it.
    fn has_set(&self, _key: &str) -> bool {
        false
    }

    /// Whether its boards report what the configuration does not define.
    fn takes_facts(&self) -> bool {
        false
    }

    /// Completes the settings by the properties that a board reports.
    ///
    /// # Errors
    /// When the board contradicts the configuration: both values.
    fn complete(&mut self, _facts: &BoardFacts) -> Result<(), String> {
        Ok(())
    }
}

impl Clone for Box<dyn HitFormat> {
    fn clone(&self) -> Box<dyn HitFormat> {
        self.as_ref().boxed()
    }
}

/// Returns `count` copies of a decoder.
pub(crate) fn several<D: Decode + Clone + 'static>(decoder: &D, count: usize) -> Vec<Box<dyn Decode>> {
    (0..count).map(|_| Box::new(decoder.clone()) as Box<dyn Decode>).collect()
}
