//! The lease under which the server keeps what a client makes. A task renews it; a client that is killed renews no
//! more, and the server then frees what it had. A session that the server does not know any more, since it was started
//! anew, is replaced by another: what the first owned is gone.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    Result, Status,
    call::CallOptions,
    connection::{Connection, Session},
    v1::{self, session_service},
};

/// Between two renewals at least, whatever lease a server grants, and how often calls find the session gone.
const REST: Duration = Duration::from_millis(250);
/// And where no other could be opened: a server that does not answer may come back.
const REST_FAILED: Duration = Duration::from_secs(1);

/// Opens a session of at most this lease.
pub(crate) async fn open(connection: &Connection, wanted: Duration, options: &CallOptions) -> Result<()> {
    let seconds = wanted.as_secs() + u64::from(wanted.subsec_nanos() > 0);
    let lease_seconds = u32::try_from(seconds).unwrap_or(u32::MAX).max(1);
    let request = v1::OpenSessionRequest { lease_seconds, ..v1::OpenSessionRequest::default() };
    let opened = connection.unary(session_service::OPEN, request, options).await?;
    let lease = Duration::from_secs(opened.lease_seconds.into());
    *connection.session() = Some(Session { token: opened.token, lease });
    Ok(())
}

/// Renews it for ever: who begins the task ends it.
pub(crate) async fn keep(connection: Arc<Connection>, wanted: Duration) {
    loop {
        let Some(Session { token, lease }) = connection.session().clone() else {
            return;
        };
        // After a third: one call that is lost leaves time for a second.
        let third = (lease / 3).max(REST);
        tokio::select! {
            () = sleep(third) => {}
            () = connection.hastened.notified() => {}
        }
        let options = CallOptions::within(third);
        let renewed = connection.unary(session_service::RENEW, v1::RenewSessionRequest { token }, &options).await;
        let mut rest = REST;
        match renewed.map_err(|failed| failed.status()) {
            Err(Status::NotFound) if open(&connection, wanted, &options).await.is_err() => rest = REST_FAILED,
            // Or a peer that is silent would be waited for. What the files say is told by the next call.
            Err(Status::DeadlineExceeded) => drop(connection.leave()),
            _ => {}
        }
        sleep(rest).await;
    }
}

/// Frees what the session owns. If that fails, the lease's end does it.
pub(crate) async fn close(connection: &Connection, timeout: Duration) {
    if let Some(token) = connection.token() {
        let options = CallOptions::within(timeout);
        let _ = connection
            .unary(session_service::CLOSE, v1::CloseSessionRequest { token, ..Default::default() }, &options)
            .await;
    }
}
