//! Formats whose sources give hits: how their units are found and decoded.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use thalweg_data::{Decode, Frames, Framing, SentRecord, SourceId, Unit};
use thalweg_frontend::digitizer2::unpack::{TcpUnpack, UdpUnpack};
use thalweg_frontend::{abcd, compass, digitizer2, generic};

use super::ChannelRange;

/// The framing of one source, and its decoders.
pub(crate) type FrontEnd = (Box<dyn Framing<Output = Frames>>, Vec<Box<dyn Decode>>);

/// A format of self-triggered boards with its settings.
#[derive(Clone, Debug, Serialize)]
pub enum HitFormat {
    /// CAEN Digitizer 2.0.
    Digitizer2(digitizer2::Settings),
    /// Described in the configuration.
    Generic(Box<generic::Settings>),
    /// CoMPASS.
    Compass(compass::Settings),
    /// ABCD.
    Abcd(abcd::Settings),
}

impl HitFormat {
    /// The framing of one source of this format, whose endpoint has `scheme`, and so many decoders behind it, which take its units
    /// in turn and share what they know of its clock. `asked` is what the sender writes down, where it can be asked.
    ///
    /// # Errors
    /// What the front end says of settings that do not fit together.
    pub(crate) fn path(
        &self,
        source: SourceId,
        (is_stream, scheme, asked): (bool, &str, Option<&Arc<SentRecord>>),
        (blocks, block_bytes): (usize, usize),
        decoders: usize,
    ) -> Result<FrontEnd, String> {
        // A unit in the making holds its blocks: it may take a quarter of them.
        let largest_unit_bytes = (block_bytes * blocks / 4) as u64;
        Ok(match self {
            HitFormat::Digitizer2(settings) => {
                // Whoever reads a recording of such a board again finds what was found then.
                let (is_file, is_armed) = (scheme == "file", is_armed(scheme));
                let decoder = match is_armed {
                    true => digitizer2::Decoder::of_armed_board(source, settings),
                    false => digitizer2::Decoder::new(source, settings),
                };
                let unpack: Box<dyn Framing<Output = Frames>> = match (is_stream, is_armed) {
                    // Raw blobs in a file have no packet headers.
                    _ if is_file => Box::new(TcpUnpack::of_blob(source, block_bytes)),
                    (true, true) => Box::new(TcpUnpack::of_armed_board(source, block_bytes)),
                    (true, false) => Box::new(TcpUnpack::new(source, block_bytes)),
                    (false, true) => {
                        let unpack = UdpUnpack::of_armed_board(source, largest_unit_bytes);
                        match asked {
                            Some(record) => Box::new(unpack.asking(record.clone())),
                            None => Box::new(unpack),
                        }
                    }
                    (false, false) => Box::new(UdpUnpack::new(source, largest_unit_bytes)),
                };
                (unpack, several(&decoder.map_err(text)?, decoders))
            }
            HitFormat::Generic(settings) if settings.stream != is_stream => {
                let (found, write) = if is_stream { ("a stream", true) } else { ("datagrams", false) };
                return Err(format!("the URL gives {found}; write `stream = {write}`, or change the URL"));
            }
            HitFormat::Generic(settings) => {
                let unpack = generic::GenericUnpack::new(source, settings).map_err(text)?;
                let decoder = generic::GenericDecode::new(source, settings).map_err(text)?.behind(&unpack);
                (Box::new(unpack), several(&decoder, decoders))
            }
            HitFormat::Compass(settings) => {
                let unpack = compass::CompassUnpack::new(source, settings).map_err(text)?;
                let decoder = compass::CompassDecode::new(source, settings).map_err(text)?;
                (Box::new(unpack), several(&decoder, decoders))
            }
            HitFormat::Abcd(settings) => {
                let unpack = abcd::AbcdUnpack::new(source, settings).map_err(text)?;
                let decoder = abcd::AbcdDecode::new(source, settings).map_err(text)?.behind(&unpack);
                (Box::new(unpack), several(&decoder, decoders))
            }
        })
    }

    /// Whether it is for streams, of sources that do not say by themselves whether they give one.
    pub(crate) fn wants_stream(&self) -> bool {
        match self {
            HitFormat::Generic(settings) => settings.stream,
            HitFormat::Digitizer2(_) | HitFormat::Compass(_) | HitFormat::Abcd(_) => true,
        }
    }

    /// What the format's sequence numbers count, and what of it is known by asking the sender; empty when it has none.
    pub(crate) fn wire_units(&self, is_stream: bool, is_asked: bool) -> &'static [Unit] {
        match (self, is_stream) {
            (HitFormat::Digitizer2(_), false) if is_asked => &[Unit::Datagrams, Unit::Frames, Unit::Hits],
            (HitFormat::Digitizer2(_) | HitFormat::Generic(_), false) => &[Unit::Datagrams, Unit::Frames],
            (HitFormat::Digitizer2(_) | HitFormat::Generic(_), true) => &[Unit::Frames],
            (HitFormat::Compass(_) | HitFormat::Abcd(_), _) => &[],
        }
    }

    /// How far apart samples of a waveform are, nanoseconds, as the board takes them; `None` where neither the format nor the
    /// configuration tells.
    pub(crate) fn ns_per_sample(&self) -> Option<f64> {
        match self {
            // Its clock counts samples.
            HitFormat::Digitizer2(settings) => Some(settings.tick_ps() / 1000.0),
            // A CoMPASS record has its samples, but not how fast they were taken; in ABCD's, ticks are of the time stamps only.
            HitFormat::Compass(_) | HitFormat::Abcd(_) | HitFormat::Generic(_) => None,
        }
    }

    /// The first channel of the experiment that this source has, and how many; for pictures and pages.
    pub(crate) fn channels(&self) -> (u16, u16) {
        match self {
            HitFormat::Digitizer2(settings) => (settings.first_channel, settings.channels()),
            HitFormat::Generic(settings) => (settings.first_channel(), clamped(settings.channel_count())),
            HitFormat::Compass(settings) => (settings.first_channel, clamped(settings.channel_count())),
            HitFormat::Abcd(settings) => (settings.first_channel, clamped(settings.channel_count())),
        }
    }
}

impl HitFormat {
    /// The channels of the experiment that this source has.
    pub(crate) fn channel_range(&self) -> ChannelRange {
        let (first, count) = self.channels();
        ChannelRange { first, count }
    }
}

fn several<D: Decode + Clone + 'static>(decoder: &D, count: usize) -> Vec<Box<dyn Decode>> {
    (0..count).map(|_| Box::new(decoder.clone()) as Box<dyn Decode>).collect()
}

/// Whether boards behind a URL of this scheme are armed and started by the run.
fn is_armed(scheme: &str) -> bool {
    matches!(scheme, "dig2" | "emulate")
}

fn clamped(channels: usize) -> u16 {
    u16::try_from(channels).unwrap_or(u16::MAX)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_whose_clock_counts_samples_tell_how_far_these_are_apart() {
        let of = |tick_ps| {
            let settings = digitizer2::Settings { tick_ps: Some(tick_ps), ..digitizer2::Settings::default() };
            HitFormat::Digitizer2(settings).ns_per_sample()
        };
        assert_eq!((of(8000.0), of(2000.0)), (Some(8.0), Some(2.0)));
        assert_eq!(HitFormat::Compass(compass::Settings::default()).ns_per_sample(), None);
    }
}
