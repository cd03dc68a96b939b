//! Distances of new events from the current time.

use base::RandomStream;

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Exponential,
    Sparse,
    Bimodal,
    Constant,
    Network,
}

/// All kinds with their descriptions; the part before the colon is the name.
pub(crate) const KINDS: [(Kind, &str); 5] = [
    (Kind::Exponential, "exponential: mean of 10 ms"),
    (Kind::Sparse, "sparse: exponential, 1 us between events however many are pending"),
    (Kind::Bimodal, "bimodal: 1 us or 100 ms"),
    (Kind::Constant, "constant: 10 ms, 10,000 instants shared by all"),
    (Kind::Network, "network: 12 us or 25 ms"),
];

const TABLE: usize = 1024;

/// A stream of increments with low cost compared to a queue: an xorshift generator (G. Marsaglia,
/// 2003) that indexes a table.
pub(crate) struct Increments {
    kind: Kind,
    table: Vec<u64>,
    state: u64,
}

impl Increments {
    pub(crate) fn new(kind: Kind, pending: usize) -> Self {
        let mut random = RandomStream::new(1, "increments");
        let exponential = |mean: f64, n: usize| {
            let share = (n as f64 + 0.5) / TABLE as f64;
            (-mean * (1.0 - share).ln()) as u64 + 1
        };
        let value = |n: usize| match kind {
            Kind::Exponential => exponential(1e7, n),
            Kind::Sparse => exponential(pending as f64 * 1e3, n),
            Kind::Bimodal => [1_000, 100_000_000][n % 2],
            Kind::Constant => 10_000_000,
            Kind::Network => [12_000, 25_000_000][n % 2],
        };
        Self { kind, table: (0..TABLE).map(value).collect(), state: random.bits() | 1 }
    }

    fn bits(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Distance of an initial event from the start.
    pub(crate) fn first(&mut self) -> u64 {
        if let Kind::Constant = self.kind {
            return self.bits() % 10_000 * 1_000;
        }
        let next = self.next();
        self.bits() % next
    }

    /// Distance from the event removed last.
    pub(crate) fn next(&mut self) -> u64 {
        let place = self.bits() as usize % TABLE;
        self.table[place]
    }
}
