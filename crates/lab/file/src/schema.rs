//! The JSON Schema of lab files, for editors.

use serde_json::{Map, Value, json};

use crate::fields::{FILE, Field, Form, Presence, Section, Shape, Variant};

/// A JSON Schema (draft 2020-12) of lab files; `schemas/lab.schema.json` is
/// its pretty-printed form.
pub fn schema() -> Value {
    let mut properties = Map::new();
    let defs = &mut quantities();
    for top in FILE {
        let value = match top.form {
            Form::One(section) => section_ref(section, defs),
            Form::Named(section) => {
                json!({ "type": "object", "additionalProperties": section_ref(section, defs) })
            }
            Form::Many(section) => {
                json!({ "type": "array", "items": section_ref(section, defs) })
            }
            Form::Kinds(kinds) => json!({ "type": "array", "items": variant_ref(kinds, defs) }),
        };
        let doc = match top.form {
            Form::One(section) | Form::Named(section) | Form::Many(section) => section.doc,
            Form::Kinds(kinds) => kinds.doc,
        };
        properties.insert(top.key.to_owned(), described(value, doc));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://netarium.github.io/schemas/lab.schema.json",
        "title": "Netarium lab",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "$defs": defs,
    })
}

/// Definitions used by every section.
fn quantities() -> Map<String, Value> {
    let defs = json!({
        "sweep": {
            "description": "In place of a value: one run for each of several.",
            "oneOf": [
                {
                    "type": "object",
                    "properties": { "sweep": { "type": "array", "minItems": 1 } },
                    "required": ["sweep"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": {
                        "range": { "type": "string", "pattern": "\\.\\." },
                        "steps": { "type": "integer", "minimum": 2 },
                        "log": { "type": "integer", "minimum": 2 },
                    },
                    "required": ["range"],
                    "additionalProperties": false,
                },
            ],
        },
        "time": quantity("ns|us|µs|ms|s|min|h", "A time, such as `10 ms`."),
        "data": quantity("B|kB|MB|GB|TB|KiB|MiB|GiB", "An amount of data, such as `64 KiB`."),
        "rate": quantity(
            "[kMGT]?bit/s|[kMG]?B/s|[KMG]iB/s",
            "A data rate, such as `100 Mbit/s`.",
        ),
        "share": quantity("%|‰|ppm", "A share, such as `0.1 %`."),
    });
    defs.as_object().cloned().unwrap_or_default()
}

/// A name for a definition: the noun without its article.
fn slug(noun: &str) -> String {
    let noun = noun.trim_start_matches("a ").trim_start_matches("an ").trim_start_matches("the ");
    noun.chars()
        .filter_map(|c| match c {
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            ' ' | '-' => Some('-'),
            _ => None,
        })
        .collect()
}

type Defs = Map<String, Value>;

/// Adds a section to the definitions once, and returns a reference to it.
fn section_ref(section: &Section, defs: &mut Defs) -> Value {
    let name = slug(section.noun);
    if !defs.contains_key(&name) {
        let value = table(&[section.fields], None, defs);
        defs.insert(name.clone(), value);
    }
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn variant_ref(kinds: &Variant, defs: &mut Defs) -> Value {
    let name = format!("kinds-of-{}", slug(kinds.doc.split('.').next().unwrap_or_default()));
    if !defs.contains_key(&name) {
        let value = variant(kinds, defs);
        defs.insert(name.clone(), value);
    }
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn quantity(units: &str, doc: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^\\s*[0-9][0-9_]*(\\.[0-9_]*)?\\s*({units})\\s*$"),
        "description": doc,
    })
}

fn table(fields: &[&[&Field]], kind: Option<(&str, &str)>, defs: &mut Defs) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some((key, word)) = kind {
        properties.insert(key.to_owned(), json!({ "const": word }));
        required.push(key);
    }
    for field in fields.iter().flat_map(|fields| fields.iter()) {
        let mut doc = field.doc.to_owned();
        match field.presence {
            Presence::Required => required.push(field.key),
            Presence::Unset("") => {}
            Presence::Default(default) | Presence::Unset(default) => {
                doc = format!("{doc} Default: {default}.").trim().into();
            }
        }
        let value = json!({ "anyOf": [shape(&field.shape, defs), { "$ref": "#/$defs/sweep" }] });
        properties.insert(field.key.to_owned(), described(value, &doc));
    }
    let mut table =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn variant(variant: &Variant, defs: &mut Defs) -> Value {
    let kind = |(word, section): &(&str, &Section)| {
        let value = table(&[section.fields, variant.shared], Some((variant.key, word)), defs);
        described(value, section.doc)
    };
    json!({ "oneOf": variant.kinds.iter().map(kind).collect::<Vec<_>>() })
}

fn described(mut value: Value, doc: &str) -> Value {
    if !doc.is_empty() {
        value["description"] = json!(doc);
    }
    value
}

fn shape(shape: &Shape, defs: &mut Defs) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Whole(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
        Shape::Time(..) => json!({ "$ref": "#/$defs/time" }),
        Shape::Data(..) => json!({ "$ref": "#/$defs/data" }),
        Shape::Rate => json!({ "$ref": "#/$defs/rate" }),
        Shape::Share => json!({ "$ref": "#/$defs/share" }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::List(item) => json!({ "type": "array", "items": self::shape(item, defs) }),
        Shape::Pair(pair) => {
            let items: Vec<Value> = pair.iter().map(|shape| self::shape(shape, defs)).collect();
            json!({ "type": "array", "prefixItems": items, "items": false, "minItems": 2 })
        }
        Shape::Either(shapes) => {
            json!({ "anyOf": shapes.iter().map(|shape| self::shape(shape, defs)).collect::<Vec<_>>() })
        }
        Shape::Table(section) => section_ref(section, defs),
        Shape::Variant(kinds) => variant_ref(kinds, defs),
        Shape::Map(item) => {
            json!({ "type": "object", "additionalProperties": self::shape(item, defs) })
        }
    }
}
