//! Tests of the table, and of what is checked by it and by what a board lists.

use std::collections::HashMap;

use super::check::{Checker, Node};
use super::*;
use crate::digitizer2::control::{Tree, nodes_of};
use crate::digitizer2::emulate;

fn kind(firmware: Firmware) -> BoardKind {
    BoardKind { firmware, family: Some(Family::X2740), sampling_mhz: 125.0 }
}

fn checker(firmware: Firmware) -> Checker {
    Checker { kind: kind(firmware), channels: 64, nodes: None }
}

/// What the vendor's public example programs of caen-dig2 1.6.1 set, by firmware.
const EXAMPLES: &[(Firmware, &[(&str, &str)])] = &[
    (
        Firmware::Psd,
        &[
            ("/ch/0..63/par/ChEnable", "true"),
            ("/par/GlobalTriggerSource", "SwTrg | TestPulse"),
            ("/par/TestPulsePeriod", "100000000"),
            ("/par/TestPulseWidth", "16"),
            ("/ch/0..63/par/ChRecordLengthS", "512"),
            ("/ch/0..63/par/WaveTriggerSource", "GlobalTriggerSource"),
            ("/ch/0..63/par/WaveAnalogProbe0", "ADCInput"),
            ("/ch/0..63/par/WaveAnalogProbe1", "CFDFilter"),
            ("/ch/0..63/par/WaveDigitalProbe0", "Trigger"),
            ("/ch/0..63/par/WaveDigitalProbe1", "LongGate"),
            ("/ch/0..63/par/WaveDigitalProbe2", "ShortGate"),
            ("/ch/0..63/par/WaveDigitalProbe3", "ChargeReady"),
            ("/ch/0..63/par/ChPreTriggerS", "200"),
            ("/ch/0..63/par/EventTriggerSource", "GlobalTriggerSource"),
            ("/ch/0..63/par/CFDDelayS", "4"),
            ("/ch/0..63/par/CFDFraction", "50"),
            ("/ch/0..63/par/TriggerThr", "3"),
            ("/ch/0..63/par/PulsePolarity", "Positive"),
            ("/ch/0..63/par/SmoothingFactor", "2"),
            ("/ch/0..63/par/TimeFilterSmoothing", "Enabled"),
            ("/ch/0..63/par/GateLongLengthS", "100"),
            ("/ch/0..63/par/GateShortLengthS", "10"),
            ("/ch/0..63/par/GateOffsetS", "8"),
            ("/ch/0/par/ChRecordLengthT", "4096"),
            ("/ch/0/par/ChPreTriggerT", "512"),
            ("/ch/0/par/EventTriggerSource", "Ch64Trigger | SwTrg"),
        ],
    ),
    (
        Firmware::Pha,
        &[
            ("/ch/0..63/par/WaveAnalogProbe1", "TimeFilter"),
            ("/ch/0..63/par/WaveDigitalProbe1", "TimeFilterArmed"),
            ("/ch/0..63/par/WaveDigitalProbe2", "EnergyFilterBaselineFreeze"),
            ("/ch/0..63/par/WaveDigitalProbe3", "EnergyFilterPeakReady"),
            ("/ch/0..63/par/TimeFilterRiseTimeS", "10"),
            ("/ch/0..63/par/EnergyFilterRiseTimeS", "100"),
            ("/ch/0..63/par/EnergyFilterFlatTopS", "100"),
            ("/ch/0..63/par/EnergyFilterPeakingPosition", "80"),
            ("/ch/0..63/par/EnergyFilterPoleZeroS", "1000"),
            ("/ch/0..63/par/TimeFilterRetriggerGuardS", "10"),
            ("/ch/0..63/par/EnergyFilterPileupGuardT", "10"),
            ("/ch/0..63/par/EnergyFilterBaselineGuardS", "100"),
            ("/ch/0..63/par/EnergyFilterLFLimitation", "Off"),
            ("/ch/0..63/par/EnergyFilterBaselineAvg", "Medium"),
            ("/ch/0..63/par/EnergyFilterFineGain", "1.0"),
        ],
    ),
    (
        Firmware::Scope,
        &[
            ("/par/RecordLengthS", "1024"),
            ("/par/PreTriggerS", "100"),
            ("/par/RecordLengthT", "4096"),
            ("/par/AcqTriggerSource", "SwTrg | ITLA"),
            ("/par/TestPulsePeriod", "100000000.000000"),
            ("/par/TestPulseLowLevel", "0"),
            ("/par/TestPulseHighLevel", "10000"),
            ("/ch/0..63/par/DCOffset", "50.000000"),
            ("/ch/0..63/par/ITLConnect", "ITLA"),
            ("/ch/0..63/par/TriggerThr", "9000"),
            ("/ch/0..63/par/TriggerThrMode", "Absolute"),
            ("/ch/0..63/par/SamplesOverThreshold", "16"),
            ("/ch/0..63/par/SelfTriggerEdge", "Rise"),
            ("/par/ClockSource", "FPClkIn"),
            ("/par/SyncOutMode", "SyncIn"),
            ("/par/StartSource", "EncodedClkIn"),
            ("/par/EnClockOutFP", "False"),
            ("/par/RunDelay", "48"),
            ("/par/VolatileClockOutDelay", "-2148"),
            ("/par/EnAutoDisarmAcq", "True"),
            ("/par/TrgOutMode", "RefClk"),
            ("/par/DACOutMode", "Square"),
            ("/lvds/0..3/par/LVDSMode", "SelfTriggers"),
        ],
    ),
    (
        Firmware::Zle,
        &[
            ("/par/AcqTriggerSource", "SwTrg | TestPulse | ITLA"),
            ("/par/RecordLengthS", "1024"),
            ("/ch/0..63/par/TriggerThr", "256"),
            ("/ch/0..63/par/ZLEChSupprThr", "64"),
            ("/ch/0..63/par/ChPreTriggerS", "4"),
            ("/ch/0..63/par/ChLookBackSamples", "4"),
            ("/ch/0..63/par/ChLookForwardSamples", "4"),
            ("/ch/0..63/par/EnZLESuppr", "True"),
            ("/ch/0..63/par/PulsePolarity", "Positive"),
            ("/ch/0..63/par/DefaultValueSource", "Baseline"),
        ],
    ),
];

