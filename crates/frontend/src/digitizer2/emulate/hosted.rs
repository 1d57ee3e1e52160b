//! The interface of the board to its host.

use super::Board;
use super::hit_counter::DecodedHits;
use super::packer::datagram_data_bytes;
use super::settings::{Pace, Settings, SettingsError, Transport};
use crate::digitizer2::control::Service;
use crate::format::{BoardFacts, HitCounter, SelfTriggeredSettings};
use crate::self_triggered::{ControlService, SelfTriggeredBoard};

impl SelfTriggeredSettings for Settings {
    fn check(&self) -> Result<(), SettingsError> {
        Settings::check(self)
    }

    fn board(&self) -> Result<Box<dyn SelfTriggeredBoard>, SettingsError> {
        Ok(Box::new(Board::new(self.clone())?))
    }

    fn facts(&self) -> BoardFacts {
        Settings::facts(self)
    }

    fn seed(&self) -> u64 {
        self.seed ^ u64::from(self.board) << 32
    }

    fn rate_hz(&self) -> f64 {
        self.event_rate_hz() * self.hits_per_event()
    }

    fn bytes_per_s(&self) -> f64 {
        self.event_rate_hz() * self.event_bytes()
    }

    fn most_frames_hz(&self) -> f64 {
        let datagrams_hz = self.bytes_per_s() / datagram_data_bytes(self) as f64;
        if self.is_unlimited() { f64::MAX } else { self.event_rate_hz().max(datagrams_hz) }
    }

    fn datagram_bytes(&self) -> u32 {
        self.datagram_bytes
    }

    fn is_stream(&self) -> bool {
        self.transport == Transport::Tcp
    }

    fn is_unlimited(&self) -> bool {
        self.pace == Pace::Unlimited
    }

    fn steady(&self) -> Box<dyn SelfTriggeredSettings> {
        Box::new(Settings {
            prepared: self.external_trigger_hz.is_some(),
            start_stop_events: false,
            duration_s: None,
            ..self.clone()
        })
    }

    fn hit_counter(&self) -> Option<Box<dyn HitCounter>> {
        Some(Box::new(DecodedHits::new(self)?))
    }

    fn control(&self, data_port: u16) -> Option<Box<dyn ControlService>> {
        Some(Box::new(Service::new(self, data_port)))
    }
}
