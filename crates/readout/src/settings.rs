//! What the configuration says about a source's endpoint.
//!
//! ```text
//!  [[source]] url, backend, policy, … ─► Settings ─ check ─► pool and sockets
//! ```

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{HugePages, Memory};
use thalweg_transport::udp::MESSAGE_ROOM_BYTES;

use crate::url::{Endpoint, SourceUrl};

/// How datagrams are read from the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatagramBackend {
    /// The better of the two, by what is measured while running.
    #[default]
    Auto,
    /// Many datagrams per system call, each in a slot of its own.
    Recvmmsg,
    /// Datagrams that the kernel has coalesced (`UDP_GRO`).
    Gro,
    /// Packets from the kernel's ring beside the socket (`TPACKET_V3`): needs the right to open packet sockets
    /// (`CAP_NET_RAW`, as of root).
    Ring,
    /// Frames from the interface, before the kernel's network layers (`AF_XDP`): needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`, as of
    /// root, a url with the address of one interface, and that interface for itself.
    Xdp,
}

/// What happens when no block of memory is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockPolicy {
    /// Stop reading: a stream's sender waits; datagrams gather in the kernel's buffer and are lost there when it is full.
    #[default]
    Hold,
    /// Read on and count what is dropped.
    Drop,
    /// As `hold`, and ask the trigger to hold back.
    Busy,
}

/// What a board may be given to arm, seconds.
const ARM_TIMEOUT_S: RangeInclusive<f64> = 0.1..=3600.0;

/// Bytes per block, unless configured.
const BLOCK_BYTES: u32 = 512 << 10;

/// Bytes of all blocks of a source, unless configured.
const MEMORY_BYTES: u64 = 64 << 20;

/// Blocks of a link of a group, unless configured.
const LINK_BLOCKS: usize = 8;

/// One source's endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the data come from: udp://ADDRESS:PORT, tcp://HOST:PORT, dig2://HOST, emulate://, file://PATH or pcap://PATH.
    pub url: SourceUrl,
    /// How datagrams are read.
    #[serde(default)]
    pub backend: DatagramBackend,
    /// What happens when no block is free.
    #[serde(default)]
    pub policy: BlockPolicy,
    /// The kernel's receive buffer to ask for, bytes; without it 64 MiB for datagrams, and the kernel's choice for streams.
    #[serde(default)]
    pub receive_buffer_bytes: Option<u32>,
    /// Bytes per block of memory, a multiple of 64: a unit of a stream must fit one, except for what comes in parts (aggregates and records
    /// of digitizer2 boards). Without it 524288; of several links of triggered boards 65536, or twice the longest unit that is configured.
    #[serde(default)]
    pub block_bytes: Option<u32>,
    /// Bytes of all blocks of this source, shared by its links. Without it 67108864, and at least 8 blocks for each link.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Whether that memory is made of large pages: `"try"` where the system has them, `"require"` those that were reserved
    /// (`vm.nr_hugepages`), or `"off"`.
    #[serde(default)]
    pub huge_pages: HugePages,
    /// The NUMA node that this memory is on; without it, that of the core which reads the source.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// Whether units in other processes of this host may read the received bytes where they lie, as whoever opens it decides.
    #[serde(skip)]
    pub is_shared: bool,
    /// Longest datagram that is taken, bytes.
    #[serde(default = "default_datagram_bytes")]
    pub datagram_bytes: u32,
    /// Files that are read behind the one in the URL as if they were its end.
    #[serde(default)]
    pub continuations: Vec<PathBuf>,
    /// Parameters that are set before the run, in this order: of a dig2:// board [["/par/…", "value"], …], of SiTCP boards
    /// registers by name or address, [["mode", "raw"], ["0x1c:2", "3500"]].
    #[serde(default)]
    pub parameters: Vec<(String, String)>,
    /// UDP port at which SiTCP boards are asked for their registers; without it 4660.
    #[serde(default)]
    pub register_port: Option<u16>,
    /// Whether a connection that a triggered board has closed is opened again, and a dig2:// board that went away in the run
    /// is opened, armed and started again when it answers.
    #[serde(default = "default_reconnect")]
    pub reconnect: bool,
    /// How long a dig2:// board may take until it reports that it is armed, seconds; without it 10. No board is started before all are armed.
    #[serde(default)]
    #[schemars(range(min = 0.1, max = 3600))]
    pub arm_timeout_s: Option<f64>,
}

