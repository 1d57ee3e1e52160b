//! Changes that cannot be applied.

use crate::channels::ChannelError;
use crate::cut::CutError;

/// Why a change is not applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ViewError {
    /// No source sends the channel.
    #[error("no source of this run sends channel {0}")]
    Channel(u16),
    /// Coefficients that are no polynomial.
    #[error(transparent)]
    Polynomial(#[from] ChannelError),
    /// A calibration under which a higher measured energy is not a higher energy.
    #[error("channel {channel}: energy_kev = {given:?} does not rise from measured energy {from} to {to}")]
    Falls {
        /// The channel.
        channel: u16,
        /// What was given.
        given: Vec<f64>,
        /// The measured energy from which it does not rise,
        from: u16,
        /// to this one.
        to: u16,
    },
    /// The run has no spectrum that would show it.
    #[error("this run has no spectra of {0}")]
    NoSpectra(&'static str),
    /// A cut or region that is invalid.
    #[error("{0}")]
    Cut(#[from] CutError),
    /// A name or an expression that is too long to be kept.
    #[error("a {what} of {length} characters; {most} are the most")]
    Long {
        /// What it is.
        what: &'static str,
        /// How long it is.
        length: usize,
        /// How long it can be.
        most: usize,
    },
    /// The name is in use.
    #[error("there is a {what} \"{name}\" already")]
    Taken {
        /// Cut or polygon.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// As many stand as can.
    #[error("{0} changes are applied to this run, and no more can be")]
    Full(usize),
    /// As many were made as a run can keep.
    #[error("{0} changes have been made to this run, and no more can be kept in its record")]
    TooMany(usize),
    /// None of this number stands.
    #[error("no change {0} is applied to this run")]
    Unknown(u32),
    /// The run takes no more hits.
    #[error("the run has ended")]
    Over,
}

impl ViewError {
    /// What to do.
    pub fn advice(&self) -> &'static str {
        match self {
            ViewError::Channel(_) => "choose a channel of /api/spectra",
            ViewError::Polynomial(_) => "constant first, all of them finite, as in energy_kev of [[channel]]",
            ViewError::Falls { .. } => "fit peaks that are further apart, or use fewer coefficients",
            ViewError::NoSpectra(_) => {
                "write [spectra] enabled = true and a larger memory_bytes, for the next run"
            }
            ViewError::Cut(_) => "write it as in [[cut]] and [[polygon]]",
            ViewError::Long { .. } => "write a shorter one",
            ViewError::Taken { .. } => "choose another name, or revert the one that is applied",
            ViewError::Full(_) => "revert one first, or write them into the configuration of the next run",
            ViewError::TooMany(_) => "write them into the configuration, and start another run",
            ViewError::Unknown(_) => "the state of the run lists those that are applied",
            ViewError::Over => "start another one",
        }
    }
}
