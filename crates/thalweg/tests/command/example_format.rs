//! The documented example of a front end: boards over UDP on this machine, some of whose datagrams are lost.

use crate::process::{Folder, assert_ledger_balances, number, run_directory, thalweg};

#[test]
fn lost_datagrams_of_an_example_board_are_counted_and_its_other_hits_recorded() {
    let folder = Folder::new();
    let text = "[run]\n hits = 50000\n[[source]]\nname = \"tdc\"\nformat = \"example\"\nurl = \"emulate://\"\nboard = 7\nloss = 0.05\n\
                [source.emulate]\nboard = 7\nrate_hz = 1e5\n";
    let text = format!("{text}[record]\ndirectory = \"{}\"\n", folder.at("runs"));
    let summary = thalweg(&["run", &folder.file("run.toml", &text), "--json"]).done().json();
    assert_ledger_balances(&summary);
    assert!(number(&summary, "hits_recorded") >= 50_000 && number(&summary, "hits_lost") > 0, "{summary:#}");
    let losses = summary["losses"].as_array().expect("a list");
    let is_gap = |loss: &&serde_json::Value| loss["reason"] == "datagram_gap" && loss["quality"] == "exact";
    assert!(losses.iter().any(|loss| is_gap(&loss) && loss["source"] == "tdc"), "{summary:#}");
    thalweg(&["verify", &run_directory(&summary)]).done();
}
