//! Which step of a take-over comes next: a pure function of what the members tell.

/// What a member runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// LedgerMQ.
    Ours,
    /// Apache's broker.
    Java,
}

impl Product {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "LedgerMQ",
            Self::Java => "Java",
        }
    }
}

/// What is known of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Its id.
    pub(super) id: String,
    /// What answers on its peer port; `None` where nothing does.
    pub(super) product: Option<Product>,
    /// Whom it takes for the leader.
    pub(super) leader: Option<String>,
    /// Why it may not stand in for another one, as it says itself.
    pub(super) unfit: Option<String>,
    /// Its id in the routes of clients, where its address is there under the right one.
    pub(super) listed: bool,
    /// End of its log in bytes, where its client port tells it.
    pub(super) end: Option<u64>,
    /// Keys whose values are not those of the given broker.conf, with both.
    pub(super) differs: Vec<String>,
    /// What a Java member has not copied of the leader's tables yet.
    pub(super) lacks: Option<String>,
}

impl Member {
    /// Whether it takes itself for the leader.
    pub(super) fn leads(&self) -> bool {
        self.leader.as_deref() == Some(&self.id)
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// All members run the wanted product.
    Done,
    /// Stop this member and start the wanted product on its folder.
    Replace {
        /// Its id.
        id: String,
    },
    /// Hand the lead over: the leader is the last that runs the other product.
    HandOver {
        /// The leader.
        from: String,
        /// The member that has most.
        to: String,
    },
    /// Nothing yet, for these reasons.
    Wait(Vec<String>),
}

/// Bytes that a follower may be behind under load and still count as caught up.
const CLOSE: u64 = 4 << 20;

/// The next step towards a group that runs `wanted`.
pub(super) fn next(members: &[Member], wanted: Product) -> Step {
    let reasons = reasons(members);
    if !reasons.is_empty() {
        return Step::Wait(reasons);
    }
    let leader = members.iter().find_map(|member| member.leader.as_deref());
    let mut left = members.iter().filter(|member| member.product != Some(wanted));
    let follower = left.clone().find(|member| Some(member.id.as_str()) != leader);
    match (follower, left.next()) {
        (Some(follower), _) => Step::Replace { id: follower.id.clone() },
        (None, None) => Step::Done,
        (None, Some(last)) => {
            let others = members.iter().filter(|member| member.id != last.id);
            match others.max_by_key(|member| member.end) {
                Some(to) => Step::HandOver { from: last.id.clone(), to: to.id.clone() },
                None => Step::Replace { id: last.id.clone() },
            }
        }
    }
}

/// What keeps a member from being stopped without harm.
fn reasons(members: &[Member]) -> Vec<String> {
    let mut reasons = Vec::new();
    let leaders: std::collections::BTreeSet<_> =
        members.iter().filter_map(|member| member.leader.as_deref()).collect();
    if leaders.len() > 1 {
        let named: Vec<&str> = leaders.iter().copied().collect();
        reasons.push(format!("members name different leaders ({}): wait", named.join(", ")));
    }
    let end = members
        .iter()
        .find(|member| leaders.first() == Some(&member.id.as_str()))
        .and_then(|leader| leader.end);
    for member in members {
        let id = &member.id;
        if member.product.is_none() {
            reasons
                .push(format!("{id} does not answer: start it, and wait until it has caught up"));
            continue;
        }
        if member.leader.is_none() {
            reasons.push(format!("{id} knows no leader: wait, or look at its log"));
        }
        if let Some(unfit) = &member.unfit {
            reasons
                .push(format!("{id} could not take over ({unfit}): wait until it has caught up"));
        }
        if !member.listed {
            reasons.push(format!(
                "{id} is not in the routes under its broker id: wait, or look at its namesrvAddr"
            ));
        }
        match (end, member.end) {
            (Some(end), Some(own)) if own.saturating_add(CLOSE) < end => {
                let behind = end - own;
                reasons.push(format!("{id} is {behind} bytes behind the leader: wait"));
            }
            (_, None) if member.listed => {
                reasons.push(format!("{id} does not tell the end of its log at its client port"));
            }
            _ => {}
        }
        if let Some(lacks) = &member.lacks {
            reasons.push(format!(
                "{id} would lead with old tables ({lacks}): wait, Java copies them every ten seconds once it has heard who leads, which takes up to half a minute"
            ));
        }
        for key in &member.differs {
            reasons
                .push(format!("{id} runs with {key}: make them equal before anything is stopped"));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, product: Product) -> Member {
        Member {
            id: id.to_owned(),
            product: Some(product),
            leader: Some("n1".to_owned()),
            unfit: None,
            listed: true,
            end: Some(100 << 20),
            differs: Vec::new(),
            lacks: None,
        }
    }

    fn group(products: [Product; 3]) -> Vec<Member> {
        ["n0", "n1", "n2"].into_iter().zip(products).map(|(id, of)| member(id, of)).collect()
    }

    fn reasons_of(members: &[Member]) -> Vec<String> {
        match next(members, Product::Ours) {
            Step::Wait(reasons) => reasons,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn followers_go_first_then_the_lead_then_the_last() {
        use Product::{Java, Ours};
        let replace = |id: &str| Step::Replace { id: id.to_owned() };
        assert_eq!(next(&group([Java; 3]), Ours), replace("n0"));
        assert_eq!(next(&group([Ours, Java, Java]), Ours), replace("n2"));
        let mut last = group([Ours, Java, Ours]);
        last[0].end = Some((100 << 20) - 1);
        let hand_over = Step::HandOver { from: "n1".to_owned(), to: "n2".to_owned() };
        assert_eq!(next(&last, Ours), hand_over);
        last.iter_mut().for_each(|member| member.leader = Some("n2".to_owned()));
        assert_eq!(next(&last, Ours), replace("n1"));
        assert_eq!(next(&group([Ours; 3]), Ours), Step::Done);
        assert_eq!(next(&group([Ours; 3]), Java), replace("n0"), "and back");
        assert_eq!(next(&group([Java, Java, Ours]), Java), replace("n2"));
    }

    #[test]
    fn nothing_is_stopped_while_a_member_could_not_stand_in() {
        use Product::{Java, Ours};
        let told = |spoil: &dyn Fn(&mut Vec<Member>)| {
            let mut members = group([Ours, Java, Java]);
            spoil(&mut members);
            let reasons = reasons_of(&members);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            reasons[0].clone()
        };
        assert!(told(&|group| group[2].product = None).starts_with("n2 does not answer"));
        assert!(told(&|group| group[0].leader = None).starts_with("n0 knows no leader"));
        assert!(told(&|group| group[0].leader = Some("n2".to_owned())).contains("(n1, n2)"));
        assert!(told(&|group| group[0].unfit = Some("Empty".to_owned())).contains("(Empty)"));
        assert!(told(&|group| group[0].listed = false).contains("not in the routes"));
        assert!(told(&|group| group[0].end = Some(1)).contains("104857599 bytes behind"));
        assert!(told(&|group| group[0].end = None).contains("does not tell the end"));
        let lacks = |group: &mut Vec<Member>| group[2].lacks = Some("no topic T".to_owned());
        assert!(told(&lacks).starts_with("n2 would lead with old tables (no topic T)"));
        let differs = "mappedFileSizeCommitLog=1 where broker.conf has 2";
        assert!(told(&|group| group[2].differs.push(differs.to_owned())).contains(differs));
    }
}
