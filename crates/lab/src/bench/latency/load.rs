//! Simulates a busy machine: loops of normal priority that use every processor all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Loops that run until this is dropped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts `count` loops, all on one processor if `cpu` names one. They inherit the caller's scheduling, so it must
    /// be a normal one.
    pub(super) fn start(count: usize, cpu: Option<usize>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                if let Some(cpu) = cpu {
                    // The processor is one of those that this process may use.
                    let _ = net::sched::pin(cpu);
                }
                let mut x = 1u64;
                // The loop has no pause instruction, which would yield the processor on virtual machines.
                while !stop.load(Ordering::Relaxed) {
                    x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005) | 1);
                }
            })
        };
        Load {
            loops: (0..count).map(spin).collect(),
            stop,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for one in self.loops.drain(..) {
            // A loop of arithmetic does not panic.
            let _ = one.join();
        }
    }
}