fn default_reconnect() -> bool {
    true
}

fn default_datagram_bytes() -> u32 {
    9216
}

impl Settings {
    /// Settings with every default.
    pub fn new(url: SourceUrl) -> Settings {
        Settings {
            url,
            backend: DatagramBackend::default(),
            policy: BlockPolicy::default(),
            receive_buffer_bytes: None,
            block_bytes: None,
            memory_bytes: None,
            huge_pages: HugePages::default(),
            numa_node: None,
            is_shared: false,
            datagram_bytes: default_datagram_bytes(),
            continuations: Vec::new(),
            parameters: Vec::new(),
            register_port: None,
            reconnect: default_reconnect(),
            arm_timeout_s: None,
        }
    }

    /// Number of blocks of each of `links`, and bytes of each block, where a unit has at most `unit_bytes` (0: not known).
    ///
    /// What the configuration says is divided among the links. Where it says nothing, every link gets 8 blocks of 64 KiB, or of
    /// twice the longest unit; a single link has the room of a source.
    ///
    /// # Errors
    /// When that is too little for a link: what to write.
    pub fn link_pool_shape(&self, links: usize, unit_bytes: usize) -> Result<(usize, usize), String> {
        let links = links.max(1);
        let smallest = (2 * unit_bytes).next_power_of_two().max(MESSAGE_ROOM_BYTES);
        let block_bytes = match (self.block_bytes, links) {
            (Some(configured), _) => configured as usize,
            (None, 1) => smallest.max(BLOCK_BYTES as usize),
            (None, _) => smallest,
        };
        let blocks = (self.memory_bytes() / links as u64 / block_bytes.max(1) as u64) as usize;
        let blocks = if self.memory_bytes.is_none() { blocks.max(LINK_BLOCKS) } else { blocks };
        // One is written, one is read, one is recorded, and one is left for the next.
        let most = thalweg_data::slice::BlockId::MAX_BLOCKS;
        let advice = match blocks {
            0..4 => {
                let needed = (LINK_BLOCKS * links * block_bytes) as u64;
                format!("write `memory_bytes = {needed}`, or smaller `block_bytes`")
            }
            _ if blocks > most => "write larger `block_bytes`".to_owned(),
            _ => return Ok((blocks, block_bytes)),
        };
        let each = if links > 1 { format!(" for each of {links} links") } else { String::new() };
        Err(format!(
            "`memory_bytes` = {} is {blocks} blocks of {block_bytes} bytes{each}; allowed are 4 to {most}: {advice}",
            self.memory_bytes()
        ))
    }

