//! Served models, by a server that says whatever a test wants of them.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use prost::Message;

use super::{
    FOR_EVER,
    liar::{Liar, Reply, message, unframed},
    soon, until,
};
use crate::{
    Array, DType, Error, InferRequest, Model, Outputs, PendingOutputs, QuarterE4M3, Result, Status,
    infer::datatype_of,
    inference::{
        ModelInferRequest, ModelInferResponse, ModelMetadataResponse, ModelStreamInferResponse,
        infer_parameter::ParameterChoice, model_infer_response::InferOutputTensor,
        model_metadata_response::TensorMetadata,
    },
    v1::ErrorCode,
};

/// Of a model whose metadata the server says, and nothing else.
async fn model(liar: &Liar) -> Result<Model> {
    liar.answers(|path, _| path.ends_with("/ModelMetadata").then(|| message(metadata("FP32")))?);
    soon(liar.client().await.model("m").into_future()).await
}

fn metadata(datatype: &str) -> ModelMetadataResponse {
    let row = |name: &str| TensorMetadata { name: name.into(), datatype: datatype.into(), shape: vec![-1, 2] };
    ModelMetadataResponse {
        versions: vec!["1".into()],
        inputs: vec![row("x")],
        outputs: vec![row("y")],
        ..Default::default()
    }
}

/// What came, as y.
fn same(request: ModelInferRequest) -> ModelInferResponse {
    let input = request.inputs.into_iter().next().unwrap_or_default();
    let (datatype, shape) = (input.datatype, input.shape);
    let outputs = vec![InferOutputTensor { name: "y".into(), datatype, shape, ..Default::default() }];
    let raw_output_contents = request.raw_input_contents;
    ModelInferResponse { id: request.id, outputs, raw_output_contents, ..Default::default() }
}

fn infers(liar: &Liar, with: impl Fn(ModelInferRequest) -> ModelInferResponse + Send + Sync + 'static) {
    liar.answers(move |path, data| {
        path.ends_with("/ModelInfer").then(|| message(with(ModelInferRequest::decode(data).unwrap())))?
    });
}

async fn asked(model: &Model, request: impl Into<InferRequest>) -> Result<Outputs> {
    soon(model.infer(request).into_future()).await
}

#[tokio::test]
async fn what_a_model_takes_and_gives() {
    let liar = Liar::start().await;
    let found = model(&liar).await.unwrap();
    let [input] = found.inputs() else { panic!("{:?}", found.inputs()) };
    assert_eq!((input.name.as_str(), input.dtype, &input.shape[..]), ("x", DType::Float32, &[-1, 2][..]));
    assert_eq!((found.outputs()[0].name.as_str(), found.versions(), found.name()), ("y", &["1".to_string()][..], "m"));
    for datatype in ["BYTES", "FP4", ""] {
        liar.answers(|path, _| path.ends_with("/ModelMetadata").then(|| message(metadata(datatype)))?);
        let failed = soon(liar.client().await.model_version("m", "1").into_future()).await.unwrap_err();
        assert_eq!(failed.code(), ErrorCode::InternalFault, "{datatype}");
    }
}

#[tokio::test]
async fn every_dtype_of_models_goes_there_and_back() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    infers(&liar, same);
    let names = "BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 FP32 FP64 BF16";
    for dtype in names.split(' ').map(|name| datatype_of(name).unwrap()) {
        for shape in [vec![3], vec![2, 2], vec![0, 5], vec![]] {
            let count = shape.iter().product::<usize>() * dtype.size();
            let given = Array::new(dtype, shape, (1..=count as u8).collect::<Vec<u8>>()).unwrap();
            assert_eq!(asked(&model, [("x", given.clone())]).await.unwrap()["y"], given);
        }
    }
}

#[tokio::test]
async fn what_no_model_takes_is_not_sent() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    let failed = asked(&model, [("narrow", Array::from([QuarterE4M3(1)]))]).await.unwrap_err();
    assert_eq!((failed.code() == ErrorCode::BadArgument, failed.field()), (true, "narrow"));
    assert_eq!(liar.count("/ModelInfer"), 0);
}

