//! What an adapter is asked, by name.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use kiln::{
    Argument, Array, Buffer, Call, Client, Collective, CollectiveKind, Program, Reduction, Step,
    v1::{self, buffer_service},
};
use prost::Message;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Adapter, Answer, Connected, Failure, array, bad, bench::Bench, builder, decoded, encoded, models, tensor};

pub async fn request(adapter: &Adapter, ask: &Value) -> Answer {
    match ask["do"].as_str().unwrap_or_default() {
        "reset" => reset(adapter).await,
        "connect" => connect(adapter, ask).await,
        "close" => close(adapter, ask).await,
        "hash" => Ok(json!({"hash": hex(&kiln::hash(&graph(ask)?)?)})),
        "build" => builder::build(ask),
        "compile" => compile(adapter, ask).await,
        "gradient" => gradient(adapter, ask).await,
        "upload" => upload(adapter, ask).await,
        "allocate" => allocate(adapter, ask).await,
        "write" => write(adapter, ask).await,
        "read" => read(adapter, ask).await,
        "free" => free(adapter, ask).await,
        "handle" => Ok(json!({"handle": adapter.buffer(&ask["buffer"])?.handle().to_string()})),
        "describe" => describe(adapter, ask).await,
        "run" => run(adapter, ask).await,
        "bench" => measured(adapter, ask).await,
        "run_files" => run_files(adapter, ask).await,
        "unchecked_run" => unchecked_run(adapter, ask).await,
        "begin" => Ok(begin(adapter, ask)),
        "end" => end(adapter, ask).await,
        "fence" => fence(adapter, ask).await,
        "record" => record(adapter, ask).await,
        "replay" => replay(adapter, ask).await,
        "collective" => collective(adapter, ask).await,
        "transfer" => transfer(adapter, ask).await,
        "models" => models::models(adapter, ask).await,
        "model" => models::model(adapter, ask).await,
        "infer" => models::infer(adapter, ask).await,
        "infer_stream" => models::infer_stream(adapter, ask).await,
        other => Err(Failure::Said(json!({"unsupported": other}))),
    }
}

