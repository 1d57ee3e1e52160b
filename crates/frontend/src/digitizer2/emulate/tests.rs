//! Tests of the board's interface: its data are decoded to its truth, its totals agree, and its states are checked.

use thalweg_data::{Decode, Frames, Framing, Hits, Pool, Signal, SourceId, Unit};

use super::settings::{Data, Firmware, Rates, Transport};
use super::*;
use crate::digitizer2::decode::Decoder;
use crate::digitizer2::unpack::{TcpUnpack, UdpUnpack};
use crate::digitizer2::wire::{EventHeader, Footer, Format, PacketHeader, hash};
use crate::self_triggered::{Outgoing, SelfTriggeredBoard, State, Totals};

const MS: u64 = 1_000_000;

/// The data that a receiver gets in one session, with checked framing.
#[derive(Default)]
struct Receiver {
    events: Vec<u8>,
    raw: Vec<Vec<u8>>,
    buffer_id: u16,
    datagram_id: u32,
    datagrams: u64,
    empty: u64,
    bytes: u64,
}

impl Receiver {
    fn take(&mut self, out: &mut Outgoing, settings: &Settings) {
        for datagram in out.datagrams() {
            self.datagrams += 1;
            self.bytes += datagram.len() as u64;
            self.raw.push(datagram.to_vec());
            match settings.transport {
                Transport::Udp => self.datagram(datagram, settings),
                Transport::Tcp => self.packet(datagram),
            }
        }
        out.clear();
    }

    fn datagram(&mut self, datagram: &[u8], settings: &Settings) {
        assert!(datagram.len() <= settings.datagram_bytes as usize);
        let (data, footer) = Footer::split(datagram).expect("length agrees with the footer");
        if footer.buffer_id() == 0 && footer.hash() == hash(0, data) {
            (self.buffer_id, self.datagram_id) = (0, 0);
        }
        assert_eq!((footer.buffer_id(), footer.hash()), (self.buffer_id, hash(self.datagram_id, data)));
        self.events.extend_from_slice(data.as_flattened());
        self.empty += u64::from(data.is_empty());
        self.datagram_id += 1;
        if footer.last() {
            (self.buffer_id, self.datagram_id) = (self.buffer_id.wrapping_add(1), 0);
        }
        if settings.aligned_datagrams {
            assert!(footer.aligned());
            walk(data.as_flattened());
        }
    }

    fn packet(&mut self, packet: &[u8]) {
        let header = PacketHeader::read(packet.first_chunk().expect("a header")).expect("a valid header");
        assert_eq!(header.payload_bytes as usize + PacketHeader::BYTES, packet.len());
        self.events.extend_from_slice(&packet[PacketHeader::BYTES..]);
        self.empty += u64::from(header.is_clear_marker());
    }
}

/// Follows the headers of whole events.
fn walk(mut events: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(head) = events.first_chunk() {
        let header = EventHeader(u64::from_be_bytes(*head));
        let (event, rest) = events.split_at(header.byte_count() as usize);
        found.push(event);
        events = rest;
    }
    assert!(events.is_empty());
    found
}

/// A decoder for the board.
fn decoder(settings: &Settings) -> Decoder {
    let firmware = serde_json::to_value(settings.firmware).expect("a word");
    let reader: crate::digitizer2::Settings = serde_json::from_value(serde_json::json!({
        "firmware": firmware,
        "channels": settings.channels,
        "tick_ps": 1e6 / f64::from(settings.sampling_mhz),
    }))
    .expect("the same names on both sides");
    Decoder::new(SourceId(0), &reader).expect("valid")
}

