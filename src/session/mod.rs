//! The durable part: transcript and artifacts. The only code with effects; `disk` alone touches the file system.
//!
//! The contract (reliability 2.1): let *attempted* be the batches passed to append, *acked* those whose call returned. After any crash and
//! reopen, `acked ⊆ recovered ⊆ attempted`, in order, byte for byte, at most one batch more than acked, never a part of a batch. With
//! [`transcript::Sync::Always`] this holds for power loss too, on a local disk that honours flushes. Not promised: bit rot, network file
//! systems, two machines.

pub mod artifacts;
pub mod disk;
pub mod names;
pub mod read_range;
pub mod recorder;
pub mod resume;
pub mod scan;
pub mod search;
pub mod transcript;

#[cfg(test)]
#[path = "sim_disk.rs"]
mod sim_disk;
