//! Connection files: which targets there are, where, and by which tables.
//!
//! ```text
//!  <connection id="board0" uri="…" address_table="file://board.xml"/> ─► Connection
//! ```

use std::path::{Path, PathBuf};

use super::files::{Variables, environment, expanded};
use super::read::{Document, parse};
use super::{Table, TableError};

/// A target of a connection file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name.
    pub id: String,
    /// Where it is.
    pub uri: String,
    /// Its table's files.
    pub table: Vec<PathBuf>,
    /// The file that it stands in.
    pub file: PathBuf,
    /// The line.
    pub line: u32,
}

/// The targets of one connection file or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections(Vec<Connection>);

impl Connections {
    /// Reads a list of files, as in `file://a.xml;file://b.xml`, or one path.
    ///
    /// # Errors
    /// When one cannot be read, an entry lacks an attribute, or two of one name differ.
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
                            "`{id}` is another target at {before}:{line}; give one of them another id"
                        )));
                    }
                    None => all.push(fresh),
                }
            }
        }
        Ok(Connections(all))
    }

    /// All of them, in the order of the files.
    pub fn all(&self) -> &[Connection] {
        &self.0
    }

    /// The target of this name.
    pub fn find(&self, id: &str) -> Option<&Connection> {
        self.0.iter().find(|connection| connection.id == id)
    }
}

impl Connection {
    /// Its address table.
    ///
    /// # Errors
    /// When a file of it is none.
    pub fn open_table(&self) -> Result<Table, TableError> {
        Table::open_all(&self.table)
    }
}
