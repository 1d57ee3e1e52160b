//! A board driven over a channel without a socket: the emulated board answers at once, or not at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Service, UDP_DATA_PORT};
use crate::digitizer2::emulate::settings::Transport;
use crate::digitizer2::emulate::{self, Settings};
use crate::format::{BoardControl, ControlChannel, DataPlace, Format};
use crate::self_triggered::{
    BoardCommand, ControlService, ControlSession, Moment, Outgoing, SelfTriggeredBoard, State,
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
        let at = Moment { now_ns: *now_ns, state: board.state() };
        let mut perform =
            |command: &BoardCommand| command.perform(board, *now_ns).map_err(|error| error.to_string());
        self.session.receive(bytes, at, &mut perform, &mut self.answers)
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

    fn pause(&mut self, wait: Duration) {
        self.lab.lock().expect("no panic").now_ns += wait.as_nanos() as u64;
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
fn a_board_that_is_armed_or_runs_is_not_idle_and_stays_as_it_is() {
    let (lab, mut board) = lab(&Settings::default());
    board.check_idle().expect("nobody uses it");
    board.arm().expect("idle");
    for (start, reported, left) in
        [(false, "armed, clock", State::Armed), (true, "running, clock", State::Running)]
    {
        if start {
            board.start().expect("armed");
        }
        let taken = board.check_idle().expect_err("it is used").to_string();
        for word in ["dig2://board.lab", reported, "thalweg board disarm"] {
            assert!(taken.contains(word), "{word} in {taken}");
        }
        assert_eq!(state(&lab), left);
    }
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

#[test]
fn parameters_are_checked_by_what_the_board_lists_before_any_is_set() {
    let (_lab, mut board) = lab(&Settings { channels: 4, ..Settings::default() });
    let pair = |path: &str, value: &str| (path.to_owned(), value.to_owned());
    let good = [pair("/ch/0..3/par/DCOffset", "30"), pair("/par/GlobalTriggerSource", "SwTrg | TestPulse")];
    board.check_all(&good).expect("all can be set");
    let wrong = [good[0].clone(), pair("/ch/0..3/par/TriggerThr", "9999")];
    let refused = board.check_all(&wrong).expect_err("too much").to_string();
    for word in ["dig2://board.lab", "`/ch/0..3/par/TriggerThr`", "9999", "0 to 8191", "ADC counts"] {
        assert!(refused.contains(word), "{word} in {refused}");
    }
    assert_eq!(board.get("/ch/0..3/par/DCOffset").expect("there"), "20", "nothing was set");
}

#[test]
fn a_range_reads_as_one_value_or_as_those_of_each() {
    let (_lab, mut board) = lab(&Settings { channels: 3, ..Settings::default() });
    assert_eq!(board.get("/ch/0..2/par/ChEnable").expect("there"), "True");
    board.set("/ch/1/par/ChEnable", "False").expect("taken");
    assert_eq!(board.get("/ch/0..2/par/ChEnable").expect("there"), "True, False, True");
}

#[test]
fn a_board_that_arms_late_is_waited_for_and_one_that_does_not_arm_is_named_with_what_it_reports() {
    let board = |arm_ms| {
        let control_faults = super::Faults { arm_ms, ..super::Faults::default() };
        lab(&Settings { control_faults, ..Settings::default() })
    };
    let (late, mut control) = board(3000);
    control.arm().expect("in time");
    let waited_ns = late.lock().expect("no panic").now_ns;
    assert!((3_000_000_000..4_000_000_000).contains(&waited_ns), "{waited_ns}");
    let (_lab, mut control) = board(3000);
    control.set_arm_timeout(Duration::from_millis(1500));
    let failed = control.arm().expect_err("it has less time").to_string();
    assert!(failed.contains("not armed 1.5 s later") && failed.contains("`arm_timeout_s`"), "{failed}");
    let (_lab, mut control) = board(60_000);
    let failed = control.arm().expect_err("too late").to_string();
    for word in ["dig2://board.lab", "not armed 10 s later", "not armed, clock locked"] {
        assert!(failed.contains(word), "{word} in {failed}");
    }
}

#[test]
fn the_status_says_when_the_clock_has_lost_its_lock() {
    let control_faults = super::Faults { unlock_ms: Some(2000), ..super::Faults::default() };
    let (lab, mut board) = lab(&Settings { control_faults, ..Settings::default() });
    board.arm().expect("idle");
    board.start().expect("armed");
    let status = board.status().expect("it reports one");
    assert_eq!((status.is_locked, status.text.as_str()), (true, "running, clock locked"));
    lab.lock().expect("no panic").now_ns += 2_000_000_000;
    let status = board.status().expect("it reports one");
    assert!(!status.is_locked && status.text.contains("LMK04832 unlocked"), "{status:?}");
}

#[test]
fn a_board_that_starts_by_a_signal_takes_no_command() {
    let (lab, mut board) = lab(&Settings::default());
    assert_eq!(board.start_signal(), None);
    board.set("/par/StartSource", "SINedge | LVDS").expect("taken");
    assert_eq!(board.start_signal().as_deref(), Some("SINedge | LVDS"));
    board.arm().expect("idle");
    let refused = board.start().expect_err("no software start").to_string();
    assert!(refused.contains("SINedge") && refused.contains("SWcmd"), "{refused}");
    assert_eq!(state(&lab), State::Armed);
}
