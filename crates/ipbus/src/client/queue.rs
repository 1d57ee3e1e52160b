//! The client as it is used: queue what is to be done, dispatch it, look at what came.
//!
//! ```text
//!  Client::open(uri) ─► queue ─ read, write, read_block … ─► dispatch ─► Done: words, by the value that was given for each
//!                                                              └► DispatchError: target, cause, what became of each
//! ```

use std::io;
use std::time::{Duration, Instant};

use super::exchange::Exchange;
use super::failure::Failure;
use super::job::{Job, Landing, Outcome, Written};
use super::link::{Came, Link, Patience};
use super::session::Session;
use crate::sequence::{Numbering, PacketCounts};
use crate::uri::{Reliability, Transport, Uri, UriError};
use crate::wire::{Operation, Packet, Status, status_request};

/// Between two times that the status is asked for.
const STATUS_WAIT: Duration = Duration::from_millis(50);

/// A target that cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URI says nothing.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// Nobody is there, or no socket.
    #[error("{uri}: {cause}; is it there, and does it listen at this port?")]
    Socket {
        /// As it was written.
        uri: String,
        /// What the system says.
        cause: io::Error,
    },
}

/// A word that comes with the dispatch; [`Done::word`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(usize);

/// A client of one target.
pub struct Client {
    uri: Uri,
    /// `None` before it is needed, and after a stream has broken.
    pub(super) link: Option<Link>,
    pub(super) session: Session,
    /// A dispatch has begun and not ended: what of it is on its way is nobody's, if it never does.
    is_dispatching: bool,
}

/// What is to be done, as it is put together.
pub struct Queue<'c, 'b> {
    pub(super) client: &'c mut Client,
    pub(super) jobs: Vec<Job<'b>>,
}

/// A dispatch of which everything was done.
#[derive(Clone, Debug)]
pub struct Done(Vec<Option<u32>>);

impl Done {
    /// The word that was asked for: of a read, what was there; of a change, what was there before.
    pub fn word(&self, value: Value) -> u32 {
        self.0.get(value.0).copied().flatten().unwrap_or_default()
    }
}

/// A dispatch of which not everything was done.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{target}: {failure}{}", unfinished(.outcomes))]
pub struct DispatchError {
    /// The target's URI.
    pub target: String,
    /// What ended it.
    pub failure: Failure,
    /// What became of each of its jobs, in their order.
    pub outcomes: Vec<Outcome>,
}

/// What a person has to know beside the cause: what may have happened all the same.
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
    /// A client of the target that a URI names. Of a stream the connection is made now.
    ///
    /// # Errors
    /// When the URI says nothing, or nobody is there.
    pub fn open(uri: &str) -> Result<Client, OpenError> {
        let mut client = Client::unconnected(uri)?;
        client.connect()?;
        Ok(client)
    }

    /// A client that has spoken to nobody.
    pub(super) fn unconnected(uri: &str) -> Result<Client, OpenError> {
        let uri: Uri = uri.parse()?;
        let numbering = match (uri.transport, uri.reliability) {
            (Transport::Udp, Reliability::Auto | Reliability::On) => Numbering::Numbered,
            (Transport::Udp, Reliability::Off) => Numbering::Unnumbered,
            (Transport::Tcp | Transport::Hub(_), _) => Numbering::InTurn,
        };
        // No two clients begin at the same number, as far as the clock can distinguish them.
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

    /// Begins a dispatch.
    pub fn queue<'b>(&mut self) -> Queue<'_, 'b> {
        Queue { client: self, jobs: Vec::new() }
    }

    /// Reads one word.
    ///
    /// # Errors
    /// When it does not come.
    pub fn read(&mut self, address: u32) -> Result<u32, DispatchError> {
        let mut queue = self.queue();
        let value = queue.read(address);
        Ok(queue.dispatch()?.word(value))
    }

    /// Writes one word.
    ///
    /// # Errors
    /// When it is not done, or nobody knows whether it was.
    pub fn write(&mut self, address: u32, word: u32) -> Result<(), DispatchError> {
        let mut queue = self.queue();
        queue.write(address, word);
        queue.dispatch().map(drop)
    }

    /// What the target says of itself.
    ///
    /// # Errors
    /// When it says nothing, or a hub is between, which asks it itself.
    pub fn status(&mut self) -> Result<Status, Failure> {
        if let Transport::Hub(_) = self.uri.transport {
            return Err(Failure::Link(
                "a hub passes no status on; ask the target by ipbusudp-2.0://".to_owned(),
            ));
        }
        self.connect().map_err(|error| Failure::Link(error.to_string()))?;
        let Some(link) = &mut self.link else { return Err(Failure::Link("no connection".to_owned())) };
        let broken = |cause: io::Error| Failure::Link(cause.to_string());
        let end = Instant::now() + self.uri.timeout;
        while Instant::now() < end {
            link.send(&status_request(), 1).map_err(broken)?;
            let until = Some(end.min(Instant::now() + STATUS_WAIT));
            let patience = Patience { until, looks_until: until.filter(|_| self.uri.busy_poll) };
            // What comes of earlier packets is no answer.
            while let Came::Packet(packet) = link.receive(patience).map_err(broken)? {
                if let Ok(status) = Packet::check(packet).and_then(Packet::status) {
                    return Ok(status);
                }
            }
        }
        Err(Failure::NoAnswer(self.uri.timeout))
    }

    /// The target as its URI was written.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// What was sent and heard.
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

    /// A dispatch begins. One that was dropped before its end has left packets on their way, whose replies are owed and nobody's.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.is_dispatching, true) {
            self.session.sequence.give_up().for_each(drop);
            self.leave_stream();
        }
    }

    /// A dispatch has ended.
    pub(super) fn finish(&mut self, result: &Result<(), Failure>) {
        self.is_dispatching = false;
        if result.as_ref().is_err_and(|failure| !failure.is_of_target()) {
            self.leave_stream();
        }
    }

    /// A stream in which replies are owed is of no further use.
    fn leave_stream(&mut self) {
        if self.session.sequence.numbering() == Numbering::InTurn {
            self.link = None;
        }
    }
}

