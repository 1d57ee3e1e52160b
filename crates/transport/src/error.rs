//! The errors of this crate; each message says what to try.
//!
//! ```text
//!  system call ─ errno ─► TransportError { what, where, what to do }
//! ```

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a socket cannot be opened, or can no longer be used.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Binding to a local address failed.
    #[error("{address}: cannot listen here: {cause}{}", bind_advice(cause))]
    Bind {
        /// The local address.
        address: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// Connecting failed.
    #[error("{address}: cannot connect: {cause}{}", connect_advice(cause))]
    Connect {
        /// The other end.
        address: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// The other end did not answer in time.
    #[error("{address}: no answer within {} ms; check address, cable and firewall", wait.as_millis())]
    ConnectTimeout {
        /// The other end.
        address: SocketAddr,
        /// How long the receiver waited for it.
        wait: Duration,
    },
    /// The process lacks the capabilities that the backend needs.
    #[error(
        "{place}: `backend = \"{backend}\"` needs {}: run as root, `setcap {rights}+ep` the program, or use \"auto\"",
        rights.to_uppercase().replace(',', ", ")
    )]
    Privilege {
        /// The socket's address.
        place: String,
        /// The backend.
        backend: &'static str,
        /// The capabilities, as `setcap` takes them.
        rights: &'static str,
    },
    /// The interface already has an XDP program or an AF_XDP socket.
    #[error(
        "{place}: {interface} has an XDP program or an AF_XDP socket already (`ip link show {interface}`), such as another source's: one source per interface can have `backend = \"xdp\"`; use \"ring\" or \"auto\" for the others"
    )]
    InterfaceTaken {
        /// The socket's address.
        place: String,
        /// The interface.
        interface: String,
    },
    /// A host name without an address.
    #[error("`{host}` has no address: {cause}; check the name, or give the number")]
    Resolve {
        /// The name.
        host: String,
        /// The system's error.
        cause: io::Error,
    },
    /// An invalid setting.
    #[error("{0}")]
    Settings(String),
    /// A system call failed; trying again does not help.
    #[error("{place}: {call} failed: {cause}")]
    System {
        /// The socket's address.
        place: String,
        /// Name of the call.
        call: &'static str,
        /// The system's error.
        cause: io::Error,
    },
}

fn bind_advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program (or another source) receives there: stop it or change the port"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this host has no such address: use one of `ip addr`, or 0.0.0.0"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privilege: choose a higher one",
        _ => "",
    }
}

fn connect_advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => {
            "; the host is there, but nothing listens on this port: check the port and the board"
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "; no route leads there: check the address and the network interface"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let text = TransportError::Bind { address, cause: io::ErrorKind::AddrInUse.into() }.to_string();
        assert!(
            text.starts_with("127.0.0.1:80: cannot listen here") && text.contains("change the port"),
            "{text}"
        );
        let text = TransportError::ConnectTimeout { address, wait: Duration::from_secs(4) }.to_string();
        assert!(text.contains("4000 ms"), "{text}");
    }
}
