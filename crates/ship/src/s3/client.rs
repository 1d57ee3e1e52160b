//! One bucket of a store that speaks S3, and the calls that a shipper makes.
//!
//! ```text
//!  bucket, [ship], AWS_… ─► Client: head · put · create, part, complete, abort · read       by object_store
//!                                   parts · uploads                                         lists that it does not have
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::StreamExt;
use hyper::body::Bytes;
use hyper::{Method, Request};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{HttpClient, HttpConnector, HttpRequestBody};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ClientOptions, GetOptions, ObjectStore, PutMultipartOptions, PutOptions,
    RetryConfig,
};
use url::Url;

use crate::digests::{Digesting, Digests};
use crate::error::{Refusal, ShipError};
use crate::http_link::{Failure, HttpLink, Service};
use crate::settings::Settings;

use http_body_util::BodyExt;

const ACCESS: &str = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the region, and that this key may read, write and list there";
/// Most pages of a list that are asked for: ten thousand parts are ten.
const MOST_PAGES: usize = 100;

/// A bucket.
#[derive(Debug)]
pub(super) struct Client {
    link: HttpLink,
    store: AmazonS3,
    /// Address of the bucket.
    bucket: String,
    region: String,
    is_signed: bool,
    destination: String,
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) bytes: u64,
    /// CRC-32C of the file, as whoever has put the object there has said.
    pub(super) crc32c: Option<String>,
}

/// A part as the store lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) bytes: u64,
    pub(super) etag: String,
}

/// Gives `object_store` our way to speak HTTP.
#[derive(Debug)]
struct Connector(Service);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

/// What is asked of an object, and what it is for an error to say.
type Asked<T> = Result<T, ShipError>;