/// None of these jobs is done, for there is no connection.
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
        let looks_for = exchange.looks_for().map(|duration| Instant::now() + duration);
        let patience = Patience { until, looks_until: if spins { until } else { looks_for } };
        if !receive(link, &mut exchange, patience) {
            exchange.expire(Instant::now());
        }
    }
}

/// Sends what may be on its way now.
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

/// Takes what comes next; whether something has come.
pub(super) fn receive(link: &mut Link, exchange: &mut Exchange<'_, '_>, patience: Patience) -> bool {
    match link.receive(patience) {
        Ok(Came::Packet(packet)) => exchange.receive(packet, Instant::now()),
        Ok(Came::Refused(code)) => exchange.refuse(code),
        Ok(Came::Broken(error)) => exchange.fail(Failure::Broken(error)),
        Ok(Came::Nothing) => return false,
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

    /// Reads words from an address on, into `block`.
    pub fn read_block(&mut self, address: u32, block: &'b mut [u32]) -> Value {
        self.add(Job::reading(Operation::Read, address, Landing::Block(block)))
    }

    /// Writes words to an address and those behind it.
    pub fn write_block(&mut self, address: u32, block: &'b [u32]) -> Value {
        self.add(Job::writing(Operation::Write, address, Written::Block(block)))
    }

    /// Reads words from one address, as of a FIFO, into `block`.
    pub fn read_fifo(&mut self, address: u32, block: &'b mut [u32]) -> Value {
        self.add(Job::reading(Operation::ReadFifo, address, Landing::Block(block)))
    }

    /// Writes words to one address.
    pub fn write_fifo(&mut self, address: u32, block: &'b [u32]) -> Value {
        self.add(Job::writing(Operation::WriteFifo, address, Written::Block(block)))
    }

    /// A word becomes `(old & keep) | set`; the value is the old one.
    pub fn change_bits(&mut self, address: u32, keep: u32, set: u32) -> Value {
        self.add(Job::writing(Operation::ChangeBits, address, Written::Bits(keep, set)))
    }

    /// A word becomes `old + addend`, modulo 2³²; the value is the old one.
    pub fn add_to(&mut self, address: u32, addend: u32) -> Value {
        self.add(Job::writing(Operation::Add, address, Written::Word(addend)))
    }

    /// Reads words of the target's own address space, into `block`.
    pub fn read_configuration(&mut self, address: u32, block: &'b mut [u32]) -> Value {
        self.add(Job::reading(Operation::ReadConfiguration, address, Landing::Block(block)))
    }

    /// Has everything done.
    ///
    /// # Errors
    /// When not everything was, with the cause and what became of each.
    pub fn dispatch(mut self) -> Result<Done, DispatchError> {
        let result = self.client.dispatch(&mut self.jobs);
        self.end(result)
    }

    /// What came of it.
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
