//! Boards, files and links over real sockets.

mod boards;
mod decorators;
mod files;
mod registers;
mod triggered_boards;
mod triggered_links;
