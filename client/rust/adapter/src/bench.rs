//! What `bench` measures: a client's calls, and the same by gRPC alone (tonic), with the generated messages.

use std::{marker::PhantomData, time::Instant};

use kiln::{
    Array, Buffer, Client, Program, Stream,
    v1::{self, argument, buffer_service, kernel_service, submit_request::Command, submit_response::Event},
};
use prost::Message;
use serde_json::{Value, json};
use tokio_stream::{Stream as Items, StreamExt, iter};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};

use crate::{Answer, Failure, bad, decoded};

const CHUNK: usize = 1 << 20;

pub struct Bench {
    stream: Stream,
    program: Program,
    step: Program,
    counter: Buffer,
    block: Buffer,
    data: Vec<u8>,
    large: v1::Graph,
    channel: Channel,
    bare_counter: v1::BufferRef,
    bare_block: v1::BufferRef,
    _client: Client,
}

fn graph(ask: &Value, name: &str) -> Result<v1::Graph, Failure> {
    v1::Graph::decode(&decoded(&ask[name])?[..]).map_err(bad)
}

impl Bench {
    pub async fn prepare(ask: &Value) -> Result<Bench, Failure> {
        let address = ask["address"].as_str().unwrap_or_default();
        let client = Client::connect(address).await?;
        let size = ask["bytes"].as_u64().unwrap_or_default();
        let data: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let channel = Endpoint::try_from(format!("http://{address}")).map_err(bad)?.connect().await.map_err(bad)?;
        let counter = v1::TensorType { dtype: v1::DType::Int32.into(), shape: vec![4] };
        let bare_counter = allocated(&channel, v1::allocate_request::Size::Type(counter)).await?;
        let bare_block = allocated(&channel, v1::allocate_request::Size::Bytes(size)).await?;
        Ok(Bench {
            stream: client.stream()?,
            program: client.compile(&graph(ask, "affine")?).await?,
            step: client.compile(&graph(ask, "counting")?).await?,
            counter: client.upload(vec![0i32; 4]).await?,
            block: client.upload(data.clone()).await?,
            data,
            large: graph(ask, "large")?,
            channel,
            bare_counter,
            bare_block,
            _client: client,
        })
    }

    pub async fn measure(&self, ask: &Value) -> Answer {
        let (what, bare) = (ask["what"].as_str().unwrap_or_default(), ask["bare"] == json!(true));
        let count = ask["count"].as_u64().unwrap_or_default();
        let begun = Instant::now();
        match (what, bare) {
            ("submit", false) => {
                for _ in 0..count {
                    self.stream.run(&self.step, [&self.counter]).await?;
                }
                self.stream.fence().await?;
            }
            ("submit", true) => self.submit(count).await?,
            _ => {
                for _ in 0..count {
                    self.once(what, bare).await?;
                }
            }
        }
        Ok(json!({"seconds": begun.elapsed().as_secs_f64()}))
    }

    async fn once(&self, what: &str, bare: bool) -> Result<(), Failure> {
        match (what, bare) {
            ("execute", false) => drop(self.program.run([vec![0f32, 1.0, 2.0, 3.0]]).await?),
            ("execute", true) => self.execute().await?,
            ("upload", false) => self.block.write(0, self.data.clone()).await?,
            ("upload", true) => self.upload().await?,
            ("download", false) => drop(self.block.read().await?),
            ("download", true) => self.download().await?,
            ("hash", false) => drop(kiln::hash(&self.large)?),
            _ => return Err(bad(format!("bench: there is no {what}"))),
        }
        Ok(())
    }

    async fn execute(&self) -> Result<(), Failure> {
        let array = Array::from(vec![0f32, 1.0, 2.0, 3.0]);
        let tensor = v1::Tensor { dtype: v1::DType::Float32.into(), shape: vec![4], data: array.data().clone() };
        let request = v1::ExecuteRequest {
            graph_hash: self.program.hash().to_vec().into(),
            arguments: vec![v1::Argument { slot: 0, value: Some(argument::Value::Tensor(tensor)) }],
            result_mode: v1::ResultMode::ResultInline.into(),
            ..Default::default()
        };
        let path = kernel_service::EXECUTE.path();
        let codec = Plain::<v1::ExecuteRequest, v1::ExecuteResponse>::default();
        ready(&self.channel)
            .await?
            .unary(Request::new(request), path.parse().map_err(bad)?, codec)
            .await
            .map_err(bad)?;
        Ok(())
    }

