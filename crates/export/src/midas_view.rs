//! MIDAS events as a reader finds them, in the byte order of the machine that wrote them.
//!
//! ```text
//!  | id u16 | mask u16 | serial u32 | seconds u32 | bytes u32 | body │ body: | bytes u32 | flags u32 | bank bank …
//! ```
//! Every length is checked before it is used. `midas` writes the same.

use crate::midas::{BEGIN_OF_RUN, END_OF_RUN, MAGIC};

/// Bytes of an event's header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes in front of the first bank of an event.
const BANKS_BYTES: usize = 8;
/// Event id of texts that programs have sent while the run went on.
pub(crate) const MESSAGE: u16 = 0x8002;

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The byte order of a file that begins with these bytes; `None` where no MIDAS file does.
    ///
    /// A file begins with a BOR event in most cases. Elsewhere the smaller of the two lengths is the likely one, and its banks must fill
    /// it.
    pub fn of(beginning: &[u8]) -> Option<ByteOrder> {
        let both = [ByteOrder::Little, ByteOrder::Big];
        let head = |order: &ByteOrder| Header::read(beginning, *order);
        let begins_run =
            |order: &ByteOrder| head(order).is_some_and(|head| head.id == BEGIN_OF_RUN && head.mask == MAGIC);
        if let Some(order) = both.into_iter().find(begins_run) {
            return Some(order);
        }
        let is_likely = |order: &ByteOrder| {
            let Some(head) = head(order).filter(|head| head.id < BEGIN_OF_RUN) else { return false };
            let Some((size, flags)) = beginning.get(HEADER_BYTES..).and_then(|body| banks_head(body, *order))
            else {
                return false;
            };
            u64::from(size) + BANKS_BYTES as u64 == u64::from(head.bytes) && BankForm::of(flags).is_some()
        };
        both.into_iter().find(is_likely)
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        Some(self.u16(*bytes.get(at..)?.first_chunk()?))
    }

    fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.u32(*bytes.get(at..)?.first_chunk()?))
    }
}

/// The header of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// What kind of event it is.
    pub id: u16,
    /// The front end's own word; of BOR and EOR always the same.
    pub mask: u16,
    /// Serial number; of BOR and EOR the number of the run.
    pub serial: u32,
    /// Seconds since 1970.
    pub seconds: u32,
    /// Bytes of the body.
    pub bytes: u32,
}

impl Header {
    /// The header at the beginning of `bytes`; `None` where they are too few.
    pub fn read(bytes: &[u8], order: ByteOrder) -> Option<Header> {
        Some(Header {
            id: order.u16_at(bytes, 0)?,
            mask: order.u16_at(bytes, 2)?,
            serial: order.u32_at(bytes, 4)?,
            seconds: order.u32_at(bytes, 8)?,
            bytes: order.u32_at(bytes, 12)?,
        })
    }

    /// Whether it begins or ends a run; their body is a dump of the database.
    pub fn is_of_run(&self) -> bool {
        matches!(self.id, BEGIN_OF_RUN | END_OF_RUN) && self.mask == MAGIC
    }
}

fn banks_head(body: &[u8], order: ByteOrder) -> Option<(u32, u32)> {
    Some((order.u32_at(body, 0)?, order.u32_at(body, 4)?))
}

/// How long the headers of an event's banks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BankForm {
    /// Type and length of 16 bits.
    Short,
    /// Type and length of 32 bits.
    Long,
    /// The same with a word behind them, for data on whole words.
    Aligned,
}

impl BankForm {
    fn of(flags: u32) -> Option<BankForm> {
        match flags {
            0x01 => Some(BankForm::Short),
            0x11 => Some(BankForm::Long),
            0x31 => Some(BankForm::Aligned),
            _ => None,
        }
    }

    fn header_bytes(self) -> usize {
        match self {
            BankForm::Short => 8,
            BankForm::Long => 12,
            BankForm::Aligned => 16,
        }
    }
}

/// What the data of a bank are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BankType(pub u32);

impl BankType {
    /// Its word in names of sources.
    pub fn word(self) -> String {
        let words = [
            "", "u8", "i8", "char", "u16", "i16", "u32", "i32", "bool", "f32", "f64", "bits", "string",
            "array", "struct", "key", "link", "i64", "u64",
        ];
        match words.get(self.0 as usize).filter(|word| !word.is_empty()) {
            Some(word) => (*word).to_owned(),
            None => format!("type {}", self.0),
        }
    }

    /// Bytes of one number; `None` where data are not numbers of one length, and their byte order cannot be changed.
    fn number_bytes(self) -> Option<usize> {
        match self.0 {
            1..=3 | 12 => Some(1),
            4 | 5 => Some(2),
            6..=9 | 11 => Some(4),
            10 | 17 | 18 => Some(8),
            _ => None,
        }
    }
}

