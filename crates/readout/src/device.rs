//! A device of slow control: what has registers or parameters, and need not send data.
//!
//! ```text
//!  [[control]] url ─┬─ ipbusudp-2.0:// ipbustcp-2.0:// chtcp-2.0:// ─► IpbusControl ─┐
//!                   └─ the scheme of a family: rbcp:// dig2:// … ────► BoardControl ─┴─► dyn DeviceControl
//!  parameters ─ apply: set in order, read back, compare ─► Applied, for run.json
//! ```

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{ControlError, DeviceControl};
use thalweg_frontend::format::{Format, register_number};

use crate::control::BoardPlace;
use crate::ipbus_control::IpbusControl;

/// How long a connection to a device may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// The schemes of IPbus targets, for messages.
const IPBUS_SCHEMES: &str =
    "ipbusudp-2.0://HOST:PORT, ipbustcp-2.0://HOST:PORT, chtcp-2.0://HUB:PORT?target=HOST:PORT";

/// `[[control]]`: a device whose registers or parameters are set for a run, and read in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceSettings {
    /// A short name, unique among devices and sources; `[[series]]`, `[busy]` and `[trigger.enable]` name it.
    pub name: String,
    /// Where it is: an IPbus target by UDP, TCP or through a hub, the registers of a SiTCP board, or an x27xx digitizer.
    pub url: String,
    /// Of an IPbus target: its address table, relative to the configuration. Without it registers are named by address.
    #[serde(default)]
    pub address_table: Option<PathBuf>,
    /// What is set before the run, in this order: [["ctrl.mode", "3"], ["0x1004", "0xff"]]. All of it is read back and compared.
    #[serde(default)]
    pub parameters: Vec<(String, String)>,
    /// Of these parameters, those that need not read back as they were set: they clear themselves, or the board rounds them.
    #[serde(default)]
    pub unchecked: Vec<String>,
}

/// A register of a device that is switched: by BUSY, or with the trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The `[[control]]` that has it.
    pub of: String,
    /// The register or parameter.
    pub path: String,
    /// What is written to switch it on.
    #[serde(default = "on")]
    pub on: String,
    /// What is written to switch it off.
    #[serde(default = "off")]
    pub off: String,
}

fn on() -> String {
    "1".to_owned()
}

fn off() -> String {
    "0".to_owned()
}

impl Switch {
    /// A register that is 1 when it is on.
    pub fn new(of: &str, path: &str) -> Switch {
        Switch { of: of.to_owned(), path: path.to_owned(), on: on(), off: off() }
    }

    /// What is written for a state.
    pub fn value(&self, is_on: bool) -> &str {
        if is_on { &self.on } else { &self.off }
    }
}

