//! The entry of the family in `FORMATS`.

use thalweg_data::{BoardId, Fragments, Framing, LinkId, SourceId, Tick};

use super::emulate::{self, Board};
use super::{Settings, Splitter, StreamSplitter};
use crate::format::{
    BoardClock, BoardsByLink, EmulatedBoards, EmulatedLinks, EmulatedShape, Format, FragmentFormat,
    first_board_of_link, own_emulated,
};
use crate::trigger::Hosted;

/// The entry of the family.
pub static FORMAT: Format = Format {
    document: Some("docs/formats/fragment.md"),
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_fragments::<Settings>(
        "fragment",
        "Triggered boards that send one fragment per trigger, in datagrams or a stream.",
    )
    .with_emulated::<emulate::Settings>()
};

impl FragmentFormat for Settings {
    fn boxed(&self) -> Box<dyn FragmentFormat> {
        Box::new(self.clone())
    }

    fn boards_per_link(&self) -> u16 {
        self.boards_there()
    }

    fn offsets(&self) -> Vec<u16> {
        if self.without.is_empty() { Vec::new() } else { Settings::offsets(self).collect() }
    }

    fn longest_unit(&self) -> usize {
        self.longest_fragment_bytes.unwrap_or(0) as usize
    }

    fn of_link(&self, link: LinkId, boards_per_link: u16) -> Result<Box<dyn FragmentFormat>, String> {
        if !self.without.is_empty() {
            // By the check above there is one link, so its boards need no selection.
            return Ok(self.boxed());
        }
        let first_board = first_board_of_link(BoardId(self.first_board), link, boards_per_link)?;
        Ok(Box::new(Settings { boards: boards_per_link, first_board: first_board.0, ..self.clone() }))
    }

    fn check(&self, first_source: SourceId) -> Result<(), String> {
        Settings::check(self, first_source).map_err(|error| error.to_string())
    }

    fn clock(&self) -> BoardClock {
        self.tick_ps.and_then(Tick::from_ps).map_or(BoardClock::Unstated, BoardClock::Tick)
    }

    fn has_lasting_time(&self) -> bool {
        true
    }

    fn framing(
        &self,
        first_source: SourceId,
        is_stream: bool,
    ) -> Result<Box<dyn Framing<Output = Fragments>>, String> {
        Ok(if is_stream {
            Box::new(StreamSplitter::new(first_source, self).map_err(|error| error.to_string())?)
        } else {
            Box::new(Splitter::new(first_source, self).map_err(|error| error.to_string())?)
        })
    }

    fn emulates_streams(&self, emulated: Option<&dyn EmulatedBoards>) -> bool {
        own_emulated::<emulate::Settings>(emulated).is_ok_and(|board| board.stream)
    }

    fn emulated(
        &self,
        emulated: Option<&dyn EmulatedBoards>,
        shape: EmulatedShape,
    ) -> Result<Box<dyn EmulatedLinks>, String> {
        let mut board = own_emulated::<emulate::Settings>(emulated)?;
        // If the URL says whether there is a stream, this holds for both ends.
        board.stream = shape.is_stream.unwrap_or(board.stream);
        // If boards are left out, there is one link, and the other boards keep their numbers.
        let count = u16::try_from(shape.boards() + self.without.len()).ok();
        let numbers = usize::from(u16::MAX - self.first_board) + 1;
        let count = count.filter(|count| usize::from(*count) <= numbers);
        let count = count.ok_or("the numbers of `boards` exceed 65535")?;
        let first = BoardId(self.first_board);
        let mut boards = emulate::boards(first, count, &board).map_err(|error| error.to_string())?;
        boards.retain(|board| !self.without.contains(&board.number().0));
        Ok(Box::new(BoardsByLink { boards, boards_per_link: shape.boards_per_link }))
    }
}

impl EmulatedBoards for emulate::Settings {
    fn boxed(&self) -> Box<dyn EmulatedBoards> {
        Box::new(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        emulate::Settings::check(self).map_err(|error| error.to_string())
    }
}

impl Hosted for Board {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longest_fragment_that_is_written_is_the_longest_unit_and_the_default_is_a_limit() {
        let longest = |text: &str| {
            let settings: Settings = toml::from_str(text).expect("settings");
            (FragmentFormat::longest_unit(&settings), settings.longest_fragment())
        };
        assert_eq!(longest("longest_fragment_bytes = 1048576"), (1 << 20, 1 << 20));
        assert_eq!(longest("longest_fragment_bytes = 5000"), (5000, 5000));
        assert_eq!(longest(""), (0, 1 << 20));
    }

    #[test]
    fn the_last_emulated_board_may_be_number_65535_and_no_later_one() {
        let emulated = |boards_per_link| {
            let settings = Settings { first_board: 65_534, boards: boards_per_link, ..Settings::default() };
            let shape = EmulatedShape { links: 1, boards_per_link, is_stream: None };
            let links = FragmentFormat::emulated(&settings, None, shape)?;
            Ok::<usize, String>(links.behind(LinkId(0)).0.len())
        };
        assert_eq!((emulated(1), emulated(2)), (Ok(1), Ok(2)));
        assert_eq!(emulated(3), Err("the numbers of `boards` exceed 65535".to_owned()));
    }
}