/// One bank of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bank<'a> {
    /// Its name.
    pub name: [u8; 4],
    /// What its data are.
    pub kind: BankType,
    /// Its data, without padding, in the byte order of the file.
    pub data: &'a [u8],
}

impl Bank<'_> {
    /// Replaces `to` by the data, little-endian. `false` where they are left as they are, because they are not plain numbers.
    pub fn little_endian(&self, order: ByteOrder, to: &mut Vec<u8>) -> bool {
        to.clear();
        to.extend_from_slice(self.data);
        match (order, self.kind.number_bytes()) {
            (ByteOrder::Little, _) | (_, Some(1)) => true,
            (ByteOrder::Big, Some(bytes)) => {
                to.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
                self.data.len().is_multiple_of(bytes)
            }
            (ByteOrder::Big, None) => false,
        }
    }
}

/// The banks of a data event, one after the other; an error where they do not fit the event, and nothing behind it.
#[derive(Clone, Debug)]
pub(crate) struct Banks<'a> {
    rest: &'a [u8],
    order: ByteOrder,
    form: BankForm,
}

impl<'a> Banks<'a> {
    /// Of the body of a data event.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn of(body: &'a [u8], order: ByteOrder) -> Result<Banks<'a>, String> {
        let (size, flags) = banks_head(body, order)
            .ok_or_else(|| format!("a data event of {} bytes, which hold no banks", body.len()))?;
        let form =
            BankForm::of(flags).ok_or_else(|| format!("bank flags {flags:#x}, which MIDAS does not have"))?;
        let found = body.len() - BANKS_BYTES;
        if size as usize != found {
            return Err(format!("banks of {size} bytes in an event that has {found} bytes for them"));
        }
        Ok(Banks { rest: &body[BANKS_BYTES..], order, form })
    }

    fn bank(&mut self) -> Result<Bank<'a>, String> {
        let (order, header) = (self.order, self.form.header_bytes());
        let too_short =
            || format!("{} bytes where a bank of {header} bytes and more begins", self.rest.len());
        let name = *self.rest.first_chunk::<4>().ok_or_else(too_short)?;
        let (kind, length) = match self.form {
            BankForm::Short => {
                (order.u16_at(self.rest, 4).map(u32::from), order.u16_at(self.rest, 6).map(u32::from))
            }
            BankForm::Long | BankForm::Aligned => (order.u32_at(self.rest, 4), order.u32_at(self.rest, 8)),
        };
        let (kind, length) = kind.zip(length).ok_or_else(too_short)?;
        let data = self.rest.get(header..).ok_or_else(too_short)?;
        let named = String::from_utf8_lossy(&name);
        let whole = data.get(..length as usize);
        let whole = whole.ok_or_else(|| {
            format!("the bank {named} of {length} bytes in an event that has {} left for it", data.len())
        })?;
        let padded = (length as usize).next_multiple_of(8).min(data.len());
        self.rest = &data[padded..];
        // The last four bits of the type are flags of no meaning in a file, in short headers.
        Ok(Bank { name, kind: BankType(kind & 0xFF), data: whole })
    }
}

impl<'a> Iterator for Banks<'a> {
    type Item = Result<Bank<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bank = self.bank();
        if bank.is_err() {
            self.rest = &[];
        }
        Some(bank)
    }
}

