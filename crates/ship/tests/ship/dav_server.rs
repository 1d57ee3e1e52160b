//! A small WebDAV server (RFC 4918) in memory: collections, PUT, MOVE, DELETE, and `Want-Digest` (RFC 3230) as dCache and EOS have it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::faults::{Faults, Habit};
use crate::http_server::{Answer, Handler, Head, Reaction, Request, Server};

pub const TOKEN: &str = "a token";
pub const ROOT: &str = "/data";

#[derive(Debug, Default)]
pub struct Tree {
    pub files: BTreeMap<String, Vec<u8>>,
    pub collections: BTreeSet<String>,
    /// Whether it answers `Want-Digest`.
    pub reports_digests: bool,
    /// Whether it overwrites files with PUT.
    pub overwrites: bool,
    /// Whether it knows `Expect`.
    pub knows_no_expect: bool,
    /// Whether it asks for some time before it refuses.
    pub says_processing: bool,
    /// Where bytes are read and written, when that is elsewhere.
    pub pool: Option<String>,
}

#[derive(Debug, Default)]
pub struct Dav {
    pub faults: Faults,
    pub tree: Arc<Mutex<Tree>>,
    /// Whether it is the host that keeps the bytes: it knows no tokens, and is sent to.
    is_pool: bool,
}

impl Dav {
    pub fn start() -> (Arc<Dav>, Server) {
        let tree = Tree { collections: [ROOT.to_owned()].into(), ..Tree::default() };
        let dav = Arc::new(Dav { tree: Arc::new(Mutex::new(tree)), ..Dav::default() });
        let server = Server::start(dav.clone());
        (dav, server)
    }

    /// Another host that keeps the bytes.
    pub fn start_pool(&self) -> Server {
        let pool = Arc::new(Dav { tree: self.tree.clone(), is_pool: true, ..Dav::default() });
        let server = Server::start(pool);
        self.tree.lock().expect("no panic").pool = Some(format!("http://{}", server.address));
        server
    }

    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.tree.lock().expect("no panic").files.get(path).cloned()
    }

    pub fn names(&self) -> Vec<String> {
        self.tree.lock().expect("no panic").files.keys().cloned().collect()
    }

    fn refuses(&self, request: &Request) -> Option<Answer> {
        let has_token =
            request.headers.get("authorization").is_some_and(|shown| *shown == format!("Bearer {TOKEN}"));
        if has_token == self.is_pool {
            return Some(Answer::new(if self.is_pool { 400 } else { 401 }));
        }
        if let Habit::Answers(status) = self.faults.habit()
            && matches!(request.method.as_str(), "PUT" | "MOVE" | "MKCOL")
        {
            return Some(Answer::new(status).body("as the test asked"));
        }
        if let Habit::Refuses(file, status) = self.faults.habit()
            && request.method == "PUT"
            && request.path.contains(file)
        {
            return Some(Answer::new(status).body("as the test asked"));
        }
        let tree = self.tree.lock().expect("no panic");
        if tree.knows_no_expect && request.headers.contains_key("expect") {
            return Some(Answer::new(417));
        }
        let parent = request.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if request.method == "PUT" && !tree.collections.contains(parent) {
            return Some(Answer::new(409));
        }
        let pool = tree.pool.as_ref().filter(|_| !self.is_pool)?;
        let is_there = tree.files.contains_key(&request.path);
        let is_sent_on = request.method == "PUT" || request.method == "GET" && is_there;
        is_sent_on.then(|| {
            Answer::new(307).header("location", format!("{pool}{}", request.path.replace(' ', "%20")))
        })
    }

    fn answer(&self, mut request: Request) -> Answer {
        if let Some(refused) = self.refuses(&request) {
            return refused;
        }
        let (habit, mut tree) = (self.faults.habit(), self.tree.lock().expect("no panic"));
        let path = request.path.trim_end_matches('/').to_owned();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        match request.method.as_str() {
            "MKCOL" if tree.collections.contains(&path) => Answer::new(405),
            "MKCOL" if !tree.collections.contains(&parent) => Answer::new(409),
            "MKCOL" => {
                tree.collections.insert(path);
                Answer::new(201)
            }
            "PUT" if tree.files.contains_key(&path) && !tree.overwrites => Answer::new(405),
            "PUT" => {
                if let Some(byte) = request.body.first_mut().filter(|_| habit == Habit::DamagesWhatComes) {
                    *byte ^= 1;
                }
                if habit != Habit::ForgetsParts {
                    tree.files.insert(path, request.body);
                }
                Answer::new(201)
            }
            "DELETE" => Answer::new(if tree.files.remove(&path).is_some() { 204 } else { 404 }),
            "MOVE" => {
                let to = request
                    .headers
                    .get("destination")
                    .and_then(|to| url::Url::parse(to).ok())
                    .expect("where to");
                let Some(mut bytes) = tree.files.remove(&path) else { return Answer::new(404) };
                if let Some(byte) = bytes.first_mut().filter(|_| habit == Habit::DamagesWhatMoves) {
                    *byte ^= 1;
                }
                if habit != Habit::Forgets {
                    tree.files.insert(to.path().replace("%20", " "), bytes);
                }
                Answer::new(201)
            }
            "GET" | "HEAD" => {
                let Some(bytes) = tree.files.get(&path) else { return Answer::new(404) };
                let mut answer = Answer::new(200);
                if tree.reports_digests
                    && request.headers.get("want-digest").is_some_and(|wanted| wanted == "adler32")
                {
                    answer =
                        answer.header("digest", format!("adler32={:x}", simd_adler32::adler32(&&bytes[..])));
                }
                let mut bytes = bytes.clone();
                if let Some(byte) = bytes.last_mut().filter(|_| habit == Habit::DamagesWhatGoes) {
                    *byte ^= 1;
                }
                answer.body(bytes)
            }
            _ => Answer::new(501),
        }
    }
}

impl Handler for Dav {
    fn head(&self, request: &Request) -> Head {
        let says_processing = self.tree.lock().expect("no panic").says_processing;
        match self.refuses(request) {
            Some(refused) if says_processing && request.headers.contains_key("expect") => {
                Head::AnswerBehindProcessing(refused)
            }
            Some(refused) if request.method == "PUT" && request.headers.contains_key("expect") => {
                Head::Answer(refused)
            }
            _ => self.faults.head(),
        }
    }

    fn react(&self, request: Request) -> Reaction {
        self.faults.react(|| self.answer(request))
    }
}
