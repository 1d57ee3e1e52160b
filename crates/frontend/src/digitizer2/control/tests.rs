//! Tests of client, server and board together: the documented sessions.

use super::*;
use crate::digitizer2::emulate::settings::{Firmware, Transport};
use crate::digitizer2::emulate::{Board, Settings};
use crate::format::DataPlace;
use crate::self_triggered::{
    BoardCommand, ControlService, ControlSession, Moment, Outgoing, SelfTriggeredBoard, State,
};

struct Bench {
    service: Service,
    session: Box<dyn ControlSession>,
    client: Client,
    board: Board,
    now_ns: u64,
}

impl Bench {
    fn new(settings: &Settings) -> Bench {
        let service = Service::new(settings, 40_123);
        Bench {
            session: service.session(),
            service,
            client: Client::default(),
            board: Board::new(settings.clone()).expect("valid"),
            now_ns: 0,
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        self.client.request(request, &mut there);
        let (board, now_ns) = (&mut self.board, self.now_ns);
        let at = Moment { now_ns, state: board.state() };
        let mut perform =
            |command: &BoardCommand| command.perform(board, now_ns).map_err(|error| error.to_string());
        for chunk in there.chunks(13) {
            self.session.receive(chunk, at, &mut perform, &mut back).expect("a valid stream");
        }
        for chunk in back.chunks(11) {
            if let Some(reply) = self.client.receive(request, chunk)? {
                return Ok(reply);
            }
        }
        panic!("no complete reply");
    }

    fn open(&mut self) -> BoardInfo {
        let mut opening = Opening::default();
        while let Some(request) = opening.next_request() {
            let reply = self.ask(&request).expect("answered");
            opening.take(&reply).expect("understood");
        }
        opening.finish().expect("all properties are known")
    }

    fn value(&mut self, path: &str) -> String {
        self.ask(&Request::get(1, path)).expect("answered").value.remove(0)
    }
}

fn small() -> Settings {
    Settings { channels: 4, transport: Transport::Tcp, ..Settings::default() }
}

#[test]
fn a_client_opens_a_board_and_gets_its_properties() {
    let info = Bench::new(&small()).open();
    assert_eq!((info.channels, info.sampling_mhz, info.data), (4, 125.0, DataPlace::Stream(40_123)));
    assert_eq!((info.root, info.version), (1, 10_402));
    assert_eq!(info.firmware_endpoint(), Some("dpppsd"));
    let udp = Settings { transport: Transport::Udp, firmware: Firmware::Pha, ..small() };
    let mut bench = Bench::new(&udp);
    let info = bench.open();
    assert_eq!((info.data, info.firmware_endpoint()), (DataPlace::Datagrams(UDP_DATA_PORT), Some("dpppha")));
    let register = Request::new(Verb::GetValue, 1, "/par/registermisc", UDP_READY_REGISTER);
    assert_eq!(bench.ask(&register).expect("answered").value, ["0"]);
    bench.service.udp_client(50_000);
    assert_eq!(bench.ask(&register).expect("answered").value, ["50000"]);
}

/// The requests of a vendor client, in order, from opening to stopping.
#[test]
fn the_minimal_session_of_a_vendor_client_is_answered() {
    let mut bench = Bench::new(&small());
    let info = bench.open();
    let (root, psd) = (info.root, info.endpoints[1].1);
    let handle = |bench: &mut Bench, from: u64, path: &str| -> u64 {
        let reply = bench.ask(&Request::new(Verb::GetHandle, from, path, "")).expect("answered");
        reply.value[0].parse().expect("a handle")
    };
    let active = handle(&mut bench, root, "/endpoint/par/activeendpoint");
    assert_ne!(handle(&mut bench, psd, "/stats"), 0);
    let folder = handle(&mut bench, root, "/endpoint");
    bench.ask(&Request::set(folder, "/par/activeendpoint", "dpppsd")).expect("taken");
    assert_eq!(bench.ask(&Request::get(active, "")).expect("answered").value, ["dpppsd"]);
    bench
        .ask(&Request::command(root, "/cmd/Reset"))
        .map(|reply| assert_eq!(reply.flag, Some(Flag::Reset)))
        .expect("done");
    bench.ask(&Request::set(root, "/ch/0..3/par/ChEnable", "true")).expect("taken");
    let armed = bench.ask(&Request::command(root, "/cmd/armacquisition")).expect("done");
    assert_eq!((armed.flag, bench.board.state()), (Some(Flag::Arm), State::Armed));
    assert!(bench.value("/par/MaxRawDataSize").parse::<u64>().expect("a number") >= 1 << 20);
    for channel in 0..4 {
        for name in ["chenable", "wavetriggersource", "chrecordlengths"] {
            bench.value(&format!("/ch/{channel}/par/{name}"));
        }
    }
    let mut out = Outgoing::new(1 << 20);
    bench.board.produce(0, &mut out);
    assert_eq!(out.bytes(), [0; 32]);
    assert_eq!(bench.ask(&Request::command(root, "/cmd/swstartacquisition")).expect("done").flag, None);
    assert_eq!(bench.board.state(), State::Running);
    bench.now_ns = 20_000_000;
    bench.ask(&Request::command(root, "/cmd/swstopacquisition")).expect("done");
    while bench.board.produce(bench.now_ns, &mut out) {}
    let disarmed = bench.ask(&Request::command(root, "/cmd/disarmacquisition")).expect("done");
    assert_eq!((disarmed.flag, bench.board.state()), (Some(Flag::Disarm), State::Idle));
    assert!(bench.board.totals().hits > 10);
}

#[test]
fn refusals_have_a_reason() {
    let mut bench = Bench::new(&small());
    let mut refusal = |request: Request| match bench.ask(&request) {
        Err(ClientError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refusal(Request::get(1, "/par/nothing")).contains("no node at `/par/nothing`"));
    assert!(refusal(Request::get(999_999, "/par/numch")).contains("999999"));
    assert!(refusal(Request::get(1, "/cmd/reset")).contains("has no value"));
    assert!(refusal(Request::set(1, "/par/numch", "3")).contains("read only"));
    assert!(refusal(Request::set(1, "/ch/0/par/chenable", "perhaps")).contains("True or False"));
    assert!(refusal(Request::set(1, "/ch/0..9/par/chenable", "True")).contains("no node"));
    assert!(refusal(Request::set(1, "/ch/0..99999999/par/chenable", "True")).contains("no node"));
    assert!(refusal(Request::set(1, "/ch/3..1/par/chenable", "True")).contains("no node"));
    assert!(refusal(Request::command(1, "/cmd/swstartacquisition")).contains("arm it first"));
    assert!(refusal(Request::command(1, "/par/numch")).contains("not a command"));
    assert!(refusal(Request { cmd: "dance".into(), ..Request::default() }).contains("unknown request"));
}

#[test]
fn invalid_messages_are_answered_and_an_endless_one_ends_the_connection() {
    let mut server = Server::new(&small(), 1);
    let (mut session, mut out) = (Session::default(), Vec::new());
    let mut perform = |_: &Action, _: &Tree| Ok(());
    let mut bytes = vec![0; 32];
    bytes[7] = 5;
    bytes.extend_from_slice(b"{\"cm:");
    session.receive(&bytes, &mut server, &mut perform, &mut out).expect("only this message is invalid");
    let reply = Reply::decode(&out[message::HEADER_BYTES..]).expect("a reply");
    assert!(!reply.result && reply.value[0].contains("cannot be understood"), "{reply:?}");
    out.clear();
    assert!(session.receive(&[0xFF; 40], &mut server, &mut perform, &mut out).is_err());
    assert!(!Reply::decode(&out[message::HEADER_BYTES..]).expect("a reply").result);
}

#[test]
fn parameters_change_the_settings_of_the_board() {
    let mut bench = Bench::new(&small());
    bench.ask(&Request::set(1, "/ch/1..2/par/chenable", "False")).expect("taken");
    bench.ask(&Request::set(1, "/ch/0..3/par/wavetriggersource", "chselftrigger")).expect("taken");
    bench.ask(&Request::set(1, "/ch/0..3/par/chrecordlengths", "66")).expect("taken");
    bench.ask(&Request::set(1, "/par/EnStatEvents", "True")).expect("taken");
    assert_eq!(bench.value("/ch/0/par/wavetriggersource"), "ChSelfTrigger");
    assert_eq!(bench.value("/ch/0/par/chrecordlengths"), "64");
    let changed = bench.service.wanted();
    let rates: Vec<f64> = (0..4).map(|channel| changed.channel_rate_hz(channel)).collect();
    assert_eq!(rates, [1000.0, 0.0, 0.0, 1000.0]);
    assert_eq!((changed.waveform_samples, changed.statistics_interval_ms), (64, 1000));
    bench.ask(&Request::set(1, "/par/registeruser", "4096=77")).expect("taken");
    let register = Request::new(Verb::GetValue, 1, "/par/registeruser", "0x1000");
    assert_eq!(bench.ask(&register).expect("answered").value, ["77"]);
    assert!(bench.ask(&Request::set(1, "/par/registeruser", "x=1")).is_err());
    bench.ask(&Request::command(1, "/cmd/reset")).expect("done");
    assert_eq!(bench.service.wanted(), small());
}

#[test]
fn a_value_is_read_back_as_rounded_by_the_board() {
    let mut bench = Bench::new(&small());
    for (path, value, kept) in [
        ("/ch/0/par/chrecordlengths", "1023", "1020"),
        ("/par/globaltriggersource", "swtrg|TestPulse", "SwTrg | TestPulse"),
        ("/ch/0/par/chpretriggers", "7", "4"),
        ("/ch/0/par/gatelonglengtht", "405", "400"),
        ("/ch/0/par/dcoffset", "33.37", "33.3"),
        ("/ch/0/par/dcoffset", "0.3", "0.3"),
        ("/ch/0/par/triggerthr", "12.9", "12"),
    ] {
        bench.ask(&Request::set(1, path, value)).expect("taken");
        assert_eq!(bench.value(path), kept, "{path} = {value}");
    }
    let mut fast = Bench::new(&Settings { sampling_mhz: 500, ..small() });
    fast.ask(&Request::set(1, "/ch/0/par/gateshortlengtht", "33")).expect("taken");
    assert_eq!(fast.value("/ch/0/par/gateshortlengtht"), "32");
}

/// A vendor client polls the register with handle 0 until the board knows where to stream.
#[test]
fn the_handle_0_means_the_root() {
    let mut bench = Bench::new(&Settings { transport: Transport::Udp, ..small() });
    let register = Request::new(Verb::GetValue, 0, "/par/registermisc", UDP_READY_REGISTER);
    assert_eq!(bench.ask(&register).expect("answered").value, ["0"]);
    bench.service.udp_client(50_000);
    assert_eq!(bench.ask(&register).expect("answered").value, ["50000"]);
    assert_eq!(bench.ask(&Request::get(0, "/par/numch")).expect("answered").value, ["4"]);
    bench.ask(&Request::set(0, "/ch/0/par/chenable", "False")).expect("taken");
    assert_eq!(bench.value("/ch/0/par/chenable"), "False");
}

#[test]
fn the_device_tree_and_its_handles_agree() {
    let mut bench = Bench::new(&small());
    let reply = bench.ask(&Request::new(Verb::GetDeviceTree, 1, "", "")).expect("answered");
    let tree: serde_json::Value = serde_json::from_str(&reply.value[0]).expect("JSON");
    assert_eq!(tree["par"]["numch"]["value"], "4");
    let handle = tree["ch"]["2"]["par"]["dcoffset"]["handle"].as_u64().expect("a handle");
    let path = bench.ask(&Request::new(Verb::GetPath, handle, "", "")).expect("answered").value;
    assert_eq!(path, ["/ch/2/par/dcoffset"]);
    let parent = bench.ask(&Request::new(Verb::GetParentHandle, handle, "", "")).expect("answered").value;
    let parent: u64 = parent[0].parse().expect("a handle");
    let name = bench.ask(&Request::new(Verb::GetNodeProperties, parent, "", "")).expect("answered").value;
    assert_eq!(name, ["par", "FOLDER"]);
}
