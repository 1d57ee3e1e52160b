use thalweg_data::SourceId;

use super::*;

fn boards() -> Vec<SourceChannels> {
    let board = |number: u16, name: &str, channels| SourceChannels {
        source: SourceId(number),
        name: name.to_owned(),
        channels,
    };
    vec![board(0, "left", 0..=7), board(1, "right", 8..=15)]
}

fn described(number: u16) -> ChannelSettings {
    ChannelSettings { number, ..ChannelSettings::default() }
}

#[test]
fn channels_are_found_with_what_is_known_of_them() {
    let gamma = ChannelSettings {
        name: Some("LaBr3".into()),
        group: Some("gamma".into()),
        offset_ps: Some(-350),
        energy_kev: Some(vec![1.0, 0.5, 0.25]),
        ..described(9)
    };
    let file = [ChannelSettings { enabled: Some(false), name: Some("old".into()), ..described(9) }];
    let map = ChannelMap::new(&boards(), &[gamma], &file).expect("valid");
    let channel = map.get(9).expect("sent");
    assert_eq!((channel.name.as_str(), channel.enabled, channel.source), ("LaBr3", false, SourceId(1)));
    assert_eq!((map.groups(), channel.group), (&["none".to_owned(), "gamma".to_owned()][..], 1));
    assert_eq!(map.kev(9, 4), 1.0 + 2.0 + 4.0);
    assert!(map.kev(8, 4).is_nan() && map.get(16).is_none());
    assert_eq!((map.row(0), map.row(15), map.row(16)), (Some(0), Some(15), None));
}

#[test]
fn holes_in_a_calibration_are_named() {
    let calibrated = ChannelSettings { energy_kev: Some(vec![0.0, 1.0]), ..described(0) };
    let off = ChannelSettings { enabled: Some(false), ..described(1) };
    let map = ChannelMap::new(&boards()[..1], &[calibrated, off], &[]).expect("valid");
    assert_eq!(map.uncalibrated(), [2, 3, 4, 5, 6, 7]);
    assert!(ChannelMap::new(&boards(), &[], &[]).expect("valid").uncalibrated().is_empty());
}

#[test]
fn what_is_invalid_is_refused() {
    let message = |sources: &[SourceChannels], channels: &[ChannelSettings]| {
        ChannelMap::new(sources, channels, &[]).expect_err("not possible").to_string()
    };
    let mut shared = boards();
    shared[1].channels = 7..=9;
    assert!(message(&shared, &[]).contains("channel 7 is sent by both \"left\" and \"right\""));
    assert!(message(&boards(), &[described(16)]).contains("channel 16 is described, and no source sends it"));
    assert!(message(&boards(), &[described(3), described(3)]).contains("number 3"));
    let far = |offset_ps| ChannelSettings { offset_ps: Some(offset_ps), ..described(2) };
    for offset_ps in [i64::MIN, -10_000_000_000_001, i64::MAX] {
        assert!(message(&boards(), &[far(offset_ps)]).contains(&format!("offset_ps = {offset_ps}; write")));
    }
    assert!(ChannelMap::new(&boards(), &[far(-10_000_000_000_000)], &[]).is_ok());
    let wrong = |polynomial: Vec<f64>| ChannelSettings { energy_kev: Some(polynomial), ..described(2) };
    assert!(message(&boards(), &[wrong(vec![])]).contains("no polynomial"));
    assert!(message(&boards(), &[wrong(vec![f64::NAN])]).contains("no polynomial"));
    assert!(message(&boards(), &[wrong(vec![0.0; 7])]).contains("one to six"));
}
