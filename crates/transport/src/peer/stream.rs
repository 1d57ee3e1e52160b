//! A peer over a wire, that is over TCP or shared memory.
//!
//! ```text
//!  send ─► SendQueue ─► Wire ═══ Wire ─► Assembly ─► receive
//!   challenge, proof, hello, heartbeat, bye ──► the state of the connection
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use thalweg_data::{Message, Received};

use super::assembly::{Assembly, Found};
use super::borrow::Borrower;
use super::error::PeerError;
use super::frame::{FrameError, Kind};
use super::handshake::{Handshake, Next};
use super::hello::Hello;
use super::key::Role;
use super::lend::Lender;
use super::queue::SendQueue;
use super::refusal::Refusal;
use super::settings::Settings;
use super::wire::Wire;
use super::{Counts, Peer, Sent};

/// `send` writes the queue at once when it has at least this many bytes; below, the call costs more than the copy.
const WORTH_WRITING: u64 = 64 << 10;
/// A connection that is never idle checks the clock once in this many received messages.
const MESSAGES_PER_CHECK: u64 = 64;
/// How long a connection without a free block sleeps before it asks the pool again.
const HOLD_STEP: Duration = Duration::from_micros(50);
/// How long an end that has borrowed blocks waits at most before it looks whether they are still read.
const LOAN_STEP: Duration = Duration::from_millis(2);

/// The most bytes that one call receives, so that a fast sender does not keep the caller from its other peers.
const BYTES_PER_CALL: usize = 16 << 20;
/// The most frames other than messages that one call handles, for the same reason.
const FRAMES_PER_CALL: u32 = 1024;
/// The most bytes of one read during the handshake, which are received outside of blocks.
const GREETING_BYTES: usize = 512;

/// A connection that may still be in its handshake.
pub(super) trait Greeting: Peer {
    /// Continues the handshake; returns whether it is complete.
    fn greet(&mut self) -> Result<bool, PeerError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The handshake is not complete.
    Greeting,
    Open,
    /// The other end has said goodbye.
    Ended,
    /// Closed by this end, or lost.
    Closed,
}

/// A connection over a wire.
pub(super) struct StreamPeer<W: Wire> {
    wire: W,
    place: String,
    settings: Settings,
    state: State,
    queue: SendQueue,
    /// Of a connection over which blocks can be lent.
    lender: Option<Lender>,
    assembly: Assembly,
    handshake: Handshake,
    other: Hello,
    opened: Instant,
    /// Whether bytes were received since the last check of the clock, and the time of the last check that found some.
    received: (bool, Instant),
    /// The same for written bytes.
    sent: (bool, Instant),
    /// Whether heartbeats are sent and expected.
    beats: bool,
    /// Whether the wire's descriptor also waits until it can write.
    wants_write: bool,
    counts: Counts,
}

/// How [`StreamPeer::read_frames`] ended.
enum Progress {
    /// It has read a message.
    Message,
    /// No further frame is there.
    Nothing,
    /// There may be more frames, but this call has read enough.
    Enough,
    /// No block is free.
    NoBlock,
    /// The other end has closed the connection.
    End,
}

impl<W: Wire> StreamPeer<W> {
    /// A connection that was just opened. `beats`: heartbeats are needed, because the wire does not report that the other end is gone.
    ///
    /// # Errors
    /// When the system has no random numbers for the handshake.
    pub(super) fn new(
        wire: W,
        place: String,
        settings: Settings,
        role: Role,
        beats: bool,
    ) -> Result<StreamPeer<W>, PeerError> {
        let longest = settings.longest_payload();
        let mut queue = SendQueue::new(settings.queue_messages, settings.queue_bytes);
        let (handshake, kind, head) = Handshake::begin(ours(&settings), settings.key.clone(), role)?;
        queue.push_control(kind, &head);
        let lender = wire.can_lend() && settings.lends_one_in > 0;
        let lender = lender.then(|| Lender::new(settings.lends_one_in));
        let borrower = wire.can_lend().then(Borrower::default);
        let now = Instant::now();
        Ok(StreamPeer {
            wire,
            place,
            state: State::Greeting,
            queue,
            lender,
            assembly: Assembly::new(settings.pool.clone(), longest, borrower),
            handshake,
            other: Hello { name: String::new(), ..Hello::of("", 0) },
            opened: now,
            received: (false, now),
            sent: (false, now),
            beats,
            wants_write: false,
            counts: Counts::default(),
            settings,
        })
    }

    /// Closes the connection after an error, and releases everything that it holds.
    fn fail(&mut self, error: PeerError) -> PeerError {
        self.counts.lost_messages += self.queue.give_up();
        self.lender = None;
        self.assembly.give_up();
        self.wire.finish();
        self.state = State::Closed;
        error
    }

