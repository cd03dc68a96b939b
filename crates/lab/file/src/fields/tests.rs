//! Checks that the declared defaults are the actual defaults.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::diagnostic::Sink;
use crate::tree::{self, Table, Value};
use crate::validate::check_shape;

/// Calls `each` for all keys of the file.
fn all(each: &mut dyn FnMut(&Field)) {
    for top in FILE {
        match top.form {
            Form::One(section) | Form::Named(section) | Form::Many(section) => {
                fields(section, each);
            }
            Form::Kinds(variant) => variant_fields(variant, each),
        }
    }
}

fn fields(section: &Section, each: &mut dyn FnMut(&Field)) {
    for field in section.fields {
        each(field);
        shape(&field.shape, each);
    }
}

fn variant_fields(variant: &Variant, each: &mut dyn FnMut(&Field)) {
    variant.shared.iter().for_each(|field| each(field));
    variant.kinds.iter().for_each(|(_, section)| fields(section, each));
}

fn shape(shape: &Shape, each: &mut dyn FnMut(&Field)) {
    match shape {
        Shape::List(item) | Shape::Map(item) => self::shape(item, each),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| self::shape(shape, each)),
        Shape::Table(section) => fields(section, each),
        Shape::Variant(variant) => variant_fields(variant, each),
        _ => {}
    }
}

#[test]
fn every_default_can_be_read_and_fits_its_key() {
    let mut count = 0;
    all(&mut |field| {
        let Presence::Default(text) = field.presence else { return };
        count += 1;
        assert!((field.takes)(text), "`{}` cannot read its default {text}", field.key);
        let mut sink = Sink::default();
        check_shape(&Value::of_default(text), field.key, &field.shape, &mut sink);
        assert!(!sink.has_errors(), "`{}` = {text}: {:?}", field.key, sink.list);
    });
    assert!(count > 80, "only {count} keys have defaults");
}

/// Compares a resolved lab with the declared defaults, except for keys in the lab.
/// Returns the compared keys.
fn compare(text: &str) -> BTreeSet<String> {
    let lab = crate::parse("lab.toml", text, Path::new("")).unwrap();
    let resolved = crate::resolved(&lab.plans[0]);
    let Ok(root) = tree::read(&resolved) else { panic!("{resolved}") };
    let mut compared = BTreeSet::new();
    for top in FILE {
        let Some(value) = root.get(top.key) else { continue };
        let (Form::One(section) | Form::Many(section) | Form::Named(section)) = top.form else {
            continue;
        };
        let mut entries: Vec<&Value> = value.one_or_more().iter().collect();
        if let (Form::Named(_), Some(named)) = (&top.form, value.table()) {
            entries = named.entries.iter().map(|entry| &entry.value).collect();
        }
        for table in entries.into_iter().filter_map(Value::table) {
            compare_table((table, text), section, top.key, &mut compared);
        }
    }
    compared
}

fn compare_table(
    (table, text): (&Table, &str),
    section: &Section,
    path: &str,
    compared: &mut BTreeSet<String>,
) {
    for field in section.fields {
        let Some(value) = table.get(*field) else { continue };
        let path = format!("{path}.{}", field.key);
        if let (Some(table), Some(section)) = (value.table(), section_of(&field.shape)) {
            compare_table((table, text), section, &path, compared);
        } else if let Presence::Default(default) = field.presence
            && !COMPUTED.contains(&path.as_str())
            && !text.contains(&format!("\n{} = ", field.key))
        {
            let default = Value::of_default(default);
            assert_eq!(plain(value, &field.shape), plain(&default, &field.shape), "{path}");
            compared.insert(path);
        }
    }
}

/// Keys that have another form when resolved, or that depend on other keys.
const COMPUTED: &[&str] = &[
    "lab.overhead",
    "lab.capture",
    "link.up.queue",
    "link.down.queue",
    "bundle.scheduler",
    "sessions.start",
];

fn section_of(shape: &Shape) -> Option<&'static Section> {
    match shape {
        Shape::Table(section) => Some(section),
        Shape::Either(shapes) => shapes.iter().find_map(section_of),
        _ => None,
    }
}

/// Text of a value, with quantities in a base unit.
fn plain(value: &Value, shape: &Shape) -> String {
    let text = value.inline();
    match shape {
        Shape::Either([shape, ..]) => plain(value, shape),
        Shape::Time(..) => text.parse::<Span>().unwrap().to_string(),
        Shape::Data(..) => text.parse::<Bytes>().unwrap().to_string(),
        Shape::Rate => text.parse::<Bandwidth>().unwrap().to_string(),
        Shape::Share => text.parse::<base::Ratio>().unwrap().to_string(),
        Shape::Whole(..) if value.list().is_some() => value.one_or_more()[0].plain(),
        _ => text,
    }
}

#[test]
fn a_lab_without_optional_keys_has_the_defaults() {
    let nodes = "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n";
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    let mut compared = compare(&format!(
        "{nodes}{flow}{flow}count = 1\n[[program]]\nnode = \"a\"\nrun = [\"true\"]\n\
         [[mirror]]\nlink = \"a-b\"\n"
    ));
    for keys in [
        "transport = \"udp\"\nrate = \"1 Mbit/s\"\n",
        "transport = \"udp\"\nresponse = \"1 kB\"\n",
        "transport = \"mctcp\"\n",
        "[lab]\nmodel = \"collapsed\"\n",
        "[lab]\nrouting = \"metric\"\n",
        "[cluster]\nfiles = [\"a\"]\n",
    ] {
        compared.extend(compare(&format!("{nodes}{flow}{keys}")));
    }
    compared.extend(compare(
        "[node.r]\nkind = \"router\"\n[control]\n[[sessions]]\nname = \"s\"\ncount = 1\n\
         routers = \"r\"\n",
    ));
    compared.extend(compare(
        "[node.a]\n[node.s]\nkind = \"sendbox\"\n[node.r]\nkind = \"receivebox\"\n[node.b]\n\
         [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"s\", \"r\"]\n\
         [[link]]\nends = [\"r\", \"b\"]\n[[bundle]]\nfrom = \"s\"\nto = \"r\"",
    ));
    let list = compared.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    insta::assert_snapshot!(list);
}
