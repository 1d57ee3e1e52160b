//! A board driven over a channel without a socket: the emulated board answers at once, or not at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Service, UDP_DATA_PORT};
use crate::digitizer2::emulate::settings::Transport;
use crate::digitizer2::emulate::{self, Settings};
use crate::format::{BoardControl, ControlChannel, DataPlace, Format};
use crate::self_triggered::{
    BoardCommand, ControlService, ControlSession, Outgoing, SelfTriggeredBoard, State,
};

/// What the test sees and changes of the board behind the channel.
struct Lab {
    board: emulate::Board,
    service: Service,
    /// From then on it does not answer.
    is_silent: bool,
    now_ns: u64,
}

type SharedLab = Arc<Mutex<Lab>>;

struct Channel {
    lab: SharedLab,
    session: Box<dyn ControlSession>,
    answers: Vec<u8>,
    taken: Vec<u8>,
}

impl ControlChannel for Channel {
    fn place(&self) -> &str {
        "dig2://board.lab"
    }

    fn now_ns(&self) -> u64 {
        self.lab.lock().expect("no panic").now_ns
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Lab { board, is_silent, now_ns, .. } = &mut *self.lab.lock().expect("no panic");
        if *is_silent {
            return Ok(());
        }
        let mut perform =
            |command: &BoardCommand| command.perform(board, *now_ns).map_err(|error| error.to_string());
        self.session.receive(bytes, &mut perform, &mut self.answers)
    }

    /// A few bytes at a time; where there are none, the time passes.
    fn receive(&mut self, wait: Duration) -> Result<Option<&[u8]>, String> {
        if self.answers.is_empty() {
            self.lab.lock().expect("no panic").now_ns += wait.as_nanos() as u64;
            return Ok(None);
        }
        let rest = self.answers.split_off(self.answers.len().min(17));
        self.taken = std::mem::replace(&mut self.answers, rest);
        Ok(Some(&self.taken))
    }
}

fn lab(settings: &Settings) -> (SharedLab, Box<dyn BoardControl>) {
    let (board, service) =
        (emulate::Board::new(settings.clone()).expect("valid"), Service::new(settings, 40_123));
    let session = service.session();
    let lab = Arc::new(Mutex::new(Lab { board, service, is_silent: false, now_ns: 0 }));
    let channel = Channel { lab: lab.clone(), session, answers: Vec::new(), taken: Vec::new() };
    let entry = Format::control_of("dig2").expect("the family has it");
    (lab, entry.open(Box::new(channel)).expect("the board answers"))
}

fn state(lab: &SharedLab) -> State {
    lab.lock().expect("no panic").board.state()
}

#[test]
fn a_board_is_opened_set_armed_started_stopped_and_disarmed() {
    let settings = Settings { channels: 4, transport: Transport::Tcp, ..Settings::default() };
    let (lab, mut board) = lab(&settings);
    assert_eq!(board.data(), Some(DataPlace::Stream(40_123)));
    let facts = board.facts(&[]);
    assert_eq!((facts.channels, facts.sampling_mhz, facts.firmware.as_deref()), (4, 125.0, Some("psd")));
    assert!(!facts.model.is_empty() && board.known_facts().model.is_empty());
    assert_eq!(board.known_facts().firmware.as_deref(), Some("dpppsd"));
    board.prepare(&[("/ch/2/par/chenable".to_owned(), "false".to_owned())]).expect("a parameter");
    assert_eq!(board.get("/ch/2/par/chenable").expect("it is there").to_lowercase(), "false");
    assert_eq!(board.get("/endpoint/par/activeendpoint").expect("it is there"), "raw");
    board.arm().expect("idle");
    board.start().expect("armed");
    assert_eq!(state(&lab), State::Running);
    board.keep_alive().expect("it answers");
    board.stop().expect("running");
    {
        // The run is over when the board has sent what it measured.
        let Lab { board, now_ns, .. } = &mut *lab.lock().expect("no panic");
        while board.produce(*now_ns + 1_000_000, &mut Outgoing::new(1 << 20)) {}
    }
    board.disarm().expect("it was armed");
    assert_eq!(state(&lab), State::Idle);
    let refused = board.get("/par/nonsense").expect_err("no such parameter").to_string();
    assert!(refused.contains("dig2://board.lab") && refused.contains("/par/nonsense"), "{refused}");
}

#[test]
fn a_board_that_falls_silent_is_named_within_its_time_and_an_armed_one_is_disarmed_at_last() {
    let (lab, mut board) = lab(&Settings::default());
    board.arm().expect("idle");
    lab.lock().expect("no panic").is_silent = true;
    let gone = board.keep_alive().expect_err("silent").to_string();
    assert!(gone.contains("`/par/numch` within 3 s"), "{gone}");
    assert_eq!(lab.lock().expect("no panic").now_ns, 3_000_000_000, "no longer than it has");
    lab.lock().expect("no panic").is_silent = false;
    assert_eq!(state(&lab), State::Armed);
    drop(board);
    assert_eq!(state(&lab), State::Idle);
}

#[test]
fn a_board_given_up_is_not_spoken_to() {
    let (lab, mut board) = lab(&Settings::default());
    board.arm().expect("idle");
    board.abandon();
    drop(board);
    assert_eq!(state(&lab), State::Armed);
}

#[test]
fn a_board_knows_its_receiver_by_its_port_or_once_it_must_be_ours() {
    let (lab, mut board) = lab(&Settings { transport: Transport::Udp, ..Settings::default() });
    assert_eq!(board.data(), Some(DataPlace::Datagrams(UDP_DATA_PORT)));
    let mut knows = |own, is_settled| board.knows_receiver(own, is_settled).expect("it answers");
    assert!(!knows(50_000, true), "nobody has sent it anything");
    lab.lock().expect("no panic").service.udp_client(40_000);
    assert!(!knows(50_000, false), "this may be the client before us");
    assert!(knows(50_000, true) && knows(40_000, false));
}