    fn lost(&mut self, cause: impl ToString) -> PeerError {
        let error = PeerError::Lost { place: self.place.clone(), cause: cause.to_string() };
        self.fail(error)
    }

    fn check_open(&self) -> Result<(), PeerError> {
        match self.state {
            State::Closed => Err(PeerError::Closed { place: self.place.clone() }),
            _ => Ok(()),
        }
    }

    /// Writes as much of the queue as the wire takes now; returns whether the queue is empty.
    fn write(&mut self) -> Result<bool, PeerError> {
        if self.queue.is_empty() {
            return Ok(true);
        }
        self.sent.0 = true;
        let all = self.queue.write(&mut self.wire).and_then(|all| {
            if self.wants_write == all {
                self.wire.set_write_interest(!all)?;
                self.wants_write = !all;
            }
            Ok(all)
        });
        match all {
            Ok(all) => Ok(all),
            // A refusal that the other end sent before it closed says more than the error of the write.
            Err(cause) => Err(match self.read_refusal() {
                Some(refusal) => self.fail(refusal),
                None => self.lost(cause),
            }),
        }
    }

    /// Reads all frames that are there, up to a refusal.
    fn read_refusal(&mut self) -> Option<PeerError> {
        loop {
            match self.assembly.find().ok()? {
                Found::Control(Kind::Refusal) => return Some(self.refusal()),
                Found::Nothing => {
                    self.receive_some().ok().flatten().filter(|received| *received > 0)?;
                }
                Found::Message | Found::Control(_) => self.assembly.clear(),
            }
        }
    }

    fn refusal(&self) -> PeerError {
        let words = String::from_utf8_lossy(self.assembly.head());
        let words = words.chars().filter(|letter| !letter.is_control()).collect();
        PeerError::Refused { place: self.place.clone(), words }
    }

    /// Receives once: into a block, or outside of blocks during the handshake. `None` when no block is free.
    fn receive_some(&mut self) -> io::Result<Option<usize>> {
        if self.state == State::Greeting {
            let mut bytes = [0; GREETING_BYTES];
            let wanted = self.assembly.wanted().min(GREETING_BYTES);
            let received = self.wire.read(&mut bytes[..wanted])?;
            self.assembly.take_early(&bytes[..received]);
            return Ok(Some(received));
        }
        let Some(space) = self.assembly.space() else { return Ok(None) };
        let received = self.wire.read(space)?;
        if received > 0 {
            self.assembly.publish(received);
        }
        Ok(Some(received))
    }

    /// Receives and handles frames up to the next message, or until nothing more is there, or this call has read enough.
    fn read_frames(&mut self, message: &mut Message) -> Result<Progress, PeerError> {
        let (mut bytes, mut frames) = (0, 0);
        loop {
            if bytes >= BYTES_PER_CALL || frames >= FRAMES_PER_CALL {
                return Ok(Progress::Enough);
            }
            let found = self.assembly.find().map_err(|problem| self.refuse(Refusal::Frame(problem)))?;
            match found {
                Found::Message => {
                    self.assembly.take(message);
                    self.counts.received_messages += 1;
                    self.counts.received_bytes += message.head.len() as u64 + message.payload_bytes();
                    return Ok(Progress::Message);
                }
                Found::Control(kind) => {
                    frames += 1;
                    self.on_control(kind)?;
                    self.assembly.clear();
                    if self.state == State::Ended {
                        return Ok(Progress::End);
                    }
                    if kind == Kind::Hello {
                        return Ok(Progress::Nothing);
                    }
                }
                Found::Nothing => match self.receive_some() {
                    Ok(None) => return Ok(Progress::NoBlock),
                    Ok(Some(0)) if self.assembly.is_inside() => {
                        return Err(self.lost("it ended in the middle of a message"));
                    }
                    Ok(Some(0)) => return Err(self.lost("the other end has ended without closing it")),
                    Ok(Some(received)) => {
                        self.received.0 = true;
                        bytes += received;
                    }
                    Err(cause) if crate::system::is_nothing(&cause) => return Ok(Progress::Nothing),
                    Err(cause) => return Err(self.lost(cause)),
                },
            }
        }
    }

