//! Emulated boards in one process, the run in another: as with real ones.

use std::time::Duration;

use crate::process::{Folder, Running, assert_books_close, number, run_directory, thalweg};

#[test]
fn a_run_drives_two_boards_over_their_own_control_protocol() {
    let folder = Folder::new();
    let arguments =
        ["emulate", "--boards", "2", "--address", "127.0.3.2", "--rate", "2000", "--seconds", "60"];
    let boards = Running::start(&arguments);
    std::thread::sleep(Duration::from_millis(700));
    let source = |name: &str, address: &str| {
        format!("[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"dig2://{address}\"\n")
    };
    let text = format!(
        "{}{}[record]\ndirectory = \"{}\"\n",
        source("left", "127.0.3.2"),
        source("right", "127.0.3.3"),
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    // Twice: a board that has been disarmed can be armed again.
    for _ in 0..2 {
        let summary = thalweg(&["run", &file, "--seconds", "1.5", "--json"]).done().json();
        assert_books_close(&summary);
        assert!(number(&summary, "hits_recorded") > 1000, "{summary:#}");
        assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
        thalweg(&["verify", &run_directory(&summary)]).done();
    }
    boards.signal("TERM");
    boards.wait().done();
}

#[test]
fn a_board_that_is_not_there_is_said_to_be_so() {
    let folder = Folder::new();
    let file = folder.file(
        "run.toml",
        &format!(
            "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"dig2://127.0.3.99\"\n\
             [record]\ndirectory = \"{}\"\n",
            folder.at("runs")
        ),
    );
    let ended = thalweg(&["run", &file, "--seconds", "1"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.error.contains("127.0.3.99"), "{}", ended.error);
}
