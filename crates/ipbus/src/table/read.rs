//! Reads address tables from XML.
//!
//! ```text
//!  file ─► text, bounded ─► elements ─► checked attributes ─► Node ─ module? ─► another file, at this address ─► …
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Variables, environment, expanded};
use super::{Firmware, Mode, Node, Permission, Table, TableError};

/// Longest file, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Most nodes of a table: far more than any board has, and few enough for memory.
const MOST_NODES: usize = 1 << 20;
/// Most levels of nodes, across modules.
const MOST_LEVELS: usize = 64;
/// The attributes of a node.
const KEYS: [&str; 12] = [
    "id",
    "address",
    "mask",
    "permission",
    "mode",
    "size",
    "module",
    "class",
    "tags",
    "description",
    "parameters",
    "fwinfo",
];
/// Attributes that only the module's root may have, not the node that includes the module.
const OF_MODULE: [&str; 4] = ["mode", "size", "mask", "permission"];

/// Reads the text of a file.
pub(super) struct Document;

impl Document {
    pub(super) fn read(file: &Path) -> Result<String, TableError> {
        let failed = |message: String| TableError { file: file.to_owned(), line: 0, message };
        let size = std::fs::metadata(file).map_err(|cause| failed(cause.to_string()))?.len();
        if size > MOST_BYTES {
            return Err(failed(format!("{size} bytes; at most {MOST_BYTES} are read")));
        }
        std::fs::read_to_string(file).map_err(|cause| failed(cause.to_string()))
    }
}

/// Parses a file. Documents that declare entities are refused, so that none expands to an excessive size.
pub(super) fn parse<'t>(file: &Path, text: &'t str) -> Result<roxmltree::Document<'t>, TableError> {
    roxmltree::Document::parse(text).map_err(|error| TableError {
        file: file.to_owned(),
        line: error.pos().row,
        message: error.to_string(),
    })
}

struct Reader<'v> {
    variables: Variables<'v>,
    table: Table,
}

/// The parent of a node: its name, address and level, and the files that are being read.
#[derive(Clone, Copy)]
struct Above<'a> {
    name: &'a str,
    address: u32,
    files: &'a [PathBuf],
    level: usize,
}

/// Attributes of the node that includes a module.
#[derive(Default)]
struct Outside {
    tags: String,
    description: String,
    class: String,
    parameters: BTreeMap<String, String>,
    firmware: Option<Firmware>,
}

/// One element and its file.
struct Element<'d, 'i> {
    file: &'d Arc<PathBuf>,
    node: roxmltree::Node<'d, 'i>,
}

/// Parses a 32-bit number, hexadecimal as `0x1F` or decimal as `31`.
pub fn number(text: &str) -> Option<u32> {
    let trimmed = text.trim();
    match trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => trimmed.parse().ok(),
    }
}

impl Element<'_, '_> {
    fn line(&self) -> u32 {
        self.node.document().text_pos_at(self.node.range().start).row
    }

    fn failed(&self, message: impl Into<String>) -> TableError {
        TableError { file: self.file.to_path_buf(), line: self.line(), message: message.into() }
    }

    fn text(&self, key: &str) -> String {
        self.node.attribute(key).unwrap_or_default().to_owned()
    }

    fn number(&self, key: &str) -> Result<Option<u32>, TableError> {
        let Some(text) = self.node.attribute(key) else { return Ok(None) };
        let wrong = || self.failed(format!("`{key}=\"{text}\"` is not a 32-bit number such as 0x1F or 31"));
        number(text).map(Some).ok_or_else(wrong)
    }

    fn permission(&self) -> Result<Permission, TableError> {
        match self.node.attribute("permission") {
            None | Some("rw" | "wr" | "readwrite" | "writeread") => Ok(Permission::ReadWrite),
            Some("r" | "read") => Ok(Permission::Read),
            Some("w" | "write") => Ok(Permission::Write),
            Some(other) => Err(self.failed(format!(
                "`permission=\"{other}\"` is unknown; allowed are r, w, rw, read, write and readwrite"
            ))),
        }
    }

