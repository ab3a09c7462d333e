//! Tables that follow from the log, compared with what clients asked for.

use super::World;
use crate::{
    model::Model,
    process::{Process, Shown},
};

impl<P: Process> World<P> {
    /// B-7, B-13: a member that is about to serve as the leader has in its tables everything that
    /// was ever committed.
    pub(super) fn judge_new_leader(&mut self, member: usize) {
        let Some(shown) = self.shown(member) else { return };
        let known = self.watch.ghost.member(member);
        let committed = known.and_then(|known| known.log.get(known.commit?));
        // A broker waits until its tables are there.
        if committed.is_some_and(|entry| entry.end() <= shown.applied) {
            self.compare_tables(member, &shown);
        }
    }

    /// The same of every member, at the end.
    pub(super) fn compare_all_tables(&mut self) {
        for member in 0..self.plan.members {
            if let Some(shown) = self.shown(member) {
                self.compare_tables(member, &shown);
            }
        }
    }

    /// A member that has not applied all that is committed.
    pub(super) fn tables_behind(&self) -> Option<String> {
        let end = self.watch.ghost.committed.last()?.entry.end();
        (0..self.plan.members).find_map(|member| {
            let applied = self.shown(member)?.applied;
            (applied < end).then(|| format!("n{member} has applied {applied} of {end}"))
        })
    }

    fn shown(&self, member: usize) -> Option<Shown> {
        self.slots.get(member)?.process.as_ref()?.shown()
    }

    fn compare_tables(&mut self, member: usize, shown: &Shown) {
        let mut model = Model::default();
        let committed = self.watch.ghost.committed.iter().map(|committed| committed.entry);
        for entry in committed.take_while(|entry| entry.end() <= shown.applied) {
            model.entry(&entry);
        }
        let expected = model.text();
        if shown.tables == expected {
            return;
        }
        let offsets = |text: &str| {
            let lines = text.lines().filter(|line| line.starts_with("offset"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let invariant = if offsets(&shown.tables) == offsets(&expected) {
            "B-13 tables follow from the log"
        } else {
            "B-7 committed offsets stay"
        };
        let only = |text: &str, other: &str| {
            let lines = text.lines().filter(|line| !other.lines().any(|it| it == *line));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let text = format!(
            "n{member} at {} lacks {:?} and has {:?} too many",
            shown.applied,
            only(&expected, &shown.tables),
            only(&shown.tables, &expected)
        );
        self.watch.break_by(invariant, text);
    }
}
