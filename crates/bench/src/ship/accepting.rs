//! A listener whose connections are served until it is dropped.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks for a connection.
const CHECK_EVERY: Duration = Duration::from_millis(5);

/// Accepts connections.
pub(super) struct Accepting {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    /// Listens at an address, and gives each connection to `serve`, which does not wait for its end.
    pub(super) fn start(
        address: SocketAddr,
        mut serve: impl FnMut(TcpStream) + Send + 'static,
    ) -> io::Result<Accepting> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let (address, stop) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let flag = stop.clone();
        let accept = move || {
            while !flag.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((stream, _)) => serve(stream),
                    Err(_) => std::thread::sleep(CHECK_EVERY),
                }
            }
        };
        Ok(Accepting { address, stop, thread: Some(std::thread::spawn(accept)) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
