//! Numbers in a packet or file header, read with their place checked.
//!
//! ```text
//!  bytes, offset ─► number, or Unreadable::Short
//! ```

/// Why a packet cannot be read as a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is something else, and sound as far as we looked.
    Other,
    /// The bytes end before the header does.
    Short,
    /// A header contradicts itself or the packet's length.
    Malformed,
}

/// `N` bytes from `offset`.
pub(super) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Unreadable> {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().ok_or(Unreadable::Short)
}

/// One byte.
pub(super) fn byte(bytes: &[u8], offset: usize) -> Result<u8, Unreadable> {
    array::<1>(bytes, offset).map(|[byte]| byte)
}

/// Two bytes in network order.
pub(super) fn network_u16(bytes: &[u8], offset: usize) -> Result<u16, Unreadable> {
    array(bytes, offset).map(u16::from_be_bytes)
}

/// Four bytes in network order.
pub(super) fn network_u32(bytes: &[u8], offset: usize) -> Result<u32, Unreadable> {
    array(bytes, offset).map(u32::from_be_bytes)
}

/// Byte order of a capture file: that of the machine that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

impl Order {
    /// Two bytes.
    pub fn u16(self, bytes: &[u8], offset: usize) -> Result<u16, Unreadable> {
        let array = array(bytes, offset)?;
        Ok(if self == Order::Big { u16::from_be_bytes(array) } else { u16::from_le_bytes(array) })
    }

    /// Four bytes.
    pub fn u32(self, bytes: &[u8], offset: usize) -> Result<u32, Unreadable> {
        let array = array(bytes, offset)?;
        Ok(if self == Order::Big { u32::from_be_bytes(array) } else { u32::from_le_bytes(array) })
    }

    /// Eight bytes.
    pub fn u64(self, bytes: &[u8], offset: usize) -> Result<u64, Unreadable> {
        let array = array(bytes, offset)?;
        Ok(if self == Order::Big { u64::from_be_bytes(array) } else { u64::from_le_bytes(array) })
    }
}
