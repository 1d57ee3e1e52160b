//! From one `[[source]]` of triggered boards to its links.
//!
//! ```text
//!  tcp://192.168.10.{16..120}:24   105 links, connected at the same time ─┐
//!  udp://0.0.0.0:5000              one link, any number of boards         ├─► Link { socket, framing, way back } ─► Group
//!  emulate://                      links, and the boards at their other end ┘   control: registers of SiTCP boards
//!  file:// pcap://                 what was recorded of them
//! ```
//! Link i carries the boards with wire numbers `first_board + i · boards ..`, and these have the source numbers
//! `first_source + i · boards ..`, so that all boards of a range are numbered as they stand.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thalweg_data::{
    Busy, DeviceControl, FragmentRecord, Fragments, Framing, LinkId, Pool, Source, SourceError, SourceId,
};
use thalweg_frontend::FORMATS;
use thalweg_frontend::format::{EmulatedBoards, EmulatedLinks, EmulatedShape, FragmentFormat};
use thalweg_transport::{UdpReceiverSettings, raise_open_files};

use crate::clock::RunClock;
use crate::control::{BoardPlace, SetWhenArmed};
use crate::file::FileSource;
use crate::group::{Link, Reopen};
use crate::host::triggered::{HostedLink, HostedRegisters, Outlet};
use crate::open::{CONNECT_WAIT, Opening};
use crate::pcap::{PcapFilter, PcapSource};
use crate::pool_refusal::pool_refusal;
use crate::settings::{BlockPolicy, Settings};
use crate::url::{Endpoint, HostPort};

/// How long a board may take to be connected to again: one that is not there holds up only other ones that are not.
const RECONNECT_WAIT: Duration = Duration::from_millis(500);
/// Files that a run has open beside its links: recordings, threads' wake-ups, standard streams.
const OTHER_FILES: usize = 32;
/// Boards that are connected to at the same time.
const CONNECTING: usize = 16;

/// One source of triggered boards.
#[derive(Clone, Copy)]
pub struct LinkSettings<'a> {
    /// Its endpoint.
    pub endpoint: &'a Settings,
    /// What the boards speak, and how many are behind each link. Of `emulate://` over streams, how many links of one
    /// board there are.
    pub boards: &'a dyn FragmentFormat,
    /// Of `emulate://`: what the boards are like; without it the defaults.
    pub emulated: Option<&'a dyn EmulatedBoards>,
    /// Number of the first board.
    pub first_source: SourceId,
}

/// The numbers of links and boards of a source, and the memory for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Sockets.
    pub links: usize,
    /// Boards behind each: so many sources.
    pub boards_per_link: u16,
    /// Blocks of each link.
    pub blocks: usize,
    /// Bytes of each block.
    pub block_bytes: usize,
}

impl LinkPlan {
    /// Boards of all links together: they take so many source numbers.
    pub fn boards(&self) -> usize {
        self.links * usize::from(self.boards_per_link)
    }

    /// Memory for received bytes, all links together.
    pub fn memory_bytes(&self) -> u64 {
        (self.links * self.blocks * self.block_bytes) as u64
    }
}

/// A source of triggered boards, ready to be read.
pub struct OpenedLinks {
    /// Its links, for a [`Group`](crate::group::Group), in order.
    pub links: Vec<Link<Fragments>>,
    /// The blocks of each link.
    pub pools: Vec<Pool>,
    /// The registers of each board that has some: armed before the run.
    pub controls: Vec<Box<dyn DeviceControl>>,
    /// Of `emulate://`: the other ends, for [`HostedBoards`](crate::host::triggered::HostedBoards), which triggers those of all
    /// sources together.
    pub hosted: Vec<HostedLink>,
    /// What was opened.
    pub plan: LinkPlan,
}

