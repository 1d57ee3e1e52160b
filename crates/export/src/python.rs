//! Formats that the Python package writes: it gets the verified tables as Arrow streams on its standard input.
//!
//! ```text
//!  batches ──► Arrow stream, one for each table, then one that says "end" ──► python -m thalweg.export_root - PART
//! ```

use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;

use crate::error::ExportError;
use crate::exporter::{Exporter, TableHead};
use crate::run_source::RunSource;
use crate::target::Target;

/// A module of the Python package that writes a format.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its name.
    name: &'static str,
    /// What `pip` installs for it, in the folder of thalweg's sources.
    package: &'static str,
}

/// Files of ROOT.
pub(crate) const ROOT: Module = Module { name: "thalweg.export_root", package: "./python[root]" };
/// Files of HDF5.
pub(crate) const HDF5: Module = Module { name: "thalweg.export_hdf5", package: "./python[hdf5]" };

/// The variable that names another interpreter than `python3`.
const INTERPRETER: &str = "THALWEG_PYTHON";
/// With this exit code a module says that the disk is full.
const DISK_FULL: i32 = 3;
/// Most of an error's words that are kept: the last ones.
const MOST_WORDS: usize = 4096;

/// Writes through a process of Python.
pub(crate) struct PythonExporter {
    target: PathBuf,
    module: &'static Module,
    child: Child,
    /// What the process says on standard error.
    said: Option<JoinHandle<Vec<u8>>>,
    to: Option<BufWriter<ChildStdin>>,
    stream: Option<StreamWriter<BufWriter<ChildStdin>>>,
}

impl PythonExporter {
    /// Starts the process.
    ///
    /// # Errors
    /// When there is no interpreter that has what the module needs; the message says what to install.
    pub fn new(module: &'static Module, target: &Target) -> Result<PythonExporter, ExportError> {
        let interpreter = std::env::var_os(INTERPRETER).unwrap_or_else(|| "python3".into());
        let name = interpreter.to_string_lossy().into_owned();
        let missing = |why: String| {
            ExportError::Refused(format!(
                "`{name}` cannot import {}{why}; install it with `{name} -m pip install \"{}\"` in the folder of thalweg's \
                 sources, or name another interpreter in {INTERPRETER}",
                module.name, module.package
            ))
        };
        let found = Command::new(&interpreter)
            .args(["-c", &format!("import {}", module.name)])
            .stdin(Stdio::null())
            .output()
            .map_err(|cause| missing(format!(" ({cause})")))?;
        if !found.status.success() {
            let words = String::from_utf8_lossy(&found.stderr);
            return Err(missing(
                words.trim().lines().last().map_or(String::new(), |line| format!(" ({line})")),
            ));
        }
        let started = Command::new(&interpreter)
            .args(["-m", module.name, "-"])
            .arg(target.part())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|cause| missing(format!(" ({cause})")))?;
        let said = child.stderr.take().map(|from| std::thread::spawn(move || last_words(from)));
        let to = child.stdin.take().map(BufWriter::new);
        Ok(PythonExporter { target: target.path().to_owned(), module, child, said, to, stream: None })
    }

    /// The error of a process that no longer reads.
    fn ended(&mut self, cause: impl std::fmt::Display) -> ExportError {
        (self.to, self.stream) = (None, None);
        let code = self.child.wait().ok().and_then(|status| status.code());
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        match code {
            Some(DISK_FULL) => ExportError::Full { path: self.target.clone() },
            _ if said.trim().is_empty() => ExportError::Writer(format!("{}: {cause}", self.module.name)),
            _ => ExportError::Writer(format!("{}: {}", self.module.name, said.trim())),
        }
    }

    /// Begins a stream.
    fn begin_stream(&mut self, schema: &Schema) -> Result<(), ExportError> {
        let to = self.to.take().expect("between two streams the pipe is here");
        match StreamWriter::try_new(to, schema) {
            Ok(stream) => self.stream = Some(stream),
            Err(cause) => return Err(self.ended(cause)),
        }
        Ok(())
    }

    /// Ends it, and keeps the pipe for the next one.
    fn end_stream(&mut self) -> Result<(), ExportError> {
        let mut stream = self.stream.take().expect("a stream has begun");
        match stream.finish().and_then(|()| stream.into_inner()) {
            Ok(to) => self.to = Some(to),
            Err(cause) => return Err(self.ended(cause)),
        }
        Ok(())
    }
}

impl Exporter for PythonExporter {
    fn begin(&mut self, head: &TableHead<'_>) -> Result<(), ExportError> {
        let mut metadata: std::collections::HashMap<String, String> = head.schema.metadata().clone().into();
        metadata.insert("thalweg.file".to_owned(), head.file.name());
        self.begin_stream(&head.schema.as_ref().clone().with_metadata(metadata))
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let stream = self.stream.as_mut().expect("a stream has begun");
        stream.write(batch).map_err(|cause| self.ended(cause))
    }

    fn end(&mut self, _run: &RunSource) -> Result<(), ExportError> {
        self.end_stream()
    }

    fn finish(&mut self) -> Result<Vec<String>, ExportError> {
        let end = [("thalweg.end".to_owned(), String::new())];
        self.begin_stream(&Schema::empty().with_metadata(std::collections::HashMap::from(end)))?;
        self.end_stream()?;
        let flushed = self.to.take().map_or(Ok(()), |mut to| to.flush());
        match (flushed, self.child.wait()) {
            (Ok(()), Ok(status)) if status.success() => Ok(Vec::new()),
            (flushed, status) => {
                let cause = flushed.err().or(status.err()).map(|cause| cause.to_string());
                Err(self.ended(cause.unwrap_or_else(|| "it ended with an error".to_owned())))
            }
        }
    }
}

impl Drop for PythonExporter {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The end of what a process says, so that it is never held up and never fills memory.
fn last_words(mut from: impl Read) -> Vec<u8> {
    let (mut words, mut chunk) = (Vec::new(), [0; 1024]);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return words,
            Ok(count) => words.extend(&chunk[..count]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return words,
        }
        let beyond = words.len().saturating_sub(MOST_WORDS);
        words.drain(..beyond);
    }
}
