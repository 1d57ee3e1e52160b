//! Address tables and connection files, checked.

use std::path::Path;

use thalweg_ipbus::table::{Connection, Connections, Table, TableError};

use crate::commands::Ended;
use crate::report::{CommandOutcome, print};

/// Says what cannot be and what is odd, with file and line.
pub(super) fn check(files: &[std::path::PathBuf], json: bool) -> Ended {
    let (mut found, mut failed, mut nodes) = (Vec::new(), false, 0);
    for file in files {
        match tables_of(file) {
            Ok(tables) => {
                for table in tables {
                    nodes += table.nodes().len();
                    found.extend(table.warnings().iter().map(ToString::to_string));
                    found.extend(table.overlaps().iter().map(ToString::to_string));
                }
            }
            Err(error) => {
                failed = true;
                found.push(error.to_string());
            }
        }
    }
    let value = serde_json::json!({ "ok": !failed, "nodes": nodes, "found": found });
    print(&value, json, |_| {
        let last = match (failed, found.len()) {
            (true, _) => "cannot be read".to_owned(),
            (false, 0) => format!("{nodes} nodes, nothing odd"),
            (false, odd) => format!("{nodes} nodes, {odd} odd"),
        };
        found.iter().map(|line| format!("{line}\n")).chain([last]).collect()
    })?;
    Ok(if failed { CommandOutcome::Failed } else { CommandOutcome::Done })
}

/// The tables of a connection file, or the one that a file is.
fn tables_of(file: &Path) -> Result<Vec<Table>, TableError> {
    let is_connections = std::fs::read_to_string(file).is_ok_and(|text| text.contains("<connections"));
    if !is_connections {
        return Ok(vec![Table::open(file)?]);
    }
    let connections = Connections::open(&file.to_string_lossy())?;
    connections.all().iter().map(Connection::open_table).collect()
}
