//! Requests for served models.

use kiln::{InferRequest, Model, Outputs, TensorMetadata};
use serde_json::{Map, Value, json};

use crate::{
    Adapter, Answer, Failure, array, bad,
    requests::{made, name, number},
    tensor, told,
};

pub async fn models(adapter: &Adapter, ask: &Value) -> Answer {
    let rows = made(adapter.client(ask)?.client.models(), ask)
        .await?
        .into_iter()
        .map(|row| json!({"name": row.name, "version": row.version, "state": row.state, "reason": row.reason}));
    Ok(json!({"models": rows.collect::<Vec<_>>()}))
}

pub async fn model(adapter: &Adapter, ask: &Value) -> Answer {
    let model = made(adapter.client(ask)?.client.model_version(name(&ask["name"]), name(&ask["version"])), ask).await?;
    let tensors = |rows: &[TensorMetadata]| -> Value {
        rows.iter().map(|row| json!({"name": row.name, "dtype": row.dtype.name(), "shape": row.shape})).collect()
    };
    let said = json!({
        "ready": made(model.ready(), ask).await?,
        "versions": model.versions(),
        "inputs": tensors(model.inputs()),
        "outputs": tensors(model.outputs()),
    });
    adapter.named().models.insert(name(&ask["as"]), model);
    Ok(said)
}

fn named(adapter: &Adapter, ask: &Value) -> Result<Model, Failure> {
    let found = adapter.named().models.get(&name(&ask["model"])).cloned();
    found.ok_or_else(|| bad(format!("no model {}", ask["model"])))
}

fn request(ask: &Value) -> Result<InferRequest, Failure> {
    let inputs = ask["inputs"].as_object().into_iter().flatten();
    let inputs = inputs.map(|(name, item)| Ok((name, array(&item["tensor"])?)));
    let outputs = ask["outputs"].as_array().into_iter().flatten().map(name);
    let request = InferRequest::new(inputs.collect::<Result<Vec<_>, Failure>>()?).outputs(outputs);
    let sequence = &ask["sequence"];
    Ok(match sequence.is_null() {
        true => request,
        false => request.sequence(number(&sequence["id"]), sequence["start"] == true, sequence["end"] == true),
    })
}

fn by_name(outputs: &Outputs) -> Value {
    let outputs: Map<_, _> = outputs.iter().map(|(name, array)| (name.clone(), tensor(array))).collect();
    json!({"outputs": outputs})
}

pub async fn infer(adapter: &Adapter, ask: &Value) -> Answer {
    Ok(by_name(&made(named(adapter, ask)?.infer(request(ask)?), ask).await?))
}

pub async fn infer_stream(adapter: &Adapter, ask: &Value) -> Answer {
    let stream = made(named(adapter, ask)?.stream(), ask).await?;
    let mut pending = Vec::new();
    for item in ask["requests"].as_array().into_iter().flatten() {
        pending.push(stream.send(request(item)?).await?);
    }
    let mut answers = Vec::new();
    for outputs in pending {
        answers.push(match outputs.await {
            Ok(outputs) => by_name(&outputs),
            Err(error) => json!({"error": told(&error)}),
        });
    }
    stream.close().await?;
    Ok(json!({"answers": answers}))
}
