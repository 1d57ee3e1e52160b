//! What people are shown: no number that is not so, and unknown where something is unknown.

use crate::process::{Folder, assert_ledger_balances, number, run_directory, thalweg};

/// Emulated boards that lose 2 % of their datagrams, recorded with their raw bytes.
fn lossy(folder: &Folder) -> String {
    let text = format!(
        "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nloss = 0.02\n\
         [source.emulate]\nchannels = 4\nrate_hz = 50000\n\
         [record]\ndirectory = \"{}\"\ntables = [\"hits\", \"raw\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

#[test]
fn lost_hits_are_unknown_with_their_bound_where_only_frames_or_datagrams_were_counted() {
    let folder = Folder::new();
    let file = lossy(&folder);
    let sent = thalweg(&["run", &file, "--seconds", "1.5", "--json"]).done().json();
    assert_ledger_balances(&sent);
    let exact = &sent["loss"]["totals"][0];
    assert_eq!((&exact["unit"], &exact["quality"]), (&"hits".into(), &"exact".into()), "{sent:#}");
    assert!(number(exact, "count") > 0 && exact["fraction"].as_f64() > Some(0.0), "{exact:#}");
    // Of what is replayed there is no sender that could say how many there were.
    let replayed = thalweg(&["replay", &run_directory(&sent), "--directory", &folder.at("again"), "--json"]);
    let replayed = replayed.done().json();
    let unknown = &replayed["loss"]["totals"][0];
    assert_eq!(unknown["quality"], "unknown", "{replayed:#}");
    let text = unknown["text"].as_str().expect("words");
    assert!(text.starts_with("hits lost: unknown, ≥ ") && text.ends_with(" %)"), "{text}");
    let run = run_directory(&replayed);
    let plot = folder.at("plot.svg");
    thalweg(&["plot", &run, "--output", &plot]).done();
    let plot = std::fs::read_to_string(plot).expect("drawn");
    let verified = thalweg(&["verify", &run]).done().out;
    let inspected = thalweg(&["inspect", &run]).done().out;
    for (screen, shown) in [("verify", &verified), ("inspect", &inspected), ("plot", &plot)] {
        assert!(shown.contains(text), "{screen}: no \"{text}\" in\n{shown}");
        for wrong in ["none lost", ", 0 lost", "no hits lost"] {
            assert!(!shown.contains(wrong), "{screen}: \"{wrong}\" in\n{shown}");
        }
    }
}

#[test]
fn the_summary_gives_each_loss_a_unit_and_a_percentage() {
    let folder = Folder::new();
    let text = thalweg(&["run", &lossy(&folder), "--seconds", "1"]).done().out;
    let losses: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("lost ")).collect();
    assert!(!losses.is_empty() && losses.iter().all(|line| line.contains(" %) of left at ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("hits lost: ") && line.contains(" %)")), "{text}");
    assert!(!text.contains("see the dumps"), "boards of hits keep none: {text}");
}

#[test]
fn the_summary_names_dead_time_of_triggers_and_of_time_and_its_percentiles() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = 2\n\
         [source.emulate]\npayload_bytes = 4500\n\
         [trigger]\nprogram = \"constant\"\nrate_hz = 2000.0\ntriggers = 1000\n\
         [record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let text = thalweg(&["run", &folder.file("run.toml", &text)]).done().out;
    assert!(text.contains("  triggers: 1000 offered, "), "{text}");
    assert!(text.contains("; dead time ") && text.contains("% (refused ÷ offered)"), "{text}");
    assert!(text.contains("  BUSY for ") && text.contains("; live time "), "{text}");
    assert!(text.contains("  event size p50 ") && text.contains("; build latency p50 "), "{text}");
    assert!(text.contains("no fragments lost\nno events lost\n"), "{text}");
    assert!(!text.contains("half of them"), "{text}");
}

#[test]
fn hits_are_called_recorded_only_where_they_are_on_file() {
    let folder = Folder::new();
    let text = |tables: &str| {
        format!(
            "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
             [source.emulate]\nrate_hz = 1000\n[record]\ndirectory = \"{}\"\ntables = [{tables}]\n",
            folder.at("runs")
        )
    };
    let kept = [
        ("\"hits\", \"raw\"", "hits recorded"),
        ("\"raw\"", "hits taken, raw bytes recorded"),
        ("\"statistics\"", "hits taken, not recorded"),
        ("", " 0 hits recorded"),
    ];
    for (number, (tables, words)) in kept.into_iter().enumerate() {
        let file = folder.file("kept.toml", &text(tables));
        let ended = thalweg(&["run", &file, "--seconds", "0.3"]).done().out;
        let said = ended.lines().next().expect("what was recorded");
        assert!(said.contains(&format!("{words} (")), "[{tables}]: {said}");
        let run = folder.at(&format!("runs/{:06}", number + 1));
        let verified = thalweg(&["verify", &run]).done().out;
        let said = verified.lines().find(|line| line.contains("the ledger balances")).expect("it is said");
        assert!(said.split(';').any(|part| part.ends_with(words)), "[{tables}]: {said}");
    }
}

#[test]
fn events_are_called_recorded_only_where_they_are_on_file() {
    let folder = Folder::new();
    let kept = [
        ("\"events\"", "/s), 50 recorded", "50 events recorded"),
        ("\"raw\"", "/s), raw bytes recorded", "50 events built, raw bytes recorded"),
        ("\"fragments\"", "/s), not recorded", "50 events built, not recorded"),
    ];
    for (number, (tables, words, verified)) in kept.into_iter().enumerate() {
        let text = format!(
            "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = 2\n\
             [trigger]\nprogram = \"constant\"\nrate_hz = 2000.0\ntriggers = 50\n\
             [record]\ndirectory = \"{}\"\ntables = [{tables}]\n",
            folder.at("runs")
        );
        let ended = thalweg(&["run", &folder.file("kept.toml", &text)]).done().out;
        let said = ended.lines().next().expect("what was recorded");
        assert!(said.ends_with(words), "[{tables}]: {said}");
        let run = folder.at(&format!("runs/{:06}", number + 1));
        let said = thalweg(&["verify", &run]).done().out;
        assert!(said.contains(&format!("  the ledger balances, {verified}\n")), "[{tables}]: {said}");
    }
}
