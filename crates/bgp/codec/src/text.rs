//! Formatting of bytes and lists.

use std::fmt;

/// Bytes as hexadecimal digits without separators.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Values with a separator between them.
pub(crate) fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    values: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{value}")?;
    }
    Ok(())
}
