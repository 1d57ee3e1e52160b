//! Losses made on purpose, and books that name every one of them.

use crate::process::{Folder, assert_books_close, number, thalweg};

#[test]
fn one_percent_of_the_datagrams_of_two_boards_dropped_by_a_seed_is_accounted_for_exactly() {
    let folder = Folder::new();
    let arguments = ["demo", "--boards", "2", "--seconds", "2", "--loss", "0.01", "--seed", "11", "--json"];
    let ended = thalweg(&[&arguments[..], &["--directory", &folder.at("runs")]].concat()).done();
    let summary = ended.json();
    assert_books_close(&summary);
    let (sent, lost) = (number(&summary, "hits_sent"), number(&summary, "hits_lost"));
    assert!(lost > 0, "{summary:#}");
    let fraction = lost as f64 / sent as f64;
    assert!((0.002..0.05).contains(&fraction), "{fraction} lost of {sent}");
    let losses = summary["losses"].as_array().expect("a list");
    for source in ["board-1", "board-2"].iter() {
        let gaps: Vec<_> = losses.iter().filter(|loss| loss["source"] == **source).collect();
        assert!(
            gaps.iter().any(|loss| loss["unit"] == "datagrams" && loss["quality"] == "exact"),
            "{gaps:#?}"
        );
    }
}

#[test]
fn without_loss_nothing_is_lost() {
    let folder = Folder::new();
    let arguments = ["demo", "--boards", "3", "--seconds", "1", "--rate", "2000", "--json"];
    let summary = thalweg(&[&arguments[..], &["--directory", &folder.at("runs")]].concat()).done().json();
    assert_books_close(&summary);
    assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
}
