//! Runs inside this process, through the handle that programs hold.

mod added_stages;
mod configuration_reference;
mod event_filter;
mod extremes;
mod handle;
#[cfg(debug_assertions)]
mod mutation;
mod normalised_events;
