//! A small store that speaks S3 (REST, version 2006-03-01), as far as a shipper uses it: objects and uploads by parts in memory.
//!
//! Of signatures it checks that the access key is the one it knows, and the SHA-256 of what was sent.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use md5::{Digest, Md5};

use crate::faults::{Faults, Habit};
use crate::http_server::{Answer, Handler, Head, Reaction, Request, Server};

pub const KEY: &str = "thalweg-test";
pub const BUCKET: &str = "runs";
/// Entries of a page of a list: few, so that lists have pages.
const PAGE: usize = 3;

#[derive(Clone, Debug, Default)]
pub struct Object {
    pub bytes: Vec<u8>,
    pub metadata: BTreeMap<String, String>,
    pub etag: String,
}

#[derive(Clone, Debug, Default)]
pub struct Upload {
    pub key: String,
    metadata: BTreeMap<String, String>,
    parts: BTreeMap<usize, Vec<u8>>,
}

#[derive(Debug, Default)]
pub struct Store {
    pub objects: BTreeMap<String, Object>,
    pub uploads: BTreeMap<String, Upload>,
    begun: u64,
    /// Parts that came.
    pub parts_put: u64,
    /// Least bytes of a part that is not the last.
    pub smallest_part: usize,
}

#[derive(Debug, Default)]
pub struct S3 {
    pub faults: Faults,
    pub store: Mutex<Store>,
}

impl S3 {
    pub fn start() -> (Arc<S3>, Server) {
        let store = Arc::new(S3::default());
        let server = Server::start(store.clone());
        (store, server)
    }

    pub fn object(&self, key: &str) -> Option<Object> {
        self.store.lock().expect("no panic").objects.get(key).cloned()
    }

    pub fn uploads(&self) -> usize {
        self.store.lock().expect("no panic").uploads.len()
    }

    /// An upload of somebody else.
    pub fn begin_foreign(&self, key: &str) -> String {
        let mut store = self.store.lock().expect("no panic");
        store.begin(key, BTreeMap::new())
    }

    fn refuses(&self, request: &Request) -> Option<Answer> {
        let signed = request.headers.get("authorization").map(String::as_str).unwrap_or_default();
        if !signed.contains(&format!("Credential={KEY}/")) {
            return Some(error(403, "InvalidAccessKeyId", "The key is not known"));
        }
        if self.faults.habit() == Habit::ClockDiffers {
            return Some(error(403, "RequestTimeTooSkewed", "The times differ too much"));
        }
        let sent = ring::digest::digest(&ring::digest::SHA256, &request.body);
        if request
            .headers
            .get("x-amz-content-sha256")
            .is_some_and(|sent_as| *sent_as != hexadecimal(sent.as_ref()))
        {
            return Some(error(400, "XAmzContentSHA256Mismatch", "Other bytes came than were signed"));
        }
        let is_change = matches!(request.method.as_str(), "PUT" | "POST");
        match self.faults.habit() {
            Habit::Answers(status) if is_change => {
                let code = match status {
                    503 => "SlowDown",
                    507 => "InsufficientStorage",
                    403 => "AccessDenied",
                    _ => "Other",
                };
                Some(error(status, code, "As the test asked"))
            }
            Habit::Refuses(file, status) if is_change && request.path.ends_with(file) => {
                Some(error(status, "InvalidRequest", "As the test asked"))
            }
            _ => None,
        }
    }

