//! The entry of the family in `FORMATS`.

use thalweg_data::waveform_facts::{SampleRange, WaveformFacts};
use thalweg_data::{Frames, Framing, Unit};

use super::control::{Board, CONTROL_PORT};
use super::settings::Firmware;
use super::wire::probe_names;
use super::{Decoder, Settings, TcpUnpack, UdpUnpack, compass_settings, emulate};
use crate::format::{
    BoardFacts, ControlEntry, ControlTransport, Format, FramingInput, HitFormat, HitFraming, several,
};

/// The entry of the family.
pub static FORMAT: Format = Format {
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_hits::<Settings>("digitizer2", "CAEN Digitizer 2.0 boards (x27xx).")
        .with_self_triggered::<emulate::Settings>()
        .with_control(&CONTROL)
};

/// The boards' own protocol, which also says where their data are.
static CONTROL: ControlEntry = ControlEntry {
    scheme: "dig2",
    port: CONTROL_PORT,
    transport: ControlTransport::Stream,
    is_source: true,
    open: |channel| Ok(Box::new(Board::open(channel)?)),
    import: Some(compass_settings::read),
};

impl HitFormat for Settings {
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String> {
        let FramingInput { source, block_bytes, .. } = input;
        // A recording of such a board is read like the original data.
        let (is_file, is_armed) = (input.scheme == "file", is_armed(input.scheme));
        let decoder = match is_armed {
            true => Decoder::of_armed_board(source, self),
            false => Decoder::new(source, self),
        };
        let of_stream =
            |unpack: TcpUnpack| Box::new(unpack.dividing_aggregates(self.firmware.unwrap_or_default()));
        let unpack: Box<dyn Framing<Output = Frames>> = match (input.is_stream, is_armed) {
            // Raw blobs in a file have no packet headers.
            _ if is_file => of_stream(TcpUnpack::of_blob(source, block_bytes)),
            (true, true) => of_stream(TcpUnpack::of_armed_board(source, block_bytes)),
            (true, false) => of_stream(TcpUnpack::new(source, block_bytes)),
            (false, true) => {
                let unpack = UdpUnpack::of_armed_board(source, input.largest_unit_bytes());
                match input.asked {
                    Some(record) => Box::new(unpack.asking(record.clone())),
                    None => Box::new(unpack),
                }
            }
            (false, false) => Box::new(UdpUnpack::new(source, input.largest_unit_bytes())),
        };
        Ok((unpack, several(&decoder.map_err(|error| error.to_string())?, decoders)))
    }

    fn wire_units(&self, is_stream: bool, is_asked: bool) -> &'static [Unit] {
        match is_stream {
            true => &[Unit::Frames],
            false if is_asked => &[Unit::Datagrams, Unit::Frames, Unit::Hits],
            false => &[Unit::Datagrams, Unit::Frames],
        }
    }

    fn ns_per_sample(&self) -> Option<f64> {
        // The board's clock counts samples.
        Some(self.tick_ps() / 1000.0)
    }

    fn waveforms(&self) -> WaveformFacts {
        let firmware = self.firmware.unwrap_or_default();
        let (analog_probes, digital_probes) = probe_names(firmware);
        WaveformFacts {
            samples: match firmware {
                Firmware::Psd | Firmware::Pha => SampleRange::Scaled14,
                Firmware::OpenDpp | Firmware::Zle | Firmware::Scope => SampleRange::Unsigned16,
            },
            sample_ps: Some(self.tick_ps()),
            decimation: self.decimation,
            samples_before_trigger: self.samples_before_trigger,
            analog_probes,
            digital_probes,
        }
    }

    fn channels(&self) -> (u16, u16) {
        (self.first_channel, Settings::channels(self))
    }

    fn takes_facts(&self) -> bool {
        true
    }

    fn complete(&mut self, facts: &BoardFacts) -> Result<(), String> {
        *self = self.completed_by(facts).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// Whether the run arms and starts boards behind a URL of this scheme.
fn is_armed(scheme: &str) -> bool {
    scheme == CONTROL.scheme || scheme == "emulate"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_samples_is_known_if_the_clock_counts_samples() {
        let of = |tick_ps| Settings { tick_ps: Some(tick_ps), ..Settings::default() }.ns_per_sample();
        assert_eq!((of(8000.0), of(2000.0)), (Some(8.0), Some(2.0)));
        assert_eq!(crate::compass::Settings::default().ns_per_sample(), None);
    }

    #[test]
    fn waveforms_are_named_by_firmware_and_what_is_not_said_is_unknown() {
        let of = |firmware| Settings { firmware: Some(firmware), ..Settings::default() }.waveforms();
        let (psd, pha, scope) = (of(Firmware::Psd), of(Firmware::Pha), of(Firmware::Scope));
        assert_eq!(
            [psd.analog_name(2), pha.analog_name(2), scope.analog_name(0)].map(Option::unwrap),
            ["cfd", "energy_filter", "adc_input"]
        );
        assert_eq!((psd.samples, scope.samples), (SampleRange::Scaled14, SampleRange::Unsigned16));
        assert_eq!((psd.analog_name(3), scope.decimation, scope.samples_before_trigger), (None, None, None));
        let board = emulate::Settings { waveform_samples: 64, ..Default::default() }.facts();
        let reported = Settings::default().completed_by(&board).expect("nothing contradicts").waveforms();
        assert_eq!((reported.decimation, reported.samples_before_trigger), (Some(1), Some(16)));
    }
}
