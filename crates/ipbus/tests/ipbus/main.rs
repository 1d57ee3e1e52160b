//! Client, hub and device on real sockets.

mod hub;
mod loopback;
mod scripted_hub;
