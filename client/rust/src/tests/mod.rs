//! What needs a server: one that lies, or a real one where KILN_ADDR names it.

mod fuzz;
mod liar;
mod lies;
mod models;
mod server;
mod streams;
mod wire;

use std::{future::Future, time::Duration};

/// However slow the machine is, this is for ever.
pub const FOR_EVER: Duration = Duration::from_secs(120);

/// What something becomes; the test fails if it never does.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, what).await.expect("it is waited for without an end")
}

/// Waits until something holds.
pub async fn until(holds: impl Fn() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
