//! Loss processes, with one sample per packet.

use base::RandomStream;

use crate::config::Loss;

/// The state of one link's loss process.
#[derive(Debug)]
pub(crate) struct LossProcess {
    law: Loss,
    bad: bool,
    random: RandomStream,
}

impl LossProcess {
    pub(crate) const fn new(law: Loss, random: RandomStream) -> Self {
        Self { law, bad: false, random }
    }

    /// Changes the distribution; the random stream and the chain's state continue.
    pub(crate) fn set_law(&mut self, law: Loss) {
        self.law = law;
    }

    /// Whether the next packet is lost.
    pub(crate) fn takes(&mut self) -> bool {
        match self.law {
            Loss::None => false,
            Loss::Bernoulli(p) => self.random.chance(p),
            Loss::GilbertElliott { p, r, loss_good, loss_bad } => {
                let lost = self.random.chance(if self.bad { loss_bad } else { loss_good });
                if self.random.chance(if self.bad { r } else { p }) {
                    self.bad = !self.bad;
                }
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(law: Loss, n: usize) -> Vec<bool> {
        let mut process = LossProcess::new(law, RandomStream::new(3, "loss"));
        (0..n).map(|_| process.takes()).collect()
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let lost = stream(Loss::Bernoulli("5 %".parse().unwrap()), 100_000);
        let count = lost.iter().filter(|l| **l).count();
        assert!((4_800..5_200).contains(&count), "{count}");
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        let ratio = |text: &str| text.parse().unwrap();
        let law = Loss::GilbertElliott {
            p: ratio("1 %"),
            r: ratio("10 %"),
            loss_good: ratio("0 %"),
            loss_bad: ratio("100 %"),
        };
        let lost = stream(law, 200_000);
        // Stationary share p/(p+r) = 1/11; mean burst 1/r = 10.
        let count = lost.iter().filter(|l| **l).count() as f64;
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        assert!((count / 2e5 - 1.0 / 11.0).abs() < 0.01, "{count}");
        assert!((count / bursts - 10.0).abs() < 1.0, "{}", count / bursts);
    }
}
