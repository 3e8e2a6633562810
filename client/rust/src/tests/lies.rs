//! A server that says what none may: the client must tell, and neither panic, nor wait for ever, nor make memory of
//! what is not there.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use prost::Message;

use super::{
    liar::{Liar, Reply, compiled, message},
    soon, until,
};
use crate::{
    Client, DType, Error, Graph, Program, Result, Status,
    v1::{self, BufferDescription, ErrorCode, ResultValue, Signature, result_value::Value, signature},
};

fn added() -> Graph {
    let graph = Graph::new();
    graph.output(graph.param("x", DType::Float32, [4]) + 1);
    graph
}

fn row(bytes: u64) -> signature::Result {
    signature::Result { dtype: DType::Float32.wire(), shape: vec![bytes as i64 / 4], bytes, ..Default::default() }
}

fn buffer(handle: u64, bytes: u64, dtype: DType, shape: &[i64]) -> BufferDescription {
    BufferDescription { handle, bytes, dtype: dtype.wire(), shape: shape.into(), ..Default::default() }
}

fn is_bad_server<T: std::fmt::Debug>(what: &str, result: Result<T>) {
    assert_eq!(result.expect_err(what).code(), ErrorCode::InternalFault, "{what}");
}

async fn program(liar: &Liar, client: &Client, results: Vec<signature::Result>) -> Result<Program> {
    let parameter = signature::Parameter { name: "x".into(), ..Default::default() };
    let said = Signature { parameters: vec![parameter], results, ..Default::default() };
    liar.answers(move |path, data| path.ends_with("Compile").then(|| compiled(data, Some(said.clone())))?);
    soon(client.compile(&added()).into_future()).await
}

fn executes(liar: &Liar, results: Vec<Option<Value>>) {
    let results = results.into_iter().map(|value| ResultValue { value }).collect();
    let said = v1::ExecuteResponse { results, ..Default::default() };
    liar.answers(move |path, _| path.ends_with("Execute").then(|| message(said.clone()))?);
}

#[tokio::test]
async fn a_signature_that_cannot_be() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    liar.answers(|path, data| path.ends_with("Compile").then(|| compiled(data, None))?);
    is_bad_server("none", client.compile(&added()).await);
    is_bad_server("no result", program(&liar, &client, vec![]).await);
    let alias = signature::Result { aliases: Some(7), ..row(16) };
    is_bad_server("an alias", program(&liar, &client, vec![alias]).await);
    liar.answers(|path, _| path.ends_with("Compile").then(|| message(v1::CompileResponse::default()))?);
    assert_eq!(client.compile(&added()).await.unwrap_err().code(), ErrorCode::HashMismatch);
}

#[tokio::test]
async fn results_that_cannot_be_are_given_back() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    let one = program(&liar, &client, vec![row(16)]).await.unwrap();
    let huge = buffer(5, 1 << 62, DType::Int8, &[1 << 62]);
    let tensor = |dtype, bytes| v1::Tensor { dtype, shape: vec![4], data: vec![0; bytes].into() };
    let handle = |said| Some(Value::Buffer(said));
    for (what, results, freed) in [
        ("none", vec![], 0),
        ("a huge one", vec![handle(huge)], 1),
        ("more than said", vec![handle(buffer(5, 1 << 62, DType::Float32, &[4]))], 1),
        ("less than said", vec![handle(buffer(5, 4, DType::Float32, &[1]))], 1),
        ("a negative size", vec![handle(buffer(5, 16, DType::Float32, &[-4]))], 1),
        ("no dtype", vec![handle(BufferDescription { dtype: 0, ..buffer(5, 16, DType::Float32, &[4]) })], 1),
        ("without a value", vec![None], 0),
        ("two", vec![handle(buffer(5, 16, DType::Float32, &[4])), None], 1),
        ("a short tensor", vec![Some(Value::Tensor(tensor(DType::Float32.wire(), 15)))], 0),
        ("a tensor of weak integers", vec![Some(Value::Tensor(tensor(v1::DType::Weakint.into(), 16)))], 0),
    ] {
        executes(&liar, results);
        liar.freed.lock().unwrap().clear();
        is_bad_server(what, soon(one.run([vec![0f32; 4]]).into_future()).await);
        is_bad_server(what, soon(one.run_keep([vec![0f32; 4]]).into_future()).await);
        until(|| liar.freed.lock().unwrap().len() == 2 * freed).await;
    }
    let two = program(&liar, &client, vec![row(16), row(16)]).await;
    is_bad_server("of one output", two);
}

