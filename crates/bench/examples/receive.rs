//! Prints what receiving costs on this machine: `cargo run --release --example receive -- [REPEATS]`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repeats = std::env::args().nth(1).map_or(Ok(9), |text| text.parse())?;
    for datagram_bytes in [1024, 8972] {
        print(&thalweg_bench::transport::receive_udp(datagram_bytes, repeats)?);
    }
    print(&thalweg_bench::transport::receive_tcp(repeats)?);
    for message_bytes in [64, 4096, 65_536, 1 << 20] {
        print(&thalweg_bench::transport::peers(message_bytes, repeats)?);
    }
    Ok(())
}

fn print(measured: &thalweg_data::measure::Measurement) {
    println!("{measured:#?}");
}
