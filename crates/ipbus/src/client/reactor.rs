//! A client among the tasks of a Tokio runtime: it waits without keeping a thread.
//!
//! ```text
//!  Exchange ─ send, receive: what there is, at once ─► nothing? ─► the reactor: readable, or late ─► once more
//! ```

use std::io;
use std::time::Instant;

use tokio::io::Interest;
use tokio::net::{TcpStream, UdpSocket};

use super::exchange::Exchange;
use super::failure::Failure;
use super::job::Job;
use super::link::{Link, Patience};
use super::queue::{Client, DispatchError, Done, OpenError, Queue, none_done, receive, send};
use crate::uri::Uri;

impl Client {
    /// [`Client::open`] within a runtime: a connection that is slow to come keeps no thread of it.
    ///
    /// # Errors
    /// When the URI says nothing, or nobody is there.
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
    /// When it does not come.
    pub async fn read_async(&mut self, address: u32) -> Result<u32, DispatchError> {
        let mut queue = self.queue();
        let value = queue.read(address);
        Ok(queue.dispatch_async().await?.word(value))
    }

    /// [`Client::write`] within a runtime.
    ///
    /// # Errors
    /// When it is not done, or nobody knows whether it was.
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
    /// [`Queue::dispatch`] within a runtime. `busy_poll` has no meaning here. A future that is dropped before its end leaves what it has sent to its
    /// fate: it may have happened, and the client can be used on.
    ///
    /// # Errors
    /// When not everything was done, with the cause and what became of each.
    ///
    /// # Panics
    /// Outside of a Tokio runtime with time and sockets.
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
        if receive(link, &mut exchange, Patience::none()) {
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

/// A link's socket, as the reactor of this runtime looks at it.
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

    /// Waits until the socket can be read or, where something waits for it, written; `false` when it is `until` before.
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
        // It is looked at until there is nothing more: what comes from here on makes it ready again.
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = match self {
            Watched::Datagrams(socket) => socket.try_io(interest, nothing),
            Watched::Stream(socket) => socket.try_io(interest, nothing),
        };
        Ok(true)
    }
}
