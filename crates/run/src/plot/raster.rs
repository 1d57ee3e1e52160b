//! A small image inside the picture: palette PNG without compression, as a `data:` address.
//!
//! ```text
//!  pixels (one palette index each) ─► PNG: header, palette, transparency, stored rows ─► base64
//! ```
//! A heat map of 65 000 cells would be megabytes as vector rectangles, with seams between them; as an image it is 90 kB
//! and stays crisp.

/// Palette indices, row by row from the top.
pub struct Raster {
    /// Pixels per row.
    pub width: usize,
    /// `width` times the number of rows.
    pub pixels: Vec<u8>,
}

impl Raster {
    /// The image as a `data:` address. Palette index 0 is transparent.
    pub fn to_data_address(&self, palette: &[[u8; 3]; 256]) -> String {
        format!("data:image/png;base64,{}", base64(&self.to_png(palette)))
    }

    fn to_png(&self, palette: &[[u8; 3]; 256]) -> Vec<u8> {
        let height = self.pixels.len() / self.width.max(1);
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut header = Vec::new();
        header.extend((self.width as u32).to_be_bytes());
        header.extend((height as u32).to_be_bytes());
        header.extend([8, 3, 0, 0, 0]); // 8 bits, palette, the one compression, the one filter set, not interlaced
        chunk(&mut png, b"IHDR", &header);
        chunk(&mut png, b"PLTE", palette.as_flattened());
        chunk(&mut png, b"tRNS", &[0]);
        chunk(&mut png, b"IDAT", &self.stored_rows());
        chunk(&mut png, b"IEND", &[]);
        png
    }

    /// The rows as a zlib stream of stored blocks (RFC 1950, RFC 1951 section 3.2.4).
    fn stored_rows(&self) -> Vec<u8> {
        let no_filter = 0;
        let rows: Vec<u8> = self
            .pixels
            .chunks(self.width.max(1))
            .flat_map(|row| std::iter::once(no_filter).chain(row.iter().copied()))
            .collect();
        let mut stream = vec![0x78, 0x01];
        let count = rows.chunks(0xFFFF).count();
        for (index, block) in rows.chunks(0xFFFF).enumerate() {
            let length = block.len() as u16;
            stream.push(u8::from(index + 1 == count));
            stream.extend(length.to_le_bytes());
            stream.extend((!length).to_le_bytes());
            stream.extend(block);
        }
        stream.extend(adler32(&rows).to_be_bytes());
        stream
    }
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    png.extend((content.len() as u32).to_be_bytes());
    let start = png.len();
    png.extend(kind);
    png.extend(content);
    let check = crc32(&png[start..]);
    png.extend(check.to_be_bytes());
}

/// The check of PNG chunks (ISO 3309).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let low_bit_set = crc & 1 == 1;
            (crc >> 1) ^ if low_bit_set { 0xEDB8_8320 } else { 0 }
        })
    })
}

/// The check of zlib streams (RFC 1950).
fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_have_their_published_values() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn base64_has_its_published_values() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
