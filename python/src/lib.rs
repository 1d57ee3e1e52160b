//! `thalweg._thalweg`: what the Python package `thalweg` does not do in Python.
//!
//! ```text
//!  thalweg.ipbus (Python) ─► Board ─ perform ─► thalweg_ipbus::board::Board ─► one dispatch ─► words into buffers, no list of ints
//! ```
//! Python goes on while a dispatch waits: the interpreter is let go of.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyKeyError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg_ipbus::board::{Access, Board as Registers, BoardError};
use thalweg_ipbus::client::{Client, Outcome};
use thalweg_ipbus::table::{Connections, Mode, Node, Table, TableError};

pyo3::create_exception!(
    _thalweg,
    IpbusError,
    pyo3::exceptions::PyException,
    "Something that a target has not done. `may_have_happened` says whether some of it may have been done all the same."
);

/// A register as Python names it: a name of the table, or an address.
#[derive(FromPyObject)]
enum Register {
    Address(u32),
    Name(String),
}

impl Register {
    fn text(self) -> String {
        match self {
            Register::Address(address) => format!("{address:#x}"),
            Register::Name(name) => name,
        }
    }
}

fn refused(py: Python<'_>, error: &BoardError) -> PyErr {
    match error {
        BoardError::NoNode(words) => PyKeyError::new_err(words.clone()),
        BoardError::Denied { .. } => PyValueError::new_err(error.to_string()),
        BoardError::Dispatch { cause, .. } => {
            let raised = IpbusError::new_err(error.to_string());
            let maybe = cause.outcomes.contains(&Outcome::MayHaveHappened);
            // An attribute that cannot be set leaves the words, which say the same.
            let _ = raised.value(py).setattr("may_have_happened", maybe);
            raised
        }
    }
}

fn unreadable(error: &TableError) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// One thing to do, with everything that it needs while Python is let go of.
enum Job {
    Read(String),
    Write(String, u32),
    ChangeBits(String, u32, u32),
    Add(String, u32),
    ReadBlock { register: String, offset: usize, words: Vec<u32>, into: PyBuffer<u32> },
    WriteBlock { register: String, offset: usize, words: Vec<u32> },
}

impl Job {
    /// Reads a tuple: what is to be done, the register, and more.
    fn of(py: Python<'_>, job: &Bound<'_, PyTuple>) -> PyResult<Job> {
        let what: String = job.get_item(0)?.extract()?;
        let register = job.get_item(1)?.extract::<Register>()?.text();
        let word = |place: usize| job.get_item(place)?.extract::<u32>();
        let buffer = |place: usize| PyBuffer::<u32>::get(&job.get_item(place)?);
        Ok(match what.as_str() {
            "read" => Job::Read(register),
            "write" => Job::Write(register, word(2)?),
            "change_bits" => Job::ChangeBits(register, word(2)?, word(3)?),
            "add" => Job::Add(register, word(2)?),
            "read_block" => {
                let (offset, into) = (job.get_item(2)?.extract()?, buffer(3)?);
                if into.readonly() {
                    return Err(PyValueError::new_err("the array cannot be written"));
                }
                Job::ReadBlock { register, offset, words: vec![0; into.item_count()], into }
            }
            "write_block" => {
                let (offset, from) = (job.get_item(2)?.extract()?, buffer(3)?);
                Job::WriteBlock { register, offset, words: from.to_vec(py)? }
            }
            other => return Err(PyTypeError::new_err(format!("there is no `{other}`"))),
        })
    }

    fn access(&mut self) -> Access<'_> {
        match self {
            Job::Read(register) => Access::Read(register),
            Job::Write(register, value) => Access::Write(register, *value),
            Job::ChangeBits(register, keep, set) => Access::ChangeBits { register, keep: *keep, set: *set },
            Job::Add(register, addend) => Access::Add { register, addend: *addend },
            Job::ReadBlock { register, offset, words, .. } => {
                Access::ReadBlock { register, offset: *offset, block: words }
            }
            Job::WriteBlock { register, offset, words } => {
                Access::WriteBlock { register, offset: *offset, block: words }
            }
        }
    }
}

/// A target with its address table.
#[pyclass(frozen, module = "thalweg._thalweg")]
struct Board {
    registers: Mutex<Registers>,
    uri: String,
}

