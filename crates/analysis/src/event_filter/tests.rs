use proptest::prelude::*;
use thalweg_data::{Events, SourceId};

use super::check::{NAMES, batch, decided};
use super::*;

fn parsed(text: &str) -> Result<EventExpression, String> {
    check::parsed(text).map_err(|error| error.to_string())
}

fn kept(text: &str, events: &Events) -> Vec<u64> {
    let mut filter = parsed(text).unwrap_or_else(|error| panic!("{error}"));
    let keep = decided(&mut filter, events, 0);
    events.events.iter().zip(keep).filter(|(_, keep)| *keep).map(|(event, _)| event.trigger).collect()
}

#[test]
fn every_field_means_what_it_says_of_events_in_any_number_of_slices() {
    let all = [
        vec![(5, vec![1, 2, 3, 4, 5, 6, 7, 8]), (6, vec![0xFF, 0xFE]), (7, vec![0b0010_0000])],
        vec![(5, vec![0xCD, 0xCC, 0x8C, 0x3F, 0, 0, 0, 0]), (7, vec![])],
        vec![(6, vec![9; 300])],
    ];
    for slice_bytes in [1, 3, 1000] {
        let events = batch(0, &all, slice_bytes);
        for (text, expected) in [
            ("trigger >= 1", vec![1, 2]),
            ("time in [1 ms, 3 ms]", vec![1]),
            ("latency == 500 ns", vec![0, 1, 2]),
            ("fragments == 1 || missing == 0", vec![0, 2]),
            ("bytes > 100 && attempt == 0", vec![2]),
            ("complete", vec![0]),
            ("age && !depth", vec![1, 2]),
            ("present(\"camera/1\")", vec![0, 1]),
            ("present('camera/0')", vec![0, 2]),
            ("fragment_bytes(\"left\") == 8", vec![0, 1]),
            ("ticks(\"camera/0\") - ticks(\"left\") == 100", vec![0]),
            ("u8(\"left\", 0) == 1", vec![0]),
            ("i8(\"camera/0\", 1) == -2", vec![0]),
            ("u16_le(\"left\", 1) == 770", vec![0]),
            ("u16_be(\"left\", 1) == 515", vec![0]),
            ("i16_be(\"camera/0\", 0) == -2", vec![0]),
            ("i16_le(\"camera/0\", 0) == -257", vec![0]),
            ("u32_be(\"left\", 4) == 84281096", vec![0]),
            ("i32_le(\"left\", 0) == 67305985", vec![0]),
            ("u64_le(\"left\", 0) == 578437695752307201", vec![0]),
            ("f32_le(\"left\", 0) in [1.09, 1.11]", vec![1]),
            ("f64_be(\"camera/0\", 0) > 0 || f64_le(\"left\", 1) == 0", vec![2]),
            ("bit(\"camera/1\", 0, 5)", vec![0]),
            ("bit(\"left\", 0, 17)", vec![0]),
            ("!bit(\"left\", 0, 16)", vec![1, 2]),
            ("max(u8, 0) == 255", vec![0]),
            ("min(u8, 0) == 1 && sum(u8, 0) == 288", vec![0]),
            ("sum(fragment_bytes) == bytes", vec![0, 1, 2]),
            ("max(ticks) - min(ticks) == 200", vec![0, 1]),
            ("max(u8, 299) == 9", vec![2]),
        ] {
            assert_eq!(kept(text, &events), expected, "{text} in slices of {slice_bytes}");
        }
    }
}

