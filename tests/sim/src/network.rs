//! Links between the members, and what goes wrong on them.

use crate::random::Random;

/// Most members of a simulated group.
pub const MEMBERS_MAX: usize = 5;

/// How messages fare while nothing is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// Of 1,000 messages so many are lost.
    pub loss: u64,
    /// Of 1,000 messages so many arrive twice.
    pub duplicates: u64,
    /// Usual delay in milliseconds.
    pub delay_usual: u64,
    /// Longest delay in milliseconds: the tail is heavy where it is far above the usual one.
    pub delay_most: u64,
    /// Whether a message may overtake another one of the same link.
    pub reorders: bool,
}

impl Weather {
    /// A local network in good order.
    pub const FAIR: Self =
        Self { loss: 0, duplicates: 0, delay_usual: 2, delay_most: 2, reorders: false };
}

/// Which links are cut. Members are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing gets from the first to the second; the other way works.
    OneWay(usize, usize),
    /// The members of the mask and the others do not reach each other.
    Halves(u8),
    /// The member neither hears nor is heard.
    Isolated(usize),
    /// The member is heard but hears nothing.
    Deaf(usize),
    /// The member hears but is not heard.
    Mute(usize),
    /// Two halves that only the member in the middle reaches both.
    Bridge(usize),
    /// Each member reaches a majority, and no two the same one: its neighbours on a ring.
    Ring,
}

/// All links of a group.
#[derive(Debug)]
pub struct Network {
    members: usize,
    random: Random,
    /// How messages fare.
    pub weather: Weather,
    open: [[bool; MEMBERS_MAX]; MEMBERS_MAX],
    /// Until when messages of a link are held back, then to arrive together.
    held_until: [[u64; MEMBERS_MAX]; MEMBERS_MAX],
    last_arrival: [[u64; MEMBERS_MAX]; MEMBERS_MAX],
}

/// When a message arrives: not at all, once or twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// The first time.
    pub first: Option<u64>,
    /// The second time.
    pub second: Option<u64>,
}

impl Network {
    /// A network of `members` in fair weather.
    #[must_use]
    pub fn new(members: usize, random: Random) -> Self {
        Self {
            members: members.min(MEMBERS_MAX),
            random,
            weather: Weather::FAIR,
            open: [[true; MEMBERS_MAX]; MEMBERS_MAX],
            held_until: [[0; MEMBERS_MAX]; MEMBERS_MAX],
            last_arrival: [[0; MEMBERS_MAX]; MEMBERS_MAX],
        }
    }

    /// Puts a message on a link.
    pub fn send(&mut self, now: u64, from: usize, to: usize) -> Arrivals {
        if !self.reaches(from, to) || self.random.chance(self.weather.loss) {
            return Arrivals::default();
        }
        let first = Some(self.arrival(now, from, to));
        let again = self.random.chance(self.weather.duplicates);
        Arrivals { first, second: again.then(|| self.arrival(now, from, to)) }
    }

    fn arrival(&mut self, now: u64, from: usize, to: usize) -> u64 {
        let delay = self.random.heavy_tail(self.weather.delay_usual, self.weather.delay_most);
        let held = at(&self.held_until, from, to).unwrap_or(0);
        let mut when = now.max(held) + delay;
        let last = self.last_arrival.get_mut(from).and_then(|row| row.get_mut(to));
        if let Some(last) = last {
            if !self.weather.reorders {
                when = when.max(*last);
            }
            *last = when.max(*last);
        }
        when
    }