/// Reads the datagrams or packets by unpacker and decoder; they must be without loss.
fn read(raw: &[Vec<u8>], settings: &Settings) -> Hits {
    const BLOCK: usize = 1 << 20;
    // The waveforms of all hits are kept, and what a stream has of an incomplete event is copied with each packet.
    let bytes: usize = raw.iter().map(Vec::len).sum();
    let pool = Pool::new(16 + 8 * bytes / BLOCK, BLOCK).expect("small");
    let mut decoder = decoder(settings);
    let mut unpack: Box<dyn Framing<Output = Frames>> = match settings.transport {
        Transport::Udp => Box::new(UdpUnpack::new(SourceId(0), BLOCK as u64)),
        Transport::Tcp => Box::new(TcpUnpack::new(SourceId(0), BLOCK)),
    };
    let (mut hits, mut frames, mut units) = (Hits::default(), Frames::default(), Frames::default());
    let mut left_over = Vec::new();
    let mut writer = pool.take().expect("a block");
    for chunk in raw {
        let bytes = [left_over.as_slice(), chunk].concat();
        if writer.remaining() < bytes.len() {
            writer = pool.take().expect("a block");
        }
        frames.clear();
        frames.slices.push(writer.append(&bytes).expect("it fits"));
        frames.leases.add(writer.lease());
        frames.carried = left_over.len() as u32;
        units.clear();
        let carry = unpack.frame(&frames, &mut units);
        left_over = bytes[bytes.len() - carry..].to_vec();
        decoder.decode(&units, &mut hits);
    }
    units.clear();
    unpack.finish(&Frames::default(), &mut units);
    decoder.decode(&units, &mut hits);
    for counters in [unpack.counters(), &unpack.wire_counters()[0], decoder.counters()] {
        for unit in [Unit::Datagrams, Unit::Bytes, Unit::Frames, Unit::Hits] {
            assert_eq!(counters.total_lost_any(unit), 0, "{unit:?}: {counters:?}");
        }
    }
    hits
}

/// Decodes the events; also returns the aggregate counters.
fn decode(events: &[u8], settings: &Settings) -> (Hits, Vec<u32>) {
    const BLOCK: usize = 1 << 21;
    let pool = Pool::new(4 + 2 * events.len() / BLOCK, BLOCK).expect("small");
    let mut decoder = decoder(settings);
    let (mut hits, mut counters) = (Hits::default(), Vec::new());
    let mut writer = pool.take().expect("a block");
    for event in walk(events) {
        if writer.remaining() < event.len() {
            writer = pool.take().expect("a block");
        }
        let mut frames = Frames::default();
        frames.slices.push(writer.append(event).expect("it fits"));
        frames.leases.add(writer.lease());
        let before = hits.hits.len();
        decoder.decode(&frames, &mut hits);
        let header = EventHeader(u64::from_be_bytes(*event.first_chunk().expect("a header")));
        let new = hits.hits.len() - before;
        if header.format() != Format::Special {
            counters.extend(std::iter::repeat_n(header.counter(), new));
        }
    }
    (hits, counters)
}

/// Arms, starts, runs for `run_ms` in steps, and stops; returns the received data and the truth.
fn session(settings: &Settings, run_ms: u64, step_ms: u64) -> (Receiver, Truth, Totals) {
    let mut board = Board::new(settings.clone()).expect("valid settings");
    let (mut out, mut receiver, mut truth) = (Outgoing::new(200_000), Receiver::default(), Truth::default());
    board.record_truth(true);
    board.connected();
    let start_ns = 7 * MS;
    let mut pump = |board: &mut Board, now_ns: u64| {
        while {
            let more = board.produce(now_ns, &mut out);
            receiver.take(&mut out, settings);
            board.take_truth_with_aggregates(&mut truth);
            more
        } {}
    };
    pump(&mut board, 0);
    board.arm().expect("idle");
    board.start(start_ns).expect("armed");
    for now_ms in (0..run_ms).step_by(step_ms as usize) {
        pump(&mut board, start_ns + now_ms * MS);
    }
    board.stop(start_ns + run_ms * MS);
    pump(&mut board, start_ns + run_ms * MS + 1);
    assert_eq!(board.state(), State::Armed);
    (receiver, truth, board.totals())
}

