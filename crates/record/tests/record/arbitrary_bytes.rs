//! Whatever the bytes are, the reader ends with a word and not with a panic.

use std::sync::OnceLock;

use crate::example_coincidences;
use crate::example_events;
use crate::example_losses::Losing;
use crate::example_run::{folder, write_run};
use crate::ranges;
use proptest::prelude::*;
use thalweg_record::{Compression, LossBounds, Settings, Table, check};

/// Files of every table, plain and compressed.
fn examples() -> &'static [Vec<u8>] {
    static EXAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        let mut files = Vec::new();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let folder = folder();
            let settings = Settings { compression, batch_hits: 20, ..Settings::default() };
            let run = write_run(folder.path(), &settings, 50, 10);
            for table in [Table::Hits, Table::Extras, Table::Waveforms, Table::Statistics] {
                files.push(std::fs::read(run.table(table)).expect("a file"));
            }
            let run = example_coincidences::write_run(folder.path(), &settings, 30, 7);
            files.push(std::fs::read(run.table(Table::Coincidences)).expect("a file"));
            let mut losing = Losing::new(folder.path(), LossBounds::default());
            (1..5).for_each(|second| {
                losing.lose(second as usize % 2, second);
                losing.take(second);
            });
            files.push(std::fs::read(losing.run.table(Table::Losses)).expect("a file"));
            files.push(ranges::example(folder.path(), "ru-left"));
            let events: Vec<_> = (0..12).map(example_events::planned).collect();
            let settings = Settings { compression, batch_bytes: 400, ..Settings::default() };
            let mut blocks = example_events::Blocks::new(false, 1);
            let run = example_events::write_run(folder.path(), &settings, &events, 4, 3, &mut blocks);
            for table in [Table::Events, Table::Fragments] {
                files.push(std::fs::read(run.table(table)).expect("a file"));
            }
        }
        files
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(check(&bytes).is_err());
    }

    #[test]
    fn damage_never_panics(
        example in 0usize..27,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = examples()[example].clone();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = check(&bytes);
    }
}

#[test]
fn examples_are_whole_and_say_so() {
    // Every length of the plain ones, which are the first third; of the others what is compressed ends at a length like any other.
    for (place, bytes) in examples().iter().enumerate() {
        let step = if place < examples().len() / 3 { 1 } else { 13 };
        assert!(check(bytes).expect("whole").rows > 0);
        for length in (0..bytes.len()).step_by(step) {
            assert!(check(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
    }
}

/// Found by fuzzing: numbers of variadic buffers whose sum is beyond any integer.
#[test]
fn counts_that_overflow_are_refused() {
    assert!(thalweg_record::check(include_bytes!("variadic_counts_overflow.arrows")).is_err());
}
