//! A collection of a WebDAV server as a destination, such as dCache and EOS: whole files, each under another name until it is proved.
//!
//! ```text
//!  begin: is it there? ─ MKCOL RUN      write …: one PUT to FILE.thalweg-part      prove: HEAD, its adler32, or GET
//!  finish: MOVE to FILE ─► GET: CRC-32C, MD5? ─ no ─► Upload on our disk: what is there is replaced
//! ```
//! WebDAV cannot go on with half a file: after a cut a file is sent from its beginning. A server may send us on to the host that keeps the
//! bytes (307), for which it is asked before bytes go (`Expect: 100-continue`).

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame};
use hyper::ext::on_informational;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, EXPECT};
use hyper::http::response::Parts;
use hyper::{Request, StatusCode, Uri};
use object_store::client::HttpError;
use thalweg_data::checksum::Crc32c;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use crate::destination::Destination;
use crate::digests::{Digesting, Digests};
use crate::error::{Refusal, ShipError};
use crate::http_link::{Answer, Failure, HttpLink, Outgoing, outgoing};
use crate::message::{Have, Offer, Proved, Range};
use crate::settings::Settings;
use crate::upload::{Upload, is_table};

const ACCESS: &str =
    "check the bearer token (bearer_token_file of [ship], or BEARER_TOKEN_FILE), and that it may write there";
/// Behind the name of a file that is not complete.
const UNDER_WAY: &str = ".thalweg-part";
/// A server that does not know `Expect` says nothing; it gets the bytes after this time, as RFC 9110, section 10.1.1 has it.
const CONTINUE: Duration = Duration::from_secs(1);
/// Most hosts that one request is sent on to.
const MOST_HOSTS: usize = 5;
/// Chunks of a file on their way to the connection.
const CHUNKS: usize = 2;

/// A collection.
#[derive(Debug)]
pub struct Collection {
    link: HttpLink,
    base: Url,
    address: String,
    settings: Settings,
    token: Option<Bearer>,
    /// Collections of runs that are there, unless something has failed since.
    made: HashSet<String>,
    /// The directory here of the run that is shipped.
    run: PathBuf,
    current: Option<Current>,
}

/// The file that is shipped.
#[derive(Debug)]
struct Current {
    name: String,
    url: Url,
    under_way: Url,
    digests: Digests,
    /// Where it is remembered that what is there is wrong.
    state: PathBuf,
    put: Option<Put>,
    sent: u64,
    crc32c: Crc32c,
    is_proved: bool,
}

/// A token, which no message shows.
struct Bearer(String);

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")
    }
}

/// Bytes that are being sent.
#[derive(Debug)]
struct Put {
    bytes: mpsc::Sender<Bytes>,
    answer: JoinHandle<Result<(Parts, Bytes), Failure>>,
}

