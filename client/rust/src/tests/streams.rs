//! What becomes of a stream whose server is lost, silent, or lies.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::{
    liar::{Liar, Reply, Said, event, honest, welcome},
    soon, until,
};
use crate::{
    Array, Client, DType, Status, Stream,
    v1::{self, ErrorCode, SubmitRequest, SubmitResponse, submit_request::Command, submit_response::Event},
};

async fn begun() -> (Arc<Liar>, Client, Stream) {
    let liar = Liar::start().await;
    let client = liar.client().await;
    let stream = client.stream().unwrap();
    (liar, client, stream)
}

fn done(command: u64) -> SubmitResponse {
    event(command, Event::Done(v1::CommandDone {}))
}

fn data(command: u64, length: usize, more: bool) -> SubmitResponse {
    SubmitResponse { more, ..event(command, Event::Data(vec![1; length].into())) }
}

fn lost() -> Option<(Status, ErrorCode)> {
    Some((Status::Unavailable, ErrorCode::Unspecified))
}

fn is_hello(request: &SubmitRequest) -> bool {
    matches!(request.command, Some(Command::Hello(_)))
}

#[tokio::test]
async fn answers_that_cannot_be_end_the_stream() {
    type Lie = fn(&SubmitRequest) -> Said;
    let lies: [(&str, Lie); 7] = [
        ("of the future", |_| Said(vec![done(u64::MAX)], None)),
        ("lost of the future", |_| Said(vec![welcome(99)], None)),
        ("one left out", |_| Said(vec![], None)),
        ("more data than asked for", |asked| Said(vec![data(asked.command_id, 17, true)], None)),
        ("and in pieces", |asked| Said(vec![data(asked.command_id, 9, true), data(asked.command_id, 9, true)], None)),
        ("less data than asked for", |asked| Said(vec![data(asked.command_id, 8, false)], None)),
        ("no data", |asked| Said(vec![done(asked.command_id)], None)),
    ];
    for (what, lie) in lies {
        let (liar, _client, stream) = begun().await;
        liar.submits(move |number, request| match &request.command {
            Some(Command::Read(_)) => lie(request),
            _ => honest(number, request),
        });
        let buffer = stream.zeros(DType::Float32, [4]).await.unwrap();
        let read = stream.read(&buffer).await.unwrap();
        let fenced = soon(stream.fence()).await.expect_err(what);
        assert_eq!(fenced.code(), ErrorCode::InternalFault, "{what}");
        assert_eq!(soon(read).await.expect_err(what).code(), ErrorCode::InternalFault, "{what}");
        assert_eq!(soon(stream.fence()).await.expect_err(what).code(), ErrorCode::InternalFault, "{what}");
    }
}

#[tokio::test]
async fn an_answer_comes_in_pieces_and_twice() {
    let (liar, _client, stream) = begun().await;
    liar.submits(|number, request| match &request.command {
        Some(Command::Read(_)) => {
            let id = request.command_id;
            Said(vec![data(id, 8, true), data(id, 0, true), data(id, 8, false), data(id, 16, false), done(1)], None)
        }
        _ => honest(number, request),
    });
    let buffer = stream.zeros(DType::Uint8, [16]).await.unwrap();
    let array = soon(stream.read(&buffer).await.unwrap()).await.unwrap();
    assert_eq!(array, Array::from(vec![1u8; 16]));
    soon(stream.fence()).await.unwrap();
}

#[tokio::test]
async fn nothing_is_kept_of_what_was_confirmed() {
    let (liar, client, stream) = begun().await;
    for _ in 0..20 {
        let mut buffers = Vec::new();
        for _ in 0..100 {
            buffers.push(stream.zeros(DType::Float32, [4]).await.unwrap());
        }
        drop(buffers); // which frees them
        soon(stream.fence()).await.unwrap();
    }
    {
        let commands = client.commands();
        let state = commands.link().state();
        assert_eq!((state.bytes, state.kept.len(), state.unsent), (0, 0, 0));
        assert_eq!((state.last, state.seen), (20 * 201, 20 * 201));
    }
    let kept = stream.zeros(DType::Float32, [4]).await.unwrap();
    let commands = client.commands();
    soon(client.close()).await;
    assert_eq!(commands.link().state().seen, 4022, "a last fence tells that all has ended");
    assert_eq!(liar.streams.load(Ordering::Relaxed), 1);
    assert_eq!(client.stream().unwrap_err().status(), Status::Cancelled);
    assert_eq!(stream.free(&kept).await.unwrap_err().status(), Status::Cancelled);
}

#[tokio::test]
async fn a_buffer_that_is_dropped_is_freed_behind_what_uses_it() {
    let (liar, _client, stream) = begun().await;
    let heard: Arc<Mutex<Vec<&str>>> = Arc::default();
    let told = heard.clone();
    liar.submits(move |number, request| {
        told.lock().unwrap().push(match &request.command {
            Some(Command::Allocate(_)) => "allocate",
            Some(Command::Write(_)) => "write",
            Some(Command::Free(_)) => "free",
            _ => "",
        });
        honest(number, request)
    });
    drop(stream.upload([1, 2, 3]).await.unwrap());
    let freed = stream.upload([1, 2, 3]).await.unwrap();
    stream.free(&freed).await.unwrap();
    stream.free(&freed).await.unwrap();
    drop(freed);
    soon(stream.fence()).await.unwrap();
    let wanted = ["", "allocate", "write", "free", "allocate", "write", "free", ""];
    assert_eq!(*heard.lock().unwrap(), wanted);
}

