//! The client's interface: queue operations, dispatch them, read the values.
//!
//! ```text
//!  Client::open(uri) ─► queue ─ read, write, read_block … ─► dispatch ─► Done: the word of each Value
//!                                                              └► DispatchError: target, failure, outcome of each job
//! ```

use std::io;
use std::time::{Duration, Instant};

use super::exchange::Exchange;
use super::failure::Failure;
use super::job::{Job, Landing, Outcome, Written};
use super::link::{Link, Received, Wait};
use super::session::Session;
use crate::sequence::{Numbering, PacketCounts};
use crate::uri::{Reliability, Transport, Uri, UriError};
use crate::wire::{Operation, Packet, Status, status_request};

/// Interval between two status requests.
const STATUS_WAIT: Duration = Duration::from_millis(50);

/// Why a client cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URI is invalid.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The connection was refused, or there is no socket.
    #[error("{uri}: {cause}; check that the target or hub is running and listens on this port")]
    Socket {
        /// The URI as written.
        uri: String,
        /// The error of the operating system.
        cause: io::Error,
    },
}

/// Stands for the word that a queued operation gives; [`Done::word`] has the word after the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(usize);

/// A client of one target.
pub struct Client {
    uri: Uri,
    /// `None` until the first dispatch, and after a stream has failed.
    pub(super) link: Option<Link>,
    pub(super) session: Session,
    /// A dispatch has begun and not ended. If its future is dropped, its packets are still in flight.
    is_dispatching: bool,
}

/// Operations to be done in one dispatch.
pub struct Queue<'c, 'b> {
    pub(super) client: &'c mut Client,
    pub(super) jobs: Vec<Job<'b>>,
}

/// The words of a dispatch in which every job was done.
#[derive(Clone, Debug)]
pub struct Done(Vec<Option<u32>>);

impl Done {
    /// The word of an operation: what a read has read, or the word before a change.
    pub fn word(&self, value: Value) -> u32 {
        self.0.get(value.0).copied().flatten().unwrap_or_default()
    }
}

/// A dispatch in which not every job was done.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{target}: {failure}{}", unfinished(.outcomes))]
pub struct DispatchError {
    /// The target's URI.
    pub target: String,
    /// Why it failed.
    pub failure: Failure,
    /// The outcome of each job, in the order in which they were queued.
    pub outcomes: Vec<Outcome>,
}

/// How many jobs were not done or may have been done, as the end of an error message.
fn unfinished(outcomes: &[Outcome]) -> String {
    let maybe = outcomes.iter().filter(|outcome| **outcome == Outcome::MayHaveHappened).count();
    let not = outcomes.iter().filter(|outcome| **outcome == Outcome::NotDone).count();
    match (maybe, not) {
        (0, 0) => String::new(),
        (0, not) => format!("; {not} of {} were not done", outcomes.len()),
        (maybe, _) => {
            format!("; {maybe} of {} were sent and may have happened, {not} were not done", outcomes.len())
        }
    }
}

impl Client {
    /// A client of the target that a URI names. A TCP connection is made now.
    ///
    /// # Errors
    /// When the URI is invalid, or the connection fails.
    pub fn open(uri: &str) -> Result<Client, OpenError> {
        let mut client = Client::unconnected(uri)?;
        client.connect()?;
        Ok(client)
    }

    /// A client without a connection.
    pub(super) fn unconnected(uri: &str) -> Result<Client, OpenError> {
        let uri: Uri = uri.parse()?;
        let numbering = match (uri.transport, uri.reliability) {
            (Transport::Udp, Reliability::Auto | Reliability::On) => Numbering::Numbered,
            (Transport::Udp, Reliability::Off) => Numbering::Unnumbered,
            (Transport::Tcp | Transport::Hub(_), _) => Numbering::InTurn,
        };
        // Each client begins at another transaction id, so that it does not take another client's reply for its own.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let first = (now.subsec_nanos() ^ std::process::id()) as u16;
        let mut session = Session::new(numbering, uri.limits, uri.timeout, first);
        session.falls_back = uri.reliability == Reliability::Auto;
        Ok(Client { uri, link: None, session, is_dispatching: false })
    }

    fn connect(&mut self) -> Result<(), OpenError> {
        if self.link.is_none() {
            self.link = Some(Link::open(&self.uri).map_err(|cause| self.cannot_open(cause))?);
        }
        Ok(())
    }

