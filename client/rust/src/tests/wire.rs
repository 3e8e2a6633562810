//! What a server does below the protocol: bytes that are no messages, silence, ends that are none.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use tokio::net::TcpListener;

use super::{
    liar::{Liar, Reply, framed, message},
    soon, until,
};
use crate::{
    Client, Error, Status,
    v1::{ErrorCode, ListDevicesResponse},
};

/// What an Allocate gives that is answered so.
async fn failed(liar: &Liar, client: &Client, reply: impl Fn() -> Reply + Send + Sync + 'static) -> Error {
    liar.answers(move |path, _| path.ends_with("Allocate").then(&reply));
    soon(client.allocate(16).into_future()).await.unwrap_err()
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    let good = || vec![("grpc-status", "0".to_string())];
    let large = || [&[0][..], &u32::MAX.to_be_bytes()].concat();
    for (what, bytes, status) in [
        ("nothing", vec![], Status::Internal),
        ("no message", framed(&[0xff; 9]), Status::Internal),
        ("a message of a wrong type", framed(&[10, 200, 1]), Status::Internal),
        ("half of a frame's head", vec![0, 0], Status::Internal),
        ("more than may be", large(), Status::OutOfRange),
        ("what is packed", vec![1, 0, 0, 0, 1, 7], Status::Internal),
        ("a flag that is none", vec![9, 0, 0, 0, 1, 7], Status::Internal),
        ("half of a message", framed(&[10, 2, 8, 1])[..6].to_vec(), Status::Internal),
    ] {
        let error = failed(&liar, &client, move || Reply::Raw(bytes.clone(), good())).await;
        assert_eq!(error.status(), status, "{what}: {error}");
    }
    assert_eq!(failed(&liar, &client, || Reply::Reset).await.status(), Status::Unavailable);
}

#[tokio::test]
async fn details_that_cannot_be_read_are_none() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    for details in ["", "no base64!", "AAA", "=", "====", "/////w==", "CAUSAmhpGgA", "\u{7f}é"] {
        let error = failed(&liar, &client, move || {
            let status = ("grpc-status", "8".to_string());
            Reply::Raw(vec![], vec![status, ("grpc-status-details-bin", details.replace('\u{7f}', " "))])
        })
        .await;
        assert_eq!(error.status(), Status::ResourceExhausted, "{details}");
        assert!(error.code().is_none(), "{details}");
    }
    for status in ["", "99", "-1", "abc", "0007"] {
        let error = failed(&liar, &client, move || Reply::Raw(vec![], vec![("grpc-status", status.into())])).await;
        assert_ne!(error.status(), Status::Ok, "{status}");
    }
    let said = failed(&liar, &client, || Reply::Failure(Status::Aborted, ErrorCode::ExecutorLost)).await;
    assert_eq!((said.status(), said.message()), (Status::Aborted, "so"));
    assert_eq!(said.code(), ErrorCode::ExecutorLost);
}

#[tokio::test]
async fn a_deadline_ends_what_is_never_answered() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    for bytes in [vec![], framed(&[]), vec![0, 0, 0]] {
        liar.answers(move |path, _| path.ends_with("Allocate").then(|| Reply::Silence(bytes.clone())));
        let call = client.allocate(16).timeout(Duration::from_millis(50));
        assert_eq!(soon(call.into_future()).await.unwrap_err().status(), Status::DeadlineExceeded);
    }
    let past = client.allocate(16).deadline(Instant::now());
    assert_eq!(soon(past.into_future()).await.unwrap_err().status(), Status::DeadlineExceeded);
}

#[tokio::test]
async fn a_future_that_is_dropped_cancels_its_call() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    liar.answers(|path, _| path.ends_with("Allocate").then(|| Reply::Silence(vec![])));
    let doing = tokio::spawn(client.allocate(16).into_future());
    until(|| liar.count("Allocate") == 1).await;
    doing.abort();
    until(|| liar.resets.load(Ordering::Relaxed) == 1).await;
}

#[tokio::test]
async fn where_nobody_answers_connect_says_so() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let quick = || Client::builder().timeout(Duration::from_millis(300));
    let failed = soon(quick().address(&address).connect()).await.unwrap_err();
    assert_eq!(failed.status(), Status::Unavailable, "{failed}");
    drop(silent);
    let failed = soon(quick().address(&address).connect()).await.unwrap_err();
    assert_eq!(failed.status(), Status::Unavailable, "{failed}");
    assert!(failed.message().contains("is kilnd running there?"), "{failed}");
    for address in ["nowhere", "host:port", "a b:1"] {
        assert_eq!(Client::connect(address).await.unwrap_err().code(), ErrorCode::BadArgument);
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_does_not_encrypt_is_told_of_at_once() {
    let liar = Liar::start().await;
    let builder = Client::builder().address(&liar.address).authority("system").timeout(super::FOR_EVER);
    let failed = soon(builder.connect()).await.unwrap_err();
    assert_eq!(failed.status(), Status::Unavailable);
    assert!(failed.message().starts_with("no safe connection"), "{failed}");
}

#[tokio::test]
async fn a_server_may_come_late() {
    let folder = std::env::temp_dir().join(format!("kiln-late-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let builder = Client::builder().address(format!("unix:{}", path.display()));
    let connecting = tokio::spawn(builder.timeout(super::FOR_EVER).connect());
    let liar = Liar::start_at_path(&path).await;
    soon(connecting).await.unwrap().unwrap();
    assert_eq!(liar.count("Open"), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A server that says at which address it is itself.
fn advertises(address: String) -> impl Fn(&str, bytes::Bytes) -> Option<Reply> {
    move |path, _| {
        let address = address.clone();
        let said = ListDevicesResponse { protocol_min: 1, protocol_max: 1, address, ..Default::default() };
        path.ends_with("List").then(|| message(said))?
    }
}

#[tokio::test]
async fn the_server_behind_a_balancer_is_called_itself() {
    let (balancer, server) = (Liar::start().await, Liar::start().await);
    balancer.answers(advertises(server.address.clone()));
    server.answers(advertises(server.address.clone()));
    let client = balancer.client().await;
    assert_eq!((client.address(), balancer.count("List")), (server.address.as_str(), 1));
    assert_eq!(client.allocate(1).await.unwrap_err().status(), Status::Unimplemented);
    assert_eq!((balancer.count("Allocate"), server.count("Allocate")), (0, 1));
    // Not to one that is another than was named, nor to one that is not there, nor to what is no address.
    server.answers(advertises("127.0.0.1:2".into()));
    assert_eq!(balancer.client().await.address(), balancer.address);
    for address in ["127.0.0.1:1", "no address", "unix:/tmp/x"] {
        balancer.answers(advertises(address.into()));
        assert_eq!(balancer.client().await.address(), balancer.address);
    }
}

#[tokio::test]
async fn a_closed_client_makes_no_calls() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    client.close().await;
    client.close().await;
    assert_eq!(liar.count("SessionService/Close"), 1);
    assert_eq!(client.allocate(16).await.unwrap_err().status(), Status::Cancelled);
    assert_eq!(client.stream().unwrap_err().status(), Status::Cancelled);
}
