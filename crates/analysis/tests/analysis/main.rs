//! The analysis of recorded data, from outside: what the crate's users see.

mod normalised_rates;
mod real_physics;
