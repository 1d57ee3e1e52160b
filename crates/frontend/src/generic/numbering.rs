//! Finds which part of a source, or which of its boards, sent a packet.
//!
//! ```text
//!  fields of the header ─┬─ as they appear ───────────────► 0, 1, 2 …    parts of a source of hits
//!                        └─ counted from the first board ─► 0 … boards   boards that are configured
//!  sender's address ──────── its position in the URL ─────► 0 … boards
//!  connection ────────────────────────────────────────────► 0            the one board at its other end
//! ```

use thalweg_data::LossReason;

/// How the part of a packet is found.
#[derive(Clone, Debug)]
pub(super) enum Numbering {
    /// In the order of first appearance of their values.
    Appearance(Appearance),
    /// By the number in the header, minus that of the first board.
    Header { first_board: u64, boards: u64 },
    /// By the position of the sender's address in the URL.
    Sender { boards: u32 },
    /// All packets are of one board.
    Connection,
}

impl Numbering {
    /// Returns the number of the part that sent a packet with this value in its header, from this sender.
    ///
    /// # Errors
    /// The reason why the packet is of no part.
    #[inline]
    pub fn part(&mut self, header_value: u64, sender: u32) -> Result<u32, LossReason> {
        match self {
            Numbering::Appearance(seen) => seen.part(header_value).ok_or(LossReason::UnexpectedSender),
            Numbering::Header { first_board, boards } => {
                let index = header_value.wrapping_sub(*first_board);
                if index < *boards { Ok(index as u32) } else { Err(LossReason::UnknownSource) }
            }
            Numbering::Sender { boards } if sender < *boards => Ok(sender),
            Numbering::Sender { .. } => Err(LossReason::UnexpectedSender),
            Numbering::Connection => Ok(0),
        }
    }

    /// Values of the seen parts, by number; empty if the configuration numbers them.
    pub fn seen(&self) -> &[u64] {
        match self {
            Numbering::Appearance(seen) => &seen.values,
            _ => &[],
        }
    }
}

/// Numbers parts in the order of first appearance. All memory is allocated at the start.
#[derive(Clone, Debug)]
pub(super) struct Appearance {
    limit: usize,
    /// Values of the seen parts, by number.
    values: Vec<u64>,
    /// `(value, number)`, by value.
    sorted: Vec<(u64, u32)>,
    latest: Option<(u64, u32)>,
}

impl Appearance {
    /// Numbers at most `limit` parts.
    pub fn new(limit: usize) -> Appearance {
        Appearance {
            limit,
            values: Vec::with_capacity(limit),
            sorted: Vec::with_capacity(limit),
            latest: None,
        }
    }

    #[inline]
    fn part(&mut self, value: u64) -> Option<u32> {
        if let Some((latest, number)) = self.latest
            && latest == value
        {
            return Some(number);
        }
        let number = match self.sorted.binary_search_by_key(&value, |(value, _)| *value) {
            Ok(index) => self.sorted[index].1,
            Err(_) if self.values.len() == self.limit => return None,
            Err(index) => {
                let number = self.values.len() as u32;
                self.values.push(value);
                self.sorted.insert(index, (value, number));
                number
            }
        };
        self.latest = Some((value, number));
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_by_first_appearance_up_to_the_limit() {
        let mut numbering = Numbering::Appearance(Appearance::new(2));
        let parts = [7, 3, 7, 3, 9, 7].map(|value| numbering.part(value, 0).ok());
        assert_eq!(parts, [Some(0), Some(1), Some(0), Some(1), None, Some(0)]);
        assert_eq!(numbering.seen(), [7, 3]);
    }

    #[test]
    fn boards_are_numbered_by_header_sender_or_connection() {
        let mut header = Numbering::Header { first_board: 10, boards: 3 };
        let parts = [9, 10, 12, 13, u64::MAX].map(|value| header.part(value, 0));
        let unknown = Err(LossReason::UnknownSource);
        assert_eq!(parts, [unknown, Ok(0), Ok(2), unknown, unknown]);
        let mut sender = Numbering::Sender { boards: 2 };
        assert_eq!([0, 1, 2].map(|position| sender.part(5, position).ok()), [Some(0), Some(1), None]);
        assert_eq!(Numbering::Connection.part(99, 3), Ok(0));
    }
}
