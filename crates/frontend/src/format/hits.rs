//! What is asked of the settings of a source that gives hits.

use std::fmt;
use std::sync::Arc;

use thalweg_data::{Decode, Frames, Framing, SentRecord, SourceId, Unit};

use super::BoardFacts;

/// The framing of one source, and its decoders.
pub type HitFraming = (Box<dyn Framing<Output = Frames>>, Vec<Box<dyn Decode>>);

/// What a source is, for the framing behind it.
#[derive(Clone, Copy, Debug)]
pub struct FramingInput<'a> {
    /// Its number.
    pub source: SourceId,
    /// Whether it gives a stream, or datagrams.
    pub is_stream: bool,
    /// The scheme of its URL.
    pub scheme: &'a str,
    /// What its sender writes down, where that can be asked.
    pub asked: Option<&'a Arc<SentRecord>>,
    /// Blocks of its pool.
    pub blocks: usize,
    /// Bytes of each.
    pub block_bytes: usize,
}

impl FramingInput<'_> {
    /// A unit in the making holds its blocks: it may take a quarter of them.
    pub fn largest_unit_bytes(&self) -> u64 {
        (self.block_bytes * self.blocks / 4) as u64
    }
}

/// Copies of settings behind the trait.
pub trait BoxedHitFormat {
    /// A copy.
    fn boxed(&self) -> Box<dyn HitFormat>;
}

impl<S: HitFormat + Clone + 'static> BoxedHitFormat for S {
    fn boxed(&self) -> Box<dyn HitFormat> {
        Box::new(self.clone())
    }
}

/// The settings of a source of self-triggered boards.
pub trait HitFormat: BoxedHitFormat + fmt::Debug + Send + Sync {
    /// The framing of such a source, and so many decoders behind it, which take its units in turn and share what they know of its clock.
    ///
    /// # Errors
    /// What the front end says of settings that do not fit together.
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String>;

    /// Whether it is for streams, of sources that do not say by themselves whether they give one.
    fn wants_stream(&self) -> bool {
        true
    }

    /// What the format's sequence numbers count, and what of it is known by asking the sender; empty when it has none.
    fn wire_units(&self, _is_stream: bool, _is_asked: bool) -> &'static [Unit] {
        &[]
    }

    /// How far apart samples of a waveform are, nanoseconds, as the board takes them; `None` where neither the format nor the
    /// configuration tells.
    fn ns_per_sample(&self) -> Option<f64> {
        None
    }

    /// The first channel of the experiment that this source has, and how many; for pictures and pages.
    fn channels(&self) -> (u16, u16);

    /// Whether a key has been given a value already, so that nobody is advised to set it.
    fn has_set(&self, _key: &str) -> bool {
        false
    }

    /// Whether its boards say of themselves what the configuration leaves open.
    fn takes_facts(&self) -> bool {
        false
    }

    /// Fills in what a board says of itself.
    ///
    /// # Errors
    /// Where the board contradicts the configuration: with both values.
    fn complete(&mut self, _facts: &BoardFacts) -> Result<(), String> {
        Ok(())
    }
}

impl Clone for Box<dyn HitFormat> {
    fn clone(&self) -> Box<dyn HitFormat> {
        self.as_ref().boxed()
    }
}

/// So many decoders that are alike.
pub(crate) fn several<D: Decode + Clone + 'static>(decoder: &D, count: usize) -> Vec<Box<dyn Decode>> {
    (0..count).map(|_| Box::new(decoder.clone()) as Box<dyn Decode>).collect()
}
