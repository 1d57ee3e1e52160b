//! Client, hub and device on real sockets.

mod hub;
mod loopback;
mod runtime;
mod scripted_hub;