#[test]
fn bytes_behind_the_end_of_a_fragment_compare_with_nothing() {
    let events = batch(0, &[vec![(5, vec![1, 2])], vec![]], 1);
    for text in [
        "u16_le(\"left\", 1) >= 0",
        "u8(\"left\", 2) < 999",
        "u8(\"left\", 4294967295) != 3",
        "u8(\"camera/0\", 0) == u8(\"camera/0\", 0)",
        "max(u32_le, 0) > 0",
        "bit(\"left\", 2, 0)",
    ] {
        assert_eq!(kept(text, &events), [0; 0], "{text}");
    }
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let message = |text: &str| parsed(text).expect_err(text);
    assert!(message("").contains("as in \"missing == 0\""));
    assert!(message("missing").contains("compare it"));
    let unknown = message("energy > 3");
    assert!(unknown.contains("there is no \"energy\"; there are the fields trigger, time"), "{unknown}");
    let board = message("present(\"camera/9\")");
    assert!(board.contains("no board is called \"camera/9\"; there are left, camera/0, camera/1"), "{board}");
    assert!(message("present(left)").contains("in quotation marks"));
    assert!(message("present(\"left)").contains("the \" that ends this name is missing"));
    assert!(message("u16(\"left\", 0) > 1").contains("u16_le, u16_be"));
    assert!(message("u16_le(\"left\") > 1").contains("\",\" is missing"));
    assert!(message("u16_le(\"left\", 0.5) > 1").contains("a whole number is missing here"));
    assert!(message("u16_le(\"left\", -1) > 1").contains("a whole number is missing here"));
    assert!(message("max(missing) > 1").contains("a number of fragments is missing here"));
    assert!(message("present(\"left\") > 1").contains("this is a yes or no"));
    assert!(message("inside(region)").contains("there is no \"inside\""));
    let marked = message("missing == 0 && u16_le(\"right\", 2) > 5");
    let mark = marked.lines().last().expect("a mark");
    assert_eq!(mark.find('^'), Some(4 + "missing == 0 && u16_le(".len()), "{marked}");
}

#[test]
fn a_kind_that_is_not_known_is_refused_by_what_there_is() {
    let names = NAMES.map(str::to_owned);
    let boards = Boards { first: SourceId(5), names: &names };
    let settings = |kind: &str, keep: &str| Settings {
        keep: keep.to_owned(),
        kind: kind.to_owned(),
        workers: 1,
        deadline_ms: 1000,
        undecided: Undecided::Keep,
        prescale: 0,
    };
    let error = |kind, keep| make(&settings(kind, keep), boards).err().map(|error| error.to_string());
    let unknown = error("neural", "").expect("refused");
    assert!(
        unknown.contains("`kind = \"neural\"`") && unknown.contains("it has \"expression\""),
        "{unknown}"
    );
    assert_eq!(error("expression", "complete"), None);
    assert!(error("expression", "compleat").expect("refused").starts_with("`keep`: there is no"));
    let out_of_range = Settings { workers: 0, ..settings("expression", "complete") };
    assert!(out_of_range.check().expect_err("none").to_string().contains("`workers = 0`: write 1 to 64"));
    let none = Settings { deadline_ms: 0, ..settings("expression", "complete") };
    assert!(none.check().expect_err("none").to_string().contains("`deadline_ms = 0`"));
    assert_eq!(settings("expression", "age").text(), "age");
    assert_eq!(settings("neural", "net-5").text(), "neural: net-5");
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_fall(text in "[a-z0-9_ .<>=!&|()\\[\\]+*/,\"'-]{0,60}") {
        let _ = parsed(&text);
    }

    #[test]
    fn numbers_in_bytes_agree_with_those_read_one_by_one(
        rows in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..600),
        slice_bytes in 1usize..5,
        offset in 0u32..8,
    ) {
        let all: Vec<Vec<(u16, Vec<u8>)>> = rows.iter().map(|bytes| vec![(6, bytes.clone())]).collect();
        let events = batch(0, &all, slice_bytes);
        let found = kept(&format!("u16_be('camera/0', {offset}) > 20000"), &events);
        let at = offset as usize;
        let expected: Vec<u64> = rows
            .iter()
            .enumerate()
            .filter(|(_, bytes)| {
                bytes.get(at..at + 2).is_some_and(|two| u16::from_be_bytes([two[0], two[1]]) > 20000)
            })
            .map(|(trigger, _)| trigger as u64)
            .collect();
        prop_assert_eq!(found, expected);
    }
}
