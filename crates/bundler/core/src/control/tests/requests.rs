//! Sizes of the requests of the paper's evaluation.

/// Cumulative distribution of request sizes (bytes, share), linear in between:
/// the paper's evaluation.
const SIZES: [(f64, f64); 6] =
    [(0.0, 0.0), (1e4, 0.976), (1e5, 0.995), (1e6, 0.999), (5e6, 0.9998), (1e8, 1.0)];

/// The size at this quantile of the distribution.
pub(super) fn size(place: f64) -> f64 {
    let above = SIZES.partition_point(|point| point.1 <= place).clamp(1, SIZES.len() - 1);
    let ((least, from), (most, to)) = (SIZES[above - 1], SIZES[above]);
    (least + (most - least) * (place - from) / (to - from)).max(100.0)
}

/// Mean size of a request in bytes.
pub(super) fn mean_size() -> f64 {
    SIZES.windows(2).map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0).sum()
}