fn check(settings: &Settings) -> (Receiver, Truth) {
    let (receiver, truth, totals) = session(settings, 60, 7);
    assert_eq!((totals.datagrams, totals.bytes), (receiver.datagrams, receiver.bytes));
    assert_eq!(totals.empty_datagrams, receiver.empty);
    assert_eq!((totals.hits, totals.hits_cleared), (truth.hits.len() as u64, 0));
    let events = walk(&receiver.events);
    let count = |format| {
        let header =
            |event: &&&[u8]| EventHeader(u64::from_be_bytes(*event.first_chunk().expect("a header")));
        events.iter().filter(|event| header(event).format() == format).count() as u64
    };
    assert_eq!(totals.aggregates, count(Format::Aggregate));
    assert_eq!((totals.scope_events, totals.special_events), (count(Format::Scope), count(Format::Special)));
    let (decoded, counters) = decode(&receiver.events, settings);
    assert!(truth.hits.len() > 50, "{}: {settings:?}", truth.hits.len());
    assert_eq!(decoded.hits.len(), truth.hits.len());
    for (index, (read, sent)) in decoded.hits.iter().zip(&truth.hits).enumerate() {
        assert_eq!(read, sent, "hit {index}");
    }
    assert_eq!(counters, truth.aggregates);
    let read = read(&receiver.raw, settings);
    assert!(
        read.hits == truth.hits && read.statistics == decoded.statistics && read.signals == decoded.signals
    );
    assert_eq!(decoded.statistics.len() as u64, totals.statistics_records);
    let signals: Vec<bool> =
        decoded.signals.iter().map(|(_, signal)| matches!(signal, Signal::Start { .. })).collect();
    assert_eq!(signals, [true, false]);
    (receiver, truth)
}

fn busy() -> Settings {
    Settings { channels: 16, rate_hz: Rates::Each(20_000.0), ..Settings::default() }
}

#[test]
fn an_aggregate_with_waveforms_fits_a_block_of_its_receiver() {
    let settings = Settings { transport: Transport::Tcp, waveform_samples: 512, ..busy() };
    let most_bytes = |settings: &Settings| {
        let mut board = Board::new(settings.clone()).expect("valid");
        let (mut out, mut receiver) = (Outgoing::new(20_000_000), Receiver::default());
        board.arm().and_then(|()| board.start(0)).expect("idle");
        assert!(!board.produce(5 * MS, &mut out), "all of it fits");
        receiver.take(&mut out, settings);
        walk(&receiver.events).iter().map(|event| event.len()).max()
    };
    let most = most_bytes(&settings).expect("events");
    assert!((250_000..=256 << 10).contains(&most), "{most}");
    let asked = Settings { aggregate_hits: 400, ..settings };
    assert!(most_bytes(&asked).expect("events") > 512 << 10, "as it is asked");
}

#[test]
fn data_of_every_firmware_and_transport_are_decoded_to_the_truth() {
    for transport in [Transport::Udp, Transport::Tcp] {
        for aligned_datagrams in [true, false] {
            let plain = Settings { transport, aligned_datagrams, ..busy() };
            check(&plain);
            check(&Settings { aggregate_hits: 37, ..plain.clone() });
            check(&Settings { firmware: Firmware::Pha, statistics_interval_ms: 10, ..plain.clone() });
            check(&Settings { data: Data::OneWord, sampling_mhz: 500, ..plain.clone() });
            check(&Settings { firmware: Firmware::Opendpp, ..plain.clone() });
            let slow = Settings { rate_hz: Rates::Each(500.0), waveform_samples: 128, ..plain.clone() };
            check(&slow);
            check(&Settings { firmware: Firmware::Pha, ..slow.clone() });
            check(&Settings { waveform_every: 3, ..slow.clone() });
            check(&Settings { firmware: Firmware::Opendpp, ..slow.clone() });
            check(&Settings { firmware: Firmware::Zle, ..slow.clone() });
            check(&Settings { firmware: Firmware::Scope, ..slow });
        }
    }
}

#[test]
fn records_of_zero_length_encoding_have_all_samples_and_most_are_suppressed() {
    let settings =
        Settings { firmware: Firmware::Zle, rate_hz: Rates::Each(500.0), waveform_samples: 512, ..busy() };
    let (receiver, truth) = check(&settings);
    let read = read(&receiver.raw, &settings);
    let mut samples = thalweg_data::waveform::Samples::default();
    let (mut sent, mut last_channels) = (0, 0);
    for extra in &read.extras {
        samples.read(extra, &read.slices, &read.leases);
        sent += samples.analog_1.len();
        assert!(samples.analog_1.len() <= 512 && samples.analog_1.len().is_multiple_of(4));
        assert_eq!(extra.number & 0xFFFF, u32::from(super::zle::DEFAULT_VALUE));
        last_channels += extra.number >> 17 & 1;
    }
    assert_eq!(last_channels as usize * 16, truth.hits.len());
    assert!(sent > 0 && sent < truth.hits.len() * 512 / 4, "{sent} of {} samples", truth.hits.len() * 512);
}