impl OpenedLinks {
    /// Has emulated boards, which are triggered so often, write down what they answer, for the framing of their links to say which of it has
    /// come. Returns the records, board by board; none of boards that are not emulated here.
    pub fn ask_boards(&mut self, rate_hz: f64) -> Vec<Arc<FragmentRecord>> {
        let mut all = Vec::new();
        for (link, end) in self.links.iter_mut().zip(&mut self.hosted) {
            end.records = end.boards.iter().map(|_| Arc::new(FragmentRecord::new(rate_hz))).collect();
            link.framing.ask(end.records.clone());
            all.extend(end.records.iter().cloned());
        }
        all
    }
}

impl LinkSettings<'_> {
    /// How many links, boards and blocks the source has. Opens nothing.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub fn plan(&self) -> Result<LinkPlan, String> {
        self.endpoint.check()?;
        let per_link = self.boards.boards_per_link();
        let (links, boards_per_link) = match self.endpoint.url.endpoint() {
            Endpoint::Emulate if self.emulates_streams() => (usize::from(per_link), 1),
            _ => (self.endpoint.url.endpoints().len(), per_link),
        };
        if self.boards.is_named_by_sender() {
            self.check_senders(boards_per_link)?;
        }
        if links > 1 && !self.boards.offsets().is_empty() {
            return Err("`without` is for one port with several boards; of a range of links leave the board's own out, \
                        as in {16..40,42..120}"
                .to_owned());
        }
        let (blocks, block_bytes) = self.endpoint.link_pool_shape(links, self.boards.longest_unit())?;
        let plan = LinkPlan { links, boards_per_link, blocks, block_bytes };
        let room = (1 << 16) - usize::from(self.first_source.0);
        if plan.boards() > room {
            return Err(format!(
                "{} boards from {} on; there are 65536 sources",
                plan.boards(),
                self.first_source
            ));
        }
        for link in [0, links.saturating_sub(1)].map(LinkId::from_index) {
            self.boards.of_link(link, boards_per_link)?.check(self.source_of(link, boards_per_link))?;
        }
        Ok(plan)
    }

    /// Whether the URL names the address of each board, where that says which board sent a datagram. Recordings have noted it.
    fn check_senders(&self, boards_per_link: u16) -> Result<(), String> {
        let senders = match self.endpoint.url.endpoint() {
            Endpoint::Udp { from, .. } => from.len(),
            Endpoint::Pcap { from, .. } => from.len(),
            Endpoint::File(_) | Endpoint::Emulate | Endpoint::Tcp(_) | Endpoint::Board { .. } => {
                return Err(format!(
                    "boards are named by the sender of their datagrams, which {}:// does not know; use udp:// or pcap://",
                    self.endpoint.url.scheme()
                ));
            }
        };
        if senders == usize::from(boards_per_link) {
            return Ok(());
        }
        Err(format!(
            "{boards_per_link} boards are named by their senders, and the URL names {senders}: write each address once, in the \
             order of the boards, as in udp://0.0.0.0:5000?from=10.0.1.{{1..{boards_per_link}}}"
        ))
    }

    /// The framing of one link, as for a recording of it.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub fn framing(
        &self,
        link: LinkId,
        is_stream: bool,
    ) -> Result<Box<dyn Framing<Output = Fragments>>, String> {
        let boards_per_link = self.plan()?.boards_per_link;
        let own = self.boards.of_link(link, boards_per_link)?;
        own.framing(self.source_of(link, boards_per_link), is_stream)
    }

    fn source_of(&self, link: LinkId, boards_per_link: u16) -> SourceId {
        self.first_source.plus((link.index() * usize::from(boards_per_link)) as u16)
    }

    /// Sockets that this process has open for the source, those of emulated boards included.
    fn sockets(&self, plan: &LinkPlan) -> usize {
        let registers = usize::from(self.boards.control().is_some());
        let per_link = match self.endpoint.url.endpoint() {
            // Where the board listens, and both ends of the connection.
            Endpoint::Emulate if self.emulates_streams() => 3 + 2 * registers,
            Endpoint::Emulate => 2,
            _ => 1 + registers,
        };
        plan.links * per_link
    }

    /// Whether its links give a stream each, or datagrams.
    pub fn gives_streams(&self) -> bool {
        match self.endpoint.url.endpoint() {
            Endpoint::Emulate => self.emulates_streams(),
            _ => self.endpoint.gives_stream().unwrap_or(true),
        }
    }

    fn emulates_streams(&self) -> bool {
        self.boards.emulates_streams(self.emulated)
    }

    /// The boards at the other end, emulated.
    pub(crate) fn emulated_links(&self, plan: LinkPlan) -> Result<Box<dyn EmulatedLinks>, String> {
        let is_stream = match self.endpoint.url.endpoint() {
            Endpoint::Tcp(_) => Some(true),
            Endpoint::Udp { .. } => Some(false),
            _ => None,
        };
        let LinkPlan { links, boards_per_link, .. } = plan;
        self.boards.emulated(self.emulated, EmulatedShape { links, boards_per_link, is_stream })
    }
}

