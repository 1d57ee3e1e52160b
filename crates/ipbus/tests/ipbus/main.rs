//! Client and device on real sockets.

mod hub;
mod loopback;
