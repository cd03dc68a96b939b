//! The JSON Schema of lab files, for editors.

use serde_json::{Map, Value, json};

use crate::fields::{FILE, Field, Form, Presence, Section, Shape, Variant};

/// A JSON Schema (draft 2020-12) of lab files. `schemas/lab.schema.json` is this, pretty-printed.
pub fn schema() -> Value {
    let mut properties = Map::new();
    for top in FILE {
        let value = match top.form {
            Form::One(section) => table(&[section.fields], None),
            Form::Named(section) => {
                json!({ "type": "object", "additionalProperties": table(&[section.fields], None) })
            }
            Form::Many(section) => {
                json!({ "type": "array", "items": table(&[section.fields], None) })
            }
            Form::Kinds(kinds) => json!({ "type": "array", "items": variant(kinds) }),
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
        "$defs": {
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
        },
    })
}

fn quantity(units: &str, doc: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^\\s*[0-9][0-9_]*(\\.[0-9_]*)?\\s*({units})\\s*$"),
        "description": doc,
    })
}

fn table(fields: &[&[Field]], kind: Option<(&str, &str)>) -> Value {
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
            Presence::Default("") => {}
            Presence::Default(default) => doc = format!("{doc} Default: {default}.").trim().into(),
        }
        let value = json!({ "anyOf": [shape(&field.shape), { "$ref": "#/$defs/sweep" }] });
        properties.insert(field.key.to_owned(), described(value, &doc));
    }
    let mut table =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn variant(variant: &Variant) -> Value {
    let kind = |(word, section): &(&str, &Section)| {
        let value = table(&[section.fields, variant.shared], Some((variant.key, word)));
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

fn shape(shape: &Shape) -> Value {
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
        Shape::List(item) => json!({ "type": "array", "items": self::shape(item) }),
        Shape::Either(shapes) => {
            json!({ "anyOf": shapes.iter().map(self::shape).collect::<Vec<_>>() })
        }
        Shape::Table(section) => table(&[section.fields], None),
        Shape::Variant(kinds) => variant(kinds),
        Shape::Map(item) => {
            json!({ "type": "object", "additionalProperties": self::shape(item) })
        }
    }
}
