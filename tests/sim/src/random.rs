//! Random numbers that follow from a seed and from nothing else.

/// A generator (SplitMix64): the same numbers for the same seed, on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one purpose, so that a change of one part of a run leaves the
    /// draws of the others alone.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.draw();
        random
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not with, `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `least` up to and with `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True in `permille` of 1,000 cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of `choices`, which must not be empty: the first stands in for none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        let nth = usize::try_from(self.below(choices.len() as u64)).ok()?;
        choices.get(nth).copied()
    }

    /// Mostly near `usual`, now and then many times that, never above `most`: each doubling is a
    /// quarter as likely as the one before.
    pub fn heavy_tail(&mut self, usual: u64, most: u64) -> u64 {
        let mut bound = usual.max(1);
        while bound < most && self.chance(250) {
            bound = bound.saturating_mul(2);
        }
        self.between(1, bound.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_others() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..10).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_hold_and_are_reached() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 5)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&5)));
        assert_eq!(random.below(0), 0);
        let tail: Vec<u64> = (0..5000).map(|_| random.heavy_tail(4, 1000)).collect();
        assert!(tail.iter().all(|delay| (1..=1000).contains(delay)));
        assert!(tail.iter().any(|delay| *delay > 100), "no heavy tail");
    }
}
