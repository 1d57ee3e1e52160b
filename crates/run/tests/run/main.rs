//! Runs inside this process, through the handle that programs hold.

mod extremes;
mod handle;
#[cfg(debug_assertions)]
mod mutation;
