//! A server that is a process of its own, and ends with the test.

use std::process::Child;

pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
