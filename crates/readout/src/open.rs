//! From settings to an open source.
//!
//! ```text
//!  Settings ─► Pool ─► socket or file ─► Opened
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thalweg_data::{Busy, ControlError, DeviceControl, Pool, Source, SourceError};
use thalweg_frontend::format::{BoardControl, BoardFacts, DataPlace};
use thalweg_transport::{
    Backend, ExpectedSenders, FullPolicy, SenderAddress, TcpReceiver, TcpReceiverSettings, UdpReceiver,
    UdpReceiverSettings,
};

use crate::board_link::{BoardKeeper, BoardLink, BoardSource, OpenStream, Reopen};
use crate::clock::RunClock;
use crate::control::{BoardPlace, local_address_towards, make_idle};
use crate::file::FileSource;
use crate::live::{TcpSource, UdpSource, source_error};
use crate::pcap::{PcapFilter, PcapSource};
use crate::pool_refusal::pool_refusal;
use crate::settings::{BlockPolicy, DatagramBackend, Settings};
use crate::url::{Endpoint, HostAndPort, HostPort};

/// The longest time that a host may take to answer.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(4);
/// Receive buffer for datagrams, unless configured.
const DATAGRAM_BUFFER_BYTES: usize = 64 << 20;

/// A source that is ready to be read.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// Drives the board behind it, where there is a protocol for that.
    pub control: Option<Box<dyn DeviceControl>>,
    /// The blocks that it receives into.
    pub pool: Pool,
    /// Where datagrams for it are to be sent, as by an emulated board.
    pub address: Option<SocketAddr>,
}

/// Opens a source. Paths are taken as they are: see [`crate::SourceUrl::relative_to`]. `busy` is raised by the policy of
/// that name.
///
/// # Errors
/// When the settings cannot work, or the endpoint cannot be opened; the message says what to do.
pub fn open(settings: &Settings, clock: RunClock, busy: &Arc<Busy>) -> Result<Opened, SourceError> {
    let place = settings.url.to_string();
    let failed = |message: String| SourceError { place: place.clone(), message };
    settings.check_single().map_err(failed)?;
    let (blocks, block_bytes) = settings.pool_shape().map_err(failed)?;
    let pool =
        Pool::of(blocks, block_bytes, settings.memory()).map_err(|error| failed(pool_refusal(&error)))?;
    let busy = (settings.policy == BlockPolicy::Busy).then(|| busy.clone());
    let opening = Opening { settings, pool: pool.clone(), clock, busy, place: &place };
    let (mut control, mut address) = (None, None);
    let source: Box<dyn Source> = match settings.url.endpoint() {
        Endpoint::Udp { bind, from } => {
            let from = opening.senders(from)?;
            let receiver = opening.udp(UdpReceiverSettings { from, ..opening.udp_settings(*bind) })?;
            address = receiver.local_address().ok();
            Box::new(opening.udp_source(receiver))
        }
        Endpoint::Emulate => {
            let bind = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
            let receiver = opening.udp(opening.udp_settings(bind))?;
            address = receiver.local_address().ok();
            Box::new(opening.udp_source(receiver))
        }
        Endpoint::Tcp(host) => {
            let address = opening.resolve(host)?;
            Box::new(opening.tcp(address)?)
        }
        Endpoint::Board { entry, host } => {
            let place = BoardPlace { entry, address: opening.resolve(host)? };
            let (source, board) = opening.board(place)?;
            control = Some(board);
            source
        }
        Endpoint::File(path) => {
            let paths: Vec<PathBuf> = std::iter::once(path).chain(&settings.continuations).cloned().collect();
            Box::new(FileSource::open(&paths, pool.clone(), clock)?)
        }
        Endpoint::Pcap { path, port, from } => {
            let filter = PcapFilter::of(*port, from);
            Box::new(PcapSource::open(path, filter, pool.clone())?)
        }
    };
    Ok(Opened { source, control, pool, address })
}

/// What a board has answered before the run.
pub struct AskedBoard {
    /// What it is.
    pub facts: BoardFacts,
    /// What another program does with it.
    pub taken: Option<ControlError>,
    /// The first of the parameters that it cannot be set to, and what is wrong with it.
    pub refused: Option<ControlError>,
}

