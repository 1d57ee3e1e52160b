//! What is in a switch: the depth of the buffer before an output and the rate at which it drains.
//!
//! ```text
//!  search ─ trial: separation, events ─► sender ═ device ═ receiver ─ gate ─ outcome ─► search
//!                                                            │
//!      frame ─► burst: the queue by time ─► fit ◄─ trials ◄──┘ or simulate
//!                                            └──► model: one shared buffer, or one queue per input
//! ```
//! Nothing here has a socket or a clock. Bytes are those of one accounting throughout: see [`frame`].

pub mod burst;
pub mod fit;
pub mod frame;
pub mod gate;
pub mod model;
pub mod search;
pub mod simulate;
