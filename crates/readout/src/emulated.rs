//! The boards at the other end of a source's links, emulated: those of `emulate://`, and those that another process reads.
//!
//! ```text
//!  Boards, EmulatedBoards ─► EmulatedSource ─ behind(link) ─► boards and registers ─► HostedLink
//!
//!  tcp://HOST:PORT      they listen there, and on the register port of SiTCP boards
//!  udp://ADDRESS:PORT   they send there
//! ```

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use thalweg_data::SourceError;
use thalweg_frontend::sitcp::rbcp::Registers;
use thalweg_frontend::sitcp::rbcp::map::recbe;
use thalweg_frontend::trigger::Trigger;
use thalweg_frontend::{fragment, sitcp};

use crate::host::triggered::{Hosted, HostedLink, HostedRegisters, Outlet, SharedRegisters, SitcpBoard};
use crate::links::{Boards, EmulatedBoards, LinkPlan, LinkSettings};
use crate::register_control::REGISTER_PORT;
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
    let boards = EmulatedSource::new(settings, plan).map_err(failed)?;
    let port = settings.endpoint.register_port.unwrap_or(REGISTER_PORT);
    let mut ports = RegisterPorts::default();
    let end = |(link, endpoint): (usize, &Endpoint)| {
        let (own, registers) = boards.behind(link, plan);
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
    let (mut boards, _) = EmulatedSource::new(settings, plan)?.behind(0, plan);
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
        registers: SharedRegisters,
    ) -> Result<Option<HostedRegisters>, String> {
        if !self.0.insert(place) {
            return Ok(None);
        }
        let socket = UdpSocket::bind(place).map_err(|cause| {
            format!("register port {place}: {cause}; choose another with `register_port`, or end who has it")
        })?;
        Ok(Some(HostedRegisters { socket, registers }))
    }
}

/// Emulated boards, made once per kind and shared from there.
pub(crate) enum EmulatedSource {
    Fragment(Vec<fragment::emulate::Board>),
    Sitcp { first: Box<sitcp::emulate::Board>, first_board: u16, registers: Option<Box<Registers>> },
}

impl EmulatedSource {
    /// The boards of a source that has so many.
    pub(crate) fn new(settings: &LinkSettings<'_>, plan: LinkPlan) -> Result<EmulatedSource, String> {
        match (settings.boards, settings.emulated) {
            (Boards::Fragment(format), None) => {
                EmulatedSource::fragments(settings, plan, format, Default::default())
            }
            (Boards::Fragment(format), Some(EmulatedBoards::Fragment(board))) => {
                EmulatedSource::fragments(settings, plan, format, board.clone())
            }
            (Boards::Sitcp(format), None) => EmulatedSource::sitcp(format, Default::default()),
            (Boards::Sitcp(format), Some(EmulatedBoards::Sitcp(board))) => {
                EmulatedSource::sitcp(format, board.clone())
            }
            _ => Err("[source.emulate] describes boards of another format".to_owned()),
        }
    }

    fn fragments(
        settings: &LinkSettings<'_>,
        plan: LinkPlan,
        format: &fragment::Settings,
        mut board: fragment::emulate::Settings,
    ) -> Result<EmulatedSource, String> {
        // A URL that says how they arrive says it for both ends.
        match settings.endpoint.url.endpoint() {
            Endpoint::Tcp(_) => board.stream = true,
            Endpoint::Udp { .. } => board.stream = false,
            _ => {}
        }
        // Where boards are left out there is one link, and the numbers of the others stay.
        let count = u16::try_from(plan.boards() + format.without.len()).ok();
        let end = count.and_then(|count| format.first_board.checked_add(count));
        let end = end.ok_or("`boards` leave the numbers below 65536")?;
        let all = fragment::emulate::boards(format.first_board..end, &board);
        let numbered = (format.first_board..).zip(all.map_err(|error| error.to_string())?);
        let there = numbered.filter(|(number, _)| !format.without.contains(number));
        Ok(EmulatedSource::Fragment(there.map(|(_, board)| board).collect()))
    }

    fn sitcp(format: &sitcp::Settings, board: sitcp::emulate::Settings) -> Result<EmulatedSource, String> {
        // The format says what the boards send; that it is said twice is no reason for two answers.
        let board = sitcp::emulate::Settings { profile: format.profile, ..board };
        let first =
            sitcp::emulate::Board::new(format.first_board, &board).map_err(|error| error.to_string())?;
        let has_registers = matches!(format.profile, sitcp::Profile::Recbe | sitcp::Profile::Belle2);
        let registers = has_registers.then(|| {
            // They begin as the board does, so that setting one of them changes that alone.
            let mut registers = Registers::recbe(format.first_board as u8, Default::default());
            let mode = match board.mode {
                sitcp::emulate::Mode::Raw => recbe::MODE_RAW,
                sitcp::emulate::Mode::Suppressed => recbe::MODE_SUPPRESSED,
            };
            registers.put(recbe::MODE, &[mode]);
            registers.put(recbe::WINDOW, &[board.window.min(255) as u8]);
            Box::new(registers)
        });
        Ok(EmulatedSource::Sitcp { first: Box::new(first), first_board: format.first_board, registers })
    }

    /// The boards behind one link, and their registers.
    pub(crate) fn behind(
        &self,
        link: usize,
        plan: LinkPlan,
    ) -> (Vec<Box<dyn Hosted>>, Option<SharedRegisters>) {
        let per_link = usize::from(plan.boards_per_link);
        match self {
            EmulatedSource::Fragment(boards) => {
                let own = boards.iter().skip(link * per_link).take(per_link);
                (own.map(|board| Box::new(board.clone()) as Box<dyn Hosted>).collect(), None)
            }
            EmulatedSource::Sitcp { first, first_board, registers } => {
                let shared = registers.as_deref().cloned().map(SharedRegisters::new);
                let own = (0..per_link).map(|board| {
                    let number = first_board.wrapping_add((link * per_link + board) as u16);
                    Box::new(SitcpBoard::new(first.like(number), shared.clone())) as Box<dyn Hosted>
                });
                (own.collect(), shared)
            }
        }
    }
}