impl std::fmt::Display for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` of \"{}\"", self.path, self.of)
    }
}

/// What was set, and what it read then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The register or parameter.
    pub path: String,
    /// What was set.
    pub set: String,
    /// What it read when everything was set; `None` of what cannot be read.
    pub read: Option<String>,
}

impl DeviceSettings {
    /// A device at a URL, of which nothing is set.
    pub fn at(url: &str, address_table: Option<&Path>) -> DeviceSettings {
        let address_table = address_table.map(Path::to_owned);
        DeviceSettings {
            name: url.to_owned(),
            url: url.to_owned(),
            address_table,
            ..DeviceSettings::default()
        }
    }

    /// Whether it can be opened, as far as can be seen without it.
    ///
    /// # Errors
    /// The key, and what to write.
    pub fn check(&self) -> Result<(), String> {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", ""));
        let is_ipbus = match scheme {
            "ipbusudp-2.0" | "ipbustcp-2.0" | "chtcp-2.0" => {
                self.url.parse::<thalweg_ipbus::uri::Uri>().map_err(|error| error.to_string())?;
                true
            }
            scheme if Format::control_of(scheme).is_some() && !rest.is_empty() => false,
            _ => return Err(format!("`url = \"{}\"` is no device; write one of {}", self.url, schemes())),
        };
        if self.address_table.is_some() && !is_ipbus {
            return Err(format!("`address_table` belongs to an IPbus target, and this one is {}", self.url));
        }
        let is_set = |path: &&String| self.parameters.iter().any(|(set, _)| set == *path);
        match self.unchecked.iter().find(|path| !is_set(path)) {
            Some(path) => Err(format!("`unchecked` names \"{path}\", which `parameters` do not set")),
            None => Ok(()),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be reached, is not such a device, or has no such parameters.
    pub fn open(&self) -> Result<Box<dyn DeviceControl>, ControlError> {
        let failed = |message: String| ControlError { board: self.url.clone(), message };
        self.check().map_err(failed)?;
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        match Format::control_of(scheme) {
            Some(entry) => {
                let address = address_of(&self.url, entry.port).map_err(failed)?;
                let mut board = BoardPlace { entry, address }.open(CONNECT_WAIT)?;
                board.check_all(&self.parameters)?;
                Ok(board)
            }
            None => Ok(Box::new(IpbusControl::open(&self.url, self.address_table.as_deref())?)),
        }
    }

    /// Sets the parameters of a device that was opened, in their order, and reads them back when all are set.
    ///
    /// # Errors
    /// When it does not take one, or one does not read as it was set and is not `unchecked`.
    pub fn apply(&self, control: &mut dyn DeviceControl) -> Result<Vec<Applied>, ControlError> {
        for (before, (path, value)) in self.parameters.iter().enumerate() {
            control.set(path, value).map_err(|error| match before {
                0 => error,
                _ => ControlError {
                    message: format!("{}; the {before} parameters before it are set", error.message),
                    ..error
                },
            })?;
        }
        self.parameters.iter().map(|(path, value)| self.read_back(control, path, value)).collect()
    }

    fn read_back(
        &self,
        control: &mut dyn DeviceControl,
        path: &str,
        value: &str,
    ) -> Result<Applied, ControlError> {
        let read = control.is_readable(path).then(|| control.get(path)).transpose()?;
        // Of what is set several times, the last one stays.
        let last = self.parameters.iter().rev().find(|(set, _)| set == path).map(|(_, value)| value);
        let is_checked =
            last.is_some_and(|last| last == value) && !self.unchecked.iter().any(|each| each == path);
        match &read {
            Some(read) if is_checked && !are_same(value, read) => Err(ControlError {
                board: self.url.clone(),
                message: format!(
                    "`{path}` was set to {value} and reads {read}; add it to `unchecked` of [[control]] if it clears itself \
                     or is rounded"
                ),
            }),
            _ => Ok(Applied { path: path.to_owned(), set: value.to_owned(), read }),
        }
    }
}

/// The schemes of devices, for messages.
fn schemes() -> String {
    let boards = Format::controls().map(|entry| format!(", {}://HOST[:{}]", entry.scheme, entry.port));
    std::iter::once(IPBUS_SCHEMES.to_owned()).chain(boards).collect()
}

/// Whether two texts say one value: as numbers where both are.
fn are_same(set: &str, read: &str) -> bool {
    let real = |text: &str| text.trim().parse::<f64>().ok();
    match (register_number(set.trim()), register_number(read.trim())) {
        (Some(set), Some(read)) => set == read,
        _ => set.eq_ignore_ascii_case(read) || real(set).is_some() && real(set) == real(read),
    }
}