#[test]
fn prepared_data_are_decoded_to_the_truth_in_every_lap() {
    for transport in [Transport::Udp, Transport::Tcp] {
        for (data, sampling_mhz) in [(Data::TwoWord, 125), (Data::OneWord, 500)] {
            let settings = Settings {
                prepared: true,
                prepared_mib: 1,
                total_rate_hz: Some(5e6),
                transport,
                data,
                sampling_mhz,
                drift_ppm: 3.0,
                offset_ps: 12_345_678,
                ..busy()
            };
            let (_, truth) = check(&settings);
            let rate = truth.hits.len() as f64 / 0.060;
            assert!((rate / 5e6 - 1.0).abs() < 0.1, "{rate}");
            assert!(truth.hits.windows(2).all(|pair| pair[0].time_ps <= pair[1].time_ps));
            check(&Settings { aggregate_hits: 100, ..settings });
        }
    }
}

#[test]
fn prepared_waveforms_and_scope_events_are_decoded_to_the_truth_in_every_lap() {
    for transport in [Transport::Udp, Transport::Tcp] {
        for aligned_datagrams in [true, false] {
            let plain = Settings {
                prepared: true,
                prepared_mib: 1,
                total_rate_hz: Some(1e5),
                transport,
                aligned_datagrams,
                drift_ppm: 3.0,
                offset_ps: 12_345_678,
                ..busy()
            };
            check(&plain);
            check(&Settings { data: Data::OneWord, sampling_mhz: 500, ..plain.clone() });
            let waves = Settings { waveform_samples: 128, ..plain.clone() };
            let (_, truth) = check(&waves);
            let rate = truth.hits.len() as f64 / 0.060;
            assert!((rate / 1e5 - 1.0).abs() < 0.1, "{rate}");
            assert!(truth.hits.windows(2).all(|pair| pair[0].time_ps <= pair[1].time_ps));
            check(&Settings { firmware: Firmware::Pha, waveform_every: 3, ..waves.clone() });
            check(&Settings { firmware: Firmware::Opendpp, aggregate_hits: 37, ..waves.clone() });
            check(&Settings { firmware: Firmware::Scope, ..waves.clone() });
            let large = transport == Transport::Tcp || !aligned_datagrams;
            let samples = if large { 2048 } else { 64 };
            let scope = Settings { firmware: Firmware::Scope, waveform_samples: samples, ..waves };
            check(&Settings { datagrams_per_buffer: 4, total_rate_hz: Some(5e3), ..scope });
        }
    }
}

#[test]
fn records_at_a_high_external_trigger_follow_each_other_and_their_samples_are_a_ramp() {
    let settings = Settings {
        firmware: Firmware::Scope,
        external_trigger_hz: Some(1e6),
        prepared: true,
        prepared_mib: 1,
        channels: 2,
        sampling_mhz: 100,
        waveform_samples: 1 << 13,
        aligned_datagrams: false,
        ..busy()
    };
    check(&Settings { decimation: 8, ..settings.clone() });
    let (receiver, truth) = check(&settings);
    let mut starts: Vec<i64> = truth.hits.iter().map(|hit| hit.time_ps).collect();
    starts.dedup();
    assert!(starts.len() > 700, "60 ms at 100 MS/s: {}", starts.len());
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 10_000 << 13));
    let read = read(&receiver.raw, &settings);
    let mut samples = thalweg_data::waveform::Samples::default();
    for (number, extra) in read.extras.iter().enumerate() {
        samples.read(extra, &read.slices, &read.leases);
        let first = number / 2 * (1 << 13) + number % 2;
        let ramp = (first..first + (1 << 13)).map(|sample| i32::from(sample as u16));
        assert!(samples.analog_1.iter().copied().eq(ramp), "record {number}");
    }
}

