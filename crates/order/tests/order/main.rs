//! Time order, from outside: what the crate's users see.

mod allocation;
mod time_order;
