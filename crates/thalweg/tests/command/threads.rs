//! Threads on cores, memory on nodes: as configured, and as explained.
//!
//! ```text
//!  [threads] ─► thalweg run ─► /proc/PID/task/*: name, allowed cores
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

use crate::process::{Ended, Folder, Running, number, thalweg, wait_until};

const BOARD: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n";

fn configuration(folder: &Folder, source: &str, more: &str) -> String {
    folder.file("run.toml", &format!("{source}[record]\ndirectory = \"{}\"\n{more}", folder.at("runs")))
}

/// The cores that this test may use.
fn allowed() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux reports it");
    list(field(&status, "Cpus_allowed_list:"))
}

fn field<'t>(status: &'t str, name: &str) -> &'t str {
    status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim)
}

fn list(text: &str) -> Vec<usize> {
    let number = |text: &str| text.parse::<usize>().expect("the kernel writes numbers");
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => (number(first)..=number(last)).collect::<Vec<_>>(),
        None => vec![number(part)],
    };
    text.split(',').flat_map(range).collect()
}

/// The threads of a process that goes on, each with its cores.
fn threads(process: &Running) -> BTreeMap<String, Vec<usize>> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).expect("it goes on");
    let found = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        Some((field(&status, "Name:").to_owned(), list(field(&status, "Cpus_allowed_list:"))))
    });
    found.collect()
}

/// Waits until the threads of a run have these names and cores, and data have come; ends it.
#[track_caller]
fn threads_stand(running: Running, data: impl Fn(&Value) -> u64, wanted: &[(&str, &[usize])]) {
    let stands = |name: &str, cores: &[usize]| threads(&running).get(name).map(Vec::as_slice) == Some(cores);
    for (name, cores) in wanted {
        wait_until(&format!("{name} on {cores:?} of {:?}", threads(&running)), || stands(name, cores));
    }
    running.wait_for_state("data come", |state| data(state) > 0);
    // Nobody was put elsewhere meanwhile.
    let found = threads(&running);
    for (name, cores) in wanted {
        assert!(stands(name, cores), "{name} of {found:?}");
    }
    running.signal("TERM");
    running.wait().done();
}

#[test]
fn every_thread_has_its_name_and_stands_where_it_is_put() {
    let cores = allowed();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let folder = Folder::new();
    let source = BOARD.replace("emulate://\"\n", "emulate://\"\nworkers = 2\n");
    let places = format!(
        "tables = [\"hits\", \"raw\"]\ncompression = \"lz4\"\n\
         [threads]\nleft = {last}\nleft-decode = [{first}]\norder = {{ cores = [{last}] }}\n\
         process = {first}\nemulate = {first}\n"
    );
    let file = configuration(&folder, &source, &places);
    let running = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let wanted = [
        ("left", &[last][..]),
        ("left-decode-1", &[first]),
        ("left-decode-2", &[first]),
        ("order", &[last]),
        ("process", &[first]),
        ("raw", &cores),
        ("write", &cores),
        ("compress-0", &cores),
        ("board data", &[first]),
    ];
    threads_stand(running, |state| number(state, "hits_recorded"), &wanted);
}

#[test]
fn what_is_not_named_stands_with_the_others() {
    let cores = allowed();
    let last = cores[cores.len() - 1];
    let folder = Folder::new();
    let source = "[[source]]\nname = \"cdc\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 3\n";
    let file = configuration(&folder, source, &format!("[threads]\nothers = {last}\nbuild = {}\n", cores[0]));
    let running = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let (first, last) = (&cores[..1], &cores[cores.len() - 1..]);
    let wanted = [("build", first), ("record", last), ("triggered board", last), ("thalweg", last)];
    threads_stand(running, |state| number(&state["events"], "events_recorded"), &wanted);
}

/// Exit code 2, and every one of `words` in the message.
#[track_caller]
fn refused(source: &str, more: &str, words: &[&str]) {
    let folder = Folder::new();
    let file = configuration(&folder, source, more);
    let ended: Ended = thalweg(&["run", &file, "--seconds", "1"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for word in words.iter().chain(&["run.toml"]) {
        assert!(ended.error.contains(word), "`{word}` in:\n{}", ended.error);
    }
}

#[test]
fn a_thread_or_core_that_is_not_there_is_named_with_those_that_are() {
    refused(
        BOARD,
        "[threads]\nlfet = 0\n",
        &["[threads]", "`lfet`", "left, order, write, process, losses, emulate", "others"],
    );
    refused(BOARD, "[threads]\nleft = 7777\n", &["`left`", "core 7777 does not exist", "this machine has"]);
    refused(BOARD, "[threads]\nleft = []\n", &["empty list"]);
    refused(BOARD, "[threads]\nleft = \"two\"\n", &["expected a core (2)"]);
    refused(BOARD, "[threads]\nleft = { priority = 0 }\n", &["1 to 99"]);
}

#[test]
fn a_node_that_is_not_there_is_refused() {
    let source = BOARD.to_owned() + "numa_node = 63\n";
    refused(&source, "", &["left", "numa_node = 63", "no such node"]);
    refused(&(BOARD.to_owned() + "huge_pages = \"some\"\n"), "", &["some", "try", "require"]);
}

#[test]
fn memory_of_every_kind_is_taken_or_refused_with_a_word() {
    let folder = Folder::new();
    for keys in ["numa_node = 0\n", "huge_pages = \"off\"\n", "huge_pages = \"require\"\n"] {
        let file = configuration(&folder, &(BOARD.to_owned() + keys), "");
        let ended = thalweg(&["run", &file, "--seconds", "1", "--json"]);
        match ended.code {
            Some(0) => assert!(number(&ended.json(), "hits_recorded") > 0, "{keys}"),
            // What the machine does not have, or a container does not allow.
            _ => assert!(
                ended.error.contains("vm.nr_hugepages") || ended.error.contains("mbind"),
                "{keys}: {ended:#?}"
            ),
        }
    }
}

#[test]
fn five_hundred_boards_are_explained_on_a_page() {
    let folder = Folder::new();
    let source = |number: usize| {
        format!(
            "[[source]]\nname = \"board-{number}\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:{}\"\nmemory_bytes = 4194304\nfirst_channel = {}\n",
            20_000 + number,
            64 * (number - 1)
        )
    };
    let sources: String = (1..=512).map(source).collect();
    let file = configuration(&folder, &sources, "");
    let ended = thalweg(&["run", &file, "--explain"]).done();
    assert!(ended.out.lines().count() < 50, "{}", ended.out);
    assert!(ended.out.contains("board-1 … board-512 (512)"), "{}", ended.out);
    let plan = thalweg(&["run", &file, "--explain", "--json"]).done().json();
    let sum: u64 = plan["budget"].as_array().expect("a list").iter().map(|item| number(item, "bytes")).sum();
    assert_eq!(number(&plan, "total_bytes"), sum);
    assert_eq!(plan["threads"].as_array().map(Vec::len), Some(516), "{:#}", plan["threads"][512]);
    assert_eq!(plan["rings"].as_array().map(Vec::len), Some(513));
    assert!(plan["files"].as_array().is_some_and(|files| files.contains(&Value::from("hits.arrows"))));
}