    /// Parses keys and values, written as `k=v;k=v`.
    fn pairs(&self, key: &str, text: &str) -> Result<BTreeMap<String, String>, TableError> {
        let mut all = BTreeMap::new();
        for pair in text.split([';', '&']).map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| self.failed(format!("`{key}`: `{pair}` is not `key=value`")))?;
            all.insert(name.trim().to_owned(), value.trim().to_owned());
        }
        Ok(all)
    }

    fn firmware(&self) -> Result<Option<Firmware>, TableError> {
        let Some(text) = self.node.attribute("fwinfo") else { return Ok(None) };
        let (kind, rest) = text.split_once(';').unwrap_or((text, ""));
        Ok(Some((kind.trim().to_owned(), self.pairs("fwinfo", rest)?)))
    }

    /// Whether every child is a part of its word.
    fn has_masks_alone(&self) -> bool {
        let mut below = self.node.children().filter(|child| child.has_tag_name("node"));
        below.all(|child| child.has_attribute("mask"))
    }

    fn has_nodes(&self) -> bool {
        self.node.children().any(|child| child.has_tag_name("node"))
    }

    fn check_keys(&self) -> Result<(), TableError> {
        if let Some(other) = self.node.attributes().find(|attribute| !KEYS.contains(&attribute.name())) {
            let keys = KEYS.join(", ");
            return Err(
                self.failed(format!("`{}` is not an attribute of a node; there are {keys}", other.name()))
            );
        }
        if self.node.has_attribute("module")
            && let Some(key) = OF_MODULE.iter().find(|key| self.node.has_attribute(**key))
        {
            return Err(
                self.failed(format!("`{key}` is not allowed with `module`; set it in the module's root"))
            );
        }
        Ok(())
    }

    fn mode(&self, mask: Option<u32>, address: u32) -> Result<Mode, TableError> {
        let size = self.number("size")?;
        let mode = match self.node.attribute("mode") {
            None if self.has_nodes() && !self.has_masks_alone() => Mode::Hierarchical,
            None | Some("single") => Mode::Single,
            Some("incremental" | "inc" | "block") => {
                let size = size.ok_or_else(|| self.failed("a block needs its `size`, in words"))?;
                if size == 0 || u64::from(address) + u64::from(size) > 1 << 32 {
                    return Err(self.failed(format!(
                        "{size} words from {address:#010x} on exceed the 32-bit address space"
                    )));
                }
                Mode::Incremental { size }
            }
            Some("non-incremental" | "non-inc" | "port") => Mode::NonIncremental { size },
            Some("hierarchical") => Mode::Hierarchical,
            Some(other) => {
                return Err(self.failed(format!(
                    "`mode=\"{other}\"` is unknown; allowed are single, incremental and non-incremental"
                )));
            }
        };
        let is_odd =
            mask.is_some() && (self.has_nodes() || self.node.has_attribute("mode") || size.is_some());
        if is_odd {
            return Err(
                self.failed("a part of a word (`mask`) cannot have child nodes, a `mode` or a `size`")
            );
        }
        if matches!(mode, Mode::NonIncremental { .. }) && self.has_nodes() {
            return Err(self.failed("a port (`mode=\"non-incremental\"`) cannot have child nodes"));
        }
        Ok(mode)
    }
}

