//! Labs on a real kernel. This is its own test harness, because a lab's programs are started
//! through the running executable, and because a lab is forked from a process with one thread.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "these are tests")]

#[path = "labs/launching.rs"]
mod launching;
#[path = "labs/network_changes.rs"]
mod network_changes;
#[path = "labs/programs.rs"]
mod programs;
#[path = "../src/sample.rs"]
mod sample;
#[path = "labs/shards.rs"]
mod shards;
#[path = "labs/test_cluster.rs"]
mod test_cluster;
#[path = "labs/wire.rs"]
mod wire;

type Test = (&'static str, fn());

fn main() {
    emu::program::init_main();
    let tests: Vec<Test> =
        [launching::TESTS, programs::TESTS, shards::TESTS, network_changes::TESTS].concat();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == emu::doctor::PROBE_ARGUMENT) {
        emu::doctor::probe_main().unwrap();
        return;
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        // No test is ignored.
        for (name, _) in tests.iter().filter(|_| !has("--ignored")) {
            println!("{name}: test");
        }
        return;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| {
        filter.is_none_or(|filter| {
            if has("--exact") { name == filter } else { name.contains(filter.as_str()) }
        })
    };
    let own = std::process::id();
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, test) in tests.into_iter().filter(|(name, _)| wanted(name)) {
        let ended = std::panic::catch_unwind(test);
        // Other tests must not run in a lab's process.
        if std::process::id() != own {
            std::process::exit(101);
        }
        let word = if ended.is_ok() {
            passed += 1;
            "ok"
        } else {
            failed.push(name);
            "FAILED"
        };
        println!("test {name} ... {word}");
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    if !failed.is_empty() {
        println!("\nfailures:\n    {}", failed.join("\n    "));
    }
    println!("\ntest result: {result}. {passed} passed; {} failed", failed.len());
    if !failed.is_empty() {
        std::process::exit(101);
    }
}