#[test]
fn what_the_vendors_examples_set_is_accepted_by_the_table() {
    for (firmware, settings) in EXAMPLES {
        for (path, value) in *settings {
            assert_eq!(checker(*firmware).check(path, value), Ok(()), "{firmware:?} {path} = {value}");
        }
    }
}

#[test]
fn what_the_vendors_examples_set_is_taken_by_emulated_boards() {
    for (emulated, firmware) in [
        (emulate::settings::Firmware::Psd, Firmware::Psd),
        (emulate::settings::Firmware::Pha, Firmware::Pha),
        (emulate::settings::Firmware::Scope, Firmware::Scope),
    ] {
        let settings =
            emulate::Settings { firmware: emulated, waveform_samples: 64, ..emulate::Settings::default() };
        let mut tree = Tree::new(&settings, 1);
        let (_, own) = EXAMPLES.iter().find(|(of, _)| *of == firmware).expect("it has one");
        for (path, value) in *own {
            tree.set(tree.root(), path, value).unwrap_or_else(|error| panic!("{firmware:?}: {error}"));
        }
    }
}

#[test]
fn a_refused_value_is_explained_with_what_is_allowed_and_its_unit() {
    let refused = |firmware, path: &str, value: &str| checker(firmware).check(path, value).expect_err(path);
    assert_eq!(
        refused(Firmware::Psd, "/ch/0/par/TriggerThr", "70000"),
        "70000 is not allowed; write a number from 0 to 8191 in steps of 1 (ADC counts)"
    );
    assert_eq!(
        refused(Firmware::Psd, "/ch/0..3/par/GateLongLengthT", "40000"),
        "40000 is not allowed; write a number from 0 to 32000 in steps of 8 (ns)"
    );
    let probe = refused(Firmware::Psd, "/ch/0/par/WaveAnalogProbe0", "EnergyFilter");
    assert!(probe.contains("ADCInput, ADCInputBaseline, CFDFilter"), "{probe}");
    let trigger = refused(Firmware::Psd, "/ch/0/par/EventTriggerSource", "Ch64Trigger | Software");
    assert!(trigger.contains("SwTrg") && trigger.contains("joined by `|`"), "{trigger}");
    assert!(refused(Firmware::Psd, "/ch/0/par/ChEnable", "perhaps").contains("True or False"));
    assert!(refused(Firmware::Psd, "/par/RunDelay", "soon").contains("0 to 524280"));
    assert_eq!(refused(Firmware::Psd, "/par/NumCh", "3"), "it can be read only");
}