fn done<T>(_: T) -> Answer {
    Ok(json!({}))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn graph(ask: &Value) -> Result<v1::Graph, Failure> {
    v1::Graph::decode(&decoded(&ask["graph"])?[..]).map_err(bad)
}

/// A number, or one as text.
pub fn number(said: &Value) -> u64 {
    said.as_u64().or_else(|| said.as_str()?.parse().ok()).unwrap_or_default()
}

pub fn name(said: &Value) -> String {
    said.as_str().unwrap_or_default().into()
}

/// Makes a call, with what the request says of its time. To give a call up is to drop it, which nobody is told of: the
/// suite is.
pub async fn made<'a, T: 'a>(call: Call<'a, T>, ask: &Value) -> Result<T, Failure> {
    let call = match ask["timeout_ms"].as_u64() {
        Some(timeout) => call.timeout(Duration::from_millis(timeout)),
        None => call,
    };
    let Some(patience) = ask["cancel_after_ms"].as_u64() else {
        return Ok(call.await?);
    };
    tokio::select! {
        made = call.into_future() => Ok(made?),
        () = sleep(Duration::from_millis(patience)) => Err(Failure::Said(json!({"error": {"status": "CANCELLED"}}))),
    }
}

async fn reset(adapter: &Adapter) -> Answer {
    let named = std::mem::take(&mut *adapter.named());
    for one in named.clients.values() {
        one.client.close().await;
    }
    done(named)
}

async fn connect(adapter: &Adapter, ask: &Value) -> Answer {
    let mut builder = Client::builder().address(name(&ask["address"]));
    if let Some(token) = ask["token"].as_str() {
        builder = builder.token(token);
    }
    if let Some(path) = ask["token_file"].as_str() {
        builder = builder.token_file(path);
    }
    if let Some(path) = ask["ca"].as_str() {
        builder = builder.authority(path);
    }
    if let Some(path) = ask["certificate"].as_str() {
        builder = builder.certificate(path, name(&ask["key"]));
    }
    if let Some(lease) = ask["lease_seconds"].as_u64() {
        builder = builder.lease(Duration::from_secs(lease));
    }
    if let Some(timeout) = ask["timeout_ms"].as_u64() {
        builder = builder.timeout(Duration::from_millis(timeout));
    }
    let client = builder.connect().await?;
    let said = json!({"features": client.features().collect::<Vec<_>>(), "devices": client.devices()});
    // A server without streams is called.
    let streams = ask["stream"] == json!(true) && client.stream().is_ok();
    adapter.named().clients.insert(name(&ask["client"]), Connected { client, streams });
    Ok(said)
}

async fn close(adapter: &Adapter, ask: &Value) -> Answer {
    let one = adapter.client(ask)?;
    adapter.named().clients.remove(&name(&ask["client"]));
    one.client.close().await;
    done(())
}

async fn compile(adapter: &Adapter, ask: &Value) -> Answer {
    let program = made(adapter.client(ask)?.client.compile(&graph(ask)?), ask).await?;
    let said = json!({"hash": hex(program.hash())});
    adapter.named().programs.insert(name(&ask["as"]), program);
    Ok(said)
}

async fn gradient(adapter: &Adapter, ask: &Value) -> Answer {
    let slots: Vec<u32> = ask["wrt"].as_array().into_iter().flatten().map(|slot| number(slot) as u32).collect();
    let said = made(adapter.client(ask)?.client.gradient(&graph(ask)?, &slots), ask).await?;
    Ok(json!({"graph": encoded(said.graph.unwrap_or_default().encode_to_vec())}))
}

async fn uploaded(one: &Connected, ask: &Value, what: Array) -> Result<Buffer, Failure> {
    match (one.stream(), ask["device"].as_str()) {
        (Some(stream), _) => Ok(stream.upload(what).await?),
        (None, Some(device)) => made(one.client.upload_to(device, what), ask).await,
        (None, None) => made(one.client.upload(what), ask).await,
    }
}

async fn upload(adapter: &Adapter, ask: &Value) -> Answer {
    let buffer = uploaded(&adapter.client(ask)?, ask, array(&ask["tensor"])?).await?;
    done(adapter.named().buffers.insert(name(&ask["as"]), buffer))
}

async fn allocate(adapter: &Adapter, ask: &Value) -> Answer {
    let buffer = made(adapter.client(ask)?.client.allocate(number(&ask["bytes"])), ask).await?;
    done(adapter.named().buffers.insert(name(&ask["as"]), buffer))
}

async fn write(adapter: &Adapter, ask: &Value) -> Answer {
    let buffer = adapter.buffer(&ask["buffer"])?;
    done(made(buffer.write(number(&ask["offset"]), decoded(&ask["data"])?), ask).await?)
}

async fn fetched(one: &Connected, buffer: &Buffer, ask: &Value) -> Result<Array, Failure> {
    match one.stream() {
        Some(stream) => Ok(stream.read(buffer).await?.await?),
        None => made(buffer.read(), ask).await,
    }
}

async fn read(adapter: &Adapter, ask: &Value) -> Answer {
    let buffer = adapter.buffer(&ask["buffer"])?;
    if !ask["bytes"].is_null() {
        let data = made(buffer.read_bytes(number(&ask["offset"]), number(&ask["bytes"])), ask).await?;
        return Ok(json!({"data": encoded(data)}));
    }
    let what = fetched(&adapter.client(ask)?, &buffer, ask).await?;
    Ok(json!({"tensor": tensor(&what)}))
}

async fn free(adapter: &Adapter, ask: &Value) -> Answer {
    let one = adapter.client(ask)?;
    for item in ask["buffers"].as_array().into_iter().flatten() {
        let buffer = adapter.buffer(item)?;
        match one.stream() {
            Some(stream) => stream.free(&buffer).await?,
            None => made(buffer.free(), ask).await?,
        }
        adapter.named().buffers.remove(&name(item));
    }
    done(())
}

/// Of a handle, whosever it is.
async fn describe(adapter: &Adapter, ask: &Value) -> Answer {
    let request = v1::DescribeBufferRequest { handle: number(&ask["handle"]) };
    let said = made(adapter.client(ask)?.client.call(buffer_service::DESCRIBE, request), ask).await?;
    Ok(json!({"bytes": said.buffer.unwrap_or_default().bytes}))
}

async fn run(adapter: &Adapter, ask: &Value) -> Answer {
    let (one, program) = (adapter.client(ask)?, adapter.program(&ask["program"])?);
    let mut arguments = Vec::new();
    for item in ask["arguments"].as_array().into_iter().flatten() {
        arguments.push(if !item["tensor"].is_null() {
            Argument::Array(array(&item["tensor"])?)
        } else if let Some(value) = item["integer"].as_i64() {
            Argument::Integer(value)
        } else {
            Argument::Buffer(adapter.buffer(&item["buffer"])?)
        });
    }
    let Some(names) = ask["keep"].as_array() else {
        let results = made(program.run(arguments), ask).await?;
        return Ok(json!({"results": results.iter().map(tensor).collect::<Vec<_>>()}));
    };
    let results = kept(&one, &program, arguments, ask).await?;
    adapter.named().buffers.extend(names.iter().map(name).zip(results));
    done(())
}

async fn kept(
    one: &Connected,
    program: &Program,
    arguments: Vec<Argument>,
    ask: &Value,
) -> Result<Vec<Buffer>, Failure> {
    match one.stream() {
        Some(stream) => Ok(stream.run_tagged(&name(&ask["tag"]), program, arguments).await?),
        None => made(program.run_keep(arguments), ask).await,
    }
}

async fn measured(adapter: &Adapter, ask: &Value) -> Answer {
    if ask["what"] == json!("prepare") {
        let bench = Bench::prepare(ask).await?;
        return done(adapter.named().bench.insert(Arc::new(bench)));
    }
    let bench = adapter.named().bench.clone().ok_or_else(|| bad("nothing was prepared"))?;
    bench.measure(ask).await
}

/// Of a graph of a file, on constants of another, which are uploaded, and on what is given by value.
async fn run_files(adapter: &Adapter, ask: &Value) -> Answer {
    let client = adapter.client(ask)?.client;
    let program = made(client.compile(&kiln::read_graph(name(&ask["graph_file"]))?), ask).await?;
    let mut arguments = Vec::new();
    for (slot, constant) in kiln::read_constants(name(&ask["constants_file"]))? {
        arguments.push(Argument::in_slot(slot, made(client.upload(constant), ask).await?));
    }
    for item in ask["arguments"].as_array().into_iter().flatten() {
        arguments.push(array(&item["tensor"])?.into());
    }
    let results = made(program.run(arguments), ask).await?;
    Ok(json!({"results": results.iter().map(tensor).collect::<Vec<_>>()}))
}

/// `run`, of one buffer: this client checks nothing that the server does.
async fn unchecked_run(adapter: &Adapter, ask: &Value) -> Answer {
    let (one, program) = (adapter.client(ask)?, adapter.program(&ask["program"])?);
    let results = kept(&one, &program, vec![adapter.buffer(&ask["buffer"])?.into()], ask).await?;
    adapter.named().buffers.extend([name(&ask["keep"])].into_iter().zip(results));
    done(())
}

/// Does a request beside what follows; `end` answers it.
fn begin(adapter: &Adapter, ask: &Value) -> Value {
    let (beside, request) = (adapter.clone(), ask["request"].clone());
    let doing = tokio::spawn(async move { Box::pin(beside.answer(request)).await });
    adapter.named().begun.insert(name(&ask["as"]), doing);
    json!({})
}

async fn end(adapter: &Adapter, ask: &Value) -> Answer {
    let begun = adapter.named().begun.remove(&name(&ask["of"])).ok_or_else(|| bad("nothing of that name was begun"))?;
    begun.await.map_err(bad)
}

async fn fence(adapter: &Adapter, ask: &Value) -> Answer {
    match adapter.client(ask)?.stream() {
        Some(stream) => done(stream.fence().await?),
        None => done(()),
    }
}

async fn record(adapter: &Adapter, ask: &Value) -> Answer {
    let mut steps = Vec::new();
    for row in ask["steps"].as_array().into_iter().flatten() {
        let numbers = row[1].as_array().into_iter().flatten().map(|buffer| number(buffer) as u32);
        steps.push(Step::new(&adapter.program(&row[0])?, numbers));
    }
    let recording = made(adapter.client(ask)?.client.record(steps), ask).await?;
    done(adapter.named().recordings.insert(name(&ask["as"]), Arc::new(recording)))
}

fn named(adapter: &Adapter, names: &Value) -> Result<Vec<Buffer>, Failure> {
    names.as_array().into_iter().flatten().map(|name| adapter.buffer(name)).collect()
}

async fn replay(adapter: &Adapter, ask: &Value) -> Answer {
    let found = adapter.named().recordings.get(&name(&ask["recording"])).cloned();
    let recording = found.ok_or_else(|| bad("no recording of that name"))?;
    done(made(recording.replay(&named(adapter, &ask["buffers"])?), ask).await?)
}

async fn collective(adapter: &Adapter, ask: &Value) -> Answer {
    let kinds = [
        ("broadcast", CollectiveKind::Broadcast),
        ("scatter", CollectiveKind::Scatter),
        ("gather", CollectiveKind::Gather),
        ("reduce", CollectiveKind::Reduce),
        ("all_gather", CollectiveKind::AllGather),
        ("reduce_scatter", CollectiveKind::ReduceScatter),
        ("all_reduce", CollectiveKind::AllReduce),
    ];
    let ops = [("sum", Reduction::Sum), ("prod", Reduction::Product), ("max", Reduction::Maximum)];
    let kind = kinds.iter().find(|(name, _)| ask["kind"] == json!(name)).ok_or_else(|| bad("no collective"))?.1;
    let what = Collective {
        inputs: named(adapter, &ask["inputs"])?,
        outputs: named(adapter, &ask["outputs"])?,
        how: ops.iter().find(|(name, _)| ask["op"] == json!(name)).map_or(Reduction::Sum, |(_, op)| *op),
        root: number(&ask["root"]) as u32,
        ..Collective::default()
    };
    done(made(adapter.client(ask)?.client.collective(kind, what), ask).await?)
}

async fn transfer(adapter: &Adapter, ask: &Value) -> Answer {
    let sent: Vec<u8> = (0..number(&ask["bytes"])).map(|at| (at % 251) as u8).collect();
    let one = adapter.client(ask)?;
    let buffer = uploaded(&one, ask, Array::from(sent.clone())).await?;
    let back = fetched(&one, &buffer, ask).await?;
    let wrong = back.data().iter().zip(&sent).filter(|(one, other)| one != other).count();
    made(buffer.free(), ask).await?;
    Ok(json!({"wrong": wrong}))
}
