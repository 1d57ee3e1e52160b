//! Several decoders of one source, which take its batches in turn, give the same times as one.

use thalweg_data::batch::BoardStarts;
use thalweg_data::{Decode, Frames, Framing, Hits, Mark, Pool, SourceId};
use thalweg_frontend::digitizer2::Settings;
use thalweg_frontend::digitizer2::decode::Decoder;
use thalweg_frontend::digitizer2::unpack::TcpUnpack;

const SOURCE: SourceId = SourceId(0);
const START: [u64; 4] =
    [0x3000_0003_0000_0004, 0x0200_0000_0400_0040, 0x0100_0000_ffff_ffff, 0x0100_0000_ffff_ffff];

/// An aggregate of one hit at this count.
fn aggregate(counts: u64) -> [u64; 3] {
    [0x2000_0000_0000_0003, 0x0500_0000_0000_0000 | counts, 0x8101_000c_8200_03e8]
}

/// The batches of the board: it is started, runs for three batches, and is started again after a minute.
fn batches() -> Vec<(Mark, Vec<u64>)> {
    let run = |start: u64| {
        (0..6u64).map(move |batch| {
            let hit = aggregate((1 + batch) * 125_000_000).to_vec();
            let words = if batch == 0 { [START.to_vec(), hit].concat() } else { hit };
            (Mark((start + 1 + batch) * 1_000_000_000), words)
        })
    };
    run(0).chain(run(60)).chain(run(120)).collect()
}

/// The times of `workers` decoders that take batches in turn.
fn times(decoder: &Decoder, workers: usize) -> Vec<i64> {
    let pool = Pool::new(64, 64 << 10).expect("small");
    let mut unpack = TcpUnpack::of_blob(SOURCE, 64 << 10);
    let mut decoders = vec![decoder.clone(); workers];
    let (mut starts, mut times) = (BoardStarts::default(), Vec::new());
    for (index, (mark, words)) in batches().into_iter().enumerate() {
        let mut received = Frames::default();
        received.header.mark = mark;
        let mut writer = pool.take().expect("free");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        received.slices.push(writer.append(&bytes).expect("fits"));
        received.leases.add(writer.lease());
        let mut units = Frames::default();
        assert_eq!(unpack.frame(&received, &mut units), 0);
        (units.header.mark, units.starts) = (mark, starts);
        starts.pass(unpack.starts(), mark);
        let mut hits = Hits::default();
        decoders[index % workers].decode(&units, &mut hits);
        times.extend(hits.hits.iter().map(|hit| hit.time_ps));
    }
    assert_eq!(unpack.starts(), 3);
    times
}

#[test]
fn a_board_that_is_started_again_has_the_same_times_with_any_number_of_workers() {
    let armed = Decoder::of_armed_board(SOURCE, &Settings::default()).expect("valid");
    let plain = Decoder::new(SOURCE, &Settings::default()).expect("valid");
    let one = times(&armed, 1);
    assert!(one.is_sorted() && one.len() == 18, "{one:?}");
    assert_eq!((one[6] - one[0], one[12] - one[6]), (60_000_000_000_000, 60_000_000_000_000));
    for workers in [2, 3, 4, 7] {
        assert_eq!(times(&armed, workers), one, "{workers} workers");
        assert_eq!(
            times(&plain, workers),
            times(&plain, 1),
            "{workers} workers of a board that we do not arm"
        );
    }
}
