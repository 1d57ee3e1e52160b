//! SiTCP boards driven through their registers over a real socket, with answers that get lost, come late, or twice.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_data::ControlError;
use thalweg_data::{BoardId, DeviceControl};
use thalweg_frontend::format::{BoardControl, Format};
use thalweg_frontend::sitcp::emulate::{Board, Settings as BoardSettings, SharedRegisters, SitcpBoard};
use thalweg_frontend::sitcp::rbcp::{Faults, RegisterControl, Registers, Settings as RegisterSettings};
use thalweg_readout::control::BoardPlace;
use thalweg_readout::host::triggered::{
    Feed, Hosted, HostedBoards, HostedLink, HostedRegisters, Outlet, TriggeredSettings,
};

struct Lab {
    hosted: HostedBoards,
    registers: SharedRegisters,
    control: RegisterControl,
    data: SocketAddr,
}

/// The registers at an address, asked by these rules.
fn registers_at(address: SocketAddr, settings: RegisterSettings) -> RegisterControl {
    let entry = Format::control_of("rbcp").expect("a family has it");
    let channel = BoardPlace { entry, address }.connect(Duration::from_secs(1)).expect("a route");
    RegisterControl::new(channel, settings)
}

fn lab(faults: Faults) -> Lab {
    let registers = SharedRegisters::new(Registers::recbe(3, faults));
    let board = Board::new(BoardId(3), &BoardSettings::default()).expect("defaults");
    let board: Box<dyn Hosted> = Box::new(SitcpBoard::new(board, Some(registers.clone())));
    let outlet = Outlet::listen("127.0.0.1:0".parse().expect("an address")).expect("loopback");
    let data = outlet.local_address().expect("listening");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    let port = HostedRegisters { socket, registers: Box::new(registers.clone()) };
    let link = HostedLink { registers: Some(port), ..HostedLink::new(outlet, vec![board]) };
    let feed = Feed::Unpaced { triggers: Some(10) };
    let hosted = HostedBoards::new(TriggeredSettings::new(vec![link], feed)).expect("a board");
    let settings = RegisterSettings { timeout_ns: 50_000_000, ..RegisterSettings::default() };
    let control = registers_at(address, settings);
    Lab { hosted, registers, control, data }
}

/// Reads the data connection until nothing comes for a while.
fn read_data(stream: &mut TcpStream, least: usize) -> Vec<u8> {
    use std::io::Read;
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let (mut bytes, mut chunk, start) = (Vec::new(), [0; 65536], Instant::now());
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return bytes,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
            Err(_) if bytes.len() >= least || start.elapsed() > Duration::from_secs(60) => return bytes,
            Err(_) => {}
        }
    }
}

#[test]
fn parameters_are_set_before_the_run_and_change_what_is_sent() {
    let mut lab = lab(Faults::default());
    let parameters = [("mode", "raw"), ("window", "32"), ("0x1c:2", "3400")];
    let parameters = parameters.map(|(path, value)| (path.to_owned(), value.to_owned()));
    assert_eq!(lab.control.get("mode").expect("a register"), "suppressed");
    lab.control.prepare(&parameters).expect("a board");
    assert_eq!(lab.control.get("mode").expect("a register"), "raw");
    assert_eq!(lab.control.get("discriminator_threshold").expect("a register"), "3400");
    let mut stream = TcpStream::connect(lab.data).expect("listening");
    // What was acknowledged before the start holds from the first trigger on.
    lab.hosted.start();
    let bytes = read_data(&mut stream, 10 * 6156);
    assert_eq!(bytes.len(), 10 * (12 + 6144), "raw blocks of 48 channels and 32 samples");
    assert_eq!(lab.hosted.failures(), [] as [String; 0]);
}

#[test]
fn lost_late_and_double_answers_do_no_harm() {
    let faults = Faults {
        lose_request_every: 5,
        lose_answer_every: 3,
        late_answer_every: 4,
        late_ns: 80_000_000,
        double_answer_every: 2,
    };
    let mut lab = lab(faults);
    for value in 1..=12u32 {
        lab.control.set("window", &value.to_string()).expect("asked again until it is answered");
        assert_eq!(lab.control.get("window").expect("a register"), value.to_string());
    }
    assert_eq!(lab.registers.now().window(), 12);
    let counts = lab.control.counts();
    assert!(counts.repeated > 3 && counts.strays > 3, "{counts:?}");
    assert_eq!(counts.operations, 24);
}

#[test]
fn a_reset_is_done_once_and_closes_the_connection() {
    // Its acknowledgement is lost; read back, it is seen to be done.
    let mut lab = lab(Faults { lose_answer_every: 1, ..Faults::default() });
    let mut stream = TcpStream::connect(lab.data).expect("listening");
    let until = Instant::now() + Duration::from_secs(60);
    while lab.hosted.links_without_client() > 0 {
        assert!(Instant::now() < until, "the board does not take its client");
        std::thread::yield_now();
    }
    let refused = lab.control.set("control", "0x80").expect_err("no answer ever comes");
    assert!(refused.to_string().contains("no answer"), "{refused}");
    assert_eq!(lab.registers.now().resets(), 1, "it was not written twice");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    assert_eq!(std::io::Read::read(&mut stream, &mut [0; 64]).expect("closed in order"), 0);
}

#[test]
fn a_board_that_is_not_there_is_named() {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
    let settings = RegisterSettings { timeout_ns: 5_000_000, attempts: 2, ..RegisterSettings::default() };
    let mut control = registers_at(gone, settings);
    let error = control.get("mode").expect_err("nobody is there").to_string();
    assert!(error.contains(&format!("rbcp://{gone}")) && error.contains("check power"), "{error}");
    let wrong: ControlError = control.check("mod", "raw").expect_err("a typo");
    assert!(wrong.to_string().contains("`mod` is no register"));
}

#[test]
fn a_register_that_the_board_does_not_have_is_a_bus_error() {
    let mut lab = lab(Faults::default());
    let error = lab.control.get("0x14").expect_err("not acknowledged").to_string();
    assert!(error.contains("bus error"), "{error}");
    lab.hosted.end();
}