    /// Whether messages get from one member to the other now.
    #[must_use]
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        at(&self.open, from, to).unwrap_or(false)
    }

    /// Cuts links, in addition to those that are cut.
    pub fn cut(&mut self, cut: Cut) {
        for from in 0..self.members {
            for to in 0..self.members {
                if from != to && self.is_cut_by(cut, from, to) {
                    self.set(from, to, false);
                }
            }
        }
    }

    fn is_cut_by(&self, cut: Cut, from: usize, to: usize) -> bool {
        let side = |member: usize, mask: u8| mask >> member & 1;
        match cut {
            Cut::OneWay(silent, deaf) => (from, to) == (silent, deaf),
            Cut::Halves(mask) => side(from, mask) != side(to, mask),
            Cut::Isolated(alone) => from == alone || to == alone,
            Cut::Deaf(deaf) => to == deaf,
            Cut::Mute(mute) => from == mute,
            Cut::Bridge(middle) => {
                let half = self.members / 2;
                let left = |member: usize| (member + self.members - middle) % self.members <= half;
                from != middle && to != middle && left(from) != left(to)
            }
            Cut::Ring => {
                // With three members each hears one neighbour and itself, with five two.
                let reach = self.members / 2;
                let step = (to + self.members - from) % self.members;
                let near = reach.div_ceil(2);
                step > near && self.members - step > reach - near
            }
        }
    }

    /// Holds back what is sent on a link until `until`.
    pub fn hold(&mut self, from: usize, to: usize, until: u64) {
        if let Some(held) = self.held_until.get_mut(from).and_then(|row| row.get_mut(to)) {
            *held = until;
        }
    }

    /// Opens every link; the weather stays.
    pub fn join(&mut self) {
        self.open = [[true; MEMBERS_MAX]; MEMBERS_MAX];
        self.held_until = [[0; MEMBERS_MAX]; MEMBERS_MAX];
    }

    /// Opens every link in fair weather. Connections are new ones: what is late of old ones is still
    /// late, and holds up nothing behind it.
    pub fn heal(&mut self) {
        self.join();
        self.weather = Weather::FAIR;
        self.last_arrival = [[0; MEMBERS_MAX]; MEMBERS_MAX];
    }

    fn set(&mut self, from: usize, to: usize, open: bool) {
        if let Some(link) = self.open.get_mut(from).and_then(|row| row.get_mut(to)) {
            *link = open;
        }
    }
}

fn at<T: Copy>(table: &[[T; MEMBERS_MAX]; MEMBERS_MAX], from: usize, to: usize) -> Option<T> {
    table.get(from)?.get(to).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(members: usize, cut: Cut) -> Vec<(usize, usize)> {
        let mut network = Network::new(members, Random::new(1));
        network.cut(cut);
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to && network.reaches(*from, *to)).collect()
    }

    #[test]
    fn each_cut_leaves_the_links_that_its_name_says() {
        assert_eq!(reached(3, Cut::OneWay(0, 1)), [(0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
        assert_eq!(reached(3, Cut::Halves(0b011)), [(0, 1), (1, 0)]);
        assert_eq!(reached(3, Cut::Isolated(1)), [(0, 2), (2, 0)]);
        assert_eq!(reached(3, Cut::Deaf(1)), [(0, 2), (1, 0), (1, 2), (2, 0)]);
        assert_eq!(reached(3, Cut::Mute(1)), [(0, 1), (0, 2), (2, 0), (2, 1)]);
        assert_eq!(reached(3, Cut::Bridge(0)), [(0, 1), (0, 2), (1, 0), (2, 0)]);
    }

    #[test]
    fn on_a_ring_everybody_reaches_a_majority_with_itself() {
        for members in [3, 5] {
            let reached = reached(members, Cut::Ring);
            for member in 0..members {
                let heard = reached.iter().filter(|(from, _)| *from == member).count();
                assert_eq!(heard, members / 2, "member {member} of {members}: {reached:?}");
            }
        }
    }

    #[test]
    fn without_reordering_messages_keep_their_order_and_held_ones_come_together() {
        let mut network = Network::new(3, Random::new(3));
        network.weather = Weather { delay_most: 500, ..Weather::FAIR };
        let mut last = 0;
        for now in 0..200 {
            let first = network.send(now, 0, 1).first.unwrap();
            assert!(first >= last && first > now);
            last = first;
        }
        network.hold(0, 1, 5000);
        assert!(network.send(300, 0, 1).first.unwrap() > 5000);
        network.join();
        assert!(network.send(10_000, 0, 1).first.unwrap() > 10_000);
    }

    #[test]
    fn loss_and_duplicates_come_as_often_as_the_weather_says() {
        let mut network = Network::new(3, Random::new(3));
        network.weather = Weather { loss: 500, duplicates: 500, ..Weather::FAIR };
        let sent: Vec<_> = (0..1000).map(|now| network.send(now, 0, 1)).collect();
        let lost = sent.iter().filter(|arrivals| arrivals.first.is_none()).count();
        let twice = sent.iter().filter(|arrivals| arrivals.second.is_some()).count();
        assert!((400..600).contains(&lost), "{lost}");
        assert!((150..350).contains(&twice), "{twice}");
    }
}
