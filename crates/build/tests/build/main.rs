//! Building events and the units, from outside: what the crate's users see.

mod allocation;
mod builder;
mod simulation;
mod simulation_overload;
