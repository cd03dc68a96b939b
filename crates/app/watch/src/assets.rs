//! The files of the page, compiled in from `web/dist`.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

macro_rules! files {
    ($($path:literal)*) => {
        /// Paths below `web/dist`, and contents.
        pub(crate) const FILES: &[(&str, &[u8])] =
            &[$(($path, include_bytes!(concat!("../../../../web/dist/", $path)))),*];
    };
}

files! {
    "index.html"
    "links.js"
    "page.css"
    "page.js"
    "terminal.js"
}

pub(crate) async fn serve(uri: Uri) -> Response {
    let path = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    match FILES.iter().find(|(name, _)| *name == path) {
        Some((name, bytes)) => {
            ([(header::CONTENT_TYPE, content_type(name))], *bytes).into_response()
        }
        None => (StatusCode::NOT_FOUND, "There is no such file.\n").into_response(),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json") => "application/json",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeds_all_files_of_built_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../web/dist");
        let found = std::fs::read_dir(folder).unwrap();
        let mut found: Vec<_> =
            found.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        assert_eq!(found, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert!(FILES.iter().all(|(name, _)| content_type(name) != "application/octet-stream"));
    }
}
