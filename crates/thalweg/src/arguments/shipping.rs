//! Arguments of the commands that copy recordings: `ship` and `receive`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Ship {
    /// A run's directory, or one that holds runs.
    #[arg(value_name = "RUN", required_unless_present = "config")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where to: receive://HOST:PORT[/FOLDER], receives:// with TLS, file:///MOUNTED/PATH, s3://BUCKET[/PREFIX] or
    /// webdav+https://HOST/PATH; may be given again. Where a bucket is, --endpoint says.
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    pub(crate) to: Vec<String>,
    /// Take what is not given here from [ship] of a configuration, and the runs from its [record] directory.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Go on: ship what is written meanwhile, and every run that comes, until each RUN has ended or Ctrl-C.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Files that go to one destination at a time; 4 unless said otherwise.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) streams: Option<u16>,
    /// Most bytes per second, over all destinations.
    #[arg(long, value_name = "BYTES")]
    pub(crate) limit_bytes_per_s: Option<u64>,
    /// Compete with data taking for cores and disk as an equal; else shipping uses what data taking leaves.
    #[arg(long)]
    pub(crate) no_yield: bool,
    /// Address of the store that has the buckets of s3://, such as https://s3.example.org:9000.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// Region of that store.
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Speak plain http with stores at other hosts, too.
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// When files are shipped, UTC, such as 22:00-06:00; may be given again.
    #[arg(long = "window", value_name = "FROM-TO")]
    pub(crate) windows: Vec<String>,
    /// In a directory of runs, leave out so many of the newest.
    #[arg(long, value_name = "RUNS")]
    pub(crate) stay_behind: Option<u64>,
    /// File with the token that the receiver has, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// PEM file of the authorities that certificates of receives:// are checked against; without it, those that this host trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Without --follow, give a destination up that could not be reached for so many seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) give_up_after_s: u64,
    /// With --json and --follow, print the progress as one JSON object a line, this often.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) progress_every_s: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// Where to listen; other hosts than this one need a token.
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Directory for what comes: RUN/FILE, or FOLDER/RUN/FILE where a shipper names a folder.
    #[arg(long)]
    pub(crate) directory: PathBuf,
    /// File with the token that shippers have, too: at least 16 characters, such as the output of `openssl rand -hex 32`.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate chain of this host, PEM: shippers write receives:// then.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
}
