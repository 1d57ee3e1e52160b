//! Stores as destinations, over real sockets: servers of this folder, with faults, and others where they are installed.

mod dav_server;
mod ended;
mod faults;
mod http_server;
mod moto;
mod orders;
mod owners;
mod s3;
mod s3_kills;
mod s3_server;
mod webdav;
mod wsgidav;