    pub(super) fn cannot_open(&self, cause: io::Error) -> OpenError {
        OpenError::Socket { uri: self.uri.text.clone(), cause }
    }

    /// Begins to queue operations for a dispatch.
    pub fn queue<'b>(&mut self) -> Queue<'_, 'b> {
        Queue { client: self, jobs: Vec::new() }
    }

    /// Reads one word.
    ///
    /// # Errors
    /// When it was not read.
    pub fn read(&mut self, address: u32) -> Result<u32, DispatchError> {
        let mut queue = self.queue();
        let value = queue.read(address);
        Ok(queue.dispatch()?.word(value))
    }

    /// Writes one word.
    ///
    /// # Errors
    /// When it was not done, or it is unknown whether it was.
    pub fn write(&mut self, address: u32, word: u32) -> Result<(), DispatchError> {
        let mut queue = self.queue();
        queue.write(address, word);
        queue.dispatch().map(drop)
    }

    /// Asks the target for its status.
    ///
    /// # Errors
    /// When the target does not answer, or is behind a hub, which does not forward status requests.
    pub fn status(&mut self) -> Result<Status, Failure> {
        if let Transport::Hub(_) = self.uri.transport {
            return Err(Failure::Link(
                "a hub does not forward status requests; ask the target through ipbusudp-2.0://".to_owned(),
            ));
        }
        self.connect().map_err(|error| Failure::Link(error.to_string()))?;
        let Some(link) = &mut self.link else { return Err(Failure::Link("no connection".to_owned())) };
        let broken = |cause: io::Error| Failure::Link(cause.to_string());
        let end = Instant::now() + self.uri.timeout;
        while Instant::now() < end {
            link.send(&status_request(), 1).map_err(broken)?;
            let until = Some(end.min(Instant::now() + STATUS_WAIT));
            let wait = Wait { until, spins_until: until.filter(|_| self.uri.busy_poll) };
            // Late replies to earlier packets are skipped.
            while let Received::Packet(packet) = link.receive(wait).map_err(broken)? {
                if let Ok(status) = Packet::check(packet).and_then(Packet::status) {
                    return Ok(status);
                }
            }
        }
        Err(Failure::NoAnswer(self.uri.timeout))
    }

    /// The URI of the target.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Counts of packets sent and received.
    pub fn counts(&self) -> PacketCounts {
        self.session.sequence.counts()
    }

    fn dispatch(&mut self, jobs: &mut [Job<'_>]) -> Result<(), Failure> {
        self.begin();
        let spins = self.uri.busy_poll;
        let result = match (self.connect(), &mut self.link) {
            (Ok(()), Some(link)) => drive(link, Exchange::new(&mut self.session, jobs), spins),
            (connected, _) => Err(none_done(jobs, connected.err().as_ref())),
        };
        self.finish(&result);
        result
    }

    /// Begins a dispatch. Replies to an earlier one whose future was dropped are not expected any more.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.is_dispatching, true) {
            self.session.sequence.give_up().for_each(drop);
            self.leave_stream();
        }
    }

    /// Ends a dispatch.
    pub(super) fn finish(&mut self, result: &Result<(), Failure>) {
        self.is_dispatching = false;
        if result.as_ref().is_err_and(|failure| !failure.is_of_target()) {
            self.leave_stream();
        }
    }

    /// Closes a stream, whose outstanding replies would otherwise be taken for those of the next dispatch.
    fn leave_stream(&mut self) {
        if self.session.sequence.numbering() == Numbering::InTurn {
            self.link = None;
        }
    }
}