/// Opens all links of a source; TCP boards are connected to at the same time. Paths are taken as they are. `busy` is raised by
/// the policy of that name.
///
/// # Errors
/// When settings do not fit together, or a link cannot be opened: which, how many more, and what to do.
pub fn open_links(
    settings: &LinkSettings<'_>,
    clock: RunClock,
    busy: &Arc<Busy>,
) -> Result<OpenedLinks, SourceError> {
    let place = settings.endpoint.url.to_string();
    let failed = |message: String| SourceError { place: place.clone(), message };
    let plan = settings.plan().map_err(failed)?;
    check_open_files(settings.sockets(&plan), &place)?;
    let policy_busy = (settings.endpoint.policy == BlockPolicy::Busy).then(|| busy.clone());
    let mut pools = Vec::with_capacity(plan.links);
    for _ in 0..plan.links {
        let pool = Pool::of(plan.blocks, plan.block_bytes, settings.endpoint.memory());
        pools.push(pool.map_err(|error| failed(pool_refusal(&error)))?);
    }
    let opener = Opener { settings, plan, clock, busy: policy_busy, pools: &pools, place: &place };
    let (lives, hosted, control_ports) = opener.open_all()?;
    let mut links = Vec::with_capacity(plan.links);
    for (index, Opened { live, reopen }) in lives.into_iter().enumerate() {
        let link = LinkId::from_index(index);
        let source = settings.source_of(link, plan.boards_per_link);
        let own = settings.boards.of_link(link, plan.boards_per_link).map_err(failed)?;
        let framing = own.framing(source, live.is_stream()).map_err(failed)?;
        links.push(Link { source, live, framing, reopen });
    }
    let mut controls: Vec<Box<dyn DeviceControl>> = Vec::new();
    for place in control_ports {
        let control = place
            .open(CONNECT_WAIT)
            .and_then(|control| SetWhenArmed::new(control, settings.endpoint.parameters.clone()));
        controls.push(Box::new(control.map_err(|error| failed(error.to_string()))?));
    }
    if controls.is_empty() && !settings.endpoint.parameters.is_empty() {
        return Err(failed("`parameters` are registers, which these boards do not have".to_owned()));
    }
    Ok(OpenedLinks { links, pools, controls, hosted, plan })
}

/// Raises the limit of open files, and refuses what needs more sockets than even that.
fn check_open_files(sockets: usize, place: &str) -> Result<(), SourceError> {
    // A limit that cannot be read is found out by the socket that cannot be made.
    let Ok(limit) = raise_open_files() else { return Ok(()) };
    let needed = (sockets + OTHER_FILES) as u64;
    if needed <= limit {
        return Ok(());
    }
    let message = format!(
        "{sockets} sockets are needed and some {OTHER_FILES} files besides, but the hard limit of open files is {limit}: raise \
         it (`ulimit -Hn {needed}` as root, `LimitNOFILE={needed}` in a systemd unit), or have fewer links"
    );
    Err(SourceError { place: place.to_owned(), message })
}

