//! The codecs of BGP, MRT and BMP on samples.

mod bmp;
mod families;
mod messages;
mod mrt_properties;
mod mrt_samples;