impl Reader<'_> {
    /// Reads a file; `above` is the parent of its root.
    fn file(
        &mut self,
        file: &Path,
        above: &Above<'_>,
        outside: Option<(&Element<'_, '_>, Outside)>,
    ) -> Result<(), TableError> {
        let asked = |message: String| match &outside {
            Some((element, _)) => element.failed(message),
            None => TableError { file: file.to_owned(), line: 0, message },
        };
        let own = file.canonicalize().map_err(|cause| asked(format!("{}: {cause}", file.display())))?;
        if above.files.contains(&own) {
            return Err(asked(format!(
                "{} includes itself, through {} other files",
                file.display(),
                above.files.len() - 1
            )));
        }
        let text = Document::read(file)?;
        let document = parse(file, &text)?;
        let file = Arc::new(file.to_owned());
        let root = Element { file: &file, node: document.root_element() };
        if !root.node.has_tag_name("node") {
            return Err(root.failed(format!(
                "an address table begins with <node>; this is <{}>",
                root.node.tag_name().name()
            )));
        }
        let files: Vec<PathBuf> = above.files.iter().cloned().chain([own]).collect();
        let above = Above { files: &files, ..*above };
        self.element(&root, &above, outside.map(|(_, outside)| outside), true)
    }

    /// Reads an element and its children. A root has the name of the node that includes it.
    fn element(
        &mut self,
        element: &Element<'_, '_>,
        above: &Above<'_>,
        outside: Option<Outside>,
        is_root: bool,
    ) -> Result<(), TableError> {
        element.check_keys()?;
        if above.level == MOST_LEVELS || self.table.nodes.len() == MOST_NODES {
            return Err(
                element.failed(format!("a table has at most {MOST_LEVELS} levels and {MOST_NODES} nodes"))
            );
        }
        let address = above.address.wrapping_add(element.number("address")?.unwrap_or_default());
        let name = if is_root { above.name.to_owned() } else { named(element, above.name)? };
        let below = Above { name: &name, address, level: above.level + 1, ..*above };
        if let Some(module) = element.node.attribute("module") {
            return self.module(element, module, &below);
        }
        let node = node(element, &name, address, outside)?;
        if element.node.has_attribute("size") && matches!(node.mode, Mode::Single | Mode::Hierarchical) {
            self.table.warnings.push(element.failed("`size` has no meaning without `mode`"));
        }
        if !name.is_empty() {
            if self.table.names.insert(name.clone(), self.table.nodes.len()).is_some() {
                return Err(element.failed(format!("there are two nodes `{name}`")));
            }
            self.table.nodes.push(node);
        }
        let file = element.file;
        let mut children: Vec<Element<'_, '_>> = Vec::new();
        for child in element.node.children().filter(roxmltree::Node::is_element) {
            let child = Element { file, node: child };
            match child.node.has_tag_name("node") {
                true => children.push(child),
                false => {
                    return Err(child.failed(format!(
                        "<{}> in an address table; only <node> is allowed",
                        child.node.tag_name().name()
                    )));
                }
            }
        }
        let mut placed = children
            .into_iter()
            .map(|child| Ok((child.number("address")?, child)))
            .collect::<Result<Vec<_>, TableError>>()?;
        placed.sort_by_key(|(address, _)| address.unwrap_or_default());
        placed.iter().try_for_each(|(_, child)| self.element(child, &below, None, false))
    }

    fn module(
        &mut self,
        element: &Element<'_, '_>,
        module: &str,
        below: &Above<'_>,
    ) -> Result<(), TableError> {
        if element.has_nodes() {
            return Err(
                element.failed("a node with `module` has no child nodes; write them in the module's file")
            );
        }
        let folder = element.file.parent().unwrap_or(Path::new("."));
        let files = expanded(module, folder, self.variables).map_err(|message| element.failed(message))?;
        let [file] = &files[..] else {
            return Err(
                element.failed(format!("`{module}` names {} files; a module is one file", files.len()))
            );
        };
        let outside = Outside {
            tags: element.text("tags"),
            description: element.text("description"),
            class: element.text("class"),
            parameters: element.pairs("parameters", &element.text("parameters"))?,
            firmware: element.firmware()?,
        };
        self.file(file, below, Some((element, outside)))
    }
}

fn named(element: &Element<'_, '_>, above: &str) -> Result<String, TableError> {
    let id = element.node.attribute("id").unwrap_or_default();
    if id.is_empty() || id.contains('.') || id.trim() != id {
        return Err(element.failed(format!(
            "`id=\"{id}\"`: a node needs a name without dots and without blanks around it"
        )));
    }
    Ok(if above.is_empty() { id.to_owned() } else { format!("{above}.{id}") })
}

/// Combines the text of a module's root with that of the node that includes it.
fn both(inside: String, outside: String) -> String {
    match (inside.is_empty(), outside.is_empty()) {
        (_, true) => inside,
        (true, false) => outside,
        (false, false) => format!("{inside}[{outside}]"),
    }
}

fn node(
    element: &Element<'_, '_>,
    name: &str,
    address: u32,
    outside: Option<Outside>,
) -> Result<Node, TableError> {
    let mask = element.number("mask")?;
    if mask == Some(0) {
        return Err(element.failed("`mask=\"0\"` has no bits"));
    }
    let outside = outside.unwrap_or_default();
    let mut parameters = element.pairs("parameters", &element.text("parameters"))?;
    parameters.extend(outside.parameters);
    let class = if outside.class.is_empty() { element.text("class") } else { outside.class };
    Ok(Node {
        name: name.to_owned(),
        address,
        mask: mask.unwrap_or(u32::MAX),
        mode: element.mode(mask, address)?,
        permission: element.permission()?,
        tags: both(element.text("tags"), outside.tags),
        description: both(element.text("description"), outside.description),
        class,
        parameters,
        firmware: outside.firmware.map_or_else(|| element.firmware(), |firmware| Ok(Some(firmware)))?,
        file: element.file.clone(),
        line: element.line(),
    })
}

impl Table {
    /// Reads a table and the modules that it includes.
    ///
    /// # Errors
    /// When a file cannot be read or is invalid, with file and line.
    pub fn open(file: &Path) -> Result<Table, TableError> {
        Table::open_all(&[file.to_owned()])
    }

    /// Reads a table that consists of several files; the nodes of their roots are siblings.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_all(files: &[PathBuf]) -> Result<Table, TableError> {
        Table::with(files, &environment)
    }

    pub(super) fn with(files: &[PathBuf], variables: Variables<'_>) -> Result<Table, TableError> {
        let mut reader = Reader { variables, table: Table::default() };
        for file in files {
            reader.file(file, &Above { name: "", address: 0, files: &[], level: 0 }, None)?;
        }
        Ok(reader.table)
    }
}
