//! Replies that were changed by chance, always the same: whatever comes, the client gives an error or goes on.
//! KILN_FUZZ says how many rounds; it is to be done at length by `KILN_FUZZ=20000 cargo test --release fuzz`.

use std::{env, sync::Arc, sync::Mutex};

use prost::Message;

use super::{
    liar::{Liar, Reply, Said, compiled, event, failure, framed, honest, message, welcome},
    soon,
};
use crate::{
    Client, DType, Error, Graph, Result, Status,
    v1::{self, ErrorCode, submit_request::Command, submit_response::Event},
};

fn rounds() -> usize {
    env::var("KILN_FUZZ").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(60)
}

/// Numbers by chance, always the same.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Some bytes changed, taken out, doubled or put in; a message that is half of one.
    fn changed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut made = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(made.len() + 1);
            match self.below(6) {
                0 if at < made.len() => made[at] ^= 1 << self.below(8),
                1 if at < made.len() => made[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => made.truncate(at),
                3 => made.splice(at..at, vec![0xff; 1 + self.below(10)]).for_each(drop),
                4 => {
                    let end = at + self.below(made.len() + 1 - at);
                    let part = made[at..end].to_vec();
                    made.splice(at..at, part).for_each(drop);
                }
                _ => made.push(self.next() as u8),
            }
        }
        made
    }
}

/// A whole life of a client, whose every answer may be another than a server would give.
async fn life(liar: &Liar) -> Result<()> {
    let client = Client::builder().address(&liar.address).timeout(super::FOR_EVER).connect().await?;
    let graph = Graph::new();
    let x = graph.param("x", DType::Float32, [4]);
    graph.output(x + 1);
    let outcomes: Vec<Option<Error>> = {
        let program = client.compile(&graph).timeout(super::FOR_EVER).await;
        let mut outcomes = Vec::new();
        if let Ok(program) = program {
            outcomes.push(program.run([vec![1f32; 4]]).timeout(super::FOR_EVER).await.err());
            outcomes.push(program.run_keep([vec![1f32; 4]]).timeout(super::FOR_EVER).await.err());
            if let Ok(stream) = client.stream() {
                let value = stream.upload(vec![1f32; 4]).await?;
                let results = stream.run(&program, [&value]).await?;
                for result in &results {
                    outcomes.push(stream.read(result).await?.await.err());
                }
                outcomes.push(stream.fence().await.err());
            }
        }
        let buffer = client.allocate(16).timeout(super::FOR_EVER).await;
        if let Ok(buffer) = buffer {
            outcomes.push(buffer.read().timeout(super::FOR_EVER).await.err());
        }
        if let Ok(made) = client.gradient(&graph, &[0]).timeout(super::FOR_EVER).await {
            let other = Graph::new();
            other.param("x", DType::Float32, [4]);
            other.append(&made).into_iter().for_each(|tensor| other.output(tensor * 2));
            outcomes.push(other.build().err());
        }
        outcomes
    };
    assert!(outcomes.iter().flatten().all(|error| !error.message().is_empty() || !error.to_string().is_empty()));
    client.close().await;
    Ok(())
}

