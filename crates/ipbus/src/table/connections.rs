//! Connection files: names of targets, with their URIs and address tables.
//!
//! ```text
//!  <connection id="board0" uri="…" address_table="file://board.xml"/> ─► Connection
//! ```

use std::path::{Path, PathBuf};

use super::files::{Variables, environment, expanded};
use super::read::{Document, parse};
use super::{Table, TableError};

/// A target in a connection file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name.
    pub id: String,
    /// Its URI.
    pub uri: String,
    /// The files of its address table.
    pub table: Vec<PathBuf>,
    /// The connection file that has it.
    pub file: PathBuf,
    /// Its line in that file, from 1 on.
    pub line: u32,
}

/// The targets of one or more connection files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections(Vec<Connection>);

impl Connections {
    /// Reads a list of files, such as `file://a.xml;file://b.xml`, or one path.
    ///
    /// # Errors
    /// When a file cannot be read, an entry lacks an attribute, or two entries of one name differ.
    pub fn open(list: &str) -> Result<Connections, TableError> {
        Connections::with(list, &environment)
    }

    pub(super) fn with(list: &str, variables: Variables<'_>) -> Result<Connections, TableError> {
        let of_list = |message| TableError { file: PathBuf::from(list), line: 0, message };
        let mut all: Vec<Connection> = Vec::new();
        for file in expanded(list, Path::new("."), variables).map_err(of_list)? {
            let text = Document::read(&file)?;
            let document = parse(&file, &text)?;
            let root = document.root_element();
            for entry in root.children().filter(|child| child.has_tag_name("connection")) {
                let line = document.text_pos_at(entry.range().start).row;
                let failed = |message: String| TableError { file: file.clone(), line, message };
                let attribute = |name: &str| {
                    let missing = || {
                        failed(format!("a <connection> has no `{name}`; it needs id, uri and address_table"))
                    };
                    entry.attribute(name).filter(|value| !value.is_empty()).ok_or_else(missing)
                };
                let folder = file.parent().unwrap_or(Path::new("."));
                let table = expanded(attribute("address_table")?, folder, variables).map_err(failed)?;
                let (id, uri) = (attribute("id")?.to_owned(), attribute("uri")?.to_owned());
                let fresh = Connection { id, uri, table, file: file.clone(), line };
                match all.iter().find(|other| other.id == fresh.id) {
                    Some(other) if (&other.uri, &other.table) == (&fresh.uri, &fresh.table) => {}
                    Some(other) => {
                        let (id, line) = (&fresh.id, other.line);
                        let before = other.file.display();
                        return Err(failed(format!(
                            "`{id}` names another target at {before}:{line}; give one of them another id"
                        )));
                    }
                    None => all.push(fresh),
                }
            }
        }
        Ok(Connections(all))
    }

    /// All targets, in the order of the files.
    pub fn all(&self) -> &[Connection] {
        &self.0
    }

    /// The target of this name.
    pub fn find(&self, id: &str) -> Option<&Connection> {
        self.0.iter().find(|connection| connection.id == id)
    }
}

impl Connection {
    /// Reads its address table.
    ///
    /// # Errors
    /// When one of its files cannot be read or is invalid.
    pub fn open_table(&self) -> Result<Table, TableError> {
        Table::open_all(&self.table)
    }
}