#[test]
fn an_external_trigger_gives_a_hit_of_each_channel_at_its_rate() {
    let settings = Settings { prepared: true, external_trigger_hz: Some(1e6), channels: 4, ..busy() };
    for samples in [0, 8] {
        let (_, truth) = check(&Settings { waveform_samples: samples, ..settings.clone() });
        // A datagram can end within the hits of a trigger, and the last one is not sent.
        let triggers = truth.hits.as_chunks::<4>().0;
        assert!(triggers.len().abs_diff(60_000) < 1000, "{}", triggers.len());
        for (number, trigger) in (0..).zip(triggers) {
            assert!(trigger.iter().all(|hit| hit.time_ps == number * 1_000_000), "trigger {number}");
            assert_eq!(trigger.map(|hit| hit.channel), [0, 1, 2, 3]);
        }
    }
}

#[test]
fn the_longest_record_of_a_board_needs_an_external_trigger_and_memory() {
    let record = |external_trigger_hz, waveform_samples, prepared_mib| {
        let settings = Settings {
            firmware: Firmware::Scope,
            external_trigger_hz,
            prepared: true,
            channels: 1,
            waveform_samples,
            aligned_datagrams: false,
            prepared_mib,
            ..busy()
        };
        settings.check().map_err(|error| error.key)
    };
    assert_eq!(record(Some(1.0), 42_000_000, 128), Ok(()));
    assert_eq!(record(Some(1.0), 42_000_000, 80), Err("waveform_samples"));
    assert_eq!(record(Some(1.0), 42_000_004, 128), Err("waveform_samples"));
    assert_eq!(record(None, 8192, 128), Err("waveform_samples"));
    assert_eq!(record(Some(0.0), 4, 128), Err("external_trigger_hz"));
    let halved = Settings { prepared: true, decimation: 2, external_trigger_hz: Some(1.0), ..busy() };
    assert_eq!(halved.check().map_err(|error| error.key), Err("decimation"), "of hits");
    let live = Settings { external_trigger_hz: Some(1.0), ..busy() };
    assert_eq!(live.check().map_err(|error| error.key), Err("external_trigger_hz"));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for prepared in [false, true] {
        let settings = Settings { prepared, total_rate_hz: Some(1e6), ..busy() };
        let bytes = |settings: &Settings| session(settings, 20, 3).0.events;
        assert!(bytes(&settings) == bytes(&settings));
        assert!(bytes(&settings) != bytes(&Settings { seed: 2, ..settings.clone() }));
    }
}

#[test]
fn hits_do_not_depend_on_the_times_of_produce() {
    let settings = busy();
    let (often, seldom) = (session(&settings, 50, 1).1, session(&settings, 50, 25).1);
    assert!(often.hits == seldom.hits && often.hits.len() > 10_000);
}

#[test]
fn commands_that_do_not_fit_the_state_are_refused() {
    let mut board = Board::new(busy()).expect("valid");
    assert!(board.start(0).is_err());
    board.arm().expect("idle");
    board.start(0).expect("armed");
    assert!(board.arm().is_err() && board.start(1).is_err());
    board.disarm(5);
    let mut out = Outgoing::new(1 << 20);
    while board.produce(10, &mut out) {}
    assert_eq!(board.state(), State::Idle);
    let message = board.start(12).expect_err("idle").to_string();
    assert!(message.contains("arm it first"), "{message}");
}

#[test]
fn an_idle_board_sends_markers_and_a_clear_restarts_ids() {
    let settings = busy();
    let mut board = Board::new(settings.clone()).expect("valid");
    let mut out = Outgoing::new(1 << 20);
    (0..=20).for_each(|step| assert!(!board.produce(step * 50 * MS, &mut out)));
    assert_eq!(out.lengths(), [8; 5]);
    out.clear();
    board.arm().expect("idle");
    board.start(2000 * MS).expect("armed");
    board.record_truth(true);
    board.produce(2003 * MS, &mut out);
    out.clear();
    board.clear();
    board.produce(2004 * MS, &mut out);
    let first = out.datagrams().next().expect("a marker").to_vec();
    let (data, footer) = Footer::split(&first).expect("a footer");
    assert_eq!((data.len(), footer.buffer_id(), footer.hash()), (0, 0, hash(0, data)));
    board.stop(2010 * MS);
    while board.produce(2020 * MS, &mut out) {}
    let mut truth = Truth::default();
    board.take_truth_with_aggregates(&mut truth);
    let totals = board.totals();
    assert!(totals.hits_cleared > 0);
    assert_eq!(truth.hits.len() as u64, totals.hits);
}

