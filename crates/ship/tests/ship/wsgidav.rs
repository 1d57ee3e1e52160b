//! The same against a WebDAV server that others have written: WsgiDAV (`pip install wsgidav cheroot`), where it is installed.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_ship::webdav::Collection;
use thalweg_ship::{Settings, ShipError};
use url::Url;

use crate::ended::Ended;
use crate::faults::Choices;
use crate::s3::{RUN, ship};

#[test]
fn wsgidav_has_the_files_that_were_shipped_and_nothing_else() {
    let program = std::env::var_os("THALWEG_WSGIDAV").unwrap_or_else(|| "wsgidav".into());
    let port = thalweg_prerequisite::free_port();
    let folder = tempfile::tempdir().expect("temporary folder");
    let (root, run) = (folder.path().join("root"), folder.path().join("run"));
    fs::create_dir_all(root.join("data")).and_then(|()| fs::create_dir(&run)).expect("made");
    let mut command = Command::new(program);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--auth", "anonymous", "--root"]);
    let Ok(child) = command.arg(&root).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        let install =
            "WsgiDAV is not installed; `pip install wsgidav cheroot`, or set THALWEG_WSGIDAV to its wsgidav";
        return thalweg_prerequisite::skip(install);
    };
    let _server = Ended(child);
    let until = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "wsgidav does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    let address = format!("http://127.0.0.1:{port}/data");
    let open = |address: &str| {
        let url = Url::parse(address).expect("an address");
        Collection::open(&url, "webdav+http://far/data", &Settings::default(), &Arc::default())
            .expect("settings")
    };
    // A busy server closes connections that it has kept open, which `thalweg ship` takes as a reason to try again.
    let shipped = |address: &str, file: &str| {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match ship(&mut open(address), &run, file, u64::MAX) {
                Err(ShipError::Connection { .. }) if Instant::now() < until => {}
                ended => return ended,
            }
        }
    };
    for (file, bytes) in [("empty.json", 0), ("run.json", 999), ("run.json", 1234), ("hits.arrows", 3 << 20)]
    {
        let bytes = Choices(bytes).bytes(bytes);
        fs::write(run.join(file), &bytes).expect("written");
        let digests = shipped(&address, file).expect("shipped");
        assert_eq!(digests.bytes, bytes.len() as u64);
        assert!(fs::read(root.join("data").join(RUN).join(file)).expect("there") == bytes, "{file}");
        shipped(&address, file).expect("it is there");
    }
    let entries = fs::read_dir(root.join("data").join(RUN)).expect("made").flatten();
    assert_eq!(entries.count(), 3, "nothing is left under way");
    let error = shipped(&format!("{address}/elsewhere"), "run.json").expect_err("not there");
    assert!(error.to_string().contains("make it"), "{error}");
}