    /// Handles a frame that is not a message.
    fn on_control(&mut self, kind: Kind) -> Result<(), PeerError> {
        match kind {
            Kind::Challenge | Kind::Proof | Kind::Hello => self.shake_hands(kind),
            Kind::Refusal => {
                let refusal = self.refusal();
                Err(self.fail(refusal))
            }
            // Anybody can send these; before the handshake, an end has proved nothing.
            Kind::Bye | Kind::Pool | Kind::Return if self.state == State::Greeting => {
                Err(self.refuse(Refusal::Frame(FrameError::Early(kind as u16))))
            }
            Kind::Bye => {
                self.counts.lost_messages += self.queue.give_up();
                self.wire.finish();
                self.state = State::Ended;
                Ok(())
            }
            Kind::Pool => {
                let added = self.wire.take_passed().and_then(|passed| self.assembly.add_pool(passed));
                added.map_err(|cause| self.lost(format!("it lends memory that cannot be read: {cause}")))
            }
            Kind::Return => {
                let lender = self.lender.as_mut().ok_or(FrameError::Loan("nothing was lent"));
                let returned = lender.and_then(|lender| lender.take_back(self.assembly.head()));
                returned.map_err(|problem| self.refuse(Refusal::Frame(problem)))
            }
            Kind::Heartbeat | Kind::Message => Ok(()),
        }
    }

    /// Handles a frame of the handshake, and sends the next one.
    fn shake_hands(&mut self, kind: Kind) -> Result<(), PeerError> {
        if self.state != State::Greeting {
            return Err(self.refuse(Refusal::AfterHandshake));
        }
        match self.handshake.take(kind, self.assembly.head()) {
            Ok(Next::Send(kind, head)) => {
                self.queue.push_control(kind, &head);
                self.write().map(drop)
            }
            Ok(Next::Agreed(version, theirs)) => {
                self.queue.agree(version);
                self.assembly.agree(version);
                self.other = theirs;
                self.state = State::Open;
                Ok(())
            }
            Err(disagreement) => Err(self.refuse(Refusal::Handshake(disagreement))),
        }
    }

    /// Closes the connection with a refusal, which is sent if the wire takes it at once.
    fn refuse(&mut self, why: Refusal) -> PeerError {
        let us = match self.handshake.may_name_itself() {
            true => format!("`{}`", self.settings.name),
            false => "this unit".to_owned(),
        };
        let words = why.words(&us, &self.settings.identity);
        self.queue.push_control(Kind::Refusal, words.as_bytes());
        let _ = self.queue.write(&mut self.wire);
        self.fail(why.into_error(self.place.clone(), &self.settings.identity))
    }

    /// Checks the clock: sends a heartbeat when it is due, and closes the connection if the other end has been silent for too long.
    /// An end that is not `reading`, because it has no free block, does not count the time as silence.
    fn keep_alive(&mut self, reading: bool) -> Result<(), PeerError> {
        let now = Instant::now();
        if std::mem::take(&mut self.received.0) || !reading {
            self.received.1 = now;
        }
        if std::mem::take(&mut self.sent.0) {
            self.sent.1 = now;
        }
        let place = || self.place.clone();
        let (hello_wait, silence) = (self.settings.hello_wait, self.settings.silence_wait);
        if self.state == State::Greeting && now - self.opened >= hello_wait {
            let error = PeerError::Silent { place: place(), wait: hello_wait };
            return Err(self.fail(error));
        }
        if self.beats && !silence.is_zero() && now - self.received.1 >= silence {
            let error = PeerError::Silent { place: place(), wait: silence };
            return Err(self.fail(error));
        }
        if self.beats && self.queue.is_empty() && now - self.sent.1 >= self.settings.heartbeat {
            self.queue.push_control(Kind::Heartbeat, &[]);
            self.write()?;
        }
        Ok(())
    }

    /// Gives back blocks of the other end that nobody reads any more.
    fn give_back(&mut self, is_idle: bool) {
        if self.queue.is_full() {
            return;
        }
        let unread = self.assembly.borrower().and_then(|borrower| borrower.find_unread(is_idle));
        if let Some(unread) = unread {
            self.queue.push_control(Kind::Return, unread);
            unread.clear();
        }
    }

    fn wait_for_wire(&mut self, wait: Duration) -> Result<(), PeerError> {
        // At most until the next heartbeat is due.
        let wait = wait.min(self.settings.heartbeat.max(Duration::from_millis(1)));
        let wait = if self.assembly.has_loans() { wait.min(LOAN_STEP) } else { wait };
        let for_write = !self.queue.is_empty();
        self.wire.wait(for_write, wait).map_err(|cause: io::Error| self.lost(cause))
    }
}

/// The hello of this end.
fn ours(settings: &Settings) -> Hello {
    let hello = Hello::of(&settings.name, settings.longest_payload());
    Hello { identity: settings.identity.clone(), ..hello }
}

