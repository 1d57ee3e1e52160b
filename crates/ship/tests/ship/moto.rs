//! The same against a store that others have written: moto (`pip install 'moto[s3]' flask flask-cors`), where it is installed.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::ended::Ended;
use crate::faults::Choices;
use crate::s3::{RUN, assert_nothing_remembered, open_as, ship};
use crate::s3_server::BUCKET;

/// Least bytes of a part that is not the last, by S3's rule, which moto keeps.
const PART: u64 = 5 << 20;

struct Moto {
    _process: Ended,
    address: SocketAddr,
}

impl Moto {
    /// Starts it; `None` where it is not installed. `THALWEG_MOTO` names its program where that is not in the path.
    fn start() -> Option<Moto> {
        let program = std::env::var_os("THALWEG_MOTO").unwrap_or_else(|| "moto_server".into());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, thalweg_prerequisite::free_port()));
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            let install = "moto is not installed; `pip install 'moto[s3]' flask flask-cors`, or set THALWEG_MOTO to its moto_server";
            thalweg_prerequisite::skip(install);
            return None;
        };
        let moto = Moto { _process: Ended(child), address };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "moto_server does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(moto)
    }

    /// Asks it for something without a signature, which it does not check.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("listens");
        let host = self.address;
        let key = "AWS4-HMAC-SHA256 Credential=test/20261126/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {key}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[test]
fn moto_has_the_bytes_that_were_shipped_after_cuts_and_keeps_no_upload() {
    let Some(moto) = Moto::start() else { return };
    let made = moto.ask("PUT", &format!("/{BUCKET}"));
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    let run = tempfile::tempdir().expect("temporary folder");
    let endpoint = format!("http://{}", moto.address);
    let mut choices = Choices(3);
    for (file, bytes) in [("empty.json", 0), ("run.json", 1234), ("hits.arrows", 3 * PART + 77)] {
        let bytes = choices.bytes(bytes);
        fs::write(run.path().join(file), &bytes).expect("written");
        // A few parts, and then the program is gone: its destination is dropped between two calls.
        for parts in [1, 2] {
            let mut bucket = open_as("test", BUCKET, &endpoint, run.path());
            let mut asked = 0;
            let local = thalweg_ship::local_file::LocalFile::open(
                &run.path().join(file),
                thalweg_ship::message::FileKind::Whole,
            );
            let shipment = thalweg_ship::shipment::Shipment::new(local.expect("there"), RUN, file);
            let mut shipment = shipment.with_range_bytes(PART);
            while asked < parts && bytes.len() as u64 > PART {
                shipment.step(&mut bucket, true, None, &mut |_| Ok(())).expect("a part");
                asked += 1;
            }
        }
        let mut bucket = open_as("test", BUCKET, &endpoint, run.path());
        let digests = ship(&mut bucket, run.path(), file, PART).expect("shipped");
        assert_eq!(digests.bytes, bytes.len() as u64);
        let answer = moto.ask("HEAD", &format!("/{BUCKET}/{RUN}/{file}")).to_lowercase();
        assert!(answer.contains(&format!("x-amz-meta-md5: {}", digests.md5)), "{answer}");
        assert!(answer.contains(&format!("content-length: {}", bytes.len())), "{answer}");
        let uploads = moto.ask("GET", &format!("/{BUCKET}?uploads="));
        assert!(!uploads.contains("<UploadId>"), "{uploads}");
        assert_nothing_remembered(run.path());
    }
    let error = ship(&mut open_as("test", "elsewhere", &endpoint, run.path()), run.path(), "run.json", PART);
    let error = error.expect_err("no bucket").to_string();
    assert!(error.contains("NoSuchBucket") && error.contains("make the bucket"), "{error}");
}
