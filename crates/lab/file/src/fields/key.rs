//! Keys with the type of their values, so that code that reads a key repeats neither its
//! name nor its default.

use std::borrow::{Borrow, Cow};
use std::marker::PhantomData;

use base::{Bandwidth, Bytes, Ratio, Span};
use mctcp::scheduler::SchedulerKind;
use ratecontrol::Protocol;

use super::{Field, Presence};
use crate::tree::{Table, Value};

/// A key with a value of type `T`; `Option<T>` if the key has no default.
pub struct Key<T> {
    /// Declaration of the key.
    pub field: &'static Field,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

#[expect(clippy::missing_panics_doc, reason = "a test reads every default")]
impl<T: Kind> Key<T> {
    /// The key of a declaration, for use by `section!`.
    pub const fn new(field: &'static Field) -> Self {
        let has_default = matches!(field.presence, Presence::Default(_));
        assert!(has_default != T::IS_OPTIONAL, "a key has a default, or is optional to read");
        Self { field, kind: PhantomData }
    }

    /// The default value of the key.
    pub fn default<'v>(self) -> T::Out<'v> {
        T::default(self.default_text()).expect("a test reads every default")
    }

    /// Like [`Self::default`], but in the form of the file.
    pub fn default_value(self) -> Value {
        Value::of_default(self.default_text())
    }

    const fn default_text(self) -> &'static str {
        match self.field.presence {
            Presence::Default(text) => text,
            Presence::Required | Presence::Unset(_) => "",
        }
    }
}

impl<T: Write> Key<T> {
    /// The key and a value, in the syntax of the file.
    pub fn pair(self, value: impl Borrow<T::Value>) -> (&'static str, String) {
        (self.field.key, T::write(value.borrow()))
    }
}

/// A key by its name or by its declaration.
pub trait Name {
    /// The key's name in the file.
    fn name(&self) -> &str;
}

impl<T> Name for Key<T> {
    fn name(&self) -> &str {
        self.field.key
    }
}

impl Name for Field {
    fn name(&self) -> &str {
        self.key
    }
}

impl Name for str {
    fn name(&self) -> &str {
        self
    }
}

impl<N: Name + ?Sized> Name for &N {
    fn name(&self) -> &str {
        (**self).name()
    }
}

/// A type of values in the file.
pub trait Kind {
    /// The result of reading a value.
    type Out<'v>;
    /// Whether an absent value is valid.
    const IS_OPTIONAL: bool = false;

    /// The value, or `None` if it has another form.
    fn read(value: &Value) -> Option<Self::Out<'_>>;

    /// The value of a default text.
    fn default<'v>(text: &'static str) -> Option<Self::Out<'v>>;

    /// Whether the type accepts this default text.
    fn takes(text: &'static str) -> bool {
        Self::default(text).is_some()
    }
}

impl<T: Kind> Kind for Option<T> {
    type Out<'v> = Option<T::Out<'v>>;
    const IS_OPTIONAL: bool = true;

    fn read(value: &Value) -> Option<Self::Out<'_>> {
        Some(T::read(value))
    }

    fn default<'v>(_: &'static str) -> Option<Self::Out<'v>> {
        Some(None)
    }
}

/// A type whose values can be written in the syntax of the file.
pub trait Write: Kind {
    /// The type of written values.
    type Value;

    /// The value in TOML.
    fn write(value: &Self::Value) -> String;
}

impl<T: Write> Write for Option<T> {
    type Value = T::Value;

    fn write(value: &T::Value) -> String {
        T::write(value)
    }
}

/// Types whose texts are in the syntax of the file.
macro_rules! plain {
    ($($type:ty: $read:expr, $write:literal;)+) => {$(
        impl Write for $type {
            type Value = Self;

            fn write(value: &Self) -> String {
                format!($write, value)
            }
        }

        impl Kind for $type {
            type Out<'v> = Self;

            fn read(value: &Value) -> Option<Self> {
                let read: fn(&Value) -> Option<Self> = $read;
                read(value)
            }

            fn default<'v>(text: &'static str) -> Option<Self::Out<'v>> {
                text.parse().ok()
            }
        }
    )+};
}

plain! {
    bool: Value::flag, "{}";
    f64: Value::number, "{}";
    u8: |value| value.whole()?.try_into().ok(), "{}";
    u32: |value| value.whole()?.try_into().ok(), "{}";
    u64: |value| value.whole()?.try_into().ok(), "{}";
    Span: |value| value.text()?.parse().ok(), "\"{}\"";
    Bytes: |value| value.text()?.parse().ok(), "\"{}\"";
    Bandwidth: |value| value.text()?.parse().ok(), "\"{}\"";
    Ratio: |value| value.text()?.parse().ok(), "\"{}\"";
    Protocol: |value| value.text()?.parse().ok(), "\"{}\"";
    SchedulerKind: |value| value.text()?.parse().ok(), "\"{}\"";
}

impl Kind for String {
    type Out<'v> = &'v str;

    fn read(value: &Value) -> Option<&str> {
        value.text()
    }

    fn default<'v>(text: &'static str) -> Option<Self::Out<'v>> {
        Some(text)
    }
}