    fn answer(&self, mut request: Request) -> Answer {
        let path = request.path.trim_start_matches('/').to_owned();
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        if let Some(refused) = self.refuses(&request) {
            return refused;
        }
        if bucket != BUCKET {
            return error(404, "NoSuchBucket", "The bucket does not exist");
        }
        let habit = self.faults.habit();
        if habit == Habit::DamagesWhatComes
            && request.method == "PUT"
            && let Some(byte) = request.body.first_mut()
        {
            *byte ^= 1;
        }
        if habit == Habit::ErrsInSuccess && request.method == "POST" && request.query.contains_key("uploadId")
        {
            return Answer { status: 200, ..error(503, "SlowDown", "Later") };
        }
        let mut store = self.store.lock().expect("no panic");
        let id = request.query.get("uploadId").cloned();
        match (request.method.as_str(), id) {
            ("GET", None) if key.is_empty() => store.list_uploads(&request),
            ("POST", None) => {
                let id = store.begin(key, metadata(&request));
                xml(format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                ))
            }
            ("PUT", Some(id)) => store.put_part(&id, request, habit == Habit::ForgetsParts),
            ("POST", Some(id)) => store.complete(&id, key, &request, habit == Habit::Forgets),
            ("DELETE", Some(id)) => match store.uploads.remove(&id) {
                Some(_) => Answer::new(204),
                None => error(404, "NoSuchUpload", "No upload"),
            },
            ("GET", Some(id)) => store.list_parts(&id, &request),
            ("PUT", None) => {
                let (metadata, etag) = (metadata(&request), md5(&request.body));
                let object = Object { bytes: request.body, metadata, etag: etag.clone() };
                if habit != Habit::Forgets {
                    store.objects.insert(key.to_owned(), object);
                }
                Answer::new(200).header("etag", format!("\"{etag}\""))
            }
            ("GET" | "HEAD", None) => store.read(key, habit == Habit::DamagesWhatGoes),
            _ => error(405, "MethodNotAllowed", "Not spoken here"),
        }
    }
}

impl Handler for S3 {
    fn head(&self, _: &Request) -> Head {
        self.faults.head()
    }

    fn react(&self, request: Request) -> Reaction {
        self.faults.react(|| self.answer(request))
    }
}

impl Store {
    fn begin(&mut self, key: &str, metadata: BTreeMap<String, String>) -> String {
        self.begun += 1;
        // Letters that must be escaped in addresses.
        let id = format!("up/load+{}==", self.begun);
        self.uploads.insert(id.clone(), Upload { key: key.to_owned(), metadata, parts: BTreeMap::new() });
        id
    }

    fn put_part(&mut self, id: &str, request: Request, forgets: bool) -> Answer {
        let number = request.query.get("partNumber").and_then(|text| text.parse().ok());
        let (Some(upload), Some(number @ 1..=10_000)) = (self.uploads.get_mut(id), number) else {
            return error(404, "NoSuchUpload", "No upload");
        };
        self.parts_put += 1;
        let etag = md5(&request.body);
        if !forgets {
            upload.parts.insert(number, request.body);
        }
        Answer::new(200).header("etag", format!("\"{etag}\""))
    }

    fn complete(&mut self, id: &str, key: &str, request: &Request, forgets: bool) -> Answer {
        let Some(upload) = self.uploads.get(id).filter(|upload| upload.key == key) else {
            return error(404, "NoSuchUpload", "No upload");
        };
        let text = String::from_utf8_lossy(&request.body).replace("&quot;", "\"");
        let document = roxmltree::Document::parse(&text).expect("XML");
        let (mut bytes, mut digests, mut last) = (Vec::new(), Vec::new(), usize::MAX);
        for node in document.descendants().filter(|node| node.has_tag_name("Part")) {
            let child = |name: &str| {
                node.children().find(|node| node.tag_name().name() == name).and_then(|node| node.text())
            };
            let number = child("PartNumber").and_then(|text| text.parse().ok());
            let (number, etag) = (number.unwrap_or(0), child("ETag").unwrap_or_default().trim_matches('"'));
            let Some(part) = upload.parts.get(&number).filter(|part| md5(part) == etag) else {
                return error(400, "InvalidPart", "A part was not found");
            };
            if last < self.smallest_part {
                return error(400, "EntityTooSmall", "A part is too small");
            }
            last = part.len();
            bytes.extend_from_slice(part);
            digests.extend_from_slice(&Md5::digest(part));
        }
        let etag = format!("{}-{}", md5(&digests), upload.parts.len());
        let metadata = upload.metadata.clone();
        self.uploads.remove(id);
        if !forgets {
            self.objects.insert(key.to_owned(), Object { bytes, metadata, etag: etag.clone() });
        }
        xml(format!("<CompleteMultipartUploadResult><ETag>\"{etag}\"</ETag></CompleteMultipartUploadResult>"))
    }