#[test]
fn an_unlimited_board_stops_at_its_present_time() {
    for prepared in [false, true] {
        let settings = Settings { pace: super::settings::Pace::Unlimited, prepared, ..busy() };
        let mut board = Board::new(settings.clone()).expect("valid");
        let (mut out, mut receiver) = (Outgoing::new(500_000), Receiver::default());
        board.arm().expect("idle");
        board.start(1000).expect("armed");
        (0..20).for_each(|_| {
            assert!(board.produce(u64::MAX, &mut out));
            receiver.take(&mut out, &settings);
        });
        board.stop(2000);
        assert!(!board.produce(u64::MAX, &mut out));
        receiver.take(&mut out, &settings);
        let (hits, _) = decode(&receiver.events, &settings);
        let last = hits.hits.last().expect("hits").time_ps;
        let Some((_, Signal::Stop { time_ps, .. })) = hits.signals.last() else { panic!("no stop") };
        assert!((last - 8000..last + 8000).contains(time_ps) && last > 1_000_000_000_000, "{last} {time_ps}");
        assert!(!board.produce(u64::MAX, &mut out) && out.is_empty());
        assert_eq!(board.state(), State::Armed);
    }
}

#[test]
fn a_board_that_is_far_behind_ends_a_while_after_its_stop() {
    for prepared in [false, true] {
        let settings = Settings { prepared, ..busy() };
        let mut board = Board::new(settings.clone()).expect("valid");
        let (mut out, mut receiver) = (Outgoing::new(20_000), Receiver::default());
        board.arm().and_then(|()| board.start(0)).expect("idle");
        let mut produce = |board: &mut Board, now_ms: u64| {
            let more = board.produce(now_ms * MS, &mut out);
            receiver.take(&mut out, &settings);
            more
        };
        assert!(produce(&mut board, 60_000), "far too much is due");
        board.stop(60_000 * MS);
        assert!(produce(&mut board, 61_000) && !board.is_cut_short(), "it catches up");
        assert!(!produce(&mut board, 61_001) && board.is_cut_short(), "whatever it has sent by now is all");
        assert_eq!(board.state(), State::Armed);
        let (hits, _) = decode(&receiver.events, &settings);
        let last = hits.hits.last().expect("hits").time_ps;
        let Some((_, Signal::Stop { time_ps, .. })) = hits.signals.last() else { panic!("no stop") };
        assert!((last - 8000..last + 8000).contains(time_ps) && last < 1_000_000_000_000, "{last} {time_ps}");
        assert_eq!(hits.hits.len() as u64, board.totals().hits);
    }
}

#[test]
fn a_run_ends_after_its_duration_even_without_a_rate() {
    let settings = Settings { duration_s: Some(0.01), ..busy() };
    let mut board = Board::new(settings).expect("valid");
    board.arm().expect("idle");
    board.start(0).expect("armed");
    let mut out = Outgoing::new(50_000);
    while board.produce(u64::MAX, &mut out) {
        out.clear();
    }
    assert_eq!(board.state(), State::Armed);
    let hits = board.totals().hits as f64;
    assert!((hits - 3200.0).abs() < 400.0, "{hits}");
    let silent = Settings { rate_hz: Rates::Each(0.0), ..busy() };
    let mut board = Board::new(silent).expect("valid");
    board.arm().expect("idle");
    board.start(0).expect("armed");
    out.clear();
    assert!(board.produce(u64::MAX, &mut out));
    assert_eq!(board.totals().hits, 0);
}