#[test]
fn an_unknown_name_is_answered_with_those_that_are_similar_or_the_firmware_that_has_it() {
    let refused = |firmware, path: &str| checker(firmware).check(path, "1").expect_err(path);
    let similar = refused(Firmware::Psd, "/ch/0..63/par/GateLongLen");
    assert!(similar.contains("similar are GateLongLength"), "{similar}");
    assert!(refused(Firmware::Psd, "/par/StartSorce").contains("StartSource"));
    let other = refused(Firmware::Psd, "/ch/0/par/EnergyFilterFlatTopT");
    assert_eq!(other, "it belongs to the firmware pha, and this board has psd");
    assert!(refused(Firmware::Psd, "/vga/0/par/VGAGain").contains("hardware"));
    assert!(refused(Firmware::Psd, "/ch/0..64/par/ChEnable").contains("write /ch/0..63"));
    assert!(refused(Firmware::Psd, "/ch/7..3/par/ChEnable").contains("0..63"));
    assert!(refused(Firmware::Scope, "/par/zzzz").contains("thalweg board dump"));
}

#[test]
fn what_no_public_source_limits_is_accepted() {
    let scope = checker(Firmware::Scope);
    assert_eq!(scope.check("/par/RecordLengthS", "123456"), Ok(()));
    assert_eq!(scope.check("/par/TrgOutMode", "SomethingNew"), Ok(()));
    assert!(scope.check("/par/RecordLengthS", "long").is_err());
    let unpublished = BoardKind { family: Some(Family::X2751), sampling_mhz: 1000.0, ..kind(Firmware::Psd) };
    let board = Checker { kind: unpublished, channels: 16, nodes: None };
    assert_eq!(board.check("/ch/15/par/GateLongLengthT", "123457"), Ok(()));
}

#[test]
fn a_connected_board_decides_by_what_it_lists() {
    let settings = emulate::Settings { channels: 32, sampling_mhz: 500, ..emulate::Settings::default() };
    let mut nodes = nodes_of(&Tree::new(&settings, 1).to_json().to_string()).expect("a tree");
    let limits = Rule::Number(Some(Range::stepped(5.0, 9.0, 1.0)));
    nodes
        .insert("/par/new".to_owned(), Node { is_settable: true, rule: Some(limits), unit: "mV".to_owned() });
    let family = Some(Family::X2730);
    let kind = BoardKind { firmware: Firmware::Psd, family, sampling_mhz: 500.0 };
    let board = Checker { kind, channels: 32, nodes: Some(nodes) };
    assert_eq!(board.check("/par/New", "7"), Ok(()));
    assert!(board.check("/par/New", "70").expect_err("too much").contains("5 to 9 in steps of 1 (mV)"));
    assert_eq!(board.check("/ch/0..31/par/ChGain", "20"), Ok(()));
    assert_eq!(board.check("/par/GlobalTriggerSource", "SwTrg | TestPulse"), Ok(()));
    assert!(board.check("/ch/0..63/par/ChEnable", "True").expect_err("32").contains("/ch/0..31"));
    assert!(board.check("/ch/0/par/GateLongLenT", "8").expect_err("typo").contains("GateLongLengthT"));
    assert!(board.check("/par/NumCh", "3").expect_err("its own").contains("read only"));
    let bare = Checker { nodes: Some(HashMap::new()), ..board };
    assert!(bare.check("/par/New", "7").is_err());
}

#[test]
fn an_emulated_2745_has_amplifiers_and_a_2740_has_none() {
    let tree = |model: &str| {
        let model = Some(model.to_owned());
        Tree::new(&emulate::Settings { channels: 32, model, ..emulate::Settings::default() }, 1)
    };
    let mut board = tree("VX2745");
    board.set(1, "/vga/0..1/par/VGAGain", "20.3").expect("taken");
    assert_eq!(board.value("/vga/1/par/vgagain").as_deref(), Some("20"));
    assert_eq!(board.value("/par/familycode").as_deref(), Some("2745"));
    assert!(tree("VX2740").set(1, "/vga/0/par/VGAGain", "20").is_err());
}

#[test]
fn times_and_samples_are_one_value() {
    let mut tree = Tree::new(&emulate::Settings { channels: 1, ..emulate::Settings::default() }, 1);
    tree.set(1, "/ch/0/par/GateLongLengthT", "405").expect("taken");
    let value = |tree: &Tree, name: &str| tree.value(&format!("/ch/0/par/{name}")).expect("it is there");
    assert_eq!(
        (value(&tree, "gatelonglengtht"), value(&tree, "gatelonglengths")),
        ("400".into(), "50".into())
    );
    tree.set(1, "/ch/0/par/GateLongLengthS", "10").expect("taken");
    assert_eq!(value(&tree, "gatelonglengtht"), "80");
}
