//! What is asked of the settings of an emulated self-triggered board.

use std::fmt;

use super::BoardFacts;
use crate::emulated_settings::SettingsError;
use crate::self_triggered::{ControlService, SelfTriggeredBoard};

/// Bytes of a usual hit on the wire.
const HIT_BYTES: f64 = 16.0;
/// Largest payload of a datagram that an Ethernet frame of the usual size carries.
const ETHERNET_PAYLOAD_BYTES: u32 = 1472;

/// Copies of settings behind the trait.
pub trait BoxedSelfTriggered {
    /// A copy.
    fn boxed(&self) -> Box<dyn SelfTriggeredSettings>;
}

impl<S: SelfTriggeredSettings + Clone + 'static> BoxedSelfTriggered for S {
    fn boxed(&self) -> Box<dyn SelfTriggeredSettings> {
        Box::new(self.clone())
    }
}

/// The settings of the board behind an `emulate://` URL of a self-triggered source.
pub trait SelfTriggeredSettings: BoxedSelfTriggered + fmt::Debug + Send + Sync {
    /// Whether there can be such a board.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    fn check(&self) -> Result<(), SettingsError>;

    /// The board, idle.
    ///
    /// # Errors
    /// As for [`SelfTriggeredSettings::check`].
    fn board(&self) -> Result<Box<dyn SelfTriggeredBoard>, SettingsError>;

    /// What the board says of itself when it is asked; nothing of a family whose settings leave nothing open.
    fn facts(&self) -> BoardFacts {
        BoardFacts::default()
    }

    /// The seed of all that is random about the board: its loss on the way, too.
    fn seed(&self) -> u64;

    /// Hits per second.
    fn rate_hz(&self) -> f64;

    /// Bytes per second on the wire, as far as they can be said.
    fn bytes_per_s(&self) -> f64 {
        self.rate_hz() * HIT_BYTES
    }

    /// Largest payload of a datagram, bytes.
    fn datagram_bytes(&self) -> u32 {
        ETHERNET_PAYLOAD_BYTES
    }

    /// Whether it sends a stream, and no datagrams.
    fn is_stream(&self) -> bool {
        false
    }

    /// Whether it sends as fast as the receiver takes it; otherwise a second of data each second.
    fn is_unlimited(&self) -> bool {
        false
    }

    /// At most so many frames or datagrams a second, as far as that is known of a board that sends as fast as it is read.
    fn most_frames_hz(&self) -> f64 {
        if self.is_unlimited() { f64::MAX } else { self.rate_hz() }
    }

    /// The same board in the midst of an endless run, where that is another one.
    fn steady(&self) -> Box<dyn SelfTriggeredSettings> {
        self.boxed()
    }

    /// What says how many hits are in a datagram of the board that its host drops; nothing where nobody is told.
    fn hit_counter(&self) -> Option<Box<dyn HitCounter>> {
        None
    }

    /// The board's control port, where the family's boards have one; its TCP data have this port.
    fn control(&self, _data_port: u16) -> Option<Box<dyn ControlService>> {
        None
    }
}

/// Says what a datagram of a board holds.
pub trait HitCounter: Send {
    /// Whether there is anything in it that could be lost.
    fn has_data(&self, datagram: &[u8]) -> bool;

    /// Hits in it.
    fn hits_in(&mut self, datagram: &[u8]) -> u64;
}

impl Clone for Box<dyn SelfTriggeredSettings> {
    fn clone(&self) -> Box<dyn SelfTriggeredSettings> {
        self.as_ref().boxed()
    }
}