impl Board {
    fn open(py: Python<'_>, uri: String, table: Table) -> PyResult<Board> {
        let client =
            py.detach(|| Client::open(&uri)).map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Board { registers: Mutex::new(Registers::new(client, table)), uri })
    }

    fn registers(&self) -> MutexGuard<'_, Registers> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Board {
    /// The target of a URI, with the names of an address table.
    #[new]
    #[pyo3(signature = (uri, table=None))]
    fn new(py: Python<'_>, uri: String, table: Option<PathBuf>) -> PyResult<Board> {
        let table = table.map_or(Ok(Table::default()), |table| Table::open(&table));
        Board::open(py, uri, table.map_err(|error| unreadable(&error))?)
    }

    #[getter]
    fn uri(&self) -> &str {
        &self.uri
    }

    /// Does all of these in one dispatch: tuples of what, the register and more. Gives a word for each.
    fn perform(&self, py: Python<'_>, jobs: Vec<Bound<'_, PyTuple>>) -> PyResult<Vec<u32>> {
        let jobs: PyResult<Vec<Job>> = jobs.iter().map(|job| Job::of(py, job)).collect();
        let mut jobs = jobs?;
        let done = py.detach(|| self.registers().perform(jobs.iter_mut().map(Job::access).collect()));
        let values = done.map_err(|error| refused(py, &error))?;
        for job in &jobs {
            if let Job::ReadBlock { words, into, .. } = job {
                into.copy_from_slice(py, words)?;
            }
        }
        Ok(values)
    }

    /// What the target says of itself.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = py.detach(|| self.registers().client_mut().status());
        let status = status.map_err(|failure| IpbusError::new_err(format!("{}: {failure}", self.uri)))?;
        let found = PyDict::new(py);
        found.set_item("buffer_bytes", status.buffer_bytes)?;
        found.set_item("buffers", status.buffers)?;
        found.set_item("next_id", status.next_id)?;
        Ok(found)
    }

    /// The nodes of the table whose names a pattern fits, or in which an expression finds something; all without.
    #[pyo3(signature = (pattern=None, expression=None))]
    fn nodes<'py>(
        &self,
        py: Python<'py>,
        pattern: Option<&str>,
        expression: Option<&str>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let registers = self.registers();
        let table = registers.table();
        let found = match (pattern, expression) {
            (Some(pattern), _) => table.matching(pattern),
            (None, Some(expression)) => table.searched(expression),
            (None, None) => Ok(table.nodes().iter().collect()),
        };
        let found = found.map_err(PyValueError::new_err)?;
        found.into_iter().map(|node| described(py, node)).collect()
    }
}

fn described<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyDict>> {
    let (mode, size) = match node.mode {
        Mode::Single => ("single", Some(1)),
        Mode::Hierarchical => ("hierarchical", None),
        Mode::Incremental { size } => ("incremental", Some(size)),
        Mode::NonIncremental { size } => ("non-incremental", size),
    };
    let one = PyDict::new(py);
    one.set_item("name", &node.name)?;
    one.set_item("address", node.address)?;
    one.set_item("mask", node.mask)?;
    one.set_item("mode", mode)?;
    one.set_item("size", size)?;
    one.set_item("reads", node.permission.reads())?;
    one.set_item("writes", node.permission.writes())?;
    one.set_item("tags", &node.tags)?;
    one.set_item("description", &node.description)?;
    one.set_item("parameters", node.parameters.clone())?;
    Ok(one)
}

/// The targets of a connection file: id, URI.
#[pyfunction]
fn connections(list: &str) -> PyResult<Vec<(String, String)>> {
    let all = Connections::open(list).map_err(|error| unreadable(&error))?;
    Ok(all.all().iter().map(|one| (one.id.clone(), one.uri.clone())).collect())
}

/// A target of a connection file, with its table.
#[pyfunction]
fn connect(py: Python<'_>, list: &str, id: &str) -> PyResult<Board> {
    let all = Connections::open(list).map_err(|error| unreadable(&error))?;
    let Some(connection) = all.find(id) else {
        let known: Vec<&str> = all.all().iter().map(|one| one.id.as_str()).collect();
        return Err(PyKeyError::new_err(format!("{list} has no `{id}`; it has {}", known.join(", "))));
    };
    let table = connection.open_table().map_err(|error| unreadable(&error))?;
    Board::open(py, connection.uri.clone(), table)
}

#[pymodule]
mod _thalweg {
    #[pymodule_export]
    use super::{Board, IpbusError, connect, connections};
}
