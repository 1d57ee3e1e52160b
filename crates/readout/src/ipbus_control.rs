//! An IPbus target driven through its registers: by the names of its address table, or by address.
//!
//! ```text
//!  IpbusControl: get, set ─ name, 0x1000 ─► Board (address table: masks, permissions) ─► Client ─► UDP, TCP or hub
//! ```

use std::path::Path;

use thalweg_data::{ControlError, DeviceControl, Parameter};
use thalweg_frontend::format::register_number;
use thalweg_ipbus::board::Board;
use thalweg_ipbus::client::Client;
use thalweg_ipbus::table::{Mode, Permission, Table};

/// The registers of one IPbus target.
pub struct IpbusControl {
    uri: String,
    board: Board,
}

impl IpbusControl {
    /// The target of a URI (`ipbusudp-2.0://…`, `ipbustcp-2.0://…`, `chtcp-2.0://…`), with its address table. A stream is
    /// connected at once.
    ///
    /// # Errors
    /// When the table cannot be read, the URI cannot be read, or nothing listens there.
    pub fn open(uri: &str, address_table: Option<&Path>) -> Result<IpbusControl, ControlError> {
        let failed = |message: String| ControlError { board: uri.to_owned(), message };
        let table = match address_table {
            Some(file) => Table::open(file).map_err(|error| failed(error.to_string()))?,
            None => Table::default(),
        };
        let client = Client::open(uri).map_err(|error| failed(error.to_string()))?;
        Ok(IpbusControl { uri: uri.to_owned(), board: Board::new(client, table) })
    }

    fn failed(&self, message: impl ToString) -> ControlError {
        ControlError { board: self.uri.clone(), message: message.to_string() }
    }
}

impl DeviceControl for IpbusControl {
    fn get(&mut self, path: &str) -> Result<String, ControlError> {
        let value = self.board.read(path);
        value.map(|value| value.to_string()).map_err(|error| self.failed(error))
    }

    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        let word = register_number(value).and_then(|value| u32::try_from(value).ok()).ok_or_else(|| {
            self.failed(format!("`{path}`: `{value}` is no word; write 0 to 4294967295, decimal or after 0x"))
        })?;
        self.board.write(path, word).map_err(|error| self.failed(error))
    }

    fn is_readable(&mut self, path: &str) -> bool {
        self.board.table().node(path).is_none_or(|node| node.permission.reads())
    }

    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        let nodes = self.board.table().nodes().iter().filter(|node| node.mode == Mode::Single);
        let nodes: Vec<_> = nodes.map(|node| (node.name.clone(), node.permission)).collect();
        let readable = nodes.iter().filter(|(_, permission)| permission.reads());
        let names: Vec<&str> = readable.map(|(name, _)| name.as_str()).collect();
        let mut values = self.board.read_all(&names).into_iter();
        let each = |(name, permission): &(String, Permission)| Parameter {
            path: name.clone(),
            value: permission.reads().then(|| values.next()?.ok()).flatten().map(|value| value.to_string()),
            is_settable: permission.writes(),
        };
        Ok(nodes.iter().map(each).collect())
    }
}
