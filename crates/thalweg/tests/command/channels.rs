//! The table of channels that a configuration names: kept with the run, and refused when it has holes.

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

fn configuration(folder: &Folder) -> String {
    let text = format!(
        "[channels]\nfile = \"channels.csv\"\n\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\n\
         url = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n[source.emulate]\nchannels = 4\nrate_hz = 2e3\nseed = 5\n\n\
         [record]\ndirectory = \"{}\"\ntables = [\"hits\", \"raw\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

#[test]
fn a_replay_uses_the_table_that_the_run_was_taken_with() {
    let folder = Folder::new();
    // The offset moves hits in time, so another table would give other hits.
    let table = "number,name,offset_ps,kev_0,kev_1\n0,first,3000000,0,0.1\n1,second,,0,0.1\n";
    let csv = folder.file("channels.csv", table);
    let run =
        Running::start(&["run", &configuration(&folder), "--seconds", "100", "--json", "--states", "0.1"]);
    let first = run.stop_when("hits", |state| number(state, "hits_recorded") > 2000).done().json();
    assert_ledger_balances(&first);
    assert_eq!(
        std::fs::read_to_string(format!("{}/channels.csv", run_directory(&first))).expect("kept"),
        table
    );
    thalweg(&["verify", &run_directory(&first)]).done();
    let hits = |summary| std::fs::read(format!("{}/hits.arrows", run_directory(summary))).expect("recorded");
    let replayed = |what: &str, run: &str| {
        thalweg(&["replay", run, "--directory", &folder.at(what), "--json"]).done().json()
    };
    std::fs::write(&csv, "number,offset_ps\n0,-7000000\n").expect("written");
    let changed = replayed("changed", &run_directory(&first));
    assert!(hits(&first) == hits(&changed), "the table of now was used");
    std::fs::remove_file(&csv).expect("removed");
    let gone = replayed("gone", &run_directory(&first));
    assert!(hits(&first) == hits(&gone), "other hits without the table");
    // The copy is kept with the replay, too.
    let moved = std::fs::read_to_string(format!("{}/channels.csv", run_directory(&gone))).expect("kept");
    assert_eq!(moved, table);
}

#[test]
fn a_table_with_holes_is_refused_with_file_line_and_what_to_write() {
    for (table, words) in [
        ("number,kev_0,kev_1,kev_2\n0,0,0.1,\n1,0,,0.2\n", "kev_2 is given and kev_1 is not; write 0"),
        ("number,kev_0\n0,1\n,2\n", "a row without a channel number"),
        ("number,kev_0\n0,1\n1\n", "1 cells where the first line names 2 columns"),
    ] {
        let folder = Folder::new();
        folder.file("channels.csv", table);
        let ended = thalweg(&["run", &configuration(&folder), "--seconds", "1"]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains(words), "{words}: {}", ended.error);
        assert!(ended.error.contains("channels.csv, line 3"), "{}", ended.error);
        assert!(!folder.path().join("runs").exists(), "a run was begun");
    }
}

fn two_boards(folder: &Folder, second: &str) -> String {
    let board = |name: &str, more: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n{more}\n\
             [source.emulate]\nchannels = 4\nrate_hz = 2e3\n\n"
        )
    };
    let text = board("left", "first_channel = 2")
        + &board("right", second)
        + &format!("[record]\ndirectory = \"{}\"\n", folder.at("runs"));
    folder.file("run.toml", &text)
}

#[test]
fn channels_that_two_boards_share_are_refused_with_both_names_and_the_next_free_range() {
    let folder = Folder::new();
    for arguments in [&["--explain"][..], &["--seconds", "1"]] {
        let file = two_boards(&folder, "first_channel = 5");
        let ended = thalweg(&[&["run", &file], arguments].concat());
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        for words in ["\"left\"", "\"right\"", "5 to 8", "2 to 5", "first_channel = 6"] {
            assert!(ended.error.contains(words), "{words}: {}", ended.error);
        }
        assert!(!folder.path().join("runs").exists(), "a run was begun");
    }
}

#[test]
fn run_json_says_which_channels_are_whose() {
    let folder = Folder::new();
    let file = two_boards(&folder, "first_channel = 6");
    let summary = thalweg(&["run", &file, "--seconds", "0.3", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let text = std::fs::read_to_string(format!("{}/run.json", run_directory(&summary))).expect("recorded");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let expected =
        serde_json::json!({ "left": { "first": 2, "count": 4 }, "right": { "first": 6, "count": 4 } });
    assert_eq!(record["channels"], expected, "{text}");
}
