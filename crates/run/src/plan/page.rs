//! The plan as a page of text: equal items share one line, so that 512 sources are as readable as two.

use std::fmt;

use thalweg_transport::placement::list_text;

use super::{BlockPool, Cores, Item, Plan, Ring, Thread, path};

/// Names on one line: all of a few, the ends of many.
pub(crate) fn spelled(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [first, .., last] if names.len() > 6 => format!("{first} … {last} ({})", names.len()),
        _ => names.join(", "),
    }
}

/// One line of a table: its cells.
pub(super) type Line = Vec<String>;

/// Writes lines with their columns under each other; the columns of numbers end there, the others begin there.
fn table(f: &mut fmt::Formatter<'_>, lines: &[Line], right: &[usize]) -> fmt::Result {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let cell = |(column, text): (usize, &String)| {
            let width = widths[column];
            match right.contains(&column) {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            }
        };
        let cells: Vec<String> = line.iter().enumerate().map(cell).collect();
        writeln!(f, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

impl Plan {
    /// The plan in a sentence, for the start of a run: what is read, how much memory it takes, where it is recorded.
    pub fn brief(&self) -> String {
        let names: Vec<&str> = self.source_table.entries.iter().map(|entry| &entry.name[..]).collect();
        let sources = if names.len() == 1 { "source" } else { "sources" };
        format!(
            "{sources} {} · {} MiB of memory · recorded under {} · threads, rings and memory one by one with --verbose",
            spelled(&names),
            mebibytes(self.total_bytes),
            self.directory
        )
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, lines) in path::tables(&self.topology) {
            writeln!(f, "{title}")?;
            table(f, &lines, &[])?;
            writeln!(f)?;
        }
        writeln!(f, "threads, on {}", self.cores)?;
        let mut lines = vec![words(["name", "cores", "what it does"])];
        let alike = |a: &Thread, b: &Thread| {
            (&a.does, a.count, &a.cores, a.priority) == (&b.does, b.count, &b.cores, b.priority)
        };
        lines.extend(self.topology.threads.chunk_by(alike).map(thread_line));
        table(f, &lines, &[])?;

        writeln!(f, "\nrings between them")?;
        let mut lines = vec![words(["from", "to", "carries", "batches", "when all are under way"])];
        let alike = |a: &Ring, b: &Ring| {
            (&a.to, &a.carries, a.batches, &a.full) == (&b.to, &b.carries, b.batches, &b.full)
        };
        lines.extend(self.topology.rings.chunk_by(alike).map(ring_line));
        table(f, &lines, &[3])?;

        writeln!(f, "\nblocks for received bytes")?;
        let mut lines = vec![words(["of", "blocks", "NUMA node", "huge pages"])];
        let alike = |a: &BlockPool, b: &BlockPool| {
            (a.pools, a.blocks, a.block_bytes, a.numa_node, a.huge_pages)
                == (b.pools, b.blocks, b.block_bytes, b.numa_node, b.huge_pages)
        };
        lines.extend(self.topology.pools.chunk_by(alike).map(pool_line));
        table(f, &lines, &[])?;

        writeln!(f, "\nmemory, MiB")?;
        let alike = |a: &Item, b: &Item| (a.purpose, a.bytes, &a.reason) == (b.purpose, b.bytes, &b.reason);
        let mut lines: Vec<Line> = self.budget.chunk_by(alike).map(item_line).collect();
        lines.push(words([&mebibytes(self.total_bytes), "in all", ""]));
        table(f, &lines, &[0])?;

        writeln!(f, "\nfiles in {}/NNNNNN-…", self.directory)?;
        let names: Vec<&str> = self.files.iter().map(|file| &file[..]).collect();
        write!(f, "  {}", names.join("  "))?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\n\nwarning: {warning}"))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cores {}", list_text(&self.allowed))?;
        if self.allowed != self.all {
            write!(f, " of {} (what this process may use)", list_text(&self.all))?;
        }
        if let [_, _, ..] = self.nodes[..] {
            let node =
                |(number, cores): &(u32, Vec<usize>)| format!("NUMA node {number}: {}", list_text(cores));
            let nodes: Vec<String> = self.nodes.iter().map(node).collect();
            write!(f, "; {}", nodes.join(", "))?;
        }
        Ok(())
    }
}

fn words<const N: usize>(cells: [&str; N]) -> Line {
    cells.map(str::to_owned).to_vec()
}

fn thread_line(alike: &[Thread]) -> Line {
    let first = &alike[0];
    let names: Vec<&str> = alike.iter().map(|thread| &thread.name[..]).collect();
    let each = if first.count > 1 { format!(" × {}", first.count) } else { String::new() };
    let priority = first.priority.map(|priority| format!(", priority {priority}")).unwrap_or_default();
    let cores = if first.cores.is_empty() { "any".to_owned() } else { list_text(&first.cores) };
    let urls: Vec<&str> = alike.iter().filter_map(|thread| thread.url.as_deref()).collect();
    let first_url = match (urls.first(), urls.iter().any(|url| *url != urls[0])) {
        (None, _) => String::new(),
        (Some(url), false) => format!(" ({url})"),
        (Some(url), true) => format!(" ({url}, …)"),
    };
    vec![spelled(&names) + &each, cores + &priority, format!("{}{first_url}", first.does)]
}

fn ring_line(alike: &[Ring]) -> Line {
    let first = &alike[0];
    let names: Vec<&str> = alike.iter().map(|ring| &ring.from[..]).collect();
    let batches = match alike.len() {
        1 => first.batches.to_string(),
        rings => format!("{rings} × {}", first.batches),
    };
    vec![spelled(&names), first.to.clone(), first.carries.to_owned(), batches, first.full.to_owned()]
}

fn pool_line(alike: &[BlockPool]) -> Line {
    let first = &alike[0];
    let names: Vec<&str> = alike.iter().map(|pool| &pool.owner[..]).collect();
    let pools = alike.len() * first.pools;
    let kibibytes = first.block_bytes as f64 / 1024.0;
    let shape = match pools {
        1 => format!("{} × {kibibytes} KiB", first.blocks),
        _ => format!("{pools} × {} × {kibibytes} KiB", first.blocks),
    };
    let node = first.numa_node.map_or_else(|| "that of its reader".to_owned(), |node| node.to_string());
    vec![spelled(&names), shape, node, first.huge_pages.word().to_owned()]
}

fn item_line(alike: &[Item]) -> Line {
    let first = &alike[0];
    let names: Vec<&str> = alike.iter().map(|item| &item.owner[..]).collect();
    let of_each = if alike.len() > 1 { ", each" } else { "" };
    let bytes: u64 = alike.iter().map(|item| item.bytes).sum();
    vec![
        mebibytes(bytes),
        format!("{} of {}", first.purpose, spelled(&names)),
        format!("{}{of_each}", first.reason),
    ]
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
