//! Runs inside this process, through the handle that programs hold.

mod added_stages;
mod configuration_reference;
mod extremes;
mod handle;
#[cfg(debug_assertions)]
mod mutation;
