//! What is wrong with a configuration, with its places; all of a file at once.

use std::fmt;
use std::ops::Range;

use miette::{LabeledSpan, NamedSource, SourceCode};

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
    /// The bytes of the file that it is about.
    pub at: Option<Range<usize>>,
    /// Line and column of that, from 1; (0, 0) without a place.
    pub position: (u32, u32),
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{} {} in {name}", list.len(), if list.len() == 1 { "mistake" } else { "mistakes" })]
pub struct Mistakes {
    name: String,
    file: NamedSource<String>,
    list: Vec<Mistake>,
}

impl Mistakes {
    pub(super) fn new(name: &str, text: &str, mut list: Vec<Mistake>) -> Self {
        list.sort_by_key(|mistake| mistake.at.as_ref().map_or(0, |at| at.start));
        for mistake in &mut list {
            if let Some(at) = &mut mistake.at {
                *at = at.start.min(text.len())..at.end.min(text.len());
                mistake.position = position(text, at.start);
            }
        }
        let file = NamedSource::new(name, text.to_owned()).with_language("TOML");
        Self { name: name.to_owned(), file, list }
    }

    /// All of them, in the order of the file.
    pub fn list(&self) -> &[Mistake] {
        &self.list
    }

    /// The file's name as given.
    pub fn source_name(&self) -> &str {
        &self.name
    }
}

impl miette::Diagnostic for Mistakes {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.file)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().map(|mistake| mistake as &dyn miette::Diagnostic)))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl miette::Diagnostic for Mistake {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = |at: &Range<usize>| LabeledSpan::new(None, at.start, at.len());
        Some(Box::new(self.at.as_ref().map(label).into_iter()))
    }
}

fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line as u32, column as u32)
}

/// `did you mean …?`, or what there is.
pub(super) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let closest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&word.to_lowercase(), name), *name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(word.len()) / 4)
        .min_by_key(|(distance, _)| *distance);
    if let Some((_, name)) = closest {
        return format!("did you mean `{name}`?");
    }
    let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("there are {}", listed.join(", "))
}