struct Opened {
    live: Box<dyn Source>,
    reopen: Option<Reopen>,
}

/// Links, the emulated boards at their other ends, and where the boards are controlled.
type OpenedAll = (Vec<Opened>, Vec<HostedLink>, Vec<BoardPlace>);

struct Opener<'a> {
    settings: &'a LinkSettings<'a>,
    plan: LinkPlan,
    clock: RunClock,
    busy: Option<Arc<Busy>>,
    pools: &'a [Pool],
    place: &'a str,
}

impl Opener<'_> {
    fn failed(&self, message: String) -> SourceError {
        SourceError { place: self.place.to_owned(), message }
    }

    fn opening<'p>(&'p self, link: LinkId, place: &'p str) -> Opening<'p> {
        let (pool, busy) = (self.pools[link.index()].clone(), self.busy.clone());
        Opening { settings: self.settings.endpoint, pool, clock: self.clock, busy, place }
    }

    fn open_all(&self) -> Result<OpenedAll, SourceError> {
        let endpoint = self.settings.endpoint;
        match endpoint.url.endpoint() {
            Endpoint::Tcp(_) => self.open_tcp(),
            Endpoint::Udp { .. } => {
                let endpoints = endpoint.url.endpoints().iter().enumerate();
                let lives =
                    endpoints.map(|(link, endpoint)| self.open_udp(LinkId::from_index(link), endpoint));
                Ok((lives.collect::<Result<_, _>>()?, Vec::new(), Vec::new()))
            }
            Endpoint::Emulate => self.emulate(),
            Endpoint::File(path) => {
                let mut paths: Vec<PathBuf> = vec![path.clone()];
                paths.extend(endpoint.continuations.iter().cloned());
                let source = FileSource::open(&paths, self.pools[0].clone(), self.clock)?;
                Ok(self.recorded(Box::new(source)))
            }
            Endpoint::Pcap { path, port, from } => {
                let filter = PcapFilter::of(*port, from);
                let source = PcapSource::open(path, filter, self.pools[0].clone())?;
                Ok(self.recorded(Box::new(source)))
            }
            Endpoint::Board { entry, .. } => {
                let scheme = entry.scheme;
                let mut families = FORMATS.iter().filter(|format| format.control == Some(entry));
                let family = families.next().map_or("", |format| format.word);
                Err(self
                    .failed(format!("{scheme}:// boards are self-triggered; use `format = \"{family}\"`")))
            }
        }
    }

    fn recorded(&self, live: Box<dyn Source>) -> OpenedAll {
        (vec![Opened { live, reopen: None }], Vec::new(), Vec::new())
    }

    fn open_udp(&self, link: LinkId, endpoint: &Endpoint) -> Result<Opened, SourceError> {
        let Endpoint::Udp { bind, from } = endpoint else {
            return Err(self.failed("not all links are udp://".to_owned()));
        };
        let place = format!("udp://{bind}");
        let opening = self.opening(link, &place);
        let from = opening.senders(from)?;
        let receiver = opening.udp(UdpReceiverSettings { from, ..opening.udp_settings(*bind) })?;
        Ok(Opened { live: Box::new(opening.udp_source(receiver)), reopen: None })
    }

    /// Connects to all boards at the same time, a few at once; reports all that do not answer.
    fn open_tcp(&self) -> Result<OpenedAll, SourceError> {
        let endpoints = self.settings.endpoint.url.endpoints();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((link, endpoint)) = {
                let link = next.fetch_add(1, Ordering::Relaxed);
                endpoints.get(link).map(|endpoint| (link, endpoint))
            } {
                done.push((link, self.connect(LinkId::from_index(link), endpoint)));
            }
            done
        };
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTING.min(endpoints.len())).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        all.sort_by_key(|(link, _)| *link);
        let (mut lives, mut ports, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for (_, result) in all {
            match result {
                Ok((opened, port)) => {
                    lives.push(opened);
                    ports.extend(port);
                }
                Err(error) => failures.push(error),
            }
        }
        if let Some(first) = failures.first() {
            let (some, links) = (failures.len(), endpoints.len());
            let others =
                if links > 1 { format!("{some} of {links} boards; the first: ") } else { String::new() };
            return Err(self.failed(format!("{others}{first}")));
        }
        if lives.len() < endpoints.len() {
            return Err(self.failed("not every board could be connected to".to_owned()));
        }
        Ok((lives, Vec::new(), ports))
    }

    /// One board: its connection, the way back to it, and where it is controlled.
    fn connect(
        &self,
        link: LinkId,
        endpoint: &Endpoint,
    ) -> Result<(Opened, Option<BoardPlace>), SourceError> {
        let Endpoint::Tcp(host) = endpoint else {
            return Err(self.failed("not all links are tcp://".to_owned()));
        };
        let place = format!("tcp://{host}");
        let opening = self.opening(link, &place);
        let address = opening.resolve(host)?;
        let live = Box::new(opening.tcp_within(address, CONNECT_WAIT)?);
        let reopen = self.settings.endpoint.reconnect.then(|| self.reopen(link, host));
        let control = self.settings.boards.control().map(|entry| {
            let port = self.settings.endpoint.register_port.unwrap_or(entry.port);
            BoardPlace { entry, address: SocketAddr::new(address.ip(), port) }
        });
        Ok((Opened { live, reopen }, control))
    }

    fn reopen(&self, link: LinkId, host: &HostPort) -> Reopen {
        let (settings, host) = (self.settings.endpoint.clone(), host.clone());
        let (pool, clock, busy) = (self.pools[link.index()].clone(), self.clock, self.busy.clone());
        Box::new(move || {
            let place = format!("tcp://{host}");
            let (pool, busy) = (pool.clone(), busy.clone());
            let opening = Opening { settings: &settings, pool, clock, busy, place: &place };
            let address = opening.resolve(&host)?;
            Ok(Box::new(opening.tcp_within(address, RECONNECT_WAIT)?))
        })
    }

    /// Links and the boards at their other end, all on loopback.
    fn emulate(&self) -> Result<OpenedAll, SourceError> {
        let boards = self.settings.emulated_links(self.plan).map_err(|message| self.failed(message))?;
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let (mut lives, mut hosted, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for link in (0..self.plan.links).map(LinkId::from_index) {
            if !self.settings.emulates_streams() {
                let opening = self.opening(link, self.place);
                let receiver = opening.udp(opening.udp_settings(local))?;
                let to = receiver.local_address().map_err(|cause| self.failed(cause.to_string()))?;
                lives.push(Opened { live: Box::new(opening.udp_source(receiver)), reopen: None });
                hosted.push(HostedLink::new(Outlet::Datagrams(to), boards.behind(link).0));
                continue;
            }
            let outlet = Outlet::listen(local).map_err(|error| self.failed(error.to_string()))?;
            let address =
                outlet.local_address().ok_or_else(|| self.failed("no address to listen at".to_owned()))?;
            let host = HostPort { host: address.ip().to_string(), port: address.port() };
            let (opened, _) = self.connect(link, &Endpoint::Tcp(host))?;
            lives.push(opened);
            let (own, registers) = boards.behind(link);
            let mut end = HostedLink::new(outlet, own);
            if let (Some(registers), Some(entry)) = (registers, self.settings.boards.control()) {
                let failed = |cause: std::io::Error| self.failed(format!("register port: {cause}"));
                let socket = UdpSocket::bind(local).map_err(failed)?;
                ports.push(BoardPlace { entry, address: socket.local_addr().map_err(failed)? });
                end.registers = Some(HostedRegisters { socket, registers });
            }
            hosted.push(end);
        }
        Ok((lives, hosted, ports))
    }
}