/// The address that a URL without a path names.
fn address_of(url: &str, port: u16) -> Result<SocketAddr, String> {
    let host = url.split_once("://").map_or(url, |(_, host)| host).trim_end_matches('/');
    let with_port = if host.parse::<std::net::Ipv6Addr>().is_ok() {
        format!("[{host}]:{port}")
    } else if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    let mut found = with_port.to_socket_addrs().map_err(|cause| format!("{with_port}: {cause}"))?;
    found.next().ok_or_else(|| format!("{with_port} has no address"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A device that rounds to even numbers what begins with `r`, and lets nobody read what begins with `w`.
    #[derive(Default)]
    struct Odd(BTreeMap<String, u64>);

    impl DeviceControl for Odd {
        fn get(&mut self, path: &str) -> Result<String, ControlError> {
            Ok(self.0.get(path).copied().unwrap_or_default().to_string())
        }

        fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
            let refused =
                || ControlError { board: "odd".to_owned(), message: format!("`{value}` is no number") };
            let value = register_number(value).ok_or_else(refused)?;
            self.0.insert(path.to_owned(), if path.starts_with('r') { value & !1 } else { value });
            Ok(())
        }

        fn is_readable(&mut self, path: &str) -> bool {
            !path.starts_with('w')
        }
    }

    fn device(parameters: &[(&str, &str)], unchecked: &[&str]) -> DeviceSettings {
        let pair = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
        DeviceSettings {
            parameters: parameters.iter().map(pair).collect(),
            unchecked: unchecked.iter().map(|path| (*path).to_owned()).collect(),
            ..DeviceSettings::at("rbcp://127.0.0.1", None)
        }
    }

    #[test]
    fn parameters_are_read_back_and_compared_as_numbers() {
        let settings = device(&[("a", "0x10"), ("a", "17"), ("w", "1")], &[]);
        let applied = settings.apply(&mut Odd::default()).expect("as it was set");
        let reads: Vec<_> = applied.iter().map(|one| (one.path.as_str(), one.read.as_deref())).collect();
        assert_eq!(reads, [("a", Some("17")), ("a", Some("17")), ("w", None)]);
    }

    #[test]
    fn a_refused_parameter_says_how_many_were_set_before_it() {
        let refused = |parameters: &[(&str, &str)]| {
            device(parameters, &[]).apply(&mut Odd::default()).expect_err("no number").to_string()
        };
        assert_eq!(refused(&[("a", "")]), "odd: `` is no number");
        let second = refused(&[("a", "1"), ("b", "2"), ("c", "")]);
        assert!(second.ends_with("`` is no number; the 2 parameters before it are set"), "{second}");
    }

    #[test]
    fn what_reads_otherwise_is_an_error_unless_it_may() {
        let message = device(&[("r", "3")], &[]).apply(&mut Odd::default()).expect_err("rounded").to_string();
        for word in ["rbcp://127.0.0.1", "`r` was set to 3 and reads 2", "unchecked"] {
            assert!(message.contains(word), "{message}");
        }
        let applied = device(&[("r", "3")], &["r"]).apply(&mut Odd::default()).expect("unchecked");
        assert_eq!(applied[0].read.as_deref(), Some("2"));
    }

    #[test]
    fn what_is_no_device_is_refused_with_what_is() {
        let refused = |url: &str, table: Option<&str>| {
            DeviceSettings::at(url, table.map(Path::new)).check().expect_err(url)
        };
        assert!(refused("udp://127.0.0.1:1", None).contains("ipbusudp-2.0://"));
        assert!(refused("ipbusudp-2.0://nonsense", None).contains("nonsense"));
        assert!(refused("rbcp://127.0.0.1", Some("a.xml")).contains("address_table"));
        let wrong = DeviceSettings { unchecked: vec!["x".into()], ..device(&[("y", "1")], &[]) };
        assert!(wrong.check().expect_err("not set").contains("\"x\""));
    }

    #[test]
    fn hosts_may_have_a_port() {
        let address = |url: &str| address_of(url, 4660).expect("an address").to_string();
        assert_eq!(address("rbcp://127.0.0.1"), "127.0.0.1:4660");
        assert_eq!(address("rbcp://127.0.0.1:7/"), "127.0.0.1:7");
        assert_eq!(address("rbcp://::1"), "[::1]:4660");
    }
}
