//! Traffic sources and sinks of the benchmark, one verb each. They run inside every contender's
//! network alike, and print one JSON object when they end.
#![forbid(unsafe_code)]

mod agreement;
mod collector;
mod datagrams;
mod events;
mod memory;
mod relay;
mod sessions;
mod sharing;
mod state;
mod stream;
mod trunk;

use std::process::ExitCode;

const USAGE: &str = "netarium-bench udp-send HOST:PORT PACKETS_PER_SECOND SECONDS
netarium-bench udp-receive PORT SECONDS
netarium-bench tcp-send HOST:PORT SECONDS WRITE_BYTES
netarium-bench tcp-receive PORT SECONDS RECEIVE_BUFFER_BYTES (0: the kernel's choice)
netarium-bench trunk-send plain|clear|sealed IP:PORT SECONDS BYTES MTU
netarium-bench trunk-receive plain|clear|sealed PORT SECONDS
netarium-bench relay SECONDS (between standard input and standard output)
netarium-bench events LARGEST (a table: each queue, up to that many pending events)
netarium-bench event QUEUE INCREMENTS PENDING (one of the table's numbers)
netarium-bench memory flows|packets COUNT (bytes of each)
netarium-bench sessions fifo|heap ROUTERS SESSIONS MILLISECONDS (events per second)
netarium-bench state PROTOCOL SESSIONS (what a link keeps for them)
netarium-bench collector unpack FROM TO (what is in a compressed file)
netarium-bench collector mrt CAPTURE ROUNDS (packets to records, in memory)
netarium-bench collector archive CAPTURE FOLDER none|gz|bz2|zst SECONDS (to files of so long)
netarium-bench collector decode|bgpkit|text ARCHIVE ROUNDS (records to what they mean)
netarium-bench collector routes CAPTURE same|different (what routes take)
netarium-bench collector crowd FOLDER PEERS PREFIXES SECONDS (very many peers)
netarium-bench collector appearing FOLDER (how old records are when they can be read)
netarium-bench agreement LAB MEMBERS FLOWS CHANGES (what members of a lab say to each other)
netarium-bench sharing (seconds that the shares of a system on standard input take)";

/// What can go wrong, in words for whoever reads the benchmark's output.
type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["udp-send", to, rate, seconds] => datagrams::send(to, rate, seconds),
        ["udp-receive", port, seconds] => datagrams::receive(port, seconds),
        ["tcp-send", to, seconds, size] => stream::send(to, seconds, size),
        ["tcp-receive", port, seconds, buffer] => stream::receive(port, seconds, buffer),
        ["events", largest] => events::table(largest),
        ["event", queue, increments, pending] => events::one(queue, increments, pending),
        ["memory", what, count] => memory::each(what, count),
        ["sessions", engine, routers, sessions, millis] => {
            sessions::run(engine, routers, sessions, millis)
        }
        ["state", protocol, sessions] => state::of_link(protocol, sessions),
        ["collector", ref rest @ ..] => collector::run(rest),
        ["sharing"] => sharing::solve(),
        ["agreement", lab, members, flows, changes] => {
            agreement::cost(lab, members, flows, changes)
        }
        ["trunk-send", way, to, seconds, size, mtu] => trunk::send(way, to, seconds, size, mtu),
        ["trunk-receive", way, port, seconds] => trunk::receive(way, port, seconds),
        ["relay", seconds] => relay::copy(seconds),
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

/// Prints a line that another process waits for.
#[expect(clippy::print_stdout, reason = "the result goes to standard output")]
fn print(line: &str) {
    println!("{line}");
}