/// The body of a request, chunk by chunk.
struct Chunks(mpsc::Receiver<Bytes>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Collection {
    /// A collection, as an address of http or https; nothing is connected yet. `address` is for messages and for the state that is kept
    /// of it.
    ///
    /// # Errors
    /// When the token cannot be read, or would be sent unencrypted.
    pub fn open(
        base: &Url,
        address: &str,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
    ) -> Result<Collection, ShipError> {
        settings.check_encryption(address, base).map_err(ShipError::Settings)?;
        Ok(Collection {
            link: HttpLink::new(address, settings.tls_ca.clone(), stop)?,
            base: base.clone(),
            address: address.to_owned(),
            settings: settings.clone(),
            token: token(settings)?,
            made: HashSet::new(),
            run: PathBuf::new(),
            current: None,
        })
    }

    fn refused(&self, refusal: Refusal, text: String) -> ShipError {
        ShipError::Refused { destination: self.address.clone(), refusal, text }
    }

    fn failed(&self, failure: Failure) -> ShipError {
        failure.error(&self.address, ACCESS)
    }

    fn current(&mut self) -> Result<Current, ShipError> {
        let text = "no file was begun".to_owned();
        self.current.take().ok_or_else(|| self.refused(Refusal::Unexpected, text))
    }

    /// Address of something in the collection.
    fn url(&self, run: &str, file: Option<&str>) -> Result<Url, ShipError> {
        let mut url = self.base.clone();
        let text = format!("{}: no path can be added", self.base);
        let mut path = url.path_segments_mut().map_err(|()| ShipError::Settings(text))?;
        path.pop_if_empty().extend(run.split('/')).extend(file);
        drop(path);
        Ok(url)
    }

    fn request(&self, method: &str, url: &Url, body: Outgoing) -> Result<Request<Outgoing>, ShipError> {
        let uri: Uri = url.as_str().parse().map_err(|_| ShipError::Settings(format!("{url}: no address")))?;
        let mut request = Request::builder().method(method).uri(uri);
        // Another host has its own way to know us, which is in the address that it was given by.
        if let Some(Bearer(token)) = self.token.as_ref().filter(|_| url.origin() == self.base.origin()) {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(body).map_err(|cause| ShipError::Settings(format!("{url}: {cause}")))
    }

    /// Sends a request without a body and with headers; the answer, or what is wrong.
    fn ask(
        &self,
        method: &str,
        url: &Url,
        headers: &[(&'static str, &str)],
    ) -> Result<Result<Parts, Failure>, ShipError> {
        let mut url = url.clone();
        for _ in 0..MOST_HOSTS {
            let mut request = self.request(method, &url, outgoing(Bytes::new()))?;
            for (name, value) in headers {
                let value = value.parse().map_err(|_| ShipError::Settings(format!("{value}: no header")))?;
                request.headers_mut().insert(*name, value);
            }
            match self.link.ask(request)? {
                Ok((parts, _)) => return Ok(Ok(parts)),
                Err(Failure::Answer(answer)) => match self.elsewhere(&url, &answer)? {
                    Some(other) if method == "HEAD" => url = other,
                    _ => return Ok(Err(Failure::Answer(answer))),
                },
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Err(self.sent_on(&url))
    }

    fn sent_on(&self, url: &Url) -> ShipError {
        self.refused(Refusal::Failed, format!("{}: sent on to more than {MOST_HOSTS} hosts", url.path()))
    }

    /// Where an answer sends us on to.
    fn elsewhere(&self, from: &Url, answer: &Answer) -> Result<Option<Url>, ShipError> {
        let Some(location) = answer.location.as_ref().filter(|_| (301..=308).contains(&answer.status)) else {
            return Ok(None);
        };
        let Ok(url) = from.join(location) else { return Ok(None) };
        if from.scheme() == "https" {
            let checked = self.settings.check_encryption(url.origin().ascii_serialization().as_str(), &url);
            checked.map_err(|text| self.refused(Refusal::Failed, format!("{answer}: sent on, {text}")))?;
        }
        Ok(matches!(url.scheme(), "http" | "https").then_some(url))
    }

    /// Reads a file as it is there; `None` where there is none.
    fn read(&self, url: &Url) -> Result<Option<Digests>, ShipError> {
        let mut url = url.clone();
        for _ in 0..MOST_HOSTS {
            let request = self.request("GET", &url, outgoing(Bytes::new()))?;
            let asked = format!("GET {}", url.path());
            let (parts, mut body) = match self.link.wait(self.link.service().send(request))? {
                Ok(answer) => answer.into_parts(),
                Err(failure) => return Err(self.failed(failure)),
            };
            let (status, mut digesting) = (parts.status, Digesting::crc32c_only());
            if status == StatusCode::OK {
                while let Some(frame) = self.link.wait(body.frame())? {
                    let cause = |error: hyper::Error| io::Error::new(io::ErrorKind::UnexpectedEof, error);
                    let frame = frame.map_err(|error| self.failed(Failure::Lost(cause(error))))?;
                    if let Ok(bytes) = frame.into_data() {
                        digesting.update(&bytes);
                    }
                }
                return Ok(Some(digesting.digests()));
            }
            let answer = Answer::read(asked, parts, &[]);
            match self.elsewhere(&url, &answer)? {
                Some(other) => url = other,
                None if status == StatusCode::NOT_FOUND => return Ok(None),
                None => return Err(self.failed(Failure::Answer(answer))),
            }
        }
        Err(self.sent_on(&url))
    }

    /// Makes the collection of a run, and those above it up to that of the address, which is never made.
    fn make(&mut self, run: &str) -> Result<(), ShipError> {
        let ends = run.match_indices('/').map(|(at, _)| at).chain([run.len()]);
        for part in ends.map(|end| &run[..end]) {
            if self.made.contains(part) {
                continue;
            }
            let url = self.url(part, None)?;
            match self.ask("MKCOL", &url, &[])? {
                Ok(_) => {}
                // It is there.
                Err(failure) if matches!(failure.status(), Some(301 | 302 | 405)) => {}
                Err(Failure::Answer(answer)) if matches!(answer.status, 404 | 409) => {
                    let text = format!(
                        "{answer}; {} does not exist there: make it, or correct the address",
                        self.base
                    );
                    return Err(self.refused(Refusal::Missing, text));
                }
                Err(failure) => return Err(self.failed(failure)),
            }
            self.made.insert(part.to_owned());
        }
        Ok(())
    }

    /// Whether this very file is there already. Another one is replaced if it is ours: sent from here, and read back wrong.
    fn is_there(
        &self,
        offer: &Offer,
        url: &Url,
        digests: &Digests,
        is_ours: bool,
    ) -> Result<bool, ShipError> {
        let parts = match self.ask("HEAD", url, &[("want-digest", "adler32")])? {
            Ok(parts) => parts,
            Err(failure) if failure.status() == Some(404) => return Ok(false),
            Err(failure) => return Err(self.failed(failure)),
        };
        let is_like = |reported: Option<bool>| reported.unwrap_or(true);
        let may_be = is_like(length(&parts).map(|bytes| bytes == digests.bytes))
            && is_like(adler32(&parts).map(|found| Some(found) == hexadecimal(&digests.adler32)));
        if may_be && self.read(url)?.is_some_and(|found| found.agrees_with(digests)) {
            return Ok(true);
        }
        // A document is replaced by a newer one; a file of a table never changes once it is closed.
        if is_ours || !is_table(&offer.file) {
            return Ok(false);
        }
        let text = format!(
            "{}: another file is there than the one here; move that away, or ship into another collection",
            url.path()
        );
        Err(self.refused(Refusal::Differs, text))
    }

    /// Begins to send a file to wherever the server wants it.
    fn put(&self, url: &Url, length: u64) -> Result<Put, ShipError> {
        let (mut url, mut asks_first) = (url.clone(), length > 0);
        for _ in 0..MOST_HOSTS {
            let (bytes, chunks) = mpsc::channel(CHUNKS);
            let mut request = self.request("PUT", &url, Chunks(chunks).boxed())?;
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
            let go_on = Arc::new(Notify::new());
            if asks_first {
                let expected = hyper::header::HeaderValue::from_static("100-continue");
                request.headers_mut().insert(EXPECT, expected);
                let is_wanted = go_on.clone();
                on_informational(&mut request, move |answer| {
                    if answer.status() == StatusCode::CONTINUE {
                        is_wanted.notify_one();
                    }
                });
            } else {
                go_on.notify_one();
            }
            let service = self.link.service().clone();
            let answer = self.link.spawn(async move { service.ask(request).await });
            let put = Put { bytes, answer };
            if self.is_wanted(&put, &go_on)? {
                return Ok(put);
            }
            match self.link.wait(put.answer)? {
                // A server or proxy that does not know `Expect` gets the bytes without it, as RFC 9110, section 10.1.1 has it.
                Ok(Err(Failure::Answer(answer))) if answer.status == 417 && asks_first => asks_first = false,
                Ok(Err(Failure::Answer(answer))) => match self.elsewhere(&url, &answer)? {
                    Some(other) => (url, asks_first) = (other, length > 0),
                    None => return Err(self.failed(Failure::Answer(answer))),
                },
                Ok(Err(failure)) => return Err(self.failed(failure)),
                Ok(Ok(_)) => {
                    let text = format!("PUT {}: acknowledged before any byte was sent", url.path());
                    return Err(self.refused(Refusal::Unproved, text));
                }
                Err(cause) => return Err(self.failed(Failure::Lost(io::Error::other(cause)))),
            }
        }
        Err(self.sent_on(&url))
    }

    /// Waits whether the server wants the bytes: not when it has answered already.
    fn is_wanted(&self, put: &Put, go_on: &Notify) -> Result<bool, ShipError> {
        self.link.wait(async {
            for _ in 0..CONTINUE.as_millis() / 10 {
                if timeout(Duration::from_millis(10), go_on.notified()).await.is_ok() {
                    return true;
                }
                if put.answer.is_finished() {
                    return false;
                }
            }
            true
        })
    }

    /// The end of a PUT.
    fn end(&self, put: Put) -> Result<(), ShipError> {
        drop(put.bytes);
        match self.link.wait(put.answer)? {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(failure)) => Err(self.failed(failure)),
            Err(cause) => Err(self.failed(Failure::Lost(io::Error::other(cause)))),
        }
    }

    /// Holds a file there against digests, by what the server says of it, or else by its bytes.
    fn check(&self, url: &Url, digests: &Digests) -> Result<(), ShipError> {
        let parts = self.ask("HEAD", url, &[("want-digest", "adler32")])?;
        let parts = match parts {
            Ok(parts) => parts,
            Err(failure) if failure.status() == Some(404) => return Err(self.unproved(url, None, digests)),
            Err(failure) => return Err(self.failed(failure)),
        };
        match (length(&parts), adler32(&parts)) {
            (Some(bytes), _) if bytes != digests.bytes => {
                let text = format!("{}: {bytes} B are there, and {} B were sent", url.path(), digests.bytes);
                Err(self.refused(Refusal::Unproved, text))
            }
            (_, Some(found)) if Some(found) == hexadecimal(&digests.adler32) => Ok(()),
            (_, Some(found)) => {
                let (path, sent) = (url.path(), &digests.adler32);
                let text = format!(
                    "{path}: the server has stored bytes with Adler-32 {found:08x}, and was sent bytes with {sent}; look for a fault there"
                );
                Err(self.refused(Refusal::Unproved, text))
            }
            (_, None) => self.read_back(url, digests),
        }
    }

    fn read_back(&self, url: &Url, digests: &Digests) -> Result<(), ShipError> {
        let found = self.read(url)?;
        match &found {
            Some(found) if found.agrees_with(digests) => Ok(()),
            _ => Err(self.unproved(url, found, digests)),
        }
    }

    /// Reads the file back behind its last name. What is wrong there is remembered, so that it is not taken for a file of somebody else.
    fn check_renamed(&self, current: &Current) -> Result<(), ShipError> {
        let Current { url, digests, state, .. } = current;
        let checked = self.read_back(url, digests);
        match &checked {
            Ok(()) => Upload::remove(state)?,
            Err(ShipError::Refused { refusal: Refusal::Unproved, .. }) => {
                let (key, digests) = (url.path().to_owned(), digests.clone());
                Upload { key, digests, is_unproved: true, ..Upload::default() }.save(state)?;
            }
            Err(_) => {}
        }
        checked
    }

    fn unproved(&self, url: &Url, found: Option<Digests>, sent: &Digests) -> ShipError {
        let path = url.path();
        let text = match found {
            None => format!("{path}: the server has acknowledged the file, and does not have it"),
            Some(found) => format!(
                "{path}: {} B with CRC-32C {} were read back, and {} B with {} were sent",
                found.bytes, found.crc32c, sent.bytes, sent.crc32c
            ),
        };
        let advice = "look for a fault of the server, and ship it again (--follow does so by itself)";
        self.refused(Refusal::Unproved, format!("{text}; {advice}"))
    }

    /// Notes that something has failed: the collection of the run may have gone, and is made again before the next file.
    fn noted<T>(&mut self, done: Result<T, ShipError>) -> Result<T, ShipError> {
        if done.is_err() {
            self.made.clear();
        }
        done
    }

    fn try_begin(&mut self, offer: &Offer) -> Result<Have, ShipError> {
        // What is under way of another file is forgotten with its connection.
        self.current = None;
        let text = "a file came without its digests".to_owned();
        let digests = offer.digests.clone().ok_or_else(|| self.refused(Refusal::Unexpected, text))?;
        let url = self.url(&offer.run, Some(&offer.file))?;
        let state = Upload::path(&self.run, &self.address, &offer.file);
        let known = Upload::load(&state, url.path())?;
        let is_ours = known.is_unproved && known.digests == digests;
        if self.is_there(offer, &url, &digests, is_ours)? {
            if is_ours {
                Upload::remove(&state)?;
            }
            let crc32c = hexadecimal(&digests.crc32c).unwrap_or_default();
            return Ok(Have { proved: digests.bytes, crc32c, finished: Some(digests), makes_digests: false });
        }
        let under_way = self.url(&offer.run, Some(&format!("{}{UNDER_WAY}", offer.file)))?;
        self.make(&offer.run)?;
        // Some servers overwrite nothing.
        match self.ask("DELETE", &under_way, &[])? {
            Err(failure) if failure.status() != Some(404) => return Err(self.failed(failure)),
            _ => {}
        }
        self.current = Some(Current {
            name: offer.file.clone(),
            url,
            under_way,
            digests,
            state,
            put: None,
            sent: 0,
            crc32c: Crc32c::new(),
            is_proved: false,
        });
        Ok(Have::default())
    }

    fn try_write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        let mut current = self.current()?;
        if offset != current.sent || current.is_proved {
            let text = format!("{}: bytes came for {offset}, and {} was next", current.name, current.sent);
            return Err(self.refused(Refusal::Unexpected, text));
        }
        let put = match current.put.take() {
            Some(put) => put,
            None => self.put(&current.under_way, current.digests.bytes)?,
        };
        current.crc32c.add(bytes);
        current.sent += bytes.len() as u64;
        let is_over = put.answer.is_finished();
        if is_over || self.link.wait(put.bytes.send(Bytes::copy_from_slice(bytes)))?.is_err() {
            // It has answered before all was sent, and says why.
            self.end(put)?;
            let text = format!("{}: the server answered before all was sent", current.under_way.path());
            return Err(self.refused(Refusal::Failed, text));
        }
        current.put = Some(put);
        self.current = Some(current);
        Ok(())
    }

    fn try_prove(&mut self, range: &Range) -> Result<Proved, ShipError> {
        let mut current = self.current()?;
        let is_all = (range.from, range.to, range.crc32c) == (0, current.sent, current.crc32c.value());
        let put = current.put.take().filter(|_| is_all && current.sent == current.digests.bytes);
        let text = format!("{}: other bytes came than are to be proved", current.name);
        let put = put.ok_or_else(|| self.refused(Refusal::Unproved, text))?;
        self.end(put)?;
        self.check(&current.under_way, &current.digests)?;
        current.is_proved = true;
        self.current = Some(current);
        Ok(Proved { to: range.to, crc32c: range.crc32c, counted: None })
    }

    fn try_finish(&mut self, expected: &Digests) -> Result<Digests, ShipError> {
        let current = self.current()?;
        let Current { url, under_way, .. } = &current;
        if *expected != current.digests || !(current.is_proved || expected.bytes == 0) {
            let text = format!("{}: another file is to be complete than was sent", current.name);
            return Err(self.refused(Refusal::Unexpected, text));
        }
        if expected.bytes == 0 {
            self.end(self.put(under_way, 0)?)?;
        }
        let headers = [("destination", url.as_str()), ("overwrite", "T")];
        match self.ask("MOVE", under_way, &headers)? {
            Ok(parts) if matches!(parts.status.as_u16(), 200 | 201 | 204) => {}
            Ok(parts) => {
                let answer = Answer::read(format!("MOVE {}", under_way.path()), parts, &[]);
                return Err(self.failed(Failure::Answer(answer)));
            }
            Err(failure) => return Err(self.failed(failure)),
        }
        self.check_renamed(&current)?;
        Ok(expected.clone())
    }
}

impl Destination for Collection {
    fn address(&self) -> &str {
        &self.address
    }

    fn takes_growing(&self) -> bool {
        false
    }

    fn range_bytes(&self, _file_bytes: u64) -> u64 {
        u64::MAX
    }

    fn at_run(&mut self, run: &Path) {
        run.clone_into(&mut self.run);
    }

    fn begin(&mut self, offer: &Offer) -> Result<Have, ShipError> {
        let done = self.try_begin(offer);
        self.noted(done)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        let done = self.try_write(offset, bytes);
        self.noted(done)
    }

    fn prove(&mut self, range: &Range) -> Result<Proved, ShipError> {
        let done = self.try_prove(range);
        self.noted(done)
    }

    fn finish(&mut self, expected: &Digests) -> Result<Digests, ShipError> {
        let done = self.try_finish(expected);
        self.noted(done)
    }
}

/// The bearer token, where there is one.
fn token(settings: &Settings) -> Result<Option<Bearer>, ShipError> {
    let file = settings.bearer_token_file.clone();
    let file = file.or_else(|| std::env::var_os("BEARER_TOKEN_FILE").map(PathBuf::from));
    let text = match file {
        Some(file) => Some(
            std::fs::read_to_string(&file).map_err(ShipError::local(&file, "reading the bearer token"))?,
        ),
        None => std::env::var("BEARER_TOKEN").ok(),
    };
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).map(Bearer))
}

/// Bytes of a file by what its server says.
fn length(parts: &Parts) -> Option<u64> {
    parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Its Adler-32 by that (RFC 3230).
fn adler32(parts: &Parts) -> Option<u32> {
    let all = parts.headers.get_all("digest").iter().filter_map(|value| value.to_str().ok());
    let mut each = all.flat_map(|value| value.split(','));
    each.find_map(|digest| {
        let (name, value) = digest.trim().split_once('=')?;
        name.eq_ignore_ascii_case("adler32").then(|| hexadecimal(value)).flatten()
    })
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim(), 16).ok()
}