#[test]
fn an_inhibited_board_counts_hits_and_does_not_take_them_later() {
    for (prepared, firmware) in [(false, Firmware::Psd), (true, Firmware::Psd), (false, Firmware::Scope)] {
        let samples = if firmware == Firmware::Scope { 8 } else { 0 };
        let settings = Settings { prepared, firmware, waveform_samples: samples, ..busy() };
        let mut board = Board::new(settings).expect("valid");
        let mut out = Outgoing::new(1 << 20);
        let mut hits_until = |board: &mut Board, now_ms: u64| {
            while board.produce(now_ms * 1_000_000, &mut out) {
                out.clear();
            }
            out.clear();
            board.totals().hits
        };
        board.arm().and_then(|()| board.start(0)).expect("idle");
        let before = hits_until(&mut board, 100);
        board.inhibit(true);
        // Data that are already on their way when the veto closes are still sent.
        let at_pause = hits_until(&mut board, 120);
        assert_eq!(hits_until(&mut board, 200), at_pause, "prepared: {prepared}");
        let (taken, inhibited) = (at_pause - before, board.totals().hits_inhibited);
        assert!(taken <= before / 10, "{taken} of {before}");
        board.inhibit(false);
        let after = hits_until(&mut board, 300) - at_pause;
        let near = |hits: u64| hits.abs_diff(before) < before / 3;
        assert!(near(inhibited) && near(after), "{before}, {inhibited} inhibited, {after}");
        assert_eq!(board.totals().hits_inhibited, inhibited);
    }
}

#[test]
fn statistics_records_have_the_dead_time_of_pulses_inhibit_and_the_time_before_the_start() {
    let (interval_ms, offset_ps) = (10, 5_000_000_000);
    let settings = Settings { statistics_interval_ms: interval_ms, offset_ps, ..busy() };
    let mut board = Board::new(settings.clone()).expect("valid");
    let (mut out, mut receiver) = (Outgoing::new(1 << 20), Receiver::default());
    board.arm().and_then(|()| board.start(0)).expect("idle");
    let mut until = |board: &mut Board, now_ms: u64| {
        while {
            let more = board.produce(now_ms * MS, &mut out);
            receiver.take(&mut out, &settings);
            more
        } {}
    };
    until(&mut board, 40);
    board.inhibit(true);
    until(&mut board, 70);
    board.inhibit(false);
    until(&mut board, 100);
    board.stop(100 * MS);
    until(&mut board, 101);
    let (decoded, _) = decode(&receiver.events, &settings);
    let last = decoded.statistics.last().expect("ten of each channel");
    let hits =
        decoded.hits.iter().filter(|hit| hit.channel == last.channel && hit.time_ps < last.real_time_ps);
    let hits = hits.count() as i64;
    assert_eq!((last.saved as i64, last.start), (hits, 1), "{last:?}");
    assert!(last.real_time_ps >= 95_000_000_000, "{last:?}");
    let not_taking_ps = offset_ps as i64 + 30_000_000_000;
    let expected_ps = not_taking_ps + hits * 600_000;
    // Its last hit before it was inhibited may have been blind for a part of that time.
    let more_ps = last.dead_time_ps - expected_ps;
    assert!((-610_000..=610_000).contains(&more_ps), "{} for {expected_ps}", last.dead_time_ps);
}

#[test]
fn board_time_of_an_unlimited_board_stands_still_while_it_is_inhibited() {
    let mut board = Board::new(Settings { pace: super::settings::Pace::Unlimited, ..busy() }).expect("valid");
    let mut out = Outgoing::new(100_000);
    board.arm().and_then(|()| board.start(0)).expect("idle");
    assert!(board.produce(u64::MAX, &mut out), "as much as fits");
    let before = board.totals();
    board.inhibit(true);
    assert!(!board.produce(u64::MAX, &mut out));
    assert_eq!((board.totals(), board.state()), (before, State::Running));
    board.inhibit(false);
    out.clear();
    assert!(board.produce(u64::MAX, &mut out) && board.totals().hits > before.hits);
}

