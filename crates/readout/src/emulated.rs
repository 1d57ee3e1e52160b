//! The boards at the other end of a source's links, emulated: those of `emulate://`, and those that another process reads.
//!
//! ```text
//!  LinkSettings ─► EmulatedLinks ─ behind(link) ─► boards and registers ─► HostedLink
//!
//!  tcp://HOST:PORT      they listen there, and on the register port of SiTCP boards
//!  udp://ADDRESS:PORT   they send there
//! ```

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use thalweg_data::{LinkId, SourceError};
use thalweg_frontend::format::EmulatedRegisters;
use thalweg_frontend::trigger::Trigger;

use crate::host::triggered::{HostedLink, HostedRegisters, Outlet};
use crate::links::LinkSettings;
use crate::url::Endpoint;

/// The other ends of a source that another process reads: boards that listen where its `tcp://` connects to, or send to its
/// `udp://` address; to `to` instead, where that is given.
///
/// # Errors
/// When the settings do not fit together, an address cannot be had, or the source has no network.
pub fn other_ends(
    settings: &LinkSettings<'_>,
    to: Option<SocketAddr>,
) -> Result<Vec<HostedLink>, SourceError> {
    let url = &settings.endpoint.url;
    let failed = |message: String| SourceError { place: url.to_string(), message };
    let plan = settings.plan().map_err(failed)?;
    let boards = settings.emulated_links(plan).map_err(failed)?;
    let own_port = settings.boards.control().map_or(0, |entry| entry.port);
    let port = settings.endpoint.register_port.unwrap_or(own_port);
    let mut ports = RegisterPorts::default();
    let end = |(link, endpoint): (usize, &Endpoint)| {
        let (own, registers) = boards.behind(LinkId::from_index(link));
        match endpoint {
            Endpoint::Udp { bind, .. } => {
                Ok(HostedLink::new(Outlet::Datagrams(destination(*bind, to)?), own))
            }
            Endpoint::Tcp(host) => {
                let place = host.resolve();
                let place = place.map_err(|cause| format!("`{host}` has no address: {cause}"))?;
                let outlet = Outlet::listen(place).map_err(|error| error.to_string())?;
                let asked = |registers| ports.at(SocketAddr::new(place.ip(), port), registers);
                let registers = registers.map(asked).transpose()?.flatten();
                Ok(HostedLink { registers, ..HostedLink::new(outlet, own) })
            }
            _ => Err("boards for another process need tcp:// or udp://".to_owned()),
        }
    };
    url.endpoints().iter().enumerate().map(end).collect::<Result<_, String>>().map_err(failed)
}

/// What a board of an emulated source sends at each of so many triggers: the payload bytes of every datagram, or of its part of the
/// stream. Opens nothing.
///
/// # Errors
/// When the settings do not fit together, in words.
pub fn answer_sizes(settings: &LinkSettings<'_>, triggers: u64) -> Result<Vec<Vec<u32>>, String> {
    let plan = settings.plan()?;
    let (mut boards, _) = settings.emulated_links(plan)?.behind(LinkId(0));
    let Some(board) = boards.first_mut() else { return Ok(Vec::new()) };
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let sizes = (0..triggers).map(|number| {
        bytes.clear();
        ends.clear();
        board.answer(Trigger { number, time_ns: number * 1000 }, &mut bytes, &mut ends);
        if ends.is_empty() {
            ends.push(bytes.len());
        }
        let starts = std::iter::once(&0).chain(&ends);
        ends.iter().zip(starts).map(|(end, start)| (end - start) as u32).filter(|size| *size > 0).collect()
    });
    Ok(sizes.collect())
}

/// Where datagrams go that a receiver at `bind` is to get.
fn destination(bind: SocketAddr, to: Option<SocketAddr>) -> Result<SocketAddr, String> {
    match to {
        Some(to) => Ok(to),
        None if bind.ip().is_unspecified() => Err(format!(
            "{bind} is every address of the receiver; say which one with --to HOST:{}",
            bind.port()
        )),
        None => Ok(bind),
    }
}

/// One register port per address: boards that share an address, as ranges of ports do, share it with the first of them.
#[derive(Default)]
struct RegisterPorts(BTreeSet<SocketAddr>);

impl RegisterPorts {
    fn at(
        &mut self,
        place: SocketAddr,
        registers: Box<dyn EmulatedRegisters>,
    ) -> Result<Option<HostedRegisters>, String> {
        if !self.0.insert(place) {
            return Ok(None);
        }
        let socket = UdpSocket::bind(place).map_err(|cause| {
            format!("register port {place}: {cause}; choose another with `register_port`, or end the program that has it")
        })?;
        Ok(Some(HostedRegisters { socket, registers }))
    }
}
