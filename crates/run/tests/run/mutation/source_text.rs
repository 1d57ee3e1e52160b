//! Where the product counts, by its source text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The calls that count, with the type of what they are given first.
const CALLS: [&str; 10] = [
    ".input(",
    ".output(",
    ".overhead(",
    ".filtered(",
    ".lost(",
    ".noted(",
    ".gap_filled(",
    ".destroyed(",
    ".filter_output(",
    ".set_held(",
];
/// Adds the counts of one set of counters to another's.
const SUM: &str = ".add_all(";
/// How far behind a call its first word is looked for.
const NEAR: usize = 120;

/// A line of the source text that counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From the workspace on.
    pub file: String,
    pub line: u32,
    /// The line without its indentation: what it is known by when it moves.
    pub text: String,
}

/// The source text of all products.
pub struct Texts {
    all: BTreeSet<Place>,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the source text") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Tests, benches, the simulator and what tests are driven with are no product.
pub fn is_product(file: &str) -> bool {
    let other =
        ["/bench/", "bench.rs", "/tests/", "tests.rs", "/simulate/", "/check.rs", "ledger/counters.rs"];
    file.starts_with("crates/") && !other.iter().any(|word| file.contains(word))
}

impl Texts {
    pub fn load() -> Texts {
        let root = workspace();
        let mut files = Vec::new();
        for product in std::fs::read_dir(root.join("crates")).expect("the workspace") {
            rust_files(&product.expect("readable").path().join("src"), &mut files);
        }
        let mut all = BTreeSet::new();
        for path in files {
            let file = path.strip_prefix(&root).expect("inside").to_string_lossy().into_owned();
            if is_product(&file) {
                let text = std::fs::read_to_string(&path).expect("readable");
                let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                all.extend(places(&file, product));
            }
        }
        Texts { all }
    }

    /// Every line that counts.
    pub fn all(&self) -> &BTreeSet<Place> {
        &self.all
    }

    /// A place that a run has named.
    pub fn place(&self, file: &str, line: u32) -> Place {
        let text = std::fs::read_to_string(workspace().join(file)).unwrap_or_default();
        let text = text.lines().nth(line as usize - 1).unwrap_or_default().trim().to_owned();
        Place { file: file.to_owned(), line, text }
    }
}

fn places<'t>(file: &'t str, text: &'t str) -> impl Iterator<Item = Place> + 't {
    let mut behind = 0;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let start = behind;
        behind += line.len() + 1;
        let is_comment = line.trim_start().starts_with("//");
        let counts = CALLS.iter().filter_map(|call| line.find(call).map(|at| at + call.len())).any(|at| {
            let words: String = text[start + at..].chars().take(NEAR).collect();
            let of_one = words.split(';').next().unwrap_or_default();
            of_one.contains("Unit::") || of_one.contains("unit") || of_one.contains("reason")
        });
        let sums = line.contains(SUM) && line.contains("counters") || line.contains(".add_all(sent)");
        let is_place = !is_comment && (counts || sums);
        is_place.then(|| Place { file: file.to_owned(), line: number, text: line.trim().to_owned() })
    })
}
