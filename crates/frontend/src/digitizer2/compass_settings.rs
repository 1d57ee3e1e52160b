//! The settings of x27xx boards in a file that CoMPASS has saved (`settings.xml`), as parameters of boards.
//!
//! ```text
//!  <configuration> <board> ─┬─ <parameters> <entry>: what all channels have ─┬─ key in the table ─► /ch/0..63/par/TriggerThr …
//!                           └─ <channel> <entry>: what one channel has ──────┘  any other key ──► not taken, with its value
//! ```
//! The table has the keys whose meaning, unit and words public programs agree on that read such files: those of NSCLDAQ for DPP-PSD and for
//! these boards, and the names that CoMPASS shows for them beside the parameters of a board (delila). What they do not have is not guessed.

use roxmltree::{Document, Node};

use super::parameters::check::Checker;
use super::parameters::{BoardKind, Family, plain};
use super::settings::Firmware;
use crate::format::{ImportedSettings, NotImported};

/// How a value of CoMPASS becomes one of a board.
enum Value {
    /// The same number.
    Number,
    /// true or false.
    Boolean,
    /// A word for each of these.
    Words(&'static [(&'static str, &'static str)]),
}

use Value::{Boolean, Number, Words};

/// Keys of a whole board.
const BOARD: &[(&str, &str, Value)] = &[
    (
        "SRV_PARAM_CLOCK_SOURCE",
        "ClockSource",
        Words(&[("CLK_SRC_INTERNAL", "Internal"), ("CLK_SRC_FRONTPANEL", "FPClkIn")]),
    ),
    (
        "SRV_PARAM_START_MODE",
        "StartSource",
        Words(&[
            ("START_MODE_SW", "SWcmd"),
            ("START_MODE_S_IN", "SINlevel"),
            ("START_MODE_S_IN_EDGE", "SINedge"),
            ("START_MODE_ENC_CLKIN", "EncodedClkIn"),
            ("START_MODE_LVDS", "LVDS"),
            ("START_MODE_P0", "P0"),
        ]),
    ),
    ("SRV_PARAM_START_DELAY", "RunDelay", Number),
    ("SRV_PARAM_AUTO_DISARM_ENABLE", "EnAutoDisarmAcq", Boolean),
    (
        "SRV_PARAM_SYNCOUT_MODE",
        "SyncOutMode",
        Words(&[
            ("SYNCOUT_MODE_SYNCIN", "SyncIn"),
            ("SYNCOUT_MODE_TESTPULSE", "TestPulse"),
            ("SYNCOUT_MODE_INTCLK", "IntClk"),
        ]),
    ),
    (
        "SRV_PARAM_TRGOUT_MODE",
        "TrgOutMode",
        Words(&[
            ("TRGOUT_MODE_EXT_TRG", "TrgIn"),
            ("TRGOUT_MODE_SW_TRG", "SwTrg"),
            ("TRGOUT_MODE_RUN", "Run"),
            ("TRGOUT_MODE_SAMPLE_CLK", "RefClk"),
            ("TRGOUT_MODE_BUSY", "Busy"),
            ("TRGOUT_MODE_LEVEL0", "Fixed0"),
            ("TRGOUT_MODE_LEVEL1", "Fixed1"),
            ("TRGOUT_MODE_SYNCIN", "SyncIn"),
        ]),
    ),
    ("SRV_PARAM_IOLEVEL", "IOlevel", Words(&[("FPIOTYPE_NIM", "NIM"), ("FPIOTYPE_TTL", "TTL")])),
    (
        "SRV_PARAM_VETO_SRC",
        "BoardVetoSource",
        Words(&[
            ("BOARDVETO_SOURCE_DISABLED", "Disabled"),
            ("BOARDVETO_SOURCE_SIN", "SIN"),
            ("BOARDVETO_SOURCE_GPIO", "GPIO"),
        ]),
    ),
    (
        "SRV_PARAM_VETO_POLARITY",
        "BoardVetoPolarity",
        Words(&[("BOARDVETO_POLARITY_HIGH", "ActiveHigh"), ("BOARDVETO_POLARITY_LOW", "ActiveLow")]),
    ),
];

/// Keys of channels. Times are in nanoseconds.
const CHANNEL: &[(&str, &str, Value)] = &[
    ("SRV_PARAM_CH_ENABLED", "ChEnable", Boolean),
    (
        "SRV_PARAM_CH_POLARITY",
        "PulsePolarity",
        Words(&[("POLARITY_POSITIVE", "Positive"), ("POLARITY_NEGATIVE", "Negative")]),
    ),
    ("SRV_PARAM_CH_BLINE_DCOFFSET", "DCOffset", Number),
    ("SRV_PARAM_CH_THRESHOLD", "TriggerThr", Number),
    ("SRV_PARAM_RECLEN", "ChRecordLengthT", Number),
    ("SRV_PARAM_CH_PRETRG", "ChPreTriggerT", Number),
    ("SRV_PARAM_CH_TRG_HOLDOFF", "TimeFilterRetriggerGuardT", Number),
    (
        "SRV_PARAM_CH_VETO_SRC",
        "ChannelVetoSource",
        Words(&[
            ("VETO_SRC_DISABLED", "Disabled"),
            ("VETO_SRC_COMMON", "BoardVeto"),
            ("VETO_SRC_OVERSATURATION", "ADCOverSaturation"),
            ("VETO_SRC_UNDERSATURATION", "ADCUnderSaturation"),
        ]),
    ),
    (
        "SRV_PARAM_CH_DISCR_MODE",
        "TriggerFilterSelection",
        Words(&[("DISCR_MODE_LED", "LeadingEdge"), ("DISCR_MODE_CFD", "CFD")]),
    ),
    ("SRV_PARAM_CH_CFD_DELAY", "CFDDelayT", Number),
    (
        "SRV_PARAM_CH_CFD_FRACTION",
        "CFDFraction",
        Words(&[
            ("CFD_FRACTLIST_25", "25"),
            ("CFD_FRACTLIST_50", "50"),
            ("CFD_FRACTLIST_75", "75"),
            ("CFD_FRACTLIST_100", "100"),
        ]),
    ),
    ("SRV_PARAM_CH_GATE", "GateLongLengthT", Number),
    ("SRV_PARAM_CH_GATESHORT", "GateShortLengthT", Number),
    ("SRV_PARAM_CH_GATEPRE", "GateOffsetT", Number),
    ("SRV_PARAM_CH_FAST_TRIANG_RISE", "TimeFilterRiseTimeT", Number),
    ("SRV_PARAM_CH_TRAP_TRISE", "EnergyFilterRiseTimeT", Number),
    ("SRV_PARAM_CH_TRAP_TFLAT", "EnergyFilterFlatTopT", Number),
    ("SRV_PARAM_CH_TRAP_POLEZERO", "EnergyFilterPoleZeroT", Number),
    ("SRV_PARAM_CH_TRAP_PEAKING", "EnergyFilterPeakingPosition", Number),
    ("SRV_PARAM_CH_ENERGY_FINE_GAIN", "EnergyFilterFineGain", Number),
];

/// The boards of a file.
///
/// # Errors
/// When it is not such a file, or has no board of this family.
pub(super) fn read(text: &str) -> Result<Vec<ImportedSettings>, String> {
    let document = Document::parse(text).map_err(|error| format!("this is not XML: {error}"))?;
    let root = document.root_element();
    let boards: Vec<Node<'_, '_>> = root.children().filter(|node| node.has_tag_name("board")).collect();
    if !root.has_tag_name("configuration") || boards.is_empty() {
        let found = root.tag_name().name();
        return Err(format!(
            "this is no settings file of CoMPASS: it has <{found}>, and <configuration> with <board> is expected"
        ));
    }
    let read: Vec<Result<ImportedSettings, String>> = boards.into_iter().map(board).collect();
    let of_others: Vec<&str> =
        read.iter().filter_map(|board| board.as_ref().err().map(String::as_str)).collect();
    if of_others.len() == read.len() {
        return Err(format!(
            "no board of this file is an x27xx board with DPP-PSD or DPP-PHA: {}",
            of_others.join("; ")
        ));
    }
    Ok(read.into_iter().flatten().collect())
}

fn board(node: Node<'_, '_>) -> Result<ImportedSettings, String> {
    let text =
        |name: &str| child(node, name).and_then(|child| child.text()).unwrap_or_default().trim().to_owned();
    let (model, serial, firmware) = (text("modelName"), text("serialNumber"), text("dppType"));
    let name = format!("{} {model} {serial} {firmware}", text("label")).trim().to_owned();
    let family = Family::of_model(&model).ok_or_else(|| format!("\"{name}\" is a {model}"))?;
    let firmware = match firmware.as_str() {
        "DPP_PSD" => Firmware::Psd,
        "DPP_PHA" => Firmware::Pha,
        other => return Err(format!("\"{name}\" has {other}")),
    };
    let (channels, sampling_mhz) = match family {
        Family::X2740 | Family::X2745 => (64, 125.0),
        Family::X2730 => (32, 500.0),
        Family::X2751 => (16, 1000.0),
    };
    let kind = BoardKind { firmware, family: Some(family), sampling_mhz };
    let checker = Checker { kind, channels, nodes: None };
    let mut import =
        Import { checker, settings: ImportedSettings { board: name, ..ImportedSettings::default() } };
    for (key, value) in child(node, "parameters").into_iter().flat_map(entries) {
        import.take(&key, &value, &format!("/ch/0..{}", channels - 1), true);
    }
    for channel in node.children().filter(|node| node.has_tag_name("channel")) {
        let index = child(channel, "index").and_then(|index| index.text()).unwrap_or_default().trim();
        for (key, value) in child(channel, "values").into_iter().flat_map(entries) {
            import.take(&key, &value, &format!("/ch/{index}"), false);
        }
    }
    Ok(import.settings)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// Keys with their values. The value of a board is one level deeper than that of a channel.
fn entries<'a, 'i: 'a>(node: Node<'a, 'i>) -> impl Iterator<Item = (String, String)> + 'a {
    node.children().filter(|node| node.has_tag_name("entry")).map(|entry| {
        let key = child(entry, "key").and_then(|key| key.text()).unwrap_or_default();
        let value = child(entry, "value").map(|value| child(value, "value").unwrap_or(value));
        (key.trim().to_owned(), value.and_then(|value| value.text()).unwrap_or_default().trim().to_owned())
    })
}

struct Import {
    checker: Checker,
    settings: ImportedSettings,
}

impl Import {
    fn take(&mut self, key: &str, value: &str, channels: &str, is_of_board: bool) {
        let of = |table: &'static [(&str, &str, Value)]| table.iter().find(|(known, ..)| *known == key);
        let (name, kind, folder) = match (of(CHANNEL), of(BOARD).filter(|_| is_of_board)) {
            (Some((_, name, kind)), _) => (name, kind, channels),
            (None, Some((_, name, kind))) => (name, kind, ""),
            (None, None) => return self.leave(key, value, channels, "its meaning is not public"),
        };
        let Some(converted) = kind.converted(value) else {
            return self.leave(key, value, channels, "this value has no public meaning");
        };
        let path = format!("{folder}/par/{name}");
        match self.checker.check(&path, &converted) {
            Ok(()) => self.settings.parameters.push((path, converted)),
            Err(reason) => self.leave(key, value, channels, &format!("`{path}`: {reason}")),
        }
    }

    fn leave(&mut self, key: &str, value: &str, channels: &str, reason: &str) {
        let place = channels.trim_start_matches('/').to_owned();
        let left =
            NotImported { key: key.to_owned(), value: value.to_owned(), place, reason: reason.to_owned() };
        self.settings.not_imported.push(left);
    }
}

impl Value {
    fn converted(&self, value: &str) -> Option<String> {
        match self {
            Number => value.parse::<f64>().ok().filter(|number| number.is_finite()).map(plain),
            Boolean if value.eq_ignore_ascii_case("true") => Some("True".to_owned()),
            Boolean if value.eq_ignore_ascii_case("false") => Some("False".to_owned()),
            Boolean => None,
            Words(words) => words.iter().find(|(word, _)| *word == value).map(|(_, own)| (*own).to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<configuration>
  <board>
    <id>0</id><modelName>VX2740</modelName><serialNumber>17</serialNumber><label>left</label><dppType>DPP_PSD</dppType>
    <parameters>
      <entry><key>SRV_PARAM_START_MODE</key><value><value>START_MODE_SW</value></value></entry>
      <entry><key>SRV_PARAM_CH_POLARITY</key><value><value>POLARITY_NEGATIVE</value></value></entry>
      <entry><key>SRV_PARAM_CH_THRESHOLD</key><value><value>50.0</value></value></entry>
      <entry><key>SRV_PARAM_CH_GATE</key><value><value>400.0</value></value></entry>
      <entry><key>SRV_PARAM_CH_CFD_DELAY</key><value><value>4.0</value></value></entry>
      <entry><key>SRV_PARAM_CH_TRAP_TFLAT</key><value><value>1000.0</value></value></entry>
      <entry><key>SRV_PARAM_NOBODY_KNOWS</key><value><value>7</value></value></entry>
      <entry><key>SRV_PARAM_CLOCK_SOURCE</key><value><value>CLK_SRC_NEW</value></value></entry>
    </parameters>
    <channel><index>3</index><values>
      <entry><key>SRV_PARAM_CH_THRESHOLD</key><value>70.0</value></entry>
    </values></channel>
  </board>
  <board><modelName>DT5730B</modelName><serialNumber>3</serialNumber><label>right</label><dppType>DPP_PSD</dppType></board>
</configuration>"#;

    #[test]
    fn known_keys_become_parameters_and_all_others_are_listed_with_their_values() {
        let boards = read(SETTINGS).expect("an x27xx board");
        let [board] = boards.as_slice() else { panic!("{boards:?}") };
        assert_eq!(board.board, "left VX2740 17 DPP_PSD");
        let pairs: Vec<(&str, &str)> =
            board.parameters.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("/par/StartSource", "SWcmd"),
                ("/ch/0..63/par/PulsePolarity", "Negative"),
                ("/ch/0..63/par/TriggerThr", "50"),
                ("/ch/0..63/par/GateLongLengthT", "400"),
                ("/ch/3/par/TriggerThr", "70"),
            ]
        );
        let left = |key: &str| board.not_imported.iter().find(|left| left.key == key).expect(key);
        assert_eq!(left("SRV_PARAM_NOBODY_KNOWS").value, "7");
        assert!(left("SRV_PARAM_CH_CFD_DELAY").reason.contains("32 to 8184"));
        assert!(left("SRV_PARAM_CH_TRAP_TFLAT").reason.contains("firmware pha"));
        assert!(left("SRV_PARAM_CLOCK_SOURCE").reason.contains("no public meaning"));
        assert_eq!(board.not_imported.len(), 4);
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_what_was_found() {
        assert!(read("nonsense").expect_err("no XML").contains("not XML"));
        assert!(read("<settings/>").expect_err("another").contains("<settings>"));
        let other = "<configuration><board><modelName>DT5730B</modelName><label>right</label></board></configuration>";
        assert!(read(other).expect_err("another family").contains("\"right DT5730B\" is a DT5730B"));
    }
}