/// Asks the board that a URL names what it is, and checks its parameters; `None` of sources that are no board with a control port.
///
/// # Errors
/// When it cannot be reached, or is not such a board.
pub fn ask_board(settings: &Settings) -> Result<Option<AskedBoard>, SourceError> {
    let Some(mut board) = open_board(settings)? else { return Ok(None) };
    let facts = board.facts(&settings.parameters);
    let (taken, refused) = (board.check_idle().err(), board.check_all(&settings.parameters).err());
    Ok(Some(AskedBoard { facts, taken, refused }))
}

/// Makes the board that a URL names idle, for a run that has its boards to itself.
///
/// # Errors
/// When it cannot be reached, or goes on to run.
pub fn take_board(settings: &Settings) -> Result<(), SourceError> {
    let Some(mut board) = open_board(settings)? else { return Ok(()) };
    let idle = make_idle(&mut *board).and_then(|_reported| board.check_idle());
    idle.map_err(|error| SourceError { place: settings.url.to_string(), message: error.message })
}

/// Opens the control port of the board that a URL names; `None` of sources that are no board with one.
fn open_board(settings: &Settings) -> Result<Option<Box<dyn BoardControl>>, SourceError> {
    let Endpoint::Board { entry, host } = settings.url.endpoint() else { return Ok(None) };
    let failed = |message: String| SourceError { place: settings.url.to_string(), message };
    let address = host.resolve().map_err(|cause| failed(no_address(host, &cause)))?;
    let board = BoardPlace { entry, address }.open(CONNECT_WAIT);
    board.map(Some).map_err(|error| failed(error.message))
}

fn no_address(host: &HostPort, cause: &std::io::Error) -> String {
    format!("`{}` has no address: {cause}; check the name or give the number", host.host)
}

/// A board's data and its control.
type SourceAndControl = (Box<dyn Source>, Box<dyn DeviceControl>);

/// The inputs needed to open one endpoint.
pub(crate) struct Opening<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) pool: Pool,
    pub(crate) clock: RunClock,
    pub(crate) busy: Option<Arc<Busy>>,
    pub(crate) place: &'a str,
}

