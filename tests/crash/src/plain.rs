//! The owner of a log whose bodies are only kept.

use std::sync::mpsc;

use dledger::{Body, Completed, Hook, HookError, Sink, Tail};

/// Leaves bodies as they are; a term is opened with a text.
#[derive(Debug)]
pub struct Plain;

impl Hook for Plain {
    fn elected(&mut self, _term: u64, _tail: &mut dyn Tail) -> Result<(), HookError> {
        Ok(())
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        format!("term {term} begins").into_bytes()
    }

    fn stamp(&mut self, _group: &mut [Body<'_>]) -> Result<(), HookError> {
        Ok(())
    }

    fn undo(&mut self) {}
}

/// Hands on what became of each submission.
#[derive(Debug)]
pub struct Outcomes<T>(pub mpsc::Sender<Completed<T>>);

impl<T: Send + 'static> Sink<T> for Outcomes<T> {
    fn completed(&self, group: Vec<Completed<T>>) {
        for completed in group {
            // The receiver is gone when the test or the program ends.
            self.0.send(completed).ok();
        }
    }
}