#[tokio::test]
async fn outputs_that_cannot_be() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    type Lie = fn(&mut ModelInferResponse);
    let lies: [(&str, Lie); 9] = [
        ("no contents", |said| said.raw_output_contents.clear()),
        ("more contents", |said| said.raw_output_contents.push(Bytes::new())),
        ("half", |said| said.raw_output_contents[0].truncate(4)),
        ("a new dtype", |said| said.outputs[0].datatype = "FP4".into()),
        ("texts", |said| said.outputs[0].datatype = "BYTES".into()),
        ("a shape", |said| said.outputs[0].shape = vec![-2]),
        ("too much", |said| said.outputs[0].shape = vec![1 << 40, 1 << 40]),
        ("another's name", |said| said.outputs[0].name = "z".into()),
        ("twice", |said| {
            said.outputs.push(said.outputs[0].clone());
            said.raw_output_contents.push(said.raw_output_contents[0].clone());
        }),
    ];
    for (what, lie) in lies {
        infers(&liar, move |request| {
            let mut said = same(request);
            lie(&mut said);
            said
        });
        let request = InferRequest::new([("x", [1f32, 2.0])]).outputs(["y"]);
        assert_eq!(asked(&model, request).await.unwrap_err().code(), ErrorCode::InternalFault, "{what}");
    }
}

#[tokio::test]
async fn what_a_request_says() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    infers(&liar, |request| {
        assert_eq!((request.id.as_str(), request.outputs.len(), request.parameters.len()), ("mine", 1, 3));
        let said = |name: &str| request.parameters[name].parameter_choice.clone().unwrap();
        assert_eq!(said("sequence_id"), ParameterChoice::Uint64Param(1 << 63));
        assert_eq!(said("sequence_start"), ParameterChoice::BoolParam(true));
        assert_eq!(said("sequence_end"), ParameterChoice::BoolParam(false));
        same(request)
    });
    let request = InferRequest::new(vec![("x", [1f32])]).outputs(["y"]).sequence(1 << 63, true, false).id("mine");
    assert_eq!(asked(&model, request).await.unwrap()["y"], Array::from([1f32]));
}

#[tokio::test]
async fn a_step_of_a_sequence_is_not_made_again() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    // It has not begun.
    let stopping = || Reply::Failure(Status::Unavailable, ErrorCode::ShuttingDown);
    liar.answers(move |path, _| path.ends_with("/ModelInfer").then(stopping));
    let request = InferRequest::new([("x", [1f32])]);
    assert_eq!(asked(&model, request.clone()).await.unwrap_err().code(), ErrorCode::ShuttingDown);
    assert_eq!(liar.count("/ModelInfer"), 3);
    assert_eq!(asked(&model, request.sequence(1, true, true)).await.unwrap_err().code(), ErrorCode::ShuttingDown);
    assert_eq!(liar.count("/ModelInfer"), 4);
}

/// The requests of a whole stream, all of which the server reads before it answers.
fn streams(liar: &Liar, with: impl Fn(Vec<ModelInferRequest>) -> Reply + Send + Sync + 'static) {
    liar.answers(move |path, data| {
        let requests = || unframed(data.clone()).into_iter().map(|one| ModelInferRequest::decode(one).unwrap());
        path.ends_with("/ModelStreamInfer").then(|| with(requests().collect()))
    });
}

fn streamed(said: &str, answer: ModelInferResponse) -> Vec<u8> {
    ModelStreamInferResponse { error_message: said.into(), infer_response: Some(answer) }.encode_to_vec()
}

/// What becomes of so many requests of one stream, and of the stream.
async fn talk(model: &Model, count: usize) -> (Vec<Result<Outputs>>, Result<()>) {
    let stream = model.stream().await.unwrap();
    let mut pending = Vec::new();
    for number in 0..count {
        pending.push(stream.send(InferRequest::new([("x", [number as f32])]).outputs(["y"])).await.unwrap());
    }
    let closed = soon(stream.close()).await;
    assert_eq!(
        stream.send([("x", [0f32])]).await.unwrap_err().status(),
        match &closed {
            Ok(()) => Status::Cancelled,
            Err(failed) => failed.status(),
        }
    );
    let mut outcomes = Vec::new();
    for outputs in pending {
        outcomes.push(soon(outputs).await);
    }
    (outcomes, closed)
}