/// What nobody waits for is told of by the next fence, when its answer is lost.
#[tokio::test]
async fn a_lost_answer_is_told() {
    let (liar, _client, stream) = begun().await;
    liar.submits(|number, request| match number {
        1 if is_hello(request) => Said(vec![welcome(0)], None),
        1 => Said(vec![], lost()),
        _ if is_hello(request) => Said(vec![welcome(1)], None),
        _ => honest(number, request),
    });
    let _buffer = stream.zeros(DType::Float32, [4]).await.unwrap();
    let told = soon(stream.fence()).await.unwrap_err();
    assert_eq!(told.status(), Status::Unavailable);
    assert!(told.message().contains("whether all commands succeeded is not known"), "{told}");
    soon(stream.fence()).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_begun_anew_under_its_session_numbers_on() {
    let (liar, client, first) = begun().await;
    let numbers: Arc<Mutex<Vec<u64>>> = Arc::default();
    let heard = numbers.clone();
    liar.submits(move |number, request| {
        heard.lock().unwrap().push(request.command_id);
        match request.command_id {
            2 => Said(vec![], Some((Status::Aborted, ErrorCode::SessionBusy))),
            _ => honest(number, request),
        }
    });
    let _buffer = first.zeros(DType::Int32, [1]).await.unwrap();
    assert_eq!(soon(first.fence()).await.unwrap_err().code(), ErrorCode::SessionBusy);
    let second = client.stream().unwrap();
    let _other = second.zeros(DType::Int32, [1]).await.unwrap();
    soon(second.fence()).await.unwrap();
    assert_eq!(*numbers.lock().unwrap(), [0, 1, 2, 0, 3, 4]);
}

/// A server that welcomes and then fails is given up with the lease.
#[tokio::test]
async fn no_stream_for_longer_than_the_lease() {
    let liar = Liar::start().await;
    liar.lease.store(1, Ordering::Relaxed);
    liar.submits(|_, request| match is_hello(request) {
        true => Said(vec![welcome(0)], None),
        false => Said(vec![], Some((Status::Internal, ErrorCode::Unspecified))),
    });
    let client = liar.client().await;
    let stream = client.stream().unwrap();
    assert_eq!(soon(stream.fence()).await.unwrap_err().status(), Status::Internal);
    let found = liar.streams.load(Ordering::Relaxed);
    assert!((2..=8).contains(&found), "{found} connections, tries are ever farther apart");
}

#[tokio::test]
async fn a_peer_that_is_silent_is_left() {
    let liar = Liar::start().await;
    liar.lease.store(1, Ordering::Relaxed);
    let is_silent = Arc::new(AtomicBool::new(false));
    let renews = is_silent.clone();
    liar.answers(move |path, _| {
        let is_silent = path.ends_with("Renew") && renews.load(Ordering::Relaxed);
        is_silent.then(|| Reply::Silence(vec![]))
    });
    liar.submits(|number, request| match is_hello(request) {
        true => honest(number, request),
        false => Said::default(),
    });
    let client = liar.client().await;
    let stream = client.stream().unwrap();
    is_silent.store(true, Ordering::Relaxed);
    let failed = soon(stream.fence()).await.unwrap_err();
    assert_eq!(failed.status(), Status::Unavailable);
    assert!(failed.message().contains("does not answer"), "{failed}");
    assert!(liar.streams.load(Ordering::Relaxed) > 1, "it tries another connection");
}

#[tokio::test]
async fn a_failure_tells_its_first_cause() {
    let (liar, _client, stream) = begun().await;
    let failing = |status: Vec<u8>| {
        move |number, request: &SubmitRequest| match &request.command {
            Some(Command::Read(_)) => {
                let said = v1::CommandFailed { status: status.clone().into(), cause_command_id: 1, tag: "mine".into() };
                Said(vec![event(request.command_id, Event::Failed(said))], None)
            }
            _ => honest(number, request),
        }
    };
    let buffer = stream.zeros(DType::Int32, [1]).await.unwrap();
    for (status, wanted) in [(vec![8, 3, 18, 2, b'n', b'o'], Status::InvalidArgument), (vec![9], Status::Internal)] {
        liar.submits(failing(status));
        let failed = soon(stream.read(&buffer).await.unwrap()).await.unwrap_err();
        assert_eq!((failed.status(), failed.tag(), failed.command()), (wanted, "mine", 1), "{failed}");
    }
    soon(stream.fence()).await.unwrap();
}

#[tokio::test]
async fn a_command_that_is_refused_harms_no_other() {
    let (liar, client, stream) = begun().await;
    let buffer = stream.zeros(DType::Int32, [4]).await.unwrap();
    for (offset, length) in [(13, 4), (u64::MAX, 1), (17, 0)] {
        let failed = stream.write(&buffer, offset, vec![0; length]).await.unwrap_err();
        assert_eq!(failed.code(), ErrorCode::OutOfBounds);
        assert_eq!(buffer.write(offset, vec![0; length]).await.unwrap_err().code(), ErrorCode::OutOfBounds);
        assert_eq!(buffer.read_bytes(offset, length as u64).await.unwrap_err().code(), ErrorCode::OutOfBounds);
    }
    assert_eq!(stream.zeros(DType::Int64, [1 << 62, 8]).await.unwrap_err().code(), ErrorCode::BadArgument);
    soon(stream.fence()).await.unwrap();
    // A session that is gone is asked after.
    let renewals = liar.count("Renew");
    liar.answers(|path, _| {
        path.ends_with("Allocate").then_some(Reply::Failure(Status::NotFound, ErrorCode::SessionExpired))
    });
    client.allocate(1).await.unwrap_err();
    until(|| liar.count("Renew") > renewals).await;
}
