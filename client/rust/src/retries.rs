//! Which failed calls are made again, and when. A server that is asked for too much refuses at once, and says when to
//! come again. If all its clients came at that moment, or as often as they like, the tries would be a load of their
//! own. So a client waits a little longer than it was told, by chance, and has a budget: for ten calls it may make one
//! again, and a few at first. Never made again is what may have had an effect, unless it would have the same once more.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{Error, Status, v1::ErrorCode};

/// Of one call, the first among them.
const ATTEMPTS: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Who is told to wait longer hears of it instead.
const MOST_WAIT: Duration = Duration::from_secs(2);
/// Tries that a call earns, and that are saved up; these are there at first. In tenths of a try.
const PER_CALL: u32 = 1;
const MOST_BUDGET: u32 = 100;
const TRY: u32 = 10;

/// What looks, and what finds a second time what it made the first.
const IDEMPOTENT: [&str; 20] = [
    "/inference.GRPCInferenceService/ModelConfig",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelReady",
    "/inference.GRPCInferenceService/ModelStatistics",
    "/inference.GRPCInferenceService/RepositoryIndex",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerMetadata",
    "/inference.GRPCInferenceService/ServerReady",
    "/kiln.v1.BufferService/Describe",
    "/kiln.v1.BufferService/ListTensors",
    "/kiln.v1.DebugService/Explain",
    "/kiln.v1.DebugService/ListPrograms",
    "/kiln.v1.DebugService/Trace",
    "/kiln.v1.DeviceService/Describe",
    "/kiln.v1.DeviceService/List",
    "/kiln.v1.KernelService/Compile",
    "/kiln.v1.KernelService/Gradient",
    "/kiln.v1.KernelService/RecordSequence",
    "/kiln.v1.SessionService/Renew",
    "/kiln.v1.SessionService/Usage",
];

pub(crate) struct Retries(Mutex<u32>);

impl Default for Retries {
    fn default() -> Self {
        Retries(Mutex::new(MOST_BUDGET))
    }
}

impl Retries {
    /// A call begins.
    pub fn earn(&self) {
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *budget = MOST_BUDGET.min(*budget + PER_CALL);
    }

    /// How long to wait before a call is made again whose attempt-th attempt, from 1 on, failed so; None: it is not. It
    /// takes from the budget.
    pub fn wait(&self, path: &str, failed: &Error, attempt: u32, left: Option<Duration>) -> Option<Duration> {
        let asked = may_retry(path, failed)?;
        if attempt >= ATTEMPTS || asked > MOST_WAIT {
            return None;
        }
        let pause = match asked {
            Duration::ZERO => MOST_WAIT.min(FIRST_WAIT * (1 << (attempt - 1))).mul_f64(chance()),
            asked => asked + (asked / 2).mul_f64(chance()),
        };
        if left.is_some_and(|left| left <= pause) {
            return None;
        }
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *budget = budget.checked_sub(TRY)?;
        Some(pause)
    }
}

/// What the server asks for, zero where it says no time; None: the call may have begun, or will not end otherwise.
fn may_retry(path: &str, failed: &Error) -> Option<Duration> {
    match failed.status() {
        Status::ResourceExhausted => failed.retry_after(),
        // It has not begun; another server may follow at the address.
        Status::Unavailable if failed.code() == ErrorCode::ShuttingDown => Some(Duration::ZERO),
        Status::Unavailable if failed.code().is_none() => IDEMPOTENT.contains(&path).then_some(Duration::ZERO),
        _ => None,
    }
}

/// A number by chance.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// From 0 to 1.
fn chance() -> f64 {
    random() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTE: &str = "/kiln.v1.KernelService/Execute";
    const COMPILE: &str = "/kiln.v1.KernelService/Compile";

    fn failed(status: Status, code: ErrorCode, retry_after_ms: u32) -> Error {
        let mut made = Error::new(code, status, "");
        made.parts_mut().said.retry_after_ms = retry_after_ms;
        made
    }

    #[test]
    fn which_calls_are_made_again() {
        use Status::{InvalidArgument, ResourceExhausted, Unavailable};
        let none = ErrorCode::Unspecified;
        for (what, path, failed, again) in [
            ("busy", EXECUTE, failed(ResourceExhausted, none, 10), true),
            ("full", EXECUTE, failed(ResourceExhausted, none, 0), false),
            ("busy for long", EXECUTE, failed(ResourceExhausted, none, 60_000), false),
            ("stopping", EXECUTE, failed(Unavailable, ErrorCode::ShuttingDown, 0), true),
            ("lost, and looked", COMPILE, failed(Unavailable, none, 0), true),
            ("lost, and wrote", EXECUTE, failed(Unavailable, none, 0), false),
            ("a participant", COMPILE, failed(Unavailable, ErrorCode::ParticipantMissing, 0), false),
            ("a fault of the graph", COMPILE, failed(InvalidArgument, none, 0), false),
        ] {
            let pause = Retries::default().wait(path, &failed, 1, None);
            assert_eq!(pause.is_some(), again, "{what}");
            assert!(pause.unwrap_or_default() <= MOST_WAIT * 3 / 2, "{what}");
        }
    }

    #[test]
    fn there_is_an_end_to_it() {
        let busy = failed(Status::ResourceExhausted, ErrorCode::QuotaExceeded, 10);
        let retries = Retries::default();
        assert_eq!(retries.wait(EXECUTE, &busy, ATTEMPTS, None), None, "a fourth attempt");
        assert_eq!(retries.wait(EXECUTE, &busy, 1, Some(Duration::from_millis(1))), None, "behind its deadline");
        let made = (0..100).filter(|_| retries.wait(EXECUTE, &busy, 1, None).is_some()).count();
        assert_eq!(made, 10);
        (0..10).for_each(|_| retries.earn());
        assert!(retries.wait(EXECUTE, &busy, 1, None).is_some());
        assert!(retries.wait(EXECUTE, &busy, 1, None).is_none());
    }
}
