//! Time order through its public interface.

mod allocation;
mod time_order;