#[tokio::test]
async fn what_a_run_made_is_given_back_when_a_result_cannot_be_read() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    let large = 8 << 20;
    let graph = Graph::new();
    let x = graph.param("x", DType::Float32, [4]);
    graph.output(x + 1);
    graph.output(x + 2);
    let said = Signature { results: vec![row(large), row(large)], ..Default::default() };
    liar.answers(move |path, data| path.ends_with("Compile").then(|| compiled(data, Some(said.clone())))?);
    let program = client.compile(&graph).await.unwrap();
    let made = |handle| Some(Value::Buffer(buffer(handle, large, DType::Float32, &[large as i64 / 4])));
    executes(&liar, vec![made(8), made(9)]);
    let failed = soon(program.run::<i32>([]).into_future()).await.unwrap_err();
    assert_eq!(failed.status(), Status::Unimplemented, "it has no Read");
    until(|| liar.freed.lock().unwrap().len() == 2).await;
    let mut freed = liar.freed.lock().unwrap().clone();
    freed.sort_unstable();
    assert_eq!(freed, [8, 9]);
}

#[tokio::test]
async fn buffers_that_cannot_be() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    for said in [None, Some(buffer(3, i64::MAX as u64, DType::Int8, &[])), Some(buffer(3, 16, DType::Int8, &[-16]))] {
        let answer = v1::AllocateResponse { buffer: said };
        liar.answers(move |path, _| path.ends_with("Allocate").then(|| message(answer.clone()))?);
        is_bad_server("bytes", soon(client.allocate(16).into_future()).await);
        is_bad_server("an array", soon(client.zeros(DType::Int8, [16]).into_future()).await);
    }
    let overflow = client.zeros(DType::Float64, [usize::MAX, 2]).await.unwrap_err();
    assert_eq!(overflow.code(), ErrorCode::BadArgument);
}

/// Of a buffer of so many bytes.
async fn reads(liar: &Liar, client: &Client, bytes: u64, chunks: Vec<usize>) -> Result<Bytes> {
    let chunks: Vec<Vec<u8>> =
        chunks.iter().map(|length| v1::ReadResponse { chunk: vec![1; *length].into() }.encode_to_vec()).collect();
    liar.answers(move |path, _| {
        let said = v1::AllocateResponse { buffer: Some(BufferDescription { handle: 1, bytes, ..Default::default() }) };
        match path.rsplit('/').next()? {
            "Allocate" => message(said),
            "Read" => Some(Reply::Messages(chunks.clone())),
            _ => None,
        }
    });
    soon(client.allocate(bytes).await?.read_bytes(0, bytes).into_future()).await
}

#[tokio::test]
async fn downloads_are_as_long_as_they_were_said_to_be() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    assert_eq!(reads(&liar, &client, 9, vec![4, 0, 5]).await.unwrap(), vec![1; 9]);
    assert_eq!(reads(&liar, &client, 0, vec![4]).await.unwrap(), vec![0; 0]);
    is_bad_server("too much", reads(&liar, &client, 9, vec![4, 6]).await);
    assert_eq!(reads(&liar, &client, 9, vec![4, 4]).await.unwrap_err().status(), Status::Internal);
    // Memory is not made of a promise.
    assert_eq!(reads(&liar, &client, 1 << 50, vec![4, 4]).await.unwrap_err().status(), Status::Internal);
    assert_eq!(reads(&liar, &client, u64::MAX, vec![]).await.unwrap_err().status(), Status::Internal);
}

#[tokio::test]
async fn a_free_that_failed_is_tried_again() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    liar.answers(|path, _| match path.rsplit('/').next()? {
        "Allocate" => message(v1::AllocateResponse { buffer: Some(buffer(3, 16, DType::Int8, &[16])) }),
        "Free" => Some(Reply::Failure(Status::Internal, ErrorCode::InternalFault)),
        _ => None,
    });
    let buffer = client.allocate(16).await.unwrap();
    for _ in 0..2 {
        assert_eq!(buffer.free().await.unwrap_err().status(), Status::Internal);
    }
    liar.answers(|_, _| None);
    buffer.free().await.unwrap();
    buffer.free().await.unwrap();
    assert_eq!(*liar.freed.lock().unwrap(), [3]);
}

