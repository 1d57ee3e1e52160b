//! The interface of the settings of an emulated self-triggered board.

use std::fmt;

use super::BoardFacts;
use crate::emulated_settings::SettingsError;
use crate::self_triggered::{ControlService, SelfTriggeredBoard};

/// Bytes of a typical hit on the wire.
const HIT_BYTES: f64 = 16.0;
/// Largest payload of a datagram in an Ethernet frame of standard size.
const ETHERNET_PAYLOAD_BYTES: u32 = 1472;

/// Copies settings behind the trait.
pub trait BoxedSelfTriggered {
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn SelfTriggeredSettings>;
}

impl<S: SelfTriggeredSettings + Clone + 'static> BoxedSelfTriggered for S {
    fn boxed(&self) -> Box<dyn SelfTriggeredSettings> {
        Box::new(self.clone())
    }
}

/// The settings of the board behind an `emulate://` URL of a self-triggered source.
pub trait SelfTriggeredSettings: BoxedSelfTriggered + fmt::Debug + Send + Sync {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    fn check(&self) -> Result<(), SettingsError>;

    /// Creates the board, idle.
    ///
    /// # Errors
    /// As for [`SelfTriggeredSettings::check`].
    fn board(&self) -> Result<Box<dyn SelfTriggeredBoard>, SettingsError>;

    /// The properties that the board reports; none if the settings of the family define all of them.
    fn facts(&self) -> BoardFacts {
        BoardFacts::default()
    }

    /// The seed of everything random about the board, including losses on its network.
    fn seed(&self) -> u64;

    /// Hits per second.
    fn rate_hz(&self) -> f64;

    /// Bytes per second on the wire, as far as known.
    fn bytes_per_s(&self) -> f64 {
        self.rate_hz() * HIT_BYTES
    }

    /// Largest payload of a datagram in bytes.
    fn datagram_bytes(&self) -> u32 {
        ETHERNET_PAYLOAD_BYTES
    }

    /// Whether it sends a stream instead of datagrams.
    fn is_stream(&self) -> bool {
        false
    }

    /// Whether it sends as fast as the receiver reads; otherwise it sends in real time.
    fn is_unlimited(&self) -> bool {
        false
    }

    /// Most frames or datagrams per second, as far as known, of a board that sends as fast as it is read.
    fn most_frames_hz(&self) -> f64 {
        if self.is_unlimited() { f64::MAX } else { self.rate_hz() }
    }

    /// The same board in the middle of an endless run, if that differs.
    fn steady(&self) -> Box<dyn SelfTriggeredSettings> {
        self.boxed()
    }

    /// Counts the hits in datagrams that the board's host drops; `None` if they are not needed.
    fn hit_counter(&self) -> Option<Box<dyn HitCounter>> {
        None
    }

    /// The board's control port, if the family has one; its TCP data have this port.
    fn control(&self, _data_port: u16) -> Option<Box<dyn ControlService>> {
        None
    }
}

/// Counts the hits of a datagram.
pub trait HitCounter: Send {
    /// Whether it contains data that could be lost.
    fn has_data(&self, datagram: &[u8]) -> bool;

    /// Number of hits in it.
    fn hits_in(&mut self, datagram: &[u8]) -> u64;
}

impl Clone for Box<dyn SelfTriggeredSettings> {
    fn clone(&self) -> Box<dyn SelfTriggeredSettings> {
        self.as_ref().boxed()
    }
}