fn good(path: &str, data: bytes::Bytes) -> Option<Reply> {
    let row = v1::signature::Result { dtype: DType::Float32.wire(), shape: vec![4], bytes: 16, ..Default::default() };
    let buffer = v1::BufferDescription {
        handle: 77,
        bytes: 16,
        dtype: DType::Float32.wire(),
        shape: vec![4],
        ..Default::default()
    };
    match path.rsplit('/').next()? {
        "Compile" => {
            let parameter = v1::signature::Parameter { name: "x".into(), ..Default::default() };
            let said = v1::Signature { parameters: vec![parameter], results: vec![row], ..Default::default() };
            compiled(data, Some(said))
        }
        "Execute" => {
            let value = Some(v1::result_value::Value::Buffer(buffer));
            message(v1::ExecuteResponse { results: vec![v1::ResultValue { value }], ..Default::default() })
        }
        "Allocate" => {
            message(v1::AllocateResponse { buffer: Some(v1::BufferDescription { dtype: 0, shape: vec![], ..buffer }) })
        }
        "Read" => Some(Reply::Messages(vec![v1::ReadResponse { chunk: vec![1; 16].into() }.encode_to_vec()])),
        "Gradient" => {
            let graph = v1::GradientRequest::decode(data).ok()?.graph;
            message(v1::GradientResponse { graph, results: vec![row] })
        }
        "List" => message(v1::ListDevicesResponse {
            protocol_min: 1,
            protocol_max: 1,
            features: vec!["sessions".into(), "submit".into()],
            ..Default::default()
        }),
        "Open" => {
            message(v1::OpenSessionResponse { token: vec![7; 16].into(), lease_seconds: 1, ..Default::default() })
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_is_an_error_or_an_answer() {
    let liar = Liar::start().await;
    let chance = Arc::new(Mutex::new(Chance(0x9e37_79b9_7f4a_7c15)));
    let mutant = chance.clone();
    liar.answers(move |path, data| {
        let reply = good(path, data)?;
        let mut chance = mutant.lock().unwrap();
        // A connection must come about mostly.
        let rarely = if path.ends_with("List") || path.ends_with("Open") { 12 } else { 2 };
        if chance.below(rarely) > 0 {
            return Some(reply);
        }
        let message = match &reply {
            Reply::Message(message) => message.clone(),
            Reply::Messages(messages) => messages.concat(),
            _ => return Some(reply),
        };
        Some(match chance.below(8) {
            0 => Reply::Raw(chance.changed(&framed(&message)), vec![("grpc-status", "0".into())]),
            1 => Reply::Raw(framed(&message), vec![]),
            2 => {
                let mut trailers = failure(Status::NotFound, ErrorCode::NeedGraph);
                let changed = chance.changed(trailers[2].1.as_bytes());
                trailers[2].1 = changed.iter().map(|byte| char::from(byte % 95 + 32)).collect();
                Reply::Raw(vec![], trailers)
            }
            3 => Reply::Failure(Status::NotFound, ErrorCode::NeedGraph),
            4 => Reply::Reset,
            _ => Reply::Message(chance.changed(&message)),
        })
    });
    liar.submits(move |number, request| {
        let mut chance = chance.lock().unwrap();
        let mut said = match &request.command {
            Some(Command::Hello(_)) => Said(vec![welcome(0)], None),
            Some(Command::Read(_)) => {
                let data = Event::Data(vec![1; 16].into());
                Said(vec![event(request.command_id, data)], None)
            }
            _ => honest(number, request),
        };
        if chance.below(4) == 0 {
            let answer = said.0.pop().unwrap_or_default().encode_to_vec();
            said.0.extend(v1::SubmitResponse::decode(&chance.changed(&answer)[..]));
            // A command that a living server never answers is waited for, so the stream ends here.
            said.1 = Some((Status::Aborted, ErrorCode::SessionBusy));
        }
        said
    });
    for _ in 0..rounds() {
        let _ = soon(life(&liar)).await;
    }
}

/// Below the transport, where rounds are quick.
#[test]
fn whatever_is_read_is_an_error_or_a_value() {
    let mut chance = Chance(7);
    let graph = Graph::new();
    graph.output(graph.param("x", DType::Float32, [4]).softmax(0));
    let built = graph.build().unwrap();
    let gradient = v1::GradientResponse {
        graph: Some(built.clone()),
        results: vec![v1::signature::Result { dtype: 12, shape: vec![4], bytes: 16, ..Default::default() }],
    };
    for _ in 0..50 * rounds() {
        if let Ok(graph) = v1::Graph::decode(&chance.changed(&built.encode_to_vec())[..]) {
            let _ = crate::hash(&graph);
        }
        if let Ok(gradient) = v1::GradientResponse::decode(&chance.changed(&gradient.encode_to_vec())[..]) {
            let other = Graph::new();
            other.param("x", DType::Float32, [4]);
            other.append(&gradient).into_iter().for_each(|tensor| other.output(tensor.softmax(0)));
            let _ = other.build();
        }
        let trailers = failure(Status::NotFound, ErrorCode::NeedGraph);
        let details = chance.changed(trailers[2].1.as_bytes());
        let text: String = details.iter().map(|byte| char::from(byte % 95 + 32)).collect();
        let mut status = tonic::Status::new(Status::NotFound, "so");
        if let Ok(value) = text.parse() {
            status.metadata_mut().insert(crate::details::DETAILS, value);
        }
        assert_eq!(Error::from(status).status(), Status::NotFound);
    }
}
