//! N-to-N round robin in processes, printed: `n2n NODES MESSAGE_BYTES REPEATS`. It starts itself as every node.

use std::io::{BufReader, stdin, stdout};
use std::process::{Command, Stdio};

use thalweg_bench::transport::{Node, n2n, n2n_node};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "node") {
        return Ok(n2n_node(stdin().lock(), stdout().lock())?);
    }
    let number =
        |index: usize, otherwise: usize| words.get(index).map_or(Ok(otherwise), |word| word.parse::<usize>());
    let start = |_number| {
        let mut node = Command::new(std::env::current_exe()?)
            .arg("node")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (node.stdin.take(), node.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        Ok(Node { input: Box::new(input), output: Box::new(BufReader::new(output)) })
    };
    let measured = n2n(number(0, 4)?, number(1, 65_536)?, number(2, 5)?, start)?;
    println!("{measured:#?}");
    Ok(())
}