/// Runs a board that records its sent data for its receiver. Some of every hundred datagrams with data are lost, and
/// all behind `until`. Checks that the sent hits are those received and those counted as missing, and returns the
/// numbers of sent, decoded and missing hits, and of hits behind the last received datagram.
fn lossy(settings: &Settings, loses: impl Fn(usize) -> bool, until: f64) -> [u64; 4] {
    const BLOCK: usize = 1 << 20;
    let mut board = Board::new(settings.clone()).expect("valid settings");
    let record = std::sync::Arc::new(thalweg_data::SentRecord::new(1e6));
    board.keep_record(record.clone());
    board.arm().expect("idle");
    board.start(0).expect("armed");
    let (mut out, mut sent) = (Outgoing::new(200_000), Vec::new());
    let mut pump = |board: &mut Board, now_ns| {
        while {
            let more = board.produce(now_ns, &mut out);
            sent.extend(out.datagrams().map(<[u8]>::to_vec));
            out.clear();
            more
        } {}
    };
    (0..60).step_by(5).for_each(|now_ms| pump(&mut board, now_ms * MS));
    board.stop(60 * MS);
    pump(&mut board, 60 * MS + 1);
    let pool = Pool::new(256, 1 << 16).expect("small");
    let mut decoder = decoder(settings);
    let mut unpack = UdpUnpack::of_armed_board(SourceId(0), BLOCK as u64).asking(record.clone());
    let (mut hits, mut units) = (Hits::default(), Frames::default());
    let end = (sent.len() as f64 * until) as usize;
    for (_, datagram) in sent.iter().enumerate().filter(|(index, _)| *index < end && !loses(*index)) {
        let mut writer = pool.take().expect("a block");
        let mut frames = Frames::default();
        frames.slices.push(writer.append(datagram).expect("it fits"));
        frames.leases.add(writer.lease());
        units.clear();
        unpack.frame(&frames, &mut units);
        hits.clear();
        decoder.decode(&units, &mut hits);
    }
    units.clear();
    unpack.finish(&Frames::default(), &mut units);
    decoder.decode(&units, &mut hits);
    let counts = record.slot().expect("the record is complete");
    let wire = &unpack.wire_counters()[0];
    assert_eq!(counts.datagrams, wire.total_input(Unit::Datagrams), "{settings:?}");
    assert_eq!(counts.datagrams + counts.datagrams_behind, board.totals().datagrams);
    let (decoded, missing) = (decoder.counters().total_input(Unit::Hits), wire.total_lost_any(Unit::Hits));
    assert_eq!(
        (counts.hits, wire.total_input(Unit::Hits)),
        (decoded + missing, decoded + missing),
        "{settings:?}"
    );
    assert_eq!(wire.total_output(Unit::Hits), decoded, "{settings:?}");
    assert_eq!(counts.hits + counts.hits_behind, board.totals().hits);
    [board.totals().hits, decoded, missing, counts.hits_behind]
}

#[test]
fn the_record_of_the_sender_has_the_hits_in_every_gap() {
    let dense = Settings { datagrams_per_buffer: 4, ..busy() };
    for aligned_datagrams in [true, false] {
        let plain = Settings { aligned_datagrams, ..dense.clone() };
        let slow = Settings { rate_hz: Rates::Each(2000.0), waveform_samples: 128, ..plain.clone() };
        for settings in [
            plain.clone(),
            Settings { aggregate_hits: 37, ..plain.clone() },
            Settings { firmware: Firmware::Pha, statistics_interval_ms: 10, ..plain.clone() },
            slow.clone(),
            Settings { firmware: Firmware::Zle, ..slow.clone() },
            Settings { firmware: Firmware::Scope, ..slow },
            Settings { prepared: true, prepared_mib: 1, total_rate_hz: Some(5e6), ..plain.clone() },
            Settings {
                prepared: true,
                total_rate_hz: Some(4e4),
                waveform_samples: 128,
                firmware: Firmware::Scope,
                ..plain.clone()
            },
        ] {
            let [sent, decoded, missing, behind] = lossy(&settings, |_| false, 1.0);
            assert_eq!((decoded, missing, behind), (sent, 0, 0), "nothing is lost: {settings:?}");
            let [_, decoded, missing, behind] = lossy(&settings, |index| index % 13 == 3, 0.9);
            assert!(decoded > 0 && missing > 0 && behind > 0, "{settings:?}");
            // Whole buffers of unknown length are lost, and the first datagrams.
            lossy(&settings, |index| index < 3 || (20..33).contains(&index), 1.0);
        }
    }
}