/// Reads bytes as a MIDAS file, every bank of every event; returns how many events are whole. For fuzzing.
pub fn check_midas(bytes: &[u8]) -> usize {
    let Some(order) = ByteOrder::of(bytes) else { return 0 };
    let (mut rest, mut whole) = (bytes, 0);
    let mut data = Vec::new();
    while let Some(header) = Header::read(rest, order) {
        let Some(body) = rest[HEADER_BYTES..].get(..header.bytes as usize) else { break };
        if !header.is_of_run() && header.id != MESSAGE {
            for bank in Banks::of(body, order).into_iter().flatten().flatten() {
                bank.little_endian(order, &mut data);
            }
        }
        whole += 1;
        rest = &rest[HEADER_BYTES + header.bytes as usize..];
    }
    whole
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// BOR, an event of flags 0x11 with two banks, one of flags 0x31 with one, EOR, as MIDAS's own programs read them.
    pub(crate) fn golden() -> Vec<u8> {
        let database = br#"{"/MIDAS version":"2.1","Runinfo":{"Run number":7}}"#;
        let mut bytes = b"\x00\x80\x4d\x49\x07\x00\x00\x00\x00\xf1\x53\x65\x33\x00\x00\x00".to_vec();
        bytes.extend(database);
        bytes.extend(b"\x01\x00\x01\x00\x00\x00\x00\x00\x01\xf1\x53\x65\x30\x00\x00\x00");
        bytes.extend(b"\x28\x00\x00\x00\x11\x00\x00\x00ADC0\x04\x00\x00\x00\x06\x00\x00\x00");
        bytes.extend(b"\xc8\x00\xd2\x00\xd2\x04\x00\x00TDC0\x06\x00\x00\x00\x08\x00\x00\x00");
        bytes.extend(b"\xef\xbe\xad\xde\x01\x00\x00\x00");
        bytes.extend(b"\x01\x00\x01\x00\x01\x00\x00\x00\x01\xf1\x53\x65\x20\x00\x00\x00");
        bytes.extend(b"\x18\x00\x00\x00\x31\x00\x00\x00ADC0\x04\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00");
        bytes.extend(b"\x01\x00\x02\x00\x03\x00\x04\x00");
        bytes.extend(b"\x01\x80\x4d\x49\x07\x00\x00\x00\x02\xf1\x53\x65\x33\x00\x00\x00");
        bytes.extend(database);
        bytes
    }

    /// The same as a big-endian machine writes it.
    pub(crate) fn golden_big() -> Vec<u8> {
        let little = golden();
        let mut bytes = little.clone();
        let mut swap = |at: usize, width: usize| bytes[at..at + width].reverse();
        let event = |swap: &mut dyn FnMut(usize, usize), at: usize| {
            [(0, 2), (2, 2), (4, 4), (8, 4), (12, 4)]
                .into_iter()
                .for_each(|(place, width)| swap(at + place, width));
        };
        for at in [0, 67, 131, 179] {
            event(&mut swap, at);
        }
        // Sizes and flags; types and lengths of banks; their numbers.
        for at in [83, 87, 95, 99, 115, 119, 123, 127, 147, 151, 159, 163] {
            swap(at, 4);
        }
        for at in [103, 105, 107, 171, 173, 175, 177] {
            swap(at, 2);
        }
        bytes
    }

    fn banks(bytes: &[u8], order: ByteOrder) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
        let header = Header::read(bytes, order).expect("whole");
        let body = &bytes[HEADER_BYTES..][..header.bytes as usize];
        let mut data = Vec::new();
        let banks = Banks::of(body, order).expect("banks").map(|bank| {
            let bank = bank.expect("whole");
            assert!(bank.little_endian(order, &mut data));
            (bank.name.to_vec(), bank.kind.0, data.clone())
        });
        banks.collect()
    }

    #[test]
    fn the_golden_bytes_are_read_in_either_byte_order() {
        for (bytes, order) in [(golden(), ByteOrder::Little), (golden_big(), ByteOrder::Big)] {
            assert_eq!((ByteOrder::of(&bytes), check_midas(&bytes)), (Some(order), 4));
            let header = Header::read(&bytes, order).expect("whole");
            let wanted =
                Header { id: BEGIN_OF_RUN, mask: MAGIC, serial: 7, seconds: 0x6553_F100, bytes: 0x33 };
            assert_eq!(header, wanted);
            let first = banks(&bytes[67..], order);
            assert_eq!(first[0], (b"ADC0".to_vec(), 4, vec![0xc8, 0, 0xd2, 0, 0xd2, 4]));
            assert_eq!(first[1], (b"TDC0".to_vec(), 6, vec![0xef, 0xbe, 0xad, 0xde, 1, 0, 0, 0]));
            assert_eq!(banks(&bytes[131..], order), [(b"ADC0".to_vec(), 4, vec![1, 0, 2, 0, 3, 0, 4, 0])]);
            // Without the BOR event, the banks show the byte order.
            assert_eq!(ByteOrder::of(&bytes[67..]), Some(order));
        }
    }

    #[test]
    fn short_banks_are_read_and_banks_that_do_not_fit_are_refused() {
        let mut body =
            b"\x10\x00\x00\x00\x01\x00\x00\x00ABCD\x01\x00\x03\x00\x07\x08\x09\x00\x00\x00\x00\x00".to_vec();
        let first = Banks::of(&body, ByteOrder::Little).expect("banks").next().expect("one").expect("whole");
        assert_eq!((first.name, first.kind, first.data), (*b"ABCD", BankType(1), &[7, 8, 9][..]));
        body[14] = 9;
        let damage =
            Banks::of(&body, ByteOrder::Little).expect("banks").next().expect("one").expect_err("too long");
        assert!(damage.contains("the bank ABCD of 9 bytes in an event that has 8 left"), "{damage}");
        body[4] = 2;
        assert!(Banks::of(&body, ByteOrder::Little).expect_err("unknown").contains("bank flags 0x2"));
        assert_eq!(ByteOrder::of(b"PK\x03\x04 something else entirely"), None);
    }

    #[test]
    fn whatever_the_bytes_are_nothing_panics() {
        for bytes in [golden(), golden_big()] {
            for at in 0..bytes.len() {
                check_midas(&bytes[..at]);
                for bit in [0x01, 0x80, 0xFF] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= bit;
                    check_midas(&damaged);
                }
            }
        }
    }
}
