//! A link of emulated boards over TCP: FIFO, client, and what was thrown away.
//!
//! ```text
//!  answers ─► FIFO |..sent..|=== waiting ===| ─ one write ─► client
//!                              └ no client: thrown away, counted
//! ```

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use thalweg_frontend::trigger::Trigger;

use super::BoardTotals;
use super::answering::Answering;

/// A link of boards that send a stream.
pub(super) struct StreamLink {
    listener: Option<TcpListener>,
    client: Option<TcpStream>,
    boards: Answering,
    buffer: Vec<u8>,
    /// How much of the buffer has gone.
    gone: usize,
    /// Where answers end, counted from the link's first byte, and whose they are.
    ends: VecDeque<(u64, u16)>,
    /// Bytes that were answered until now.
    written: u64,
    /// Bytes of the longest answer of all boards to one trigger.
    longest: usize,
    fifo_bytes: usize,
    send_buffer_bytes: usize,
    no_ends: Vec<usize>,
}

impl StreamLink {
    pub(super) fn new(
        (listener, client): (Option<TcpListener>, Option<TcpStream>),
        boards: Answering,
        fifo_bytes: usize,
        send_buffer_bytes: usize,
    ) -> io::Result<StreamLink> {
        listener.as_ref().map_or(Ok(()), |listener| listener.set_nonblocking(true))?;
        let mut link = StreamLink {
            listener,
            client: None,
            boards,
            buffer: Vec::with_capacity(fifo_bytes),
            gone: 0,
            ends: VecDeque::new(),
            written: 0,
            longest: 0,
            fifo_bytes,
            send_buffer_bytes,
            no_ends: Vec::new(),
        };
        if let Some(client) = client {
            link.welcome(client)?;
        }
        Ok(link)
    }

    fn welcome(&mut self, client: TcpStream) -> io::Result<()> {
        self.client = Some(self.prepared(client)?);
        self.boards.connected();
        Ok(())
    }

    fn prepared(&self, client: TcpStream) -> io::Result<TcpStream> {
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        thalweg_transport::send_by_window_on_loopback(&client);
        if self.send_buffer_bytes > 0 {
            socket2::SockRef::from(&client).set_send_buffer_size(self.send_buffer_bytes)?;
        }
        Ok(client)
    }

    pub(super) fn totals(&self) -> &[BoardTotals] {
        self.boards.totals()
    }

    fn waiting(&self) -> usize {
        self.buffer.len() - self.gone
    }

    pub(super) fn is_drained(&self) -> bool {
        self.waiting() == 0
    }

    /// How many triggers more the FIFO has space for: at least one when it is empty.
    pub(super) fn room(&self) -> usize {
        match self.waiting() {
            0 => (self.fifo_bytes / self.longest.max(1)).max(1),
            waiting => self.fifo_bytes.saturating_sub(waiting) / self.longest.max(1),
        }
    }

    /// All boards answer all triggers.
    pub(super) fn answer(&mut self, triggers: &[Trigger]) {
        // What has gone frees space when it is worth the moving.
        if self.gone > 0 && self.gone >= self.waiting() {
            self.buffer.drain(..self.gone);
            self.gone = 0;
        }
        for trigger in triggers {
            let first = self.buffer.len();
            for index in 0..self.boards.count() {
                let given = self.boards.answer(index, *trigger, &mut self.buffer, &mut self.no_ends);
                let board = index as u16;
                let end = |answer: u64| (self.written + given.bytes * answer / given.answers, board);
                // Most answers come once, and need no division.
                match given.answers {
                    1 => self.ends.push_back((self.written + given.bytes, board)),
                    _ => self.ends.extend((1..=given.answers).map(end)),
                }
                self.written += given.bytes;
            }
            self.no_ends.clear();
            self.longest = self.longest.max(self.buffer.len() - first);
        }
        if self.client.is_none() {
            self.discard();
        }
    }

    /// Gives the client what it takes, in one call. Returns whether everything has gone.
    pub(super) fn flush(&mut self) -> bool {
        let Some(client) = &mut self.client else { return true };
        if self.gone == self.buffer.len() {
            return true;
        }
        match client.write(&self.buffer[self.gone..]) {
            Ok(0) => self.lose_client(),
            Ok(count) => self.gone += count,
            Err(cause) if matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.lose_client(),
        }
        if self.gone == self.buffer.len() {
            self.buffer.clear();
            self.gone = 0;
            self.ends.clear();
            return true;
        }
        let sent = self.written - self.waiting() as u64;
        while self.ends.front().is_some_and(|(end, _)| *end <= sent) {
            self.ends.pop_front();
        }
        false
    }

    pub(super) fn lose_client(&mut self) {
        self.client = None;
        self.discard();
    }

    /// Throws away what waits, whole answers and the rest of one that was begun.
    fn discard(&mut self) {
        let mut from = self.written - self.waiting() as u64;
        for (end, board) in self.ends.drain(..) {
            if end <= from {
                continue;
            }
            self.boards.discard(usize::from(board), 1, end - from);
            from = end;
        }
        self.buffer.clear();
        self.gone = 0;
    }

    /// Looks after the client: whether it is still there, and whether one wants to come. A board without power has none.
    pub(super) fn serve(&mut self, powered: bool) -> io::Result<()> {
        let reset = self.boards.attend();
        if let Some(client) = &mut self.client {
            let mut ignored = [0; 256];
            let closed = match client.read(&mut ignored) {
                Ok(0) => true,
                Ok(_) => false,
                Err(cause) => !matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            };
            if closed || reset || !powered {
                self.lose_client();
            }
        }
        let (None, Some(listener)) = (&self.client, &self.listener) else { return Ok(()) };
        match listener.accept() {
            // Without power it is closed at once.
            Ok((client, _)) if powered => self.welcome(client)?,
            Ok(_) => {}
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
            // A client that left before it was taken; anything worse comes again and is seen then.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(cause) => return Err(cause),
        }
        Ok(())
    }

    pub(super) fn has_client(&self) -> bool {
        self.client.is_some()
    }
}
