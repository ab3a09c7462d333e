//! The keeper: a thread that writes down, now and then, how far the derived files have come.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Instant,
};

use segment::Throttle;

use crate::derived::Derived;

/// The running thread; stopped by [`Keeper::stop`].
#[derive(Debug)]
pub(crate) struct Keeper {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Keeper {
    pub(crate) fn start(derived: Arc<Derived>) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || run(&derived, &told));
        Self { stop, thread }
    }

    /// Stops the thread and waits for it.
    pub(crate) fn stop(self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("keeper ended by a panic; the next start derives more than it must");
        }
    }
}

fn run(derived: &Derived, (stop, told): &(Mutex<bool>, Condvar)) {
    let warned = Throttle::new();
    let tick = derived.options.mark_interval / 4;
    let mut stopped = stop.lock().unwrap_or_else(PoisonError::into_inner);
    while !*stopped {
        stopped = told.wait_timeout(stopped, tick).unwrap_or_else(PoisonError::into_inner).0;
        if !*stopped && derived.mark_is_due() {
            drop(stopped);
            match derived.write_mark(false) {
                Ok(()) => drop(warned.over()),
                Err(error) => {
                    if let Some(held_back) = warned.tell(Instant::now()) {
                        tracing::error!(
                            %error, held_back,
                            "mark of the derived files cannot be written; tried again until it can"
                        );
                    }
                }
            }
            stopped = stop.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}