    async fn submit(&self, count: u64) -> Result<(), Failure> {
        let (hash, place) = (self.step.hash().to_vec(), self.bare_counter);
        let commands = (0..count + 2).map(move |number| {
            let command = match number {
                0 => Command::Hello(v1::SubmitHello::default()),
                _ if number > count => Command::Fence(v1::FenceCommand {}),
                _ => {
                    let value = Some(argument::Value::Buffer(place));
                    let request = v1::ExecuteRequest {
                        graph_hash: hash.clone().into(),
                        arguments: vec![v1::Argument { slot: 0, value }],
                        ..Default::default()
                    };
                    Command::Execute(v1::ExecuteCommand { request: Some(request), result_handle: vec![] })
                }
            };
            v1::SubmitRequest { command_id: number, command: Some(command), ..Default::default() }
        });
        let path = kernel_service::SUBMIT.path();
        let codec = Plain::<v1::SubmitRequest, v1::SubmitResponse>::default();
        let call = ready(&self.channel).await?;
        let mut answers = streamed(call, iter(commands), path, codec).await?;
        while let Some(answer) = answers.next().await {
            if let Some(Event::Failed(_)) = answer.map_err(bad)?.event {
                return Err(bad("a command failed"));
            }
        }
        Ok(())
    }

    async fn upload(&self) -> Result<(), Failure> {
        let header = v1::WriteHeader { buffer: Some(self.bare_block), bytes: self.data.len() as u64 };
        // Of memory of its own, as the client is given it.
        let data = bytes::Bytes::from(self.data.clone());
        let chunks = (0..data.len()).step_by(CHUNK).map(move |at| {
            let part = data.slice(at..(at + CHUNK).min(data.len()));
            v1::WriteRequest { part: Some(v1::write_request::Part::Chunk(part)) }
        });
        let first = v1::WriteRequest { part: Some(v1::write_request::Part::Header(header)) };
        let path = buffer_service::WRITE.path().parse().map_err(bad)?;
        let codec = Plain::<v1::WriteRequest, v1::WriteResponse>::default();
        let parts = Request::new(iter(std::iter::once(first).chain(chunks)));
        ready(&self.channel).await?.client_streaming(parts, path, codec).await.map_err(bad)?;
        Ok(())
    }

    async fn download(&self) -> Result<(), Failure> {
        let request = v1::ReadRequest { buffer: Some(self.bare_block), bytes: 0 };
        let path = buffer_service::READ.path().parse().map_err(bad)?;
        let codec = Plain::<v1::ReadRequest, v1::ReadResponse>::default();
        let mut call = ready(&self.channel).await?;
        let said = call.server_streaming(Request::new(request), path, codec).await.map_err(bad)?;
        let mut made = Vec::with_capacity(self.data.len());
        let mut answers = said.into_inner();
        while let Some(answer) = answers.next().await {
            made.extend_from_slice(&answer.map_err(bad)?.chunk);
        }
        Ok(())
    }
}

async fn allocated(channel: &Channel, size: v1::allocate_request::Size) -> Result<v1::BufferRef, Failure> {
    let request = v1::AllocateRequest { size: Some(size), ..Default::default() };
    let path = buffer_service::ALLOCATE.path().parse().map_err(bad)?;
    let codec = Plain::<v1::AllocateRequest, v1::AllocateResponse>::default();
    let said = ready(channel).await?.unary(Request::new(request), path, codec).await.map_err(bad)?;
    let handle = said.into_inner().buffer.unwrap_or_default().handle;
    Ok(v1::BufferRef { handle, ..Default::default() })
}

async fn ready(channel: &Channel) -> Result<Grpc<Channel>, Failure> {
    let mut call = Grpc::new(channel.clone());
    call.ready().await.map_err(bad)?;
    Ok(call)
}

async fn streamed<Q: Message + 'static, A: Message + Default + 'static>(
    mut call: Grpc<Channel>,
    requests: impl Items<Item = Q> + Send + 'static,
    path: &str,
    codec: Plain<Q, A>,
) -> Result<tonic::Streaming<A>, Failure> {
    let said = call.streaming(Request::new(requests), path.parse().map_err(bad)?, codec).await.map_err(bad)?;
    Ok(said.into_inner())
}

/// Messages as prost writes and reads them.
struct Plain<Q, A>(PhantomData<fn(Q) -> A>);

impl<Q, A> Default for Plain<Q, A> {
    fn default() -> Self {
        Plain(PhantomData)
    }
}

impl<Q: Message + 'static, A: Message + Default + 'static> Codec for Plain<Q, A> {
    type Encode = Q;
    type Decode = A;
    type Encoder = Plain<Q, A>;
    type Decoder = Plain<Q, A>;

    fn encoder(&mut self) -> Self::Encoder {
        Plain::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Plain::default()
    }
}

impl<Q: Message, A> Encoder for Plain<Q, A> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(to).map_err(|why| Status::internal(why.to_string()))
    }
}

impl<Q, A: Message + Default> Decoder for Plain<Q, A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        A::decode(from).map(Some).map_err(|why| Status::internal(why.to_string()))
    }
}
