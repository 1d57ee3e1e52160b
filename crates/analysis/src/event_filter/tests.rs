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

/// An event of this trigger, in which two boards have sent a number each.
fn event_of_numbers(trigger: u64, left: u64, right: u64) -> Events {
    batch(trigger, &[vec![(5, left.to_le_bytes().to_vec()), (6, right.to_be_bytes().to_vec())]], 3)
}

#[test]
fn whole_numbers_beyond_double_precision_are_compared_exactly() {
    const LIMIT: u64 = 1 << 53;
    let is_kept = |text: &str, events: &Events| !kept(text, events).is_empty();
    for (number, other) in [(LIMIT + 1, LIMIT), (u64::MAX, u64::MAX - 1), (u64::MAX - 1024, u64::MAX - 1025)]
    {
        let events = event_of_numbers(number, number, other);
        for (text, is_so) in [
            (format!("u64_le('left', 0) == {number}"), true),
            (format!("u64_le('left', 0) == {other}"), false),
            (format!("u64_le('left', 0) != {other}"), true),
            (format!("u64_le('left', 0) > {other}"), true),
            (format!("{other} < u64_le('left', 0)"), true),
            (format!("{number} > u64_le('left', 0)"), false),
            (format!("{other} < u64_le('left', 0) <= {number}"), true),
            (format!("u64_le('left', 0) in [{number}, {number}]"), true),
            (format!("u64_le('left', 0) in [0, {other}]"), false),
            (format!("u64_le('left', 0) == {other} + 1"), true),
            (format!("u64_le('left', 0) == {number}.0"), true),
            (format!("u64_le('left', 0) > -{number}"), true),
            (format!("trigger == {number}"), true),
            (format!("(trigger) >= {number} && trigger != {other}"), true),
            ("u64_le('left', 0) > u64_be('camera/0', 0)".to_owned(), true),
            ("u64_le('left', 0) == trigger".to_owned(), true),
            ("u64_be('camera/0', 0) == trigger".to_owned(), false),
            ("u64_be('camera/0', 0) < 1".to_owned(), false),
            ("u8('left', 0) < trigger".to_owned(), true),
            ("u64_le('camera/1', 0) != trigger".to_owned(), false),
            ("u64_le('left', 1) != 0".to_owned(), false),
            (format!("max(u64_le, 0) >= {number}"), true),
            (format!("sum(u64_be, 0) > {other}"), true),
        ] {
            assert_eq!(is_kept(&text, &events), is_so, "{text} of {number} and {other}");
        }
    }
    let total = u128::from(u64::MAX) + u128::from(u64::MAX - 1);
    let events = batch(
        0,
        &[vec![(5, u64::MAX.to_le_bytes().to_vec()), (6, (u64::MAX - 1).to_le_bytes().to_vec())]],
        8,
    );
    assert!(is_kept(&format!("sum(u64_le, 0) == {total}"), &events));
    assert!(!is_kept(&format!("sum(u64_le, 0) == {}", total - 1), &events));
    // Trigger 4503600 came after 9007.2 s, which are more than 2^53 ps.
    let late = batch(4_503_600, &[vec![]], 1);
    assert!(is_kept(
        "time == 9007200000000000 && time == 9007200 ms && time in [9007200 ms, 9007200000 us]",
        &late
    ));
    assert!(!is_kept("time == 9007200000000001 || time > 9007200 ms || time != 9007200000 us", &late));
}

#[test]
fn what_is_computed_and_fractions_are_of_double_precision() {
    let events = event_of_numbers(0, (1 << 53) + 1, 0);
    assert_eq!(kept("u64_le('left', 0) + 0 == 9007199254740992", &events), [0], "a sum is rounded");
    assert_eq!(kept("u64_le('left', 0) >= 9007199254740992.5", &events), [0]);
    assert_eq!(kept("u64_le('left', 0) * 0.5 == 4503599627370496", &events), [0], "a product, too");
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let message = |text: &str| parsed(text).expect_err(text);
    assert!(message("").contains("as in \"missing == 0\""));
    assert!(message("missing").contains("compare it"));
    let unknown = message("energy > 3");
    assert!(unknown.contains("there is no \"energy\"; there are the fields trigger, time"), "{unknown}");
    let unit = message("latency > 3 keV");
    assert!(unit.contains("`latency` is in ps, and this number is an energy"), "{unit}");
    assert!(message("max(ticks) < 5 ns").contains("`max` has no unit, and this number is a time"));
    parsed("u16_le(\"left\", 0) < 5 ns").expect("nobody knows what a board writes");
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
    let empty = message("trigger in [9007199254740993, 9007199254740992]");
    assert!(empty.contains("no smaller than the first"), "{empty}");
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

/// Numbers near which double precision has gaps or signs change, and any others.
fn wide() -> impl Strategy<Value = u64> {
    let near = |middle: u64| (0u64..5).prop_map(move |off| middle.wrapping_add(off).wrapping_sub(2));
    prop_oneof![near(0), near(1 << 53), near(1 << 54), near(1 << 63), near(u64::MAX), any::<u64>()]
}

proptest! {
    #[test]
    fn comparisons_of_whole_numbers_are_those_of_integers(
        left in wide(),
        right in wide(),
        trigger in 0u64..u64::MAX,
        low in wide(),
        high in wide(),
        is_negative in any::<bool>(),
    ) {
        let events = event_of_numbers(trigger, left, right);
        let is_kept = |text: &str| !kept(text, &events).is_empty();
        let (one, two) = (i128::from(left), i128::from(right));
        let other = if is_negative { -two } else { two };
        for (symbol, forward, backward, of_fields) in [
            ("<", one < other, other < one, one < two),
            ("<=", one <= other, other <= one, one <= two),
            (">", one > other, other > one, one > two),
            (">=", one >= other, other >= one, one >= two),
            ("==", one == other, other == one, one == two),
            ("!=", one != other, other != one, one != two),
        ] {
            prop_assert_eq!(is_kept(&format!("u64_le('left', 0) {symbol} {other}")), forward);
            prop_assert_eq!(is_kept(&format!("{other} {symbol} u64_le('left', 0)")), backward);
            prop_assert_eq!(is_kept(&format!("u64_le('left', 0) {symbol} u64_be('camera/0', 0)")), of_fields);
        }
        let own = format!("trigger == {trigger} && !(trigger == {})", trigger.wrapping_add(1));
        prop_assert!(is_kept(&own), "{}", own);
        let (low, high) = (low.min(high), low.max(high));
        prop_assert_eq!(is_kept(&format!("u64_le('left', 0) in [{low}, {high}]")), low <= left && left <= high);
        let sum = i128::from(left) + i128::from(right.swap_bytes());
        let own = format!("sum(u64_le, 0) == {sum}");
        prop_assert!(is_kept(&own), "{}", own);
    }

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