/// A value that may have several forms.
pub enum Raw {}

impl Kind for Raw {
    type Out<'v> = Cow<'v, Value>;

    fn read(value: &Value) -> Option<Cow<'_, Value>> {
        Some(Cow::Borrowed(value))
    }

    fn default<'v>(text: &'static str) -> Option<Cow<'v, Value>> {
        Some(Cow::Owned(Value::of_default(text)))
    }
}

/// A table with arbitrary keys.
pub enum Fields {}

impl Kind for Fields {
    type Out<'v> = &'v Table;

    fn read(value: &Value) -> Option<&Table> {
        value.table()
    }

    fn default<'v>(_: &'static str) -> Option<&'v Table> {
        Some(Table::EMPTY)
    }
}

/// A list of values.
impl<T: for<'v> Kind<Out<'v> = T>> Kind for Vec<T> {
    type Out<'v> = Self;

    fn read(value: &Value) -> Option<Self> {
        value.list()?.iter().map(T::read).collect()
    }

    fn default<'v>(text: &'static str) -> Option<Self::Out<'v>> {
        Self::read(&Value::of_default(text))
    }
}

/// A list of two values.
impl<A, B> Kind for (A, B)
where
    A: for<'v> Kind<Out<'v> = A>,
    B: for<'v> Kind<Out<'v> = B>,
{
    type Out<'v> = Self;

    fn read(value: &Value) -> Option<Self> {
        let [first, second] = value.list()? else { return None };
        A::read(first).zip(B::read(second))
    }

    fn default<'v>(text: &'static str) -> Option<Self::Out<'v>> {
        Self::read(&Value::of_default(text))
    }
}

/// A type whose values are words in the file.
pub trait Words: Sized {
    /// All words of the type.
    const WORDS: &'static [&'static str];

    /// The word of a value.
    fn word(&self) -> &'static str;
}

/// A list of a section's keys, independent of their types.
#[macro_export]
macro_rules! keys {
    ($section:ident: $($key:ident),*) => { [$($section.$key.field),*] };
}

/// Defines the words of a type's values.
#[macro_export]
macro_rules! words {
    ($($type:ty { $(($word:literal $($value:tt)+))+ })+) => {$(
        impl $crate::config::Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn word(&self) -> &'static str {
                match self { $($($value)+ => $word,)+ }
            }
        }

        impl $crate::config::Write for $type {
            type Value = Self;

            fn write(value: &Self) -> String {
                format!("\"{}\"", $crate::config::Words::word(value))
            }
        }

        impl $crate::config::Kind for $type {
            type Out<'v> = Self;

            fn read(value: &$crate::config::Value) -> Option<Self> {
                match value.text()? { $($word => Some($($value)+),)+ _ => None }
            }

            fn default<'v>(text: &'static str) -> Option<Self::Out<'v>> {
                match text { $($word => Some($($value)+),)+ _ => None }
            }
        }
    )+};
}

/// Declares a section and a struct of its keys, with one field per key.
///
/// An entry is `key: type, shape, presence, text;`, or `+ OTHER.key;` for a key of another section.
#[macro_export]
macro_rules! section {
    (@ $head:tt [$($own:tt)*] [$($field:tt)*]
     $key:ident: $kind:ty, $shape:expr, $presence:expr, $text:expr; $($rest:tt)*) => {
        $crate::section! { @ $head [$($own)* ($key, $kind, $shape, $presence, $text)]
                   [$($field)* $key,] $($rest)* }
    };
    (@ $head:tt $own:tt [$($field:tt)*] + $shared:expr; $($rest:tt)*) => {
        $crate::section! { @ $head $own [$($field)* $shared.field,] $($rest)* }
    };
    (@ ($(#[$about:meta])* $vis:vis $name:ident, $keys:ident, $noun:expr, $doc:expr)
     [$(($key:ident, $kind:ty, $shape:expr, $presence:expr, $text:expr))*] [$($field:tt)*]) => {
        #[allow(clippy::struct_field_names, missing_docs)]
        $vis struct $keys {
            $vis section: &'static $crate::config::Section,
            $($vis $key: $crate::config::Key<$kind>,)*
        }

        $(#[$about])*
        $vis const $name: $keys = {
            #[allow(clippy::enum_glob_use, unused_imports)]
            use $crate::config::{Field, Key, Kind, Presence::*, Section, Shape::*, name_of};
            $(
                #[allow(non_upper_case_globals)]
                const $key: &Field = &Field {
                    key: name_of(stringify!($key)),
                    shape: $shape,
                    presence: $presence,
                    doc: $text,
                                    takes: <$kind as Kind>::takes,
                };
            )*
            $keys {
                section: &Section { noun: $noun, doc: $doc, fields: &[$($field)*] },
                $($key: Key::new($key),)*
            }
        };
    };
    ($(#[$about:meta])* $vis:vis $name:ident: $keys:ident = $noun:expr, $doc:expr;
     $($rest:tt)*) => {
        $crate::section! { @ ($(#[$about])* $vis $name, $keys, $noun, $doc) [] [] $($rest)* }
    };
}