    fn list_parts(&self, id: &str, request: &Request) -> Answer {
        let Some(upload) = self.uploads.get(id) else {
            return error(404, "NoSuchUpload", "No upload");
        };
        let from = request.query.get("part-number-marker").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut text = "<ListPartsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
        let behind: Vec<_> = upload.parts.range(from + 1..).collect();
        for (number, part) in behind.iter().take(PAGE) {
            let (etag, bytes) = (md5(part), part.len());
            write!(
                text,
                "<Part><PartNumber>{number}</PartNumber><ETag>\"{etag}\"</ETag><Size>{bytes}</Size></Part>"
            )
            .expect("a string");
        }
        let next = behind.iter().take(PAGE).next_back().map_or(0, |(number, _)| **number);
        let is_truncated = behind.len() > PAGE;
        write!(
            text,
            "<NextPartNumberMarker>{next}</NextPartNumberMarker><IsTruncated>{is_truncated}</IsTruncated>"
        )
        .expect("a string");
        xml(text + "</ListPartsResult>")
    }

    fn list_uploads(&self, request: &Request) -> Answer {
        let asked = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let (prefix, from) = (asked("prefix"), (asked("key-marker"), asked("upload-id-marker")));
        let mut all: Vec<(&str, &str)> =
            self.uploads.iter().map(|(id, upload)| (&*upload.key, &**id)).collect();
        all.sort_unstable();
        let is_behind =
            |(key, id): &(&str, &str)| (*key, *id) > (&*from.0, &*from.1) && key.starts_with(&prefix);
        let behind: Vec<_> = all.into_iter().filter(is_behind).collect();
        let mut text = "<ListMultipartUploadsResult>".to_owned();
        for (key, id) in behind.iter().take(PAGE) {
            write!(text, "<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>").expect("a string");
        }
        if let Some((key, id)) = behind.get(PAGE - 1) {
            write!(text, "<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{id}</NextUploadIdMarker>")
                .expect("a string");
        }
        let is_truncated = behind.len() > PAGE;
        xml(format!("{text}<IsTruncated>{is_truncated}</IsTruncated></ListMultipartUploadsResult>"))
    }

    fn read(&self, key: &str, damages: bool) -> Answer {
        let Some(object) = self.objects.get(key) else { return error(404, "NoSuchKey", "No such key") };
        let mut answer = Answer::new(200)
            .header("etag", format!("\"{}\"", object.etag))
            .header("last-modified", "Thu, 26 Nov 2026 19:00:00 GMT");
        for (name, value) in &object.metadata {
            answer = answer.header(name, value);
        }
        let mut bytes = object.bytes.clone();
        if let Some(byte) = bytes.last_mut().filter(|_| damages) {
            *byte ^= 1;
        }
        answer.body(bytes)
    }
}

fn metadata(request: &Request) -> BTreeMap<String, String> {
    let all = request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-meta-"));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn xml(text: String) -> Answer {
    Answer::new(200).header("content-type", "application/xml").body(text)
}

fn error(status: u16, code: &str, text: &str) -> Answer {
    let text = format!("<Error><Code>{code}</Code><Message>{text}</Message></Error>");
    Answer::new(status).header("content-type", "application/xml").body(text)
}

pub fn md5(bytes: &[u8]) -> String {
    hexadecimal(&Md5::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string");
        text
    })
}
