//! The trigger of emulated boards and the event manager that lets it come, in whatever order their nodes are started.
//!
//! ```text
//!  boards' node: started, triggers wait ─┬─ event manager says "not busy" ─► triggers
//!                                        └─ nobody says it in time ─► the run fails, and names whom it waited for
//! ```

use crate::process::{Folder, Running, accepted_triggers, number, thalweg};
use crate::units::{PATIENT, configuration, free_urls, unit, went_well};

const TRIGGERS: u64 = 300;

/// Boards on one node; event manager and builder unit on the other. Returns the file, and where the manager is.
fn two_nodes(folder: &Folder) -> (String, String) {
    let [builder, manager] = free_urls();
    let reached = |url: &str| format!("node = \"events\"\nlisten = \"{url}\"");
    let units = unit("ru-left", "readout", "sources = [\"left\"]\nnode = \"boards\"")
        + &unit("ru-right", "readout", "sources = [\"right\"]\nnode = \"boards\"")
        + &unit("bu-0", "builder", &reached(&builder))
        + &unit("evm", "manager", &reached(&manager));
    (configuration(folder, TRIGGERS, &units), manager)
}

#[test]
fn triggers_of_emulated_boards_wait_for_an_event_manager_that_is_started_later() {
    let folder = Folder::new();
    let (file, _) = two_nodes(&folder);
    let node = |name| {
        Running::start(&["run", &file, "--node", name, "--seconds", "100", "--json", "--states", "0.05"])
    };
    let boards = node("boards");
    boards.wait_until_running();
    let events = node("events");
    let boards = boards.wait().done().json();
    events.signal("TERM");
    let events = events.wait().done().json();
    [&boards, &events].into_iter().for_each(went_well);
    assert_eq!(number(&boards["events"], "triggers_offered"), TRIGGERS, "{:#}", boards["events"]);
    assert!(accepted_triggers(&boards) > 0, "{:#}", boards["events"]);
    let recorded = number(&events["events"], "events_recorded");
    assert_eq!(recorded, accepted_triggers(&boards), "{:#}\n{:#}", events["events"], boards["losses"]);
}

#[test]
fn a_run_whose_event_manager_never_reports_fails_and_names_it() {
    let folder = Folder::new();
    let (file, manager) = two_nodes(&folder);
    let text = std::fs::read_to_string(&file).expect("just written");
    let limited = text.replace(PATIENT, &format!("{PATIENT}first_word_ms = 300\n"));
    let file = folder.file("run.toml", &limited);
    let ended = thalweg(&["run", &file, "--node", "boards", "--seconds", "100", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let summary = ended.json();
    let failures = summary["failures"].to_string();
    for words in ["\\\"evm\\\"", &manager, "did not report within 0.3 s", "first_word_ms"] {
        assert!(failures.contains(words), "{words} in {failures}");
    }
    assert_eq!(number(&summary["events"], "triggers_refused"), 0, "{:#}", summary["events"]);
}