    /// Bytes of all blocks, as configured or by default.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.unwrap_or(MEMORY_BYTES)
    }

    /// Which memory the blocks are made of.
    pub fn memory(&self) -> Memory {
        Memory { huge_pages: self.huge_pages, numa_node: self.numa_node, is_shared: self.is_shared }
    }

    /// The same of a source that is no link of triggered boards.
    ///
    /// # Errors
    /// As of [`Settings::link_pool_shape`].
    pub fn pool_shape(&self) -> Result<(usize, usize), String> {
        self.link_pool_shape(1, 0)
    }

    /// Finds what cannot work before anything is opened, but for what [`Settings::link_pool_shape`] says of the memory.
    ///
    /// # Errors
    /// In words: which key, what was found, what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let block_bytes = self.block_bytes.unwrap_or(BLOCK_BYTES) as usize;
        let smallest = if self.takes_datagrams() { MESSAGE_ROOM_BYTES } else { 4096 };
        if !block_bytes.is_multiple_of(64) || !(smallest..=1 << 30).contains(&block_bytes) {
            return Err(format!(
                "`block_bytes` = {block_bytes}; allowed is a multiple of 64 from {smallest} to {}",
                1 << 30
            ));
        }
        if !(1..=65_507).contains(&self.datagram_bytes) {
            return Err(format!("`datagram_bytes` = {}; allowed are 1 to 65507", self.datagram_bytes));
        }
        if !self.continuations.is_empty() && self.url.scheme() != "file" {
            return Err(format!("`continuations` belong to a file:// URL, and this one is {}", self.url));
        }
        let is_controlled = self.url.control().is_some() || matches!(self.url.scheme(), "tcp" | "emulate");
        if !self.parameters.is_empty() && !is_controlled {
            let url = &self.url;
            return Err(format!("`parameters` belong to boards with a control port, and this one is {url}"));
        }
        self.check_arm_timeout()
    }

    fn check_arm_timeout(&self) -> Result<(), String> {
        match self.arm_timeout_s {
            None => Ok(()),
            Some(_) if self.url.control().is_none() => Err(format!(
                "`arm_timeout_s` belongs to boards that report when they are armed (dig2://), and this one is {}",
                self.url
            )),
            Some(seconds) if ARM_TIMEOUT_S.contains(&seconds) => Ok(()),
            Some(seconds) => Err(format!(
                "`arm_timeout_s` = {seconds}; allowed are {} to {} seconds",
                ARM_TIMEOUT_S.start(),
                ARM_TIMEOUT_S.end()
            )),
        }
    }

    /// How long a board may take until it is armed, where that is configured.
    pub fn arm_timeout(&self) -> Option<Duration> {
        self.arm_timeout_s.map(Duration::from_secs_f64)
    }

    /// The same for a source of one link.
    ///
    /// # Errors
    /// As of [`Settings::check`], and of a range of links.
    pub fn check_single(&self) -> Result<(), String> {
        self.check()?;
        if !self.parameters.is_empty() && self.url.scheme() == "emulate" {
            return Err(
                "`parameters` are set by a board's control port, and a board behind emulate:// has none; \
                 serve it with `thalweg emulate` and write its dig2:// address as `url`"
                    .to_owned(),
            );
        }
        match self.url.endpoints().len() {
            0 | 1 => Ok(()),
            _ => Err(
                "a range of links is for triggered boards; write one source for each board of this format"
                    .to_owned(),
            ),
        }
    }

    /// Whether the source gives a stream rather than datagrams; `None` of boards that are asked first.
    pub fn gives_stream(&self) -> Option<bool> {
        match self.url.endpoint() {
            Endpoint::Tcp(_) | Endpoint::File(_) => Some(true),
            Endpoint::Board { .. } => None,
            Endpoint::Udp { .. } | Endpoint::Emulate | Endpoint::Pcap { .. } => Some(false),
        }
    }

    fn takes_datagrams(&self) -> bool {
        self.gives_stream() != Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_alone_will_do() {
        let settings: Settings =
            serde_json::from_str(r#"{"url":"udp://0.0.0.0:51940"}"#).expect("all else has defaults");
        assert_eq!(settings, Settings::new("udp://0.0.0.0:51940".parse().expect("a URL")));
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.pool_shape(), Ok((128, 512 << 10)));
    }

    #[test]
    fn memory_is_divided_among_links() {
        let mut settings = Settings::new("tcp://10.0.0.{1..105}:24".parse().expect("a range"));
        assert_eq!(settings.link_pool_shape(105, 0), Ok((9, 64 << 10)), "64 MiB");
        assert_eq!(settings.link_pool_shape(512, 0), Ok((8, 64 << 10)), "256 MiB");
        assert_eq!(settings.link_pool_shape(1, 0), Ok((128, 512 << 10)));
        assert_eq!(settings.link_pool_shape(105, 70_000), Ok((8, 256 << 10)), "a unit fits, and another");
        settings.memory_bytes = Some(16 << 20);
        let refused = settings.link_pool_shape(105, 0).expect_err("too little");
        assert!(refused.contains("2 blocks") && refused.contains("`memory_bytes = 55050240`"), "{refused}");
        settings.block_bytes = Some(16 << 10);
        assert_eq!(settings.link_pool_shape(105, 0), Ok((9, 16 << 10)));
    }

    #[test]
    fn a_default_that_is_written_holds_for_each_link() {
        let written = |keys: &str| {
            serde_json::from_str::<Settings>(&format!(r#"{{"url":"emulate://"{keys}}}"#)).expect("settings")
        };
        let blocks = written(r#","block_bytes":524288"#);
        assert_eq!(blocks.link_pool_shape(2, 0), Ok((64, 512 << 10)));
        assert_eq!(blocks.link_pool_shape(300, 0), Ok((8, 512 << 10)));
        let memory = written(r#","memory_bytes":67108864"#);
        assert_eq!(memory.link_pool_shape(105, 0), Ok((9, 64 << 10)));
        assert!(memory.link_pool_shape(300, 0).expect_err("too little").contains("3 blocks"));
        assert_eq!(written("").link_pool_shape(300, 0), Ok((8, 64 << 10)));
    }

    #[test]
    fn large_blocks_without_a_size_of_the_memory_are_eight_for_each_link() {
        let mut settings = Settings::new("tcp://10.0.0.{1,2}:24".parse().expect("a range"));
        settings.block_bytes = Some(32 << 20);
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.link_pool_shape(2, 0), Ok((8, 32 << 20)));
        assert_eq!(settings.pool_shape(), Ok((8, 32 << 20)));
    }

    #[test]
    fn what_cannot_work_is_named() {
        let settings = Settings::new(SourceUrl::default());
        let message = |change: fn(&mut Settings)| {
            let mut changed = settings.clone();
            change(&mut changed);
            changed.check().expect_err("cannot work")
        };
        assert!(
            message(|s| s.block_bytes = Some(1000))
                .contains("`block_bytes` = 1000; allowed is a multiple of 64")
        );
        assert!(message(|s| s.block_bytes = Some(0)).contains("`block_bytes` = 0; allowed is"));
        let little = Settings { memory_bytes: Some(1 << 20), ..settings.clone() };
        assert!(
            little.pool_shape().expect_err("cannot work").contains("is 2 blocks of 524288 bytes; allowed")
        );
        let small = Settings { block_bytes: Some(65_536), memory_bytes: Some(1 << 50), ..settings.clone() };
        assert!(small.pool_shape().expect_err("cannot work").contains("write larger `block_bytes`"));
        assert!(message(|s| s.datagram_bytes = 0).contains("1 to 65507"));
        assert!(message(|s| s.continuations.push("b".into())).contains("file://"));
        assert!(message(|s| s.arm_timeout_s = Some(30.0)).contains("report when they are armed (dig2://)"));
        let mut board = Settings::new("dig2://board".parse().expect("a URL"));
        for (seconds, is_allowed) in
            [(30.0, true), (0.1, true), (0.0, false), (-1.0, false), (f64::NAN, false)]
        {
            board.arm_timeout_s = Some(seconds);
            assert_eq!(board.check().is_ok(), is_allowed, "{seconds} s");
        }
        assert!(board.check().expect_err("not a number").contains("allowed are 0.1 to 3600 seconds"));
        let mut emulated = Settings::new("emulate://".parse().expect("a URL"));
        emulated.parameters.push(("/par/RunDelay".to_owned(), "16".to_owned()));
        let refused = emulated.check_single().expect_err("nobody sets them");
        assert!(refused.contains("`thalweg emulate`"), "{refused}");
        assert_eq!(emulated.check(), Ok(()), "emulated triggered boards have registers");
        let unknown =
            serde_json::from_str::<Settings>(r#"{"url":"emulate://","bakend":"auto"}"#).expect_err("a typo");
        assert!(unknown.to_string().contains("bakend"), "{unknown}");
        let scheme = serde_json::from_str::<Settings>(r#"{"url":"htp://x"}"#).expect_err("a typo");
        assert!(scheme.to_string().contains("names no source"), "{scheme}");
    }
}
