//! Namespaces are created and removed with the lab's process.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;

use emu::launch::{Options, fork_lab};
use emu::{Error, Result};
use sys::process::Exit;

pub(crate) const TESTS: &[super::Test] = &[
    ("lab_has_separate_namespaces", lab_has_separate_namespaces),
    ("lab_ends_after_its_command", lab_ends_after_its_command),
    ("kill_ends_all_processes_of_lab", kill_ends_all_processes_of_lab),
    ("parallel_labs_end_independently", parallel_labs_end_independently),
    ("panic_gives_exit_status_70", panic_gives_exit_status_70),
];

/// The value, or `None` with a note if the system does not permit namespaces.
pub(crate) fn unless_denied<T>(test: &str, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Namespaces { step, cause }) => {
            println!("SKIPPED {test}: {step}: {cause}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

fn inode(path: &str) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

fn lab_has_separate_namespaces() {
    let names = ["net", "mnt", "pid", "ipc", "uts", "user"];
    let lab = fork_lab(&Options::new("box"), |side| {
        let mut channel = side.channel;
        let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let inodes = names.map(|name| inode(&format!("/proc/self/ns/{name}")).to_string());
        let count = devices.lines().count() - 2;
        let pid = std::process::id();
        let line = format!("{pid} {} {count} {}\n", host.trim(), inodes.join(" "));
        channel.write_all(line.as_bytes()).unwrap();
        i32::from(!side.notices.is_empty())
    });
    let Some(mut lab) = unless_denied("lab_has_separate_namespaces", lab) else { return };
    let mut line = String::new();
    BufReader::new(lab.channel()).read_line(&mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(&words[..3], ["1", "box", "1"], "process 1, its name, loopback only");
    for (name, theirs) in names.iter().zip(&words[3..]) {
        assert_ne!(inode(&format!("/proc/self/ns/{name}")).to_string(), **theirs, "{name}");
    }
    assert_eq!(lab.wait().unwrap(), Exit::Code(0));
}

/// Reads end-of-file, then ends with 5.
fn until_channel_closes(mut side: emu::launch::LabSide) -> i32 {
    side.channel.write_all(b"up\n").unwrap();
    let mut rest = Vec::new();
    side.channel.read_to_end(&mut rest).unwrap();
    5
}

fn lab_ends_after_its_command() {
    // Here the command runs in its own process, and is killed.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let command = sys::process::fork(move || {
        let Some(lab) = unless_denied(
            "lab_ends_after_its_command",
            fork_lab(&Options::new("x"), until_channel_closes),
        ) else {
            return 0;
        };
        BufReader::new(lab.channel()).read_line(&mut String::new()).unwrap();
        let (mut writer, pid) = (writer, lab.pid());
        writer.write_all(format!("{pid}\n").as_bytes()).unwrap();
        // Runs until killed; the lab has closed the pipe's writing end.
        drop(writer);
        loop {
            std::thread::park();
        }
    });
    let mut command = sys::process::Child::of(command.unwrap()).unwrap();
    let mut text = String::new();
    // End-of-file comes when the lab, which was forked with a copy of the pipe, has ended.
    let mut buffer = [0; 16];
    let length = reader.read(&mut buffer).unwrap();
    text.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    command.signal(sys::process::Signal::KILL).unwrap();
    command.wait().unwrap();
    if length == 0 {
        return;
    }
    reader.read_to_string(&mut text).unwrap();
    let pid = text.trim();
    // Its files are closed shortly before it ends; if it does not end, the test hangs.
    while !is_gone(pid) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Whether a process has ended or is a zombie.
fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |text| text.contains(") Z "))
}

fn kill_ends_all_processes_of_lab() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let lab = fork_lab(&Options::new("x"), move |mut side| {
        // A grandchild in its own session holds the pipe's writing end.
        let child = sys::process::fork(move || {
            sys::process::start_session().unwrap();
            let _holds = &writer;
            side.channel.write_all(b"up\n").unwrap();
            loop {
                std::thread::park();
            }
        });
        sys::process::Child::of(child.unwrap()).unwrap().wait().map_or(1, Exit::code)
    });
    let Some(mut lab) = unless_denied("kill_ends_all_processes_of_lab", lab) else { return };
    BufReader::new(lab.channel()).read_line(&mut String::new()).unwrap();
    assert_eq!(lab.try_wait().unwrap(), None);
    lab.kill().unwrap();
    assert_eq!(lab.wait().unwrap(), Exit::Signal(9));
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the grandchild is gone");
}

fn parallel_labs_end_independently() {
    let lab = || {
        unless_denied(
            "parallel_labs_end_independently",
            fork_lab(&Options::new("x"), until_channel_closes),
        )
    };
    let (Some(mut first), Some(mut second)) = (lab(), lab()) else { return };
    first.end();
    assert_eq!(first.wait().unwrap(), Exit::Code(5));
    assert_eq!(second.try_wait().unwrap(), None);
    second.end();
    assert_eq!(second.wait().unwrap(), Exit::Code(5));
}

fn panic_gives_exit_status_70() {
    let lab = fork_lab(&Options::new("x"), |_| {
        std::panic::set_hook(Box::new(|_| {}));
        panic!("on purpose")
    });
    let Some(mut lab) = unless_denied("panic_gives_exit_status_70", lab) else { return };
    assert_eq!(lab.wait().unwrap(), Exit::Code(70));
}
