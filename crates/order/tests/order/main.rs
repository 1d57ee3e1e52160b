//! Time order and what stands on it, from outside: what the crate's users see.

mod allocation;
mod real_physics;
mod time_order;
