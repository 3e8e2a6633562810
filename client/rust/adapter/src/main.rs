//! The Rust client, as the conformance suite drives it: a JSON object a line in, one out. tests/clients/README.md says
//! what each request means.

mod bench;
mod builder;
mod models;
mod requests;

use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use kiln::{Array, Buffer, Client, Error, Model, Program, Recording, Stream};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

/// What a request could not be done for: an error of the client's, or one of the adapter's own.
pub enum Failure {
    Client(Error),
    Said(Value),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Client(error)
    }
}

pub fn bad(message: impl ToString) -> Failure {
    Failure::Said(json!({"error": {"message": message.to_string()}}))
}

pub type Answer = Result<Value, Failure>;

/// One of several clients; whether requests go by its stream.
#[derive(Clone)]
pub struct Connected {
    pub client: Client,
    pub streams: bool,
}

impl Connected {
    /// The stream that it has now, if requests go by that.
    pub fn stream(&self) -> Option<Stream> {
        if self.streams { self.client.stream().ok() } else { None }
    }
}

#[derive(Default)]
pub struct Named {
    pub clients: HashMap<String, Connected>,
    pub programs: HashMap<String, Program>,
    pub buffers: HashMap<String, Buffer>,
    pub models: HashMap<String, Model>,
    pub recordings: HashMap<String, Arc<Recording>>,
    pub begun: HashMap<String, JoinHandle<Value>>,
    pub bench: Option<Arc<bench::Bench>>,
}

#[derive(Clone, Default)]
pub struct Adapter(Arc<Mutex<Named>>);

impl Adapter {
    pub fn named(&self) -> MutexGuard<'_, Named> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn client(&self, ask: &Value) -> Result<Connected, Failure> {
        let name = ask["client"].as_str().unwrap_or_default();
        self.named().clients.get(name).cloned().ok_or_else(|| bad(format!("no client {name:?}")))
    }

    pub fn buffer(&self, name: &Value) -> Result<Buffer, Failure> {
        let found = name.as_str().and_then(|name| self.named().buffers.get(name).cloned());
        found.ok_or_else(|| bad(format!("no buffer {name}")))
    }

    pub fn program(&self, name: &Value) -> Result<Program, Failure> {
        let found = name.as_str().and_then(|name| self.named().programs.get(name).cloned());
        found.ok_or_else(|| bad(format!("no program {name}")))
    }

    pub async fn answer(&self, ask: Value) -> Value {
        match requests::request(self, &ask).await {
            Ok(answer) => answer,
            Err(Failure::Client(error)) => json!({"error": told(&error)}),
            Err(Failure::Said(answer)) => answer,
        }
    }
}

pub fn decoded(data: &Value) -> Result<Vec<u8>, Failure> {
    BASE64_STANDARD.decode(data.as_str().unwrap_or_default()).map_err(bad)
}

pub fn encoded(data: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(data)
}

pub fn array(said: &Value) -> Result<Array, Failure> {
    let dtype = said["dtype"].as_str().unwrap_or_default().parse()?;
    let shape = said["shape"].as_array().map_or(&[][..], Vec::as_slice);
    let shape: Vec<usize> = shape.iter().map(|size| size.as_u64().unwrap_or_default() as usize).collect();
    Ok(Array::new(dtype, shape, decoded(&said["data"])?)?)
}

pub fn tensor(array: &Array) -> Value {
    json!({"dtype": array.dtype().name(), "shape": array.shape(), "data": encoded(array.data())})
}

/// An error as the suite wants it.
pub fn told(error: &Error) -> Value {
    let mut made = Map::new();
    let status = format!("{:?}", error.status());
    let upper = status.chars().enumerate().flat_map(|(at, letter)| {
        let gap = (at > 0 && letter.is_uppercase()).then_some('_');
        gap.into_iter().chain(letter.to_uppercase())
    });
    made.insert("status".into(), upper.collect::<String>().into());
    made.insert("message".into(), error.message().into());
    made.insert("limit_value".into(), error.limit_value().into());
    made.insert("used".into(), error.used().into());
    for (name, text) in [("op", error.op()), ("tag", error.tag()), ("field", error.field()), ("limit", error.limit())] {
        if !text.is_empty() {
            made.insert(name.into(), text.into());
        }
    }
    if !error.code().is_none() {
        made.insert("code".into(), error.code().to_string().into());
    }
    for (name, number) in [("node", error.node()), ("slot", error.slot())] {
        if let Some(number) = number {
            made.insert(name.into(), number.into());
        }
    }
    if let Some(wait) = error.retry_after() {
        made.insert("retry_after_ms".into(), (wait.as_millis() as u64).into());
    }
    made.into()
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let adapter = Adapter::default();
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(ask) => adapter.answer(ask).await,
            Err(why) => json!({"unsupported": why.to_string()}),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
