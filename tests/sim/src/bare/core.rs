//! What decides in a member: our core, or a model of Java's.

use dledger_core::{EntryId, Input, Load, Millis, Node, Output, Provisional, Role, Term};

use super::java_node::JavaNode;

/// One of the two.
#[derive(Debug)]
pub(super) enum Core {
    Ours(Box<Node>),
    Java(Box<JavaNode>),
}

impl Core {
    pub(super) fn handle(&mut self, now: Millis, input: Input) {
        match self {
            Self::Ours(node) => node.handle(now, input),
            Self::Java(node) => node.handle(now, input),
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        match self {
            Self::Ours(node) => node.poll_output(),
            Self::Java(node) => node.poll_output(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Millis> {
        match self {
            Self::Ours(node) => node.poll_timeout(),
            Self::Java(node) => node.poll_timeout(),
        }
    }

    pub(super) fn term(&self) -> Term {
        match self {
            Self::Ours(node) => node.term(),
            Self::Java(node) => node.term(),
        }
    }

    pub(super) fn role(&self) -> Role {
        match self {
            Self::Ours(node) => node.role(),
            Self::Java(node) => node.role(),
        }
    }

    pub(super) fn last(&self) -> Option<EntryId> {
        match self {
            Self::Ours(node) => node.last(),
            Self::Java(node) => node.last(),
        }
    }

    /// A member of Java's never says so.
    pub(super) fn provisional(&self) -> Option<Provisional> {
        match self {
            Self::Ours(node) => node.provisional(),
            Self::Java(_) => None,
        }
    }

    /// What waits in Java's is not bounded.
    pub(super) fn loads(&self) -> Vec<Load> {
        match self {
            Self::Ours(node) => node.loads(),
            Self::Java(_) => Vec::new(),
        }
    }
}
