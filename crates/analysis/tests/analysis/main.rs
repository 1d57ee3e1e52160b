//! The analysis of recorded data, from outside: what the crate's users see.

mod real_physics;