#[tokio::test]
async fn a_stream_answers_in_order() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    streams(&liar, |requests| {
        let answers = requests.into_iter().enumerate().flat_map(|(number, request)| match number % 3 {
            0 => vec![streamed("", same(request)); 2], // a second time
            1 => vec![streamed("so", ModelInferResponse { id: request.id, ..Default::default() })],
            _ => vec![streamed("unread", ModelInferResponse::default())],
        });
        Reply::Messages(answers.collect())
    });
    let (outcomes, closed) = talk(&model, 300).await;
    closed.unwrap();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        if number % 3 == 0 {
            assert_eq!(outcome.unwrap()["y"], Array::from([number as f32]));
            continue;
        }
        let failed = outcome.unwrap_err();
        let wanted = if number % 3 == 1 { "so" } else { "unread" };
        assert_eq!((failed.message(), failed.status(), failed.code().is_none()), (wanted, Status::Unknown, true));
    }
    let (outcomes, closed) = talk(&model, 0).await;
    closed.unwrap();
    assert!(outcomes.is_empty());
}

#[tokio::test]
async fn how_a_stream_ends() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    let of_another = |mut requests: Vec<ModelInferRequest>| {
        requests[0].id = "of another".into();
        Reply::Messages(vec![streamed("", same(requests.remove(0)))])
    };
    let unasked = |requests: Vec<ModelInferRequest>| {
        let mut answers: Vec<_> = requests.into_iter().map(|request| streamed("", same(request))).collect();
        answers.push(streamed("", ModelInferResponse { id: "9".into(), ..Default::default() }));
        Reply::Messages(answers)
    };
    type With = Box<dyn Fn(Vec<ModelInferRequest>) -> Reply + Send + Sync>;
    let refused = |_| Reply::Failure(Status::Unauthenticated, ErrorCode::NotAuthenticated);
    let rows: [(&str, With, Status, usize); 5] = [
        ("refused", Box::new(refused), Status::Unauthenticated, 2),
        ("too soon", Box::new(|_| Reply::Messages(vec![])), Status::Unavailable, 2),
        ("of another", Box::new(of_another), Status::Internal, 2),
        ("not asked for", Box::new(unasked), Status::Internal, 0),
        ("reset", Box::new(|_| Reply::Reset), Status::Unavailable, 2),
    ];
    for (what, with, status, failures) in rows {
        streams(&liar, with);
        let (outcomes, closed) = talk(&model, 2).await;
        assert_eq!(closed.unwrap_err().status(), status, "{what}");
        let failed: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
        assert_eq!(failed.len(), failures, "{what}");
        assert!(failed.iter().all(|failed| failed.status() == status), "{what}: {failed:?}");
    }
}

/// Of a stream that the server says nothing on.
async fn unanswered(model: &Model, timeout: Duration) -> (PendingOutputs, tokio::task::JoinHandle<Result<()>>) {
    let stream = model.stream().timeout(timeout).await.unwrap();
    let outputs = stream.send([("x", [1f32])]).await.unwrap();
    (outputs, tokio::spawn(async move { stream.close().await }))
}

#[tokio::test]
async fn a_stream_is_given_up() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    streams(&liar, |_| Reply::Silence(vec![]));
    let (outputs, closing) = unanswered(&model, Duration::from_millis(50)).await;
    assert_eq!(soon(outputs).await.unwrap_err().status(), Status::DeadlineExceeded);
    assert_eq!(soon(closing).await.unwrap().unwrap_err().status(), Status::DeadlineExceeded);
    assert!(liar.headers("/ModelStreamInfer").contains_key("grpc-timeout"));

    // Not before nobody wants it.
    let resets = liar.resets.load(Ordering::Relaxed);
    let (outputs, closing) = unanswered(&model, FOR_EVER).await;
    until(|| liar.count("/ModelStreamInfer") == 2).await;
    closing.abort();
    let _ = soon(closing).await;
    drop(outputs);
    until(|| liar.resets.load(Ordering::Relaxed) > resets).await;

    let (outputs, closing) = unanswered(&model, FOR_EVER).await;
    soon(model.0.client.close()).await;
    assert_eq!(soon(outputs).await.unwrap_err().status(), Status::Cancelled);
    assert_eq!(soon(closing).await.unwrap().unwrap_err().status(), Status::Cancelled);
}

#[tokio::test]
async fn as_much_waits_as_may() {
    let liar = Liar::start().await;
    let model = model(&liar).await.unwrap();
    streams(&liar, |_| Reply::Silence(vec![]));
    let stream = model.stream().await.unwrap();
    let large = stream.send([("x", vec![0u8; crate::link::MOST_BYTES])]).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(50), stream.send([("x", [1f32])])).await;
    assert!(waits.is_err(), "there is no room, and it was sent");
    soon(model.0.client.close()).await;
    assert_eq!(soon(large).await.unwrap_err().status(), Status::Cancelled);
}
