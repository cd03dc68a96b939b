//! Traffic sources and sinks of the benchmark, one subcommand each. They run inside each compared
//! network, and print one JSON object when they end.
#![forbid(unsafe_code)]

mod agreement;
mod collector;
mod datagrams;
mod memory;
mod relay;
mod sessions;
mod sharing;
mod state;
mod stream;
mod trunk;
mod wakes;

use std::process::ExitCode;

const USAGE: &str = "netarium-bench udp-send HOST:PORT PACKETS_PER_SECOND SECONDS
netarium-bench udp-receive PORT SECONDS
netarium-bench tcp-send HOST:PORT SECONDS WRITE_BYTES
netarium-bench tcp-receive PORT SECONDS RECEIVE_BUFFER_BYTES (0: the kernel's choice)
netarium-bench trunk-send plain|clear|sealed IP:PORT SECONDS BYTES MTU
netarium-bench trunk-receive plain|clear|sealed PORT SECONDS
netarium-bench relay SECONDS (between standard input and standard output)
netarium-bench memory flows|packets COUNT (bytes of each)
netarium-bench sessions fifo|heap ROUTERS SESSIONS MILLISECONDS (events per second)
netarium-bench state PROTOCOL SESSIONS (state of a link for them)
netarium-bench collector unpack FROM TO (decompress a file)
netarium-bench collector mrt CAPTURE ROUNDS (packets to records, in memory)
netarium-bench collector archive CAPTURE FOLDER none|gz|bz2|zst SECONDS (to files of SECONDS each)
netarium-bench collector decode|bgpkit|text ARCHIVE ROUNDS (decode records)
netarium-bench collector routes CAPTURE same|different (memory of routes)
netarium-bench collector population FOLDER PEERS PREFIXES SECONDS (many synthetic peers)
netarium-bench collector appearing FOLDER (age of records when they appear)
netarium-bench agreement LAB AGENTS FLOWS CHANGES (messages between the agents of a lab)
netarium-bench wake-ups THREADS SECONDS (lateness of the first of them)
netarium-bench sharing (time to compute the shares of a system on standard input)";

/// The error is printed for the user.
type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["udp-send", to, rate, seconds] => datagrams::send(to, rate, seconds),
        ["udp-receive", port, seconds] => datagrams::receive(port, seconds),
        ["tcp-send", to, seconds, size] => stream::send(to, seconds, size),
        ["tcp-receive", port, seconds, buffer] => stream::receive(port, seconds, buffer),
        ["memory", what, count] => memory::each(what, count),
        ["sessions", engine, routers, sessions, millis] => {
            sessions::run(engine, routers, sessions, millis)
        }
        ["state", protocol, sessions] => state::of_link(protocol, sessions),
        ["collector", ref rest @ ..] => collector::run(rest),
        ["sharing"] => sharing::solve(),
        ["agreement", lab, agents, flows, changes] => agreement::cost(lab, agents, flows, changes),
        ["trunk-send", way, to, seconds, size, mtu] => trunk::send(way, to, seconds, size, mtu),
        ["trunk-receive", way, port, seconds] => trunk::receive(way, port, seconds),
        ["relay", seconds] => relay::copy(seconds),
        ["wake-ups", threads, seconds] => wakes::measure(threads, seconds),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A number of seconds as nanoseconds.
fn nanos(seconds: &str) -> Result<u64, std::num::ParseFloatError> {
    seconds.parse::<f64>().map(|seconds| (seconds * 1e9) as u64)
}

/// Prints a line to standard output.
#[expect(clippy::print_stdout, reason = "the result goes to standard output")]
fn print(line: &str) {
    println!("{line}");
}
