//! A lab that someone else has written can name any file that the user may read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::{Code, Overrides, load};

/// A line that no format permits, with text that errors would quote.
const SECRETS: &[(&str, &str)] = &[
    ("csv", "root:$6$secret:19000,0\n"),
    ("csv", "a,b,delay\nx,y,secret\n"),
    ("csv", "a,b,rate\nx,y,5 secret\n"),
    ("csv", "a,b,metric\nx,y,secret\n"),
    ("gml", "graph [ node [ id secret ] node [ id secret ] ]"),
    ("gml", "graph [ node [ id 1 ] edge [ source 1 target secret ] ]"),
    ("gml", "graph [ node [ id 1 Latitude secret Longitude 1 ] ]"),
    ("graphml", "<secret>x</secrets>"),
    ("graphml", "<graphml><graph><node id=\"secret\"/><node id=\"secret\"/></graph></graphml>"),
    ("graphml", "<graphml><graph><edge source=\"secret\" target=\"x\"/></graph></graphml>"),
    ("alt", "GRAPH (#nodes #edges id uu vv ww xx yy zz):\nsecret 7\n"),
];

const LINES: &[(&str, &str)] = &[
    ("trace = \"FILE\"", "secret\n"),
    ("trace = \"FILE\"", "31337\n31336\n"),
    ("rate = \"1 Mbit/s\"\njitter = { distribution = \"table\", table = \"FILE\" }", "secret\n"),
    ("rate = \"1 Mbit/s\"\njitter = { distribution = \"table\", table = \"FILE\" }", "1 secret\n"),
    ("[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = { cdf = \"FILE\" }", "secret\n"),
    ("[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = { cdf = \"FILE\" }", "1 secret\n"),
    ("[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = { cdf = \"FILE\" }", "1 0.31337\n"),
    (
        "[[flow]]\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\npattern = { trace = \"FILE\" }",
        "secret x\n",
    ),
];

fn labs() -> Vec<(String, &'static str, &'static str)> {
    let imports = SECRETS.iter().map(|(format, text)| {
        (format!("[[import]]\nformat = \"{format}\"\nfile = \"FILE\"\n"), *text, *format)
    });
    let pair = "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n";
    let lines = LINES.iter().map(|(keys, text)| (format!("{pair}{keys}\n"), *text, "line"));
    imports.chain(lines).collect()
}

/// The errors of a lab that names a file, with their help.
fn errors(lab: &str, file: &str, folder: &Path) -> String {
    let path = folder.join("lab.toml");
    fs::write(&path, lab.replace("FILE", file)).expect("the folder is writable");
    let found = load(&path, &Overrides::default()).expect_err("the file is invalid");
    let texts = found.list().iter().map(|error| {
        let known = [Code::BadImport, Code::BadTrace];
        assert!(known.contains(&error.code), "{:?}: {}", error.code, error.message);
        format!("{} | {}\n", error.message, error.help.as_deref().unwrap_or_default())
    });
    texts.collect()
}

#[test]
fn errors_do_not_quote_files_outside_the_folder_of_the_lab() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().join("lab");
    fs::create_dir(&folder).expect("the folder is new");
    symlink("../outside", folder.join("link")).expect("the link is new");
    for (lab, text, kind) in labs() {
        fs::write(place.path().join("outside"), text).expect("the folder is writable");
        fs::write(folder.join("inside"), text).expect("the folder is writable");
        let absolute = place.path().join("outside").display().to_string();
        for file in ["../outside", "link", &*absolute, "../lab/../outside"] {
            let shown = errors(&lab, file, &folder);
            let quotes = shown.contains("secret") || shown.contains("313");
            assert!(!quotes, "{kind}, {file}: {shown}");
            assert!(shown.contains("line "), "{kind}, {file}: {shown}");
            assert!(shown.contains("outside the folder of the lab"), "{kind}, {file}: {shown}");
        }
        let shown = errors(&lab, "inside", &folder);
        assert!(shown.contains("secret") || shown.contains("313"), "{kind}: {shown}");
    }
}

/// The lab file itself is a symbolic link to a secret file, which is not TOML or not a lab.
#[test]
fn errors_do_not_quote_a_lab_file_that_is_a_link_to_another_folder() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().join("lab");
    fs::create_dir(&folder).expect("the folder is new");
    symlink("../outside", folder.join("link.toml")).expect("the link is new");
    symlink("inside", folder.join("own.toml")).expect("the link is new");
    for text in ["root:$6$secret:19000\nx\n", "\n[registry]\ntoken = \"secret\"\n"] {
        for file in ["outside", "lab/inside"] {
            fs::write(place.path().join(file), text).expect("the folder is writable");
        }
        let shown = |file: &str| {
            let found = load(&folder.join(file), &Overrides::default()).expect_err("not a lab");
            let mut text = String::new();
            let handler = miette::GraphicalReportHandler::new();
            handler.render_report(&mut text, &found).expect("it is text");
            (found.list().len(), format!("{text}{found:?}"))
        };
        let (count, text) = shown("link.toml");
        assert!(!text.contains("secret") && !text.contains("token"), "{text}");
        assert!(text.contains("line 2") || text.contains("line 1"), "{text}");
        assert!(text.contains("is a link to another folder"), "{text}");
        assert_eq!(count, 1, "more errors would show the structure of the file");
        let (_, text) = shown("own.toml");
        assert!(text.contains("secret"), "{text}");
    }
}

#[test]
fn pipes_and_devices_are_refused_at_once() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let fifo = place.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let start = Instant::now();
    let unreadable = |lab: &Path, kind: &str| {
        let found = load(lab, &Overrides::default()).expect_err("it is not a regular file");
        let [error] = found.list() else { panic!("{:?}", found.list()) };
        assert_eq!(error.code, Code::Unreadable, "{}", error.message);
        let expected = format!("it is {kind}, not a regular file");
        assert!(error.message.ends_with(&expected), "{}", error.message);
    };
    unreadable(&fifo, "a pipe");
    unreadable(Path::new("/dev/zero"), "a device");
    let path = place.path().join("lab.toml");
    for (lab, _, _) in labs() {
        for (file, kind) in [("fifo", "a pipe"), ("/dev/zero", "a device")] {
            fs::write(&path, lab.replace("FILE", file)).expect("the folder is writable");
            unreadable(&path, kind);
        }
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}