impl Client {
    pub(super) fn open(
        (bucket, destination): (&str, &str),
        settings: &Settings,
        environment: &BTreeMap<String, String>,
        stop: &Arc<AtomicBool>,
    ) -> Asked<Client> {
        let wrong = |text: String| ShipError::Settings(format!("{destination}: {text}"));
        let mut known = AmazonS3Builder::new();
        for (key, value) in environment {
            // What is another program's is passed over.
            if let Ok(key) = key.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                known = known.with_config(key, value);
            }
        }
        let of_environment = |key| known.get_config_value(&key);
        let region = settings.region.clone().or(of_environment(AmazonS3ConfigKey::Region));
        let region = region.or(of_environment(AmazonS3ConfigKey::DefaultRegion));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = settings
            .endpoint
            .clone()
            .or(of_environment(AmazonS3ConfigKey::S3Endpoint))
            .or(of_environment(AmazonS3ConfigKey::Endpoint))
            .unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let url = Url::parse(&endpoint).map_err(|cause| wrong(format!("{endpoint}: {cause}")))?;
        if environment.get("AWS_ALLOW_HTTP").is_none_or(|text| text != "true") {
            settings.check_encryption(&endpoint, &url).map_err(wrong)?;
        }
        let is_signed = of_environment(AmazonS3ConfigKey::SkipSignature).is_none_or(|text| text != "true");
        let link = HttpLink::new(destination, settings.tls_ca.clone(), stop)?;
        let store = known
            .with_bucket_name(bucket)
            .with_region(&region)
            .with_config(AmazonS3ConfigKey::S3Endpoint, &endpoint)
            .with_virtual_hosted_style_request(false)
            // ETags are what parts are held against; another checksum would hide them.
            .with_config(AmazonS3ConfigKey::UnsignedPayload, "false")
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(Connector(link.service().clone()))
            .build()
            .map_err(|cause| wrong(cause.to_string()))?;
        let bucket = format!("{endpoint}/{}", encoded(bucket));
        let client = Client { link, store, bucket, region, is_signed, destination: destination.to_owned() };
        client.check_keys()?;
        Ok(client)
    }

    /// Without keys in the environment a host of Amazon's is asked for some, which elsewhere is not there.
    fn check_keys(&self) -> Asked<()> {
        if !self.is_signed {
            return Ok(());
        }
        let found = self.link.wait(self.store.credentials().get_credential())?;
        let failure = self.link.take_failure();
        found.map(drop).map_err(|error| {
            let cause = failure.map_or(error.to_string(), |failure| failure.to_string());
            let text = format!(
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and nothing else gives keys here ({cause}); set them"
            );
            ShipError::Refused { destination: self.destination.clone(), refusal: Refusal::Token, text }
        })
    }

    /// Whether ETags are no MD5 here.
    pub(super) fn is_encrypted(&self) -> bool {
        self.link.is_encrypted()
    }

    /// A path that `object_store` takes.
    pub(super) fn path(&self, key: &str) -> Asked<Path> {
        Path::parse(key).map_err(|cause| ShipError::Refused {
            destination: self.destination.clone(),
            refusal: Refusal::Name,
            text: format!("{key}: {cause}; rename it, or ship into another folder"),
        })
    }

    /// The object that is there.
    pub(super) fn head(&self, path: &Path) -> Asked<Option<Found>> {
        let asked = |head| {
            let options = GetOptions { head, ..GetOptions::default() };
            self.there(self.link.wait(self.store.get_opts(path, options))?)
        };
        let found = match asked(true) {
            // The answer to HEAD has no text. That to GET says why.
            Err(refused @ ShipError::Refused { refusal: Refusal::Token | Refusal::NotTaken, .. }) => {
                return asked(false).and(Err(refused));
            }
            found => found?,
        };
        let Some(found) = found else { return Ok(None) };
        let key = Attribute::Metadata("crc32c".into());
        let crc32c = found.attributes.get(&key).map(|value| value.as_ref().to_owned());
        Ok(Some(Found { bytes: found.meta.size, crc32c }))
    }

    /// Reads an object as it is there, and returns its length and CRC-32C; `None` where there is none.
    pub(super) fn read(&self, path: &Path) -> Asked<Option<Digests>> {
        let Some(found) = self.there(self.link.wait(self.store.get_opts(path, GetOptions::default()))?)?
        else {
            return Ok(None);
        };
        let (mut digesting, mut stream) = (Digesting::crc32c_only(), found.into_stream());
        while let Some(bytes) = self.link.wait(stream.next())? {
            digesting.update(&bytes.map_err(|error| self.error(&error))?);
        }
        Ok(Some(digesting.digests()))
    }

    /// Puts a whole object; its ETag.
    pub(super) fn put(&self, path: &Path, bytes: Vec<u8>, digests: &Digests) -> Asked<Option<String>> {
        let options = PutOptions { attributes: attributes(digests), ..PutOptions::default() };
        let put = self.link.wait(self.store.put_opts(path, bytes.into(), options))?;
        Ok(put.map_err(|error| self.error(&error))?.e_tag)
    }

    /// Begins an upload by parts; its id.
    pub(super) fn create(&self, path: &Path, digests: &Digests) -> Asked<String> {
        let options =
            PutMultipartOptions { attributes: attributes(digests), ..PutMultipartOptions::default() };
        let id = self.link.wait(self.store.create_multipart_opts(path, options))?;
        id.map_err(|error| self.error(&error))
    }

    /// Uploads a part, of which the first has index 0; its ETag.
    pub(super) fn part(&self, path: &Path, id: &str, index: usize, bytes: Vec<u8>) -> Asked<String> {
        let part = self.link.wait(self.store.put_part(path, &id.to_owned(), index, bytes.into()))?;
        Ok(part.map_err(|error| self.error(&error))?.content_id)
    }

    /// Makes the object of its parts.
    pub(super) fn complete(&self, path: &Path, id: &str, etags: Vec<String>) -> Asked<()> {
        let parts = etags.into_iter().map(|content_id| PartId { content_id }).collect();
        let put = self.link.wait(self.store.complete_multipart(path, &id.to_owned(), parts))?;
        put.map(drop).map_err(|error| self.error(&error))
    }

    /// Ends an upload, and has its parts forgotten. One that is not there is ended.
    pub(super) fn abort(&self, path: &Path, id: &str) -> Asked<()> {
        self.there(self.link.wait(self.store.abort_multipart(path, &id.to_owned()))?).map(drop)
    }

    /// The parts of an upload by their index; `None` where there is no such upload.
    pub(super) fn parts(&self, path: &Path, id: &str) -> Asked<Option<BTreeMap<usize, Listed>>> {
        let url = format!("{}/{}?uploadId={}", self.bucket, encoded(path.as_ref()), encoded(id));
        let (mut parts, mut from) = (BTreeMap::new(), String::new());
        for _ in 0..MOST_PAGES {
            // Not every store takes an empty marker for none.
            let marker = if from.is_empty() {
                String::new()
            } else {
                format!("&part-number-marker={}", encoded(&from))
            };
            let text = match self.list(&format!("{url}{marker}"))? {
                Ok(text) => text,
                Err(failure) if failure.status() == Some(404) => return Ok(None),
                Err(failure) => return Err(failure.error(&self.destination, ACCESS)),
            };
            let document = self.document(&text)?;
            for node in document.descendants().filter(|node| node.has_tag_name_of("Part")) {
                let number = node.child_text("PartNumber").and_then(|text| text.parse::<usize>().ok());
                let bytes = node.child_text("Size").and_then(|text| text.parse().ok());
                let etag = node.child_text("ETag").map(str::to_owned);
                if let (Some(number @ 1..), Some(bytes), Some(etag)) = (number, bytes, etag) {
                    parts.insert(number - 1, Listed { bytes, etag });
                }
            }
            let root = document.root_element();
            match root.child_text("NextPartNumberMarker").filter(|_| root.is_truncated()) {
                Some(next) if next != from => from = next.to_owned(),
                _ => return Ok(Some(parts)),
            }
        }
        Err(self.protocol("a list of parts that does not end"))
    }

    /// The uploads by parts to a key that were begun and neither completed nor ended.
    pub(super) fn uploads(&self, path: &Path) -> Asked<Vec<String>> {
        let url = format!("{}?uploads=&prefix={}", self.bucket, encoded(path.as_ref()));
        let (mut uploads, mut from) = (Vec::new(), String::new());
        for _ in 0..MOST_PAGES {
            let text = self.list(&format!("{url}{from}"))?;
            let text = text.map_err(|failure| failure.error(&self.destination, ACCESS))?;
            let document = self.document(&text)?;
            let all = document.descendants().filter(|node| node.has_tag_name_of("Upload"));
            let ours = all.filter(|node| node.child_text("Key") == Some(path.as_ref()));
            uploads.extend(ours.filter_map(|node| node.child_text("UploadId").map(str::to_owned)));
            let root = document.root_element();
            let next = root.child_text("NextKeyMarker").zip(root.child_text("NextUploadIdMarker"));
            match next.filter(|_| root.is_truncated()) {
                Some((key, id)) => {
                    from = format!("&key-marker={}&upload-id-marker={}", encoded(key), encoded(id));
                }
                None => return Ok(uploads),
            }
        }
        Err(self.protocol("a list of uploads that does not end"))
    }

    fn list(&self, url: &str) -> Asked<Result<Bytes, Failure>> {
        let mut request = Request::new(HttpRequestBody::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = url.parse().map_err(|_| self.protocol("no address of a list"))?;
        if self.is_signed {
            let credential = self.link.wait(self.store.credentials().get_credential())?;
            let credential = credential.map_err(|error| self.error(&error))?;
            let signed =
                AwsAuthorizer::new(&credential, "s3", &self.region).try_authorize(&mut request, None);
            signed.map_err(|error| self.error(&error))?;
        }
        Ok(self.link.ask(request.map(BodyExt::boxed))?.map(|(_, text)| text))
    }

    fn document<'t>(&self, text: &'t Bytes) -> Asked<roxmltree::Document<'t>> {
        let text = std::str::from_utf8(text).map_err(|_| self.protocol("a list that is no text"))?;
        roxmltree::Document::parse(text)
            .map_err(|cause| self.protocol(&format!("a list that is no XML ({cause})")))
    }

    fn protocol(&self, found: &str) -> ShipError {
        let text = format!("{found}; see that a store that speaks S3 listens there");
        let cause = io::Error::new(io::ErrorKind::InvalidData, text);
        ShipError::Connection { destination: self.destination.clone(), cause }
    }

    /// `None` for what is not there. A bucket that is not there is an error.
    fn there<T>(&self, result: object_store::Result<T>) -> Asked<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error) => match self.link.take_failure() {
                Some(Failure::Answer(answer)) if answer.status == 404 && answer.code != "NoSuchBucket" => {
                    Ok(None)
                }
                Some(failure) => Err(failure.error(&self.destination, ACCESS)),
                None => Err(self.error(&error)),
            },
        }
    }

    fn error(&self, error: &object_store::Error) -> ShipError {
        if let Some(failure) = self.link.take_failure() {
            return failure.error(&self.destination, ACCESS);
        }
        // The store has begun its answer with success, and then thought better of it.
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        let text: String = text.chars().filter(|letter| !letter.is_control()).take(600).collect();
        let is_busy = ["SlowDown", "InternalError"].iter().any(|word| text.contains(word));
        let refusal = if is_busy { Refusal::Busy } else { Refusal::Failed };
        let text = format!("{text}; this is tried again");
        ShipError::Refused { destination: self.destination.clone(), refusal, text }
    }
}

/// Digests for whoever finds the object.
fn attributes(digests: &Digests) -> Attributes {
    let mut attributes = Attributes::new();
    let Digests { bytes, crc32c, adler32, md5 } = digests;
    for (name, value) in
        [("crc32c", crc32c), ("adler32", adler32), ("md5", md5), ("bytes", &bytes.to_string())]
    {
        attributes.insert(Attribute::Metadata(Cow::Borrowed(name)), value.clone().into());
    }
    attributes
}

/// A key or an id as a part of an address, with everything escaped that signatures want escaped.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(byte.into())
            }
            _ => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    encoded
}

/// What lists are read by, whatever name space they are in.
trait List<'n> {
    fn has_tag_name_of(&self, name: &str) -> bool;
    fn child_text(&self, name: &str) -> Option<&'n str>;
    fn is_truncated(&self) -> bool;
}

impl<'n> List<'n> for roxmltree::Node<'n, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.tag_name().name() == name
    }

    fn child_text(&self, name: &str) -> Option<&'n str> {
        self.children().find(|node| node.has_tag_name_of(name))?.text()
    }

    fn is_truncated(&self) -> bool {
        self.child_text("IsTruncated") == Some("true")
    }
}
