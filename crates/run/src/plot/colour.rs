//! The colours of the picture, chosen to be distinguished by every eye and in print.

/// Colours of sources, in turn: muted, of similar lightness, distinct under the common colour deficiencies.
const SOURCES: [&str; 8] =
    ["#2f6690", "#c8702a", "#3f8f72", "#8c5a99", "#a08420", "#4f9fb5", "#b04a5a", "#666e78"];

/// The colour of the source with this number.
pub fn of_source(index: usize) -> &'static str {
    SOURCES[index % SOURCES.len()]
}

/// Ten equidistant colours of the map "cividis" (Nuñez, Anderton, Renslow 2018), dark blue to yellow.
const CIVIDIS: [[u8; 3]; 10] = [
    [0x00, 0x22, 0x4e],
    [0x12, 0x35, 0x70],
    [0x3b, 0x49, 0x6c],
    [0x57, 0x5d, 0x6d],
    [0x70, 0x71, 0x73],
    [0x8a, 0x86, 0x78],
    [0xa5, 0x9c, 0x74],
    [0xc3, 0xb3, 0x69],
    [0xe1, 0xcc, 0x55],
    [0xfe, 0xe8, 0x38],
];

/// Red, green, blue of a place from 0 to 1 on the colour map.
pub fn cividis(place: f64) -> [u8; 3] {
    let at = place.clamp(0.0, 1.0) * (CIVIDIS.len() - 1) as f64;
    let index = (at as usize).min(CIVIDIS.len() - 2);
    let part = at - index as f64;
    let mix = |component: usize| {
        let [low, high] = [CIVIDIS[index][component], CIVIDIS[index + 1][component]].map(f64::from);
        (low + (high - low) * part).round() as u8
    };
    [mix(0), mix(1), mix(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_ends_where_it_should() {
        assert_eq!(cividis(0.0), CIVIDIS[0]);
        assert_eq!(cividis(1.0), CIVIDIS[9]);
    }
}
