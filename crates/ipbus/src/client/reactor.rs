//! A client in a Tokio runtime: it waits without blocking a thread.
//!
//! ```text
//!  Exchange ─ send, receive without waiting ─► nothing? ─► await the reactor: readable, or a timeout ─► again
//! ```

use std::io;
use std::time::Instant;

use tokio::io::Interest;
use tokio::net::{TcpStream, UdpSocket};

use super::exchange::Exchange;
use super::failure::Failure;
use super::job::Job;
use super::link::{Link, Wait};
use super::queue::{Client, DispatchError, Done, OpenError, Queue, none_done, receive, send};
use crate::uri::Uri;

impl Client {
    /// [`Client::open`] within a runtime: a slow connection does not block the runtime's threads.
    ///
    /// # Errors
    /// When the URI is invalid, or the connection fails.
    pub async fn open_async(uri: &str) -> Result<Client, OpenError> {
        let mut client = Client::unconnected(uri)?;
        client.connect_async().await?;
        Ok(client)
    }

    async fn connect_async(&mut self) -> Result<(), OpenError> {
        if self.link.is_none() {
            let uri: Uri = self.uri().clone();
            let opened = tokio::task::spawn_blocking(move || Link::open(&uri)).await;
            let opened = opened.unwrap_or_else(|lost| Err(io::Error::other(lost)));
            self.link = Some(opened.map_err(|cause| self.cannot_open(cause))?);
        }
        Ok(())
    }

    /// [`Client::read`] within a runtime.
    ///
    /// # Errors
    /// When it was not read.
    pub async fn read_async(&mut self, address: u32) -> Result<u32, DispatchError> {
        let mut queue = self.queue();
        let value = queue.read(address);
        Ok(queue.dispatch_async().await?.word(value))
    }

    /// [`Client::write`] within a runtime.
    ///
    /// # Errors
    /// When it was not done, or it is unknown whether it was.
    pub async fn write_async(&mut self, address: u32, word: u32) -> Result<(), DispatchError> {
        let mut queue = self.queue();
        queue.write(address, word);
        queue.dispatch_async().await.map(drop)
    }

    async fn run(&mut self, jobs: &mut [Job<'_>]) -> Result<(), Failure> {
        self.begin();
        let result = match (self.connect_async().await, &mut self.link) {
            (Ok(()), Some(link)) => drive(link, Exchange::new(&mut self.session, jobs)).await,
            (connected, _) => Err(none_done(jobs, connected.err().as_ref())),
        };
        self.finish(&result);
        result
    }
}

impl Queue<'_, '_> {
    /// [`Queue::dispatch`] within a runtime. `busy_poll` has no effect here. If the future is dropped early, operations that were already
    /// sent may still be done; the client stays usable.
    ///
    /// # Errors
    /// When not all were done, with the cause and the outcome of each.
    ///
    /// # Panics
    /// Outside a Tokio runtime with timers and I/O enabled.
    pub async fn dispatch_async(mut self) -> Result<Done, DispatchError> {
        let result = self.client.run(&mut self.jobs).await;
        self.end(result)
    }
}

/// Sends, waits and receives until a dispatch has ended.
async fn drive(link: &mut Link, mut exchange: Exchange<'_, '_>) -> Result<(), Failure> {
    let watched = match Watched::new(link) {
        Ok(watched) => watched,
        Err(cause) => {
            exchange.fail(Failure::Link(cause.to_string()));
            return exchange.end();
        }
    };
    loop {
        send(link, &mut exchange);
        if exchange.is_done() {
            return exchange.end();
        }
        if receive(link, &mut exchange, Wait::none()) {
            continue;
        }
        let until = exchange.deadline();
        match watched.wait(link.is_flushed(), until).await {
            Ok(true) => {}
            Ok(false) => exchange.expire(Instant::now()),
            Err(cause) => exchange.fail(Failure::Link(cause.to_string())),
        }
    }
}

/// A link's socket, registered with the reactor of this runtime.
enum Watched {
    Datagrams(UdpSocket),
    Stream(TcpStream),
}

impl Watched {
    fn new(link: &Link) -> io::Result<Watched> {
        Ok(match link {
            Link::Datagrams { socket, .. } => Watched::Datagrams(UdpSocket::from_std(socket.try_clone()?)?),
            Link::Stream(stream) => Watched::Stream(TcpStream::from_std(stream.socket().try_clone()?)?),
        })
    }

    /// Waits until the socket is readable or, when data waits to be sent, writable. Returns `false` when `until` passes first.
    async fn wait(&self, is_flushed: bool, until: Option<Instant>) -> io::Result<bool> {
        let interest = if is_flushed { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        let ready = async {
            match self {
                Watched::Datagrams(socket) => socket.ready(interest).await,
                Watched::Stream(socket) => socket.ready(interest).await,
            }
        };
        let ready = match until {
            None => ready.await,
            Some(until) => match tokio::time::timeout_at(until.into(), ready).await {
                Ok(ready) => ready,
                Err(_) => return Ok(false),
            },
        };
        ready?;
        // Clears the readiness. The caller reads until nothing is left, and data that arrives later sets it again.
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = match self {
            Watched::Datagrams(socket) => socket.try_io(interest, nothing),
            Watched::Stream(socket) => socket.try_io(interest, nothing),
        };
        Ok(true)
    }
}