#[tokio::test]
async fn a_buffer_that_is_dropped_is_freed() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    liar.answers(|path, _| {
        let said = v1::AllocateResponse { buffer: Some(buffer(3, 16, DType::Int8, &[16])) };
        path.ends_with("Allocate").then(|| message(said))?
    });
    let buffer = client.allocate(16).await.unwrap();
    let copy = buffer.clone();
    drop(buffer);
    assert_eq!(copy.bytes(), 16);
    assert_eq!(liar.count("Free"), 0);
    drop(copy);
    until(|| *liar.freed.lock().unwrap() == [3]).await;
    let freed = client.allocate(16).await.unwrap();
    freed.free().await.unwrap();
    drop(freed);
    drop(client);
    until(|| liar.count("SessionService/Close") == 1).await;
    assert_eq!(*liar.freed.lock().unwrap(), [3, 3]);
}

#[tokio::test]
async fn of_several_that_are_dropped_one_may_be_gone() {
    let liar = Liar::start().await;
    let client = liar.client().await;
    let next = std::sync::atomic::AtomicU64::new(1);
    liar.answers(move |path, data| match path.rsplit('/').next()? {
        "Allocate" => {
            let handle = next.fetch_add(1, Ordering::Relaxed);
            message(v1::AllocateResponse { buffer: Some(buffer(handle, 16, DType::Int8, &[16])) })
        }
        "Free" => {
            let handles = v1::FreeRequest::decode(data).unwrap().handle;
            handles.contains(&2).then_some(Reply::Failure(Status::NotFound, ErrorCode::UnknownHandle))
        }
        _ => None,
    });
    let mut buffers = Vec::new();
    for _ in 0..4 {
        buffers.push(client.allocate(16).await.unwrap());
    }
    drop(buffers);
    until(|| liar.freed.lock().unwrap().len() == 3).await;
    assert!(!liar.freed.lock().unwrap().contains(&2));
}

/// A session that is gone while no other is granted is not asked after all the time, nor one whose lease is no time.
#[tokio::test]
async fn renewals_rest() {
    for (lease, gone) in [(3, true), (0, false), (u64::from(u32::MAX), false)] {
        let liar = Liar::start().await;
        liar.lease.store(lease, Ordering::Relaxed);
        let client = liar.client().await;
        liar.answers(move |path, _| match path.rsplit('/').next()? {
            "Renew" if gone => Some(Reply::Failure(Status::NotFound, ErrorCode::SessionExpired)),
            "Open" => Some(Reply::Failure(Status::ResourceExhausted, ErrorCode::QuotaExceeded)),
            _ => None,
        });
        let began = std::time::Instant::now();
        for wanted in 1..=2 {
            client.0.connection.hastened.notify_one();
            until(|| liar.count("Renew") >= wanted).await;
        }
        let (found, most) = (liar.count("Renew") as u128, 2 + began.elapsed().as_millis() / 250);
        assert!(found <= most, "lease {lease}: {found} renewals, not at most {most}");
    }
}

#[tokio::test]
async fn what_a_call_carries() {
    let liar = Liar::start().await;
    let client = Client::builder().address(&liar.address).token("secret").connect().await.unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let failed: Error = client.allocate(1).timeout(super::FOR_EVER).traceparent(trace).await.unwrap_err();
    assert_eq!(failed.status(), Status::Unimplemented);
    let headers = liar.headers("Allocate");
    assert_eq!(headers["authorization"], "Bearer secret");
    assert_eq!(headers["traceparent"], trace);
    assert_eq!(headers["kiln-session-bin"], "BwcHBwcHBwcHBwcHBwcHBw");
    assert!(headers.contains_key("grpc-timeout"));
    assert!(!liar.headers("Open").contains_key("kiln-session-bin"));
    let refused = Client::builder().address(&liar.address).token("a\nb").connect().await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BadArgument);
    assert_eq!(client.allocate(1).traceparent("a\nb").await.unwrap_err().code(), ErrorCode::BadArgument);
}
