//! A peer over a stream of bytes: what TCP and shared memory have in common.
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
use super::error::{KeyProblem, PeerError};
use super::frame::Kind;
use super::handshake::{Discord, Handshake, Next};
use super::hello::{Hello, RunIdentity, VERSIONS};
use super::key::Role;
use super::queue::SendQueue;
use super::settings::Settings;
use super::wire::Wire;
use super::{Counts, Peer, Sent};

/// What waits is written at once when it is as much as this: below, the call costs more than the copy.
const WORTH_WRITING: u64 = 64 << 10;
/// The clock is looked at once in so many messages, if nothing else gives cause to.
const MESSAGES_PER_LOOK: u64 = 64;
/// How long a connection without a free block sleeps before it looks again.
const HOLD_STEP: Duration = Duration::from_micros(50);

/// Most bytes that one call receives, and most frames without a message that it passes over: whoever sends without end does not keep
/// the caller from its other peers.
const BYTES_PER_CALL: usize = 16 << 20;
const FRAMES_PER_CALL: u32 = 1024;
/// Bytes that a connection receives at a time before it has said who it is: as many as the next header or head needs, in no block.
const GREETING_BYTES: usize = 512;

/// A connection that may still have to say who it is.
pub(super) trait Greeting: Peer {
    /// Moves the hello on; whether both ends have agreed.
    fn greet(&mut self) -> Result<bool, PeerError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Both are about to say who they are.
    Greeting,
    Open,
    /// The other end has said good-bye.
    Ended,
    /// Closed by us, or lost.
    Closed,
}

/// A connection over a wire.
pub(super) struct StreamPeer<W: Wire> {
    wire: W,
    place: String,
    settings: Settings,
    state: State,
    queue: SendQueue,
    assembly: Assembly,
    handshake: Handshake,
    other: Hello,
    opened: Instant,
    /// Whether anything was heard, and sent, since the clock was last looked at; and when that was.
    heard: (bool, Instant),
    sent: (bool, Instant),
    /// Whether signs of life are sent and expected.
    beats: bool,
    wants_room: bool,
    counts: Counts,
}

/// What a look at the wire came to.
enum Looked {
    Message,
    Nothing,
    /// There may be more, but this call has received enough.
    Enough,
    NoBlock,
    End,
}

