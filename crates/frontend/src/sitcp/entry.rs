//! The entry of the family in `FORMATS`.

use thalweg_data::{BoardId, Fragments, Framing, LinkId, SourceId};

use super::emulate::{self, Board, Mode, SharedRegisters, SitcpBoard};
use super::rbcp::map::recbe;
use super::rbcp::{self, RegisterControl, Registers};
use super::{Profile, Settings, Splitter};
use crate::format::{
    BoardClock, ControlEntry, ControlTransport, EmulatedBoards, EmulatedLinks, EmulatedShape, Format,
    FragmentFormat, OtherEnd, first_board_of_link, own_emulated,
};
use crate::trigger::Hosted;

/// The entry of the family.
pub static FORMAT: Format = Format {
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_fragments::<Settings>("sitcp", "Triggered SiTCP boards: RECBE and others.")
        .with_emulated::<emulate::Settings>()
        .with_control(&CONTROL)
};

/// Registers over RBCP, beside the connection of the data.
static CONTROL: ControlEntry = ControlEntry {
    scheme: "rbcp",
    port: rbcp::wire::PORT,
    transport: ControlTransport::Datagrams,
    is_source: false,
    open: |channel| Ok(Box::new(RegisterControl::new(channel, rbcp::Settings::default()))),
    import: None,
};

impl FragmentFormat for Settings {
    fn boxed(&self) -> Box<dyn FragmentFormat> {
        Box::new(self.clone())
    }

    fn boards_per_link(&self) -> u16 {
        self.boards
    }

    fn longest_unit(&self) -> usize {
        match (self.longest_block_bytes, self.profile) {
            (Some(longest), _) => longest as usize,
            (None, Profile::AdcSitcp) => self.longest_block(),
            (None, _) => 0,
        }
    }

    fn of_link(&self, link: LinkId, boards_per_link: u16) -> Result<Box<dyn FragmentFormat>, String> {
        let first_board = first_board_of_link(BoardId(self.first_board), link, boards_per_link)?;
        Ok(Box::new(Settings { boards: boards_per_link, first_board: first_board.0, ..self.clone() }))
    }

    fn check(&self, first_source: SourceId) -> Result<(), String> {
        Splitter::new(first_source, self).map(drop).map_err(|error| error.to_string())
    }

    fn counts_frames(&self) -> bool {
        Settings::counts_frames(self)
    }

    fn trigger_bits(&self) -> Option<u32> {
        Some(self.profile.trigger_bits())
    }

    fn clock(&self) -> BoardClock {
        BoardClock::None
    }

    fn has_lasting_time(&self) -> bool {
        // The times of RECBE wrap within 33 µs, and ADC-SiTCP sends none.
        self.profile == Profile::StrTdc
    }

    fn framing(
        &self,
        first_source: SourceId,
        is_stream: bool,
    ) -> Result<Box<dyn Framing<Output = Fragments>>, String> {
        if !is_stream {
            let words =
                "SiTCP boards send a stream: write tcp://HOST:24, with the numbers of the boards as a range";
            return Err(words.to_owned());
        }
        Ok(Box::new(Splitter::new(first_source, self).map_err(|error| error.to_string())?))
    }

    fn control(&self) -> Option<&'static ControlEntry> {
        FORMAT.control
    }

    fn emulates_streams(&self, _emulated: Option<&dyn EmulatedBoards>) -> bool {
        true
    }

    fn emulated(
        &self,
        emulated: Option<&dyn EmulatedBoards>,
        shape: EmulatedShape,
    ) -> Result<Box<dyn EmulatedLinks>, String> {
        // The format's profile is also that of the emulated boards.
        let board = emulate::Settings { profile: self.profile, ..own_emulated(emulated)? };
        let first = Board::new(BoardId(self.first_board), &board).map_err(|error| error.to_string())?;
        let has_registers = matches!(self.profile, Profile::Recbe | Profile::Belle2);
        let registers = has_registers.then(|| {
            // The registers start with the board's settings, so that a write changes nothing else.
            let mut registers = Registers::recbe(self.first_board as u8, Default::default());
            let mode = match board.mode {
                Mode::Raw => recbe::MODE_RAW,
                Mode::Suppressed => recbe::MODE_SUPPRESSED,
            };
            registers.put(recbe::MODE, &[mode]);
            registers.put(recbe::WINDOW, &[board.window.min(255) as u8]);
            registers
        });
        let per_link = usize::from(shape.boards_per_link);
        Ok(Box::new(Links { first, first_board: BoardId(self.first_board), registers, per_link }))
    }
}

impl EmulatedBoards for emulate::Settings {
    fn boxed(&self) -> Box<dyn EmulatedBoards> {
        Box::new(self.clone())
    }

    fn number_offset(&self) -> u64 {
        u64::from(self.first_trigger)
    }

    fn check(&self) -> Result<(), String> {
        emulate::Settings::check(self).map_err(|error| error.to_string())
    }
}

/// Emulated boards like the first one, for each link.
struct Links {
    first: Board,
    first_board: BoardId,
    registers: Option<Registers>,
    per_link: usize,
}

impl EmulatedLinks for Links {
    fn behind(&self, link: LinkId) -> OtherEnd {
        let shared = self.registers.clone().map(SharedRegisters::new);
        let own = (0..self.per_link).map(|board| {
            let number = self.first_board.plus((link.index() * self.per_link + board) as u16);
            Box::new(SitcpBoard::new(self.first.like(number), shared.clone())) as Box<dyn Hosted>
        });
        (own.collect(), shared.map(|shared| Box::new(shared) as _))
    }
}
