//! The collector beside other programs and formats.

mod bgpdump;
mod json_lines;
mod one_sided;
mod ris_live;
mod second_opinions;