/// Marks all jobs as not done, because there is no connection.
pub(super) fn none_done(jobs: &mut [Job<'_>], error: Option<&OpenError>) -> Failure {
    jobs.iter_mut().for_each(|job| job.outcome = Outcome::NotDone);
    Failure::Link(error.map_or_else(|| "no connection".to_owned(), OpenError::to_string))
}

/// Sends, waits and receives until a dispatch has ended.
fn drive(link: &mut Link, mut exchange: Exchange<'_, '_>, spins: bool) -> Result<(), Failure> {
    loop {
        send(link, &mut exchange);
        if exchange.is_done() {
            return exchange.end();
        }
        let until = exchange.deadline();
        let spins_until = exchange.spin_time().map(|duration| Instant::now() + duration);
        let wait = Wait { until, spins_until: if spins { until } else { spins_until } };
        if !receive(link, &mut exchange, wait) {
            exchange.expire(Instant::now());
        }
    }
}

/// Sends as many packets as the window allows.
pub(super) fn send(link: &mut Link, exchange: &mut Exchange<'_, '_>) {
    let (now, run) = (Instant::now(), exchange.run());
    while let Some(packet) = exchange.transmit(now) {
        if let Err(cause) = link.send(packet, run) {
            exchange.fail(Failure::Link(cause.to_string()));
        }
    }
    if exchange.is_done() {
        link.forget();
    }
}

/// Receives the next packet. Returns `false` when there was none in time.
pub(super) fn receive(link: &mut Link, exchange: &mut Exchange<'_, '_>, wait: Wait) -> bool {
    match link.receive(wait) {
        Ok(Received::Packet(packet)) => exchange.receive(packet, Instant::now()),
        Ok(Received::Refused(code)) => exchange.refuse(code),
        Ok(Received::Broken(error)) => exchange.fail(Failure::Broken(error)),
        Ok(Received::Nothing) => return false,
        Err(cause) => exchange.fail(Failure::Link(cause.to_string())),
    }
    true
}

impl<'b> Queue<'_, 'b> {
    fn add(&mut self, job: Job<'b>) -> Value {
        self.jobs.push(job);
        Value(self.jobs.len() - 1)
    }

    /// Reads a word.
    pub fn read(&mut self, address: u32) -> Value {
        self.add(Job::reading(Operation::Read, address, Landing::Word(0)))
    }

    /// Writes a word.
    pub fn write(&mut self, address: u32, word: u32) -> Value {
        self.add(Job::writing(Operation::Write, address, Written::Word(word)))
    }

    /// Reads words from consecutive addresses into `block`.
    pub fn read_block(&mut self, address: u32, block: &'b mut [u32]) -> Value {
        self.add(Job::reading(Operation::Read, address, Landing::Block(block)))
    }

    /// Writes words to consecutive addresses.
    pub fn write_block(&mut self, address: u32, block: &'b [u32]) -> Value {
        self.add(Job::writing(Operation::Write, address, Written::Block(block)))
    }

    /// Reads words from one address, such as a FIFO, into `block`.
    pub fn read_fifo(&mut self, address: u32, block: &'b mut [u32]) -> Value {
        self.add(Job::reading(Operation::ReadFifo, address, Landing::Block(block)))
    }

    /// Writes words to one address.
    pub fn write_fifo(&mut self, address: u32, block: &'b [u32]) -> Value {
        self.add(Job::writing(Operation::WriteFifo, address, Written::Block(block)))
    }

    /// Sets a word to `(old & keep) | set`; the value is the old word.
    pub fn change_bits(&mut self, address: u32, keep: u32, set: u32) -> Value {
        self.add(Job::writing(Operation::ChangeBits, address, Written::Bits(keep, set)))
    }

    /// Sets a word to `old + addend`, modulo 2³²; the value is the old word.
    pub fn add_to(&mut self, address: u32, addend: u32) -> Value {
        self.add(Job::writing(Operation::Add, address, Written::Word(addend)))
    }

    /// Reads words of the target's configuration address space into `block`.
    pub fn read_configuration(&mut self, address: u32, block: &'b mut [u32]) -> Value {
        self.add(Job::reading(Operation::ReadConfiguration, address, Landing::Block(block)))
    }

    /// Does all queued operations.
    ///
    /// # Errors
    /// When not all were done, with the cause and the outcome of each.
    pub fn dispatch(mut self) -> Result<Done, DispatchError> {
        let result = self.client.dispatch(&mut self.jobs);
        self.end(result)
    }

    /// The words of a dispatch, or its error.
    pub(super) fn end(self, result: Result<(), Failure>) -> Result<Done, DispatchError> {
        match result {
            Ok(()) => Ok(Done(self.jobs.iter().map(Job::word).collect())),
            Err(failure) => Err(DispatchError {
                target: self.client.uri.text.clone(),
                failure,
                outcomes: self.jobs.iter().map(|job| job.outcome).collect(),
            }),
        }
    }
}