impl<W: Wire> Greeting for StreamPeer<W> {
    fn greet(&mut self) -> Result<bool, PeerError> {
        self.check_open()?;
        self.write()?;
        if self.state == State::Greeting {
            // Messages are refused before the hello, so none is lost here.
            self.read_frames(&mut Message::default())?;
            if self.state == State::Greeting {
                self.keep_alive(true)?;
            }
        }
        Ok(self.state == State::Open)
    }
}

impl<W: Wire> Peer for StreamPeer<W> {
    fn send(&mut self, message: &mut Message) -> Result<Sent, PeerError> {
        self.check_open()?;
        if self.state == State::Ended {
            return Err(self.lost("the other end has closed the connection"));
        }
        let (head, payload) = (message.head.len(), message.payload_bytes());
        let most_head = Message::LONGEST_HEAD as u64;
        for (bytes, most) in [(head as u64, most_head), (payload, self.other.longest_payload_bytes)] {
            if bytes > most {
                return Err(PeerError::TooLong { place: self.place.clone(), bytes, most });
            }
        }
        if self.queue.is_full() {
            self.write()?;
            if self.queue.is_full() {
                return Ok(Sent::Full);
            }
        }
        let Self { lender, queue, wire, .. } = self;
        if let Some(lender) = lender
            && let Err(cause) = lender.announce(message, wire, queue)
        {
            return Err(self.lost(cause));
        }
        self.queue.push(message, self.lender.as_mut());
        // While the wire takes no more, `send` tries to write only when the queue is full, not for every message.
        if self.queue.bytes() >= WORTH_WRITING && !self.wants_write {
            self.write()?;
        }
        Ok(Sent::Taken)
    }

    fn receive(&mut self, message: &mut Message, wait: Duration) -> Result<Received, PeerError> {
        message.clear();
        self.check_open()?;
        let mut until = None;
        loop {
            if self.state == State::Ended {
                return Ok(Received::End);
            }
            self.write()?;
            let progress = self.read_frames(message)?;
            let idle = match progress {
                Progress::Message => {
                    self.give_back(false);
                    // An end that is never idle sends heartbeats, too.
                    if self.counts.received_messages.is_multiple_of(MESSAGES_PER_CHECK) {
                        self.keep_alive(true)?;
                    }
                    return Ok(Received::Data);
                }
                Progress::End => return Ok(Received::End),
                Progress::Nothing => {
                    self.give_back(true);
                    self.keep_alive(true)?;
                    // Reading may have consumed the wake-up for writing.
                    self.write()?;
                    Received::Idle
                }
                Progress::Enough => {
                    self.keep_alive(true)?;
                    Received::Idle
                }
                Progress::NoBlock => {
                    self.give_back(true);
                    self.keep_alive(false)?;
                    Received::Full
                }
            };
            if wait.is_zero() {
                return Ok(idle);
            }
            let now = Instant::now();
            let left = until.get_or_insert(now + wait).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(idle);
            }
            match progress {
                Progress::Enough => {}
                Progress::NoBlock => std::thread::sleep(HOLD_STEP.min(left)),
                _ => self.wait_for_wire(left)?,
            }
        }
    }

    fn flush(&mut self, wait: Duration) -> Result<bool, PeerError> {
        self.check_open()?;
        let mut until = None;
        while !self.write()? {
            let now = Instant::now();
            let left = until.get_or_insert(now + wait).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(false);
            }
            // Bytes to read may end this wait early or, over shared memory, keep it from sleeping on the socket, so wait in short steps.
            self.wait_for_wire(left.min(Duration::from_millis(1)))?;
        }
        Ok(true)
    }

    fn close(&mut self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut all = self.state == State::Ended;
        if matches!(self.state, State::Open | State::Greeting) {
            self.queue.push_control(Kind::Bye, &[]);
            all = self.flush(wait).unwrap_or(false);
            self.wire.finish();
        }
        // Reads and discards what still comes: closing a socket with unread bytes resets the connection, and the goodbye may be lost.
        self.lender = None;
        self.assembly.give_up();
        let mut discarded = vec![0; 64 << 10];
        while all && self.state != State::Ended {
            match self.wire.read(&mut discarded) {
                Ok(0) => break,
                Ok(_) => {}
                Err(cause) if crate::system::is_nothing(&cause) => {
                    let left = until.saturating_duration_since(Instant::now());
                    all = !left.is_zero() && self.wire.wait(false, left).is_ok();
                }
                Err(_) => all = false,
            }
        }
        self.counts.lost_messages += self.queue.give_up();
        self.state = State::Closed;
        all
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    fn name(&self) -> &str {
        &self.other.name
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn counts(&self) -> Counts {
        let written = self.queue.written();
        Counts {
            sent_messages: written.messages,
            sent_bytes: written.bytes,
            copied_bytes: self.wire.copied_bytes(),
            ..self.counts
        }
    }
}
