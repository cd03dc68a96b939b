//! What is collected, live: HTTP, WebSocket and BMP for whoever asks.
#![forbid(unsafe_code)]
