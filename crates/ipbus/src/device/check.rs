//! What every answer must satisfy, whatever was asked.
//!
//! ```text
//!  any bytes ─► Device ─► no answer, or a packet within its buffers
//! ```

use super::{Buffers, Device, Registers};
use crate::wire::Packet;

/// Answers arbitrary bytes, and holds the answer against what an answer can be: for fuzzing.
///
/// # Panics
/// When the device does, answers more than its buffers hold, or with what is no packet.
pub fn check(bytes: &[u8]) {
    let buffers = Buffers { count: 2, bytes: 512 };
    let (mut device, mut reply) = (Device::new(Registers::new(), buffers), Vec::new());
    for _ in 0..2 {
        if device.answer(bytes, &mut reply) {
            assert!(reply.len() <= buffers.bytes as usize, "{} bytes", reply.len());
            assert!(Packet::check(&reply).is_ok(), "an answer is a packet");
        }
    }
}
