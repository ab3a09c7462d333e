//! Which choices of fates a test tries for the changes that a power cut meets.

use super::Fate;

impl Fate {
    /// Every choice for `chosen` of `count` changes, once kept or dropped, once kept or torn: the
    /// first of them and the last of them. The other changes are all kept in one half of the choices
    /// and all dropped in the other.
    #[must_use]
    pub fn every_choice(count: usize, chosen: usize) -> Vec<Vec<Self>> {
        let chosen = count.min(chosen);
        let mut all = Vec::new();
        for rest in [Self::Keep, Self::Drop] {
            for kept in 0..1_u32 << chosen {
                for dropped in [Self::Drop, Self::Torn] {
                    for from_end in [false, true] {
                        let fate = |nth: usize| {
                            let nth = if from_end { count - 1 - nth } else { nth };
                            match nth < chosen {
                                true if kept >> nth & 1 == 1 => Self::Keep,
                                true => dropped,
                                false => rest,
                            }
                        };
                        all.push((0..count).map(fate).collect::<Vec<_>>());
                    }
                }
            }
            if count <= chosen {
                break;
            }
        }
        all
    }

    /// All kept, all dropped, and each one kept or torn alone.
    #[must_use]
    pub fn each_alone(count: usize) -> Vec<Vec<Self>> {
        let mut all = vec![vec![Self::Keep; count], vec![Self::Drop; count]];
        for nth in 0..count {
            for (one, others) in [(Self::Keep, Self::Drop), (Self::Torn, Self::Keep)] {
                let mut fates = vec![others; count];
                if let Some(fate) = fates.get_mut(nth) {
                    *fate = one;
                }
                all.push(fates);
            }
        }
        all
    }
}
