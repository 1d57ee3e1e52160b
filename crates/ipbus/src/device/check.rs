//! Properties that every answer of a device must satisfy, whatever was asked.
//!
//! ```text
//!  any bytes ─► Device ─► no answer, or a packet within its buffers
//! ```

use super::{Buffers, Device, Registers};
use crate::wire::Packet;

/// Lets a device answer arbitrary bytes, and checks the answer: for fuzzing.
///
/// # Panics
/// When the device panics, or its answer is longer than its buffers or not a packet.
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