impl<W: Wire> StreamPeer<W> {
    /// A connection just opened. `beats`: whether the wire alone does not tell that the other end is gone.
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
        let now = Instant::now();
        Ok(StreamPeer {
            wire,
            place,
            state: State::Greeting,
            queue,
            assembly: Assembly::new(settings.pool.clone(), longest),
            handshake,
            other: Hello { name: String::new(), ..Hello::of("", 0) },
            opened: now,
            heard: (false, now),
            sent: (false, now),
            beats,
            wants_room: false,
            counts: Counts::default(),
            settings,
        })
    }

    /// Everything that the connection holds goes back: it is of no further use.
    fn fail(&mut self, error: PeerError) -> PeerError {
        self.counts.lost_messages += self.queue.give_up();
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

    /// Writes what waits and the wire takes now; whether all went.
    fn write(&mut self) -> Result<bool, PeerError> {
        if self.queue.is_empty() {
            return Ok(true);
        }
        self.sent.0 = true;
        let all = self.queue.write(&mut self.wire).and_then(|all| {
            if self.wants_room == all {
                self.wire.want_room(!all)?;
                self.wants_room = !all;
            }
            Ok(all)
        });
        match all {
            Ok(all) => Ok(all),
            // What it said before it went, a refusal perhaps, tells more than that it went.
            Err(cause) => Err(match self.read_last_words() {
                Some(refusal) => self.fail(refusal),
                None => self.lost(cause),
            }),
        }
    }

    /// A refusal among what is there to read.
    fn read_last_words(&mut self) -> Option<PeerError> {
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

    /// Receives what is there: into a block, or into none before the other end has said who it is. `None`: no block is free.
    fn receive_some(&mut self) -> io::Result<Option<usize>> {
        if self.state == State::Greeting {
            let mut bytes = [0; GREETING_BYTES];
            let wanted = self.assembly.wanted().min(GREETING_BYTES);
            let received = self.wire.read(&mut bytes[..wanted])?;
            self.assembly.take_early(&bytes[..received]);
            return Ok(Some(received));
        }
        let Some(room) = self.assembly.room() else { return Ok(None) };
        let received = self.wire.read(room)?;
        if received > 0 {
            self.assembly.publish(received);
        }
        Ok(Some(received))
    }

    /// Looks at what was received, and receives what is there, up to the end of the next message or of what one call may take.
    fn look(&mut self, message: &mut Message) -> Result<Looked, PeerError> {
        let (mut bytes, mut frames) = (0, 0);
        loop {
            if bytes >= BYTES_PER_CALL || frames >= FRAMES_PER_CALL {
                return Ok(Looked::Enough);
            }
            let found = self.assembly.find().map_err(|problem| {
                let error = PeerError::Frame { place: self.place.clone(), problem };
                self.refuse(error)
            })?;
            match found {
                Found::Message => {
                    self.assembly.take(message);
                    self.counts.received_messages += 1;
                    self.counts.received_bytes += message.head.len() as u64 + message.payload_bytes();
                    return Ok(Looked::Message);
                }
                Found::Control(kind) => {
                    frames += 1;
                    self.on_kind(kind)?;
                    self.assembly.clear();
                    if self.state == State::Ended {
                        return Ok(Looked::End);
                    }
                    if kind == Kind::Hello {
                        return Ok(Looked::Nothing);
                    }
                }
                Found::Nothing => match self.receive_some() {
                    Ok(None) => return Ok(Looked::NoBlock),
                    Ok(Some(0)) if self.assembly.is_inside() => {
                        return Err(self.lost("it ended in the middle of a message"));
                    }
                    Ok(Some(0)) => return Err(self.lost("it ended without a word")),
                    Ok(Some(received)) => {
                        self.heard.0 = true;
                        bytes += received;
                    }
                    Err(cause) if crate::system::is_nothing(&cause) => return Ok(Looked::Nothing),
                    Err(cause) => return Err(self.lost(cause)),
                },
            }
        }
    }

    /// Takes note of a frame that is not a message.
    fn on_kind(&mut self, kind: Kind) -> Result<(), PeerError> {
        match kind {
            Kind::Challenge | Kind::Proof | Kind::Hello => self.shake_hands(kind),
            Kind::Refusal => {
                let refusal = self.refusal();
                Err(self.fail(refusal))
            }
            Kind::Bye => {
                self.counts.lost_messages += self.queue.give_up();
                self.wire.finish();
                self.state = State::Ended;
                Ok(())
            }
            Kind::Heartbeat | Kind::Message => Ok(()),
        }
    }

    /// Takes a frame of the handshake, and says what comes next.
    fn shake_hands(&mut self, kind: Kind) -> Result<(), PeerError> {
        let place = self.place.clone();
        if self.state != State::Greeting {
            let words = "it says a second time who it is".to_owned();
            return Err(self.refuse(PeerError::Refused { place, words }));
        }
        let error = match self.handshake.take(kind, self.assembly.head()) {
            Ok(Next::Say(kind, head)) => {
                self.queue.push_control(kind, &head);
                return self.write().map(drop);
            }
            Ok(Next::Agreed(version, theirs)) => {
                self.queue.agree(version);
                self.assembly.agree(version);
                self.other = theirs;
                self.state = State::Open;
                return Ok(());
            }
            Err(Discord::Key(problem)) => PeerError::Key { place, problem },
            Err(Discord::Version(lowest, highest, name)) => {
                let ours = (*VERSIONS.start(), *VERSIONS.end());
                PeerError::Version { place, name, theirs: (lowest, highest), ours }
            }
            Err(Discord::Elsewhere(theirs)) => mismatch(place, theirs, self.settings.identity.clone()),
            Err(Discord::Unreadable) => {
                let words = "what it says of itself cannot be read, or is out of turn".to_owned();
                PeerError::Refused { place, words }
            }
        };
        Err(self.refuse(error))
    }

    /// Tells the other end why it is not talked to, as far as it can be sent at once.
    fn refuse(&mut self, error: PeerError) -> PeerError {
        // Words are for the other end: they name what it sent, not where it is seen from here. It may be anybody, and learns nothing from
        // them by which it could say the right thing next time.
        let us = match self.handshake.may_name_itself() {
            true => format!("`{}`", self.settings.name),
            false => "this unit".to_owned(),
        };
        let words = match &error {
            PeerError::Version { theirs, ours, .. } => format!(
                "{us} speaks versions {} to {}, you {} to {}; install the same version on both hosts",
                ours.0, ours.1, theirs.0, theirs.1
            ),
            PeerError::Configuration { .. } => {
                format!(
                    "{us} was started with another configuration; start all nodes of a run from the same file"
                )
            }
            PeerError::Run { .. } => {
                format!("{us} belongs to another run; end the nodes of the older one")
            }
            PeerError::Key { problem: KeyProblem::WeHaveNone, .. } => {
                format!(
                    "{us} has no key, and you ask for one; give all nodes the same [run] key_file or key_env"
                )
            }
            PeerError::Key { .. } => {
                format!("{us} asks for the key of its run; give all nodes the same [run] key_file or key_env")
            }
            PeerError::Frame { problem, .. } => problem.to_string(),
            other => other.to_string(),
        };
        self.queue.push_control(Kind::Refusal, words.as_bytes());
        let _ = self.queue.write(&mut self.wire);
        self.fail(error)
    }

    /// Looks at the clock: gives a sign of life, and (where it `listens`: an end without a block does not) misses that of
    /// the other end.
    fn tend(&mut self, listens: bool) -> Result<(), PeerError> {
        let now = Instant::now();
        if std::mem::take(&mut self.heard.0) || !listens {
            self.heard.1 = now;
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
        if self.beats && !silence.is_zero() && now - self.heard.1 >= silence {
            let error = PeerError::Silent { place: place(), wait: silence };
            return Err(self.fail(error));
        }
        if self.beats && self.queue.is_empty() && now - self.sent.1 >= self.settings.heartbeat {
            self.queue.push_control(Kind::Heartbeat, &[]);
            self.write()?;
        }
        Ok(())
    }

    fn wait_for_wire(&mut self, wait: Duration) -> Result<(), PeerError> {
        // Not longer than a sign of life may take.
        let wait = wait.min(self.settings.heartbeat.max(Duration::from_millis(1)));
        let for_room = !self.queue.is_empty();
        self.wire.wait(for_room, wait).map_err(|cause: io::Error| self.lost(cause))
    }
}

/// What this end says of itself.
fn ours(settings: &Settings) -> Hello {
    let hello = Hello::of(&settings.name, settings.longest_payload());
    Hello { identity: settings.identity.clone(), ..hello }
}

/// Why a unit that belongs elsewhere is not talked to.
fn mismatch(place: String, theirs: Hello, ours: RunIdentity) -> PeerError {
    let (name, theirs) = (theirs.name, theirs.identity);
    if theirs.configuration == ours.configuration {
        return PeerError::Run { place, name, theirs: theirs.run, ours: ours.run };
    }
    PeerError::Configuration { place, name, theirs: theirs.configuration, ours: ours.configuration }
}

impl<W: Wire> Greeting for StreamPeer<W> {
    fn greet(&mut self) -> Result<bool, PeerError> {
        self.check_open()?;
        self.write()?;
        if self.state == State::Greeting {
            // Before the hello no message is let through, so none is lost here.
            self.look(&mut Message::default())?;
            if self.state == State::Greeting {
                self.tend(true)?;
            }
        }
        Ok(self.state != State::Greeting)
    }
}

impl<W: Wire> Peer for StreamPeer<W> {
    fn send(&mut self, message: &mut Message) -> Result<Sent, PeerError> {
        self.check_open()?;
        if self.state == State::Ended {
            return Err(self.lost("the other end has closed it"));
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
        self.queue.push(message);
        // Once the wire takes no more, it is not asked at every message, only when the queue is full.
        if self.queue.bytes() >= WORTH_WRITING && !self.wants_room {
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
            let looked = self.look(message)?;
            let idle = match looked {
                Looked::Message => {
                    // An end that is never idle gives signs of life, too.
                    if self.counts.received_messages.is_multiple_of(MESSAGES_PER_LOOK) {
                        self.tend(true)?;
                    }
                    return Ok(Received::Data);
                }
                Looked::End => return Ok(Received::End),
                Looked::Nothing => {
                    self.tend(true)?;
                    // Looking may have taken the wake-up for room.
                    self.write()?;
                    Received::Idle
                }
                Looked::Enough => {
                    self.tend(true)?;
                    Received::Idle
                }
                Looked::NoBlock => {
                    self.tend(false)?;
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
            match looked {
                Looked::Enough => {}
                Looked::NoBlock => std::thread::sleep(HOLD_STEP.min(left)),
                _ => self.wait_for_wire(left)?,
            }
        }
    }

    fn flush(&mut self, wait: Duration) -> Result<bool, PeerError> {
        self.check_open()?;
        let until = Instant::now() + wait;
        while !self.write()? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            // Something to read would wake it, too, again and again: short sleeps keep that bounded.
            self.wait_for_wire(left.min(Duration::from_millis(1)))?;
        }
        Ok(true)
    }

    fn close(&mut self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut heard = self.state == State::Ended;
        if matches!(self.state, State::Open | State::Greeting) {
            self.queue.push_control(Kind::Bye, &[]);
            heard = self.flush(wait).unwrap_or(false);
            self.wire.finish();
        }
        // What still comes is read and let go: a socket closed over unread bytes would take the good-bye back.
        self.assembly.give_up();
        let mut scrap = vec![0; 64 << 10];
        while heard && self.state != State::Ended {
            match self.wire.read(&mut scrap) {
                Ok(0) => break,
                Ok(_) => {}
                Err(cause) if crate::system::is_nothing(&cause) => {
                    let left = until.saturating_duration_since(Instant::now());
                    heard = !left.is_zero() && self.wire.wait(false, left).is_ok();
                }
                Err(_) => heard = false,
            }
        }
        self.counts.lost_messages += self.queue.give_up();
        self.state = State::Closed;
        heard
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