impl Opening<'_> {
    pub(crate) fn failed(&self, message: String) -> SourceError {
        SourceError { place: self.place.to_owned(), message }
    }

    pub(crate) fn resolve(&self, host: &HostPort) -> Result<SocketAddr, SourceError> {
        host.resolve().map_err(|cause| self.failed(no_address(host, &cause)))
    }

    /// Whose datagrams are taken, by their hosts' addresses.
    pub(crate) fn senders(&self, from: &[HostAndPort]) -> Result<ExpectedSenders, SourceError> {
        let peer = |(host, port): &HostAndPort| {
            let address = self.resolve(&HostPort { host: host.clone(), port: port.unwrap_or(0) })?;
            Ok(SenderAddress { address: address.ip(), port: *port })
        };
        Ok(ExpectedSenders::of(from.iter().map(peer).collect::<Result<Vec<_>, _>>()?))
    }

    pub(crate) fn udp_settings(&self, bind: SocketAddr) -> UdpReceiverSettings {
        let settings = self.settings;
        let asked = settings.receive_buffer_bytes.map_or(DATAGRAM_BUFFER_BYTES, |bytes| bytes as usize);
        UdpReceiverSettings {
            backend: match settings.backend {
                DatagramBackend::Auto => Backend::Auto,
                DatagramBackend::Recvmmsg => Backend::Slots,
                DatagramBackend::Gro => Backend::Coalesced,
                DatagramBackend::Ring => Backend::Ring,
                DatagramBackend::Xdp => Backend::Xdp,
            },
            policy: match settings.policy {
                BlockPolicy::Drop => FullPolicy::Drop,
                BlockPolicy::Hold | BlockPolicy::Busy => FullPolicy::Hold,
            },
            receive_buffer_bytes: asked,
            ..UdpReceiverSettings::new(bind, settings.datagram_bytes as usize)
        }
    }

    pub(crate) fn udp(&self, settings: UdpReceiverSettings) -> Result<UdpReceiver, SourceError> {
        UdpReceiver::open(settings, self.pool.clone()).map_err(|error| source_error(self.place, &error))
    }

    pub(crate) fn udp_source(&self, receiver: UdpReceiver) -> UdpSource {
        UdpSource::new(receiver, self.clock, self.busy.clone(), self.place)
    }

    fn tcp(&self, address: SocketAddr) -> Result<TcpSource, SourceError> {
        self.tcp_within(address, CONNECT_WAIT)
    }

    pub(crate) fn tcp_within(
        &self,
        address: SocketAddr,
        connect_wait: Duration,
    ) -> Result<TcpSource, SourceError> {
        let settings = TcpReceiverSettings {
            address,
            receive_buffer_bytes: self.settings.receive_buffer_bytes.map_or(0, |bytes| bytes as usize),
            connect_wait,
        };
        let receiver = TcpReceiver::connect(&settings, self.pool.clone())
            .map_err(|error| source_error(self.place, &error))?;
        Ok(TcpSource::new(receiver, self.clock, self.busy.clone(), self.place))
    }

    /// Opens the board by its control port; its data come as it says: a stream, or datagrams.
    fn board(&self, place: BoardPlace) -> Result<SourceAndControl, SourceError> {
        let refused = |error: ControlError| self.failed(error.to_string());
        let mut board = place.open_idle(CONNECT_WAIT).map_err(refused)?;
        let address = place.address;
        let (source, reopen): (Box<dyn Source>, Reopen) = match board.data() {
            None => return Err(self.failed("the board names no place of its data".to_owned())),
            Some(DataPlace::Stream(port)) => {
                let source = self.tcp(SocketAddr::new(address.ip(), port))?;
                (Box::new(source), Reopen::Stream(self.streams_of(address)))
            }
            Some(DataPlace::Datagrams(port)) => {
                let data = SocketAddr::new(address.ip(), port);
                let local = local_address_towards(data).map_err(|cause| {
                    self.failed(format!(
                        "no route leads to {}: {cause}; check address and interface",
                        address.ip()
                    ))
                })?;
                let settings = UdpReceiverSettings { connect: Some(data), ..self.udp_settings(local) };
                let mut receiver = self.udp(settings)?;
                let socket = receiver.sending_socket();
                let socket = socket.map_err(|cause| self.failed(format!("{cause}; close other programs")))?;
                let port = socket.local_addr().map_or(0, |local| local.port());
                let send = || receiver.send_empty().map_err(|error| error.to_string());
                place.introduce(&mut *board, port, send, CONNECT_WAIT).map_err(refused)?;
                (Box::new(self.udp_source(receiver)), Reopen::Datagrams(socket))
            }
        };
        board.prepare(&self.settings.parameters).map_err(refused)?;
        let (link, reopens) = (Arc::<BoardLink>::default(), self.settings.reconnect);
        let source = BoardSource::new(source, link.clone(), self.clock, reopens);
        let keeper = BoardKeeper::new((place, board), self.settings, link, reopens.then_some(reopen));
        Ok((Box::new(source), Box::new(keeper)))
    }

    /// Opens the data connection of the board at `address` once more, at the port that it names then.
    fn streams_of(&self, address: SocketAddr) -> OpenStream {
        let (settings, pool, clock) = (self.settings.clone(), self.pool.clone(), self.clock);
        let (busy, place) = (self.busy.clone(), self.place.to_owned());
        Box::new(move |data: Option<DataPlace>| {
            let failed = |message: String| ControlError { board: place.clone(), message };
            let Some(DataPlace::Stream(port)) = data else {
                return Err(failed("its data came as a stream before, and come as datagrams now".to_owned()));
            };
            let (settings, busy) = (&settings, busy.clone());
            let opening = Opening { settings, pool: pool.clone(), clock, busy, place: &place };
            let source = opening.tcp(SocketAddr::new(address.ip(), port));
            source.map(|source| Box::new(source) as Box<dyn Source>).map_err(|error| failed(error.message))
        })
    }
}
