//! What became of submissions: the same account as the engine's.

use std::collections::VecDeque;

use dledger_core::{EntryId, Millis};

use super::MemoryDisk;
use crate::process::Answer;

/// A submission whose entries were written here.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) token: u64,
    /// Index of its first entry.
    pub(super) first: u64,
    pub(super) last: EntryId,
    pub(super) deadline: Millis,
}

/// Submissions without an answer.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    /// Written and not committed, in log order.
    written: VecDeque<Submission>,
    /// Cut off, wholly or in part. That alone decides nothing: another member may still have the
    /// entries and lead next. What is committed in their place does.
    cut_off: VecDeque<Submission>,
}

impl Submissions {
    pub(super) fn wrote(&mut self, submission: Submission) {
        self.written.push_back(submission);
    }

    /// The first that will have waited too long, and when.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let both = self.written.iter().chain(&self.cut_off);
        both.map(|waiting| waiting.deadline).min()
    }

    /// Entry `from` and all behind it were cut off.
    pub(super) fn cut(&mut self, from: u64) {
        while let Some(cut) = self.written.pop_back_if(|waiting| waiting.last.index.0 >= from) {
            self.cut_off.push_front(cut);
        }
    }

    /// The log begins anew: nothing will be known of what it held.
    pub(super) fn give_up(&mut self, answers: &mut Vec<Answer>) {
        let all = self.written.drain(..).chain(self.cut_off.drain(..));
        answers.extend(all.map(|waiting| Answer::TimedOut { token: waiting.token }));
    }

    pub(super) fn expire(&mut self, now: Millis, answers: &mut Vec<Answer>) {
        for waiting in [&mut self.written, &mut self.cut_off] {
            waiting.retain(|waiting| {
                let late = waiting.deadline <= now;
                if late {
                    answers.push(Answer::TimedOut { token: waiting.token });
                }
                !late
            });
        }
    }

    /// All up to entry `upto` is committed.
    pub(super) fn committed(&mut self, upto: u64, disk: &MemoryDisk, answers: &mut Vec<Answer>) {
        while let Some(done) = self.written.pop_front_if(|waiting| waiting.last.index.0 <= upto) {
            answers.extend(judge(&done, upto, disk));
        }
        self.cut_off.retain(|waiting| {
            let answer = judge(waiting, upto, disk);
            let decided = answer.is_some();
            answers.extend(answer);
            !decided
        });
    }
}

/// What stands committed in the place of a submission; `None` where nothing does yet.
fn judge(waiting: &Submission, upto: u64, disk: &MemoryDisk) -> Option<Answer> {
    let Submission { token, first, last, .. } = *waiting;
    if first > upto {
        return None;
    }
    let Some(begins) = disk.entry(first) else { return Some(Answer::TimedOut { token }) };
    if begins.term != last.term.0 {
        return Some(Answer::CutOff { token });
    }
    if last.index.0 > upto {
        return None;
    }
    Some(match disk.entry(last.index.0) {
        Some(ends) if ends.term == last.term.0 => {
            Answer::Acknowledged { token, position: ends.position, hash: ends.hash }
        }
        // A newer leader kept a part of it.
        _ => Answer::TimedOut { token },
    })
}

#[cfg(test)]
mod tests {
    use dledger_core::{LogIndex, Term};

    use super::*;
    use crate::{ghost::Entry, plan::Plan, process::Disk};

    fn disk(terms: &[u64]) -> MemoryDisk {
        let disk = MemoryDisk::new(&Plan::draw(0));
        for (index, term) in (0..).zip(terms) {
            disk.push(Entry { index, term: *term, ..Entry::default() });
        }
        disk
    }

    /// A submission of term 5 with these entries, cut off from `from` on.
    fn cut(first: u64, last: u64, from: u64) -> Submissions {
        let mut submissions = Submissions::default();
        let last = EntryId { term: Term(5), index: LogIndex(last) };
        submissions.wrote(Submission { token: 9, first, last, deadline: Millis(100) });
        submissions.cut(from);
        submissions
    }

    fn after(submissions: &mut Submissions, upto: u64, terms: &[u64]) -> Vec<Answer> {
        let mut answers = Vec::new();
        submissions.committed(upto, &disk(terms), &mut answers);
        answers
    }

    #[test]
    fn what_was_cut_off_is_given_up_only_once_something_else_is_committed_there() {
        let mut submissions = cut(1, 1, 1);
        assert_eq!(after(&mut submissions, 0, &[4]), []);
        assert_eq!(after(&mut submissions, 1, &[4, 6]), [Answer::CutOff { token: 9 }]);
        assert_eq!(submissions.deadline(), None);
    }

    #[test]
    fn what_was_cut_off_and_came_back_is_acknowledged() {
        let answers = after(&mut cut(1, 1, 1), 1, &[4, 5]);
        assert!(matches!(answers[..], [Answer::Acknowledged { token: 9, .. }]), "{answers:?}");
    }

    #[test]
    fn of_what_is_committed_in_part_nothing_is_known() {
        let mut submissions = cut(1, 2, 2);
        assert_eq!(after(&mut submissions, 1, &[4, 5]), []);
        assert_eq!(after(&mut submissions, 2, &[4, 5, 6]), [Answer::TimedOut { token: 9 }]);
        let mut late = cut(1, 2, 2);
        let mut answers = Vec::new();
        late.expire(Millis(100), &mut answers);
        assert_eq!(answers, [Answer::TimedOut { token: 9 }]);
    }
}
