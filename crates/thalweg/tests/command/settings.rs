//! Configurations that are wrong, and what is said about them.

use crate::process::{Ended, Folder, thalweg};

fn run(text: &str) -> Ended {
    let folder = Folder::new();
    let file = folder.file("wrong.toml", text);
    thalweg(&["run", &file])
}

/// Exit code 2, and every one of `words` in the message.
#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let ended = run(text);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for word in words.iter().chain(&["wrong.toml"]) {
        assert!(ended.error.contains(word), "`{word}` in:\n{}", ended.error);
    }
}

const SOURCE: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n";

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_keys_there_are() {
    refused(&format!("{SOURCE}polocy = \"drop\"\n"), &["line 5", "polocy", "policy", "name", "url"]);
}

#[test]
fn an_unknown_section_is_named_with_its_line() {
    refused(&format!("{SOURCE}[recrod]\ndirectory = \"x\"\n"), &["line 5", "recrod", "[record]"]);
}

#[test]
fn a_wrong_word_is_named_with_those_there_are() {
    let text = SOURCE.replace("digitizer2", "digitiser3");
    refused(&text, &["line 3", "digitiser3", "digitizer2", "generic", "compass", "abcd"]);
}

#[test]
fn a_wrong_type_is_named_with_what_is_expected() {
    refused(&format!("[run]\nseconds = \"ten\"\n{SOURCE}"), &["line 2", "seconds", "ten"]);
}

#[test]
fn a_syntax_error_points_at_its_line() {
    refused(&format!("{SOURCE}policy = \n"), &["line 5"]);
}

#[test]
fn a_missing_key_is_named() {
    refused("[[source]]\nname = \"left\"\nurl = \"udp://127.0.0.1:0\"\n", &["line 1", "format"]);
}

#[test]
fn two_sources_of_one_name_are_refused() {
    refused(&format!("{SOURCE}{SOURCE}"), &["line 5", "left"]);
}

#[test]
fn without_a_source_an_example_is_given() {
    refused("[run]\ntitle = \"x\"\n", &["[[source]]", "url ="]);
}

#[test]
fn a_url_that_means_nothing_is_refused_with_those_that_do() {
    refused(
        &SOURCE.replace("udp://127.0.0.1:0", "carrier-pigeon://x"),
        &["line 4", "carrier-pigeon", "udp://"],
    );
}

#[test]
fn a_policy_on_old_runs_that_cannot_be_meant_is_refused() {
    for (rules, words) in [
        ("", &["retention", "says nothing"][..]),
        ("most_bytes = 2000\n", &["retention", "most_bytes = 2000"]),
        ("most_bytes = -1\n", &["line 6", "most_bytes = -1"]),
        ("most_runs = 0\n", &["retention", "most_runs = 0"]),
        ("least_free_bytes = 9000000000000000000\n", &["retention", "never free"]),
        ("most_byte = 2000000000\n", &["line 6", "most_bytes"]),
    ] {
        refused(&format!("{SOURCE}[record.retention]\n{rules}"), words);
    }
}

#[test]
fn a_file_that_is_not_there_is_said_to_be_so() {
    let ended = thalweg(&["run", "/nowhere/at-all.toml"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.error.contains("/nowhere/at-all.toml"), "{}", ended.error);
}

#[test]
fn a_plan_is_explained_without_running() {
    let folder = Folder::new();
    let file = folder.file("run.toml", SOURCE);
    let plan = thalweg(&["run", &file, "--explain", "--json"]).done().json();
    assert!(plan["budget"].as_array().is_some_and(|items| !items.is_empty()), "{plan:#}");
    assert!(plan["threads"].as_array().is_some_and(|threads| threads.len() >= 2), "{plan:#}");
}
