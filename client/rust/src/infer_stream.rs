use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use prost::Message;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::{
    Call, Error, InferRequest, Model, Outputs, Result, Status,
    call::CallOptions,
    connection::Connection,
    error::{bad_server, no_code, unavailable},
    infer::outputs_of,
    inference::{ModelInferRequest, ModelStreamInferResponse, grpc_inference_service},
    link::{MOST_BYTES, MOST_COMMANDS},
};

/// A call that has many requests for a model, without waiting for the answer of one before the next is sent. The server
/// runs them one after the other: those that are to run together are calls of [`Model::infer`]. One that fails is told
/// so, and the others go on. When the connection is lost, what was not answered has failed: unlike a
/// [`Stream`](crate::Stream) of commands, it does not begin again by itself.
///
/// It ends with [`close`](ModelStream::close). It is cancelled when the last of its copies and of its answers that are
/// on their way is dropped.
///
/// ```no_run
/// # async fn example(model: kiln::Model, parts: Vec<kiln::Array>) -> kiln::Result<()> {
/// let stream = model.stream().await?;
/// let mut answers = Vec::new();
/// for part in parts {
///     answers.push(stream.send([("x", part)]).await?);
/// }
/// for answer in answers {
///     println!("{:?}", answer.await?["y"]);
/// }
/// stream.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ModelStream(Arc<Held>);

/// What those have who wait for answers, or may send.
struct Held {
    model: Model,
    way: Arc<Way>,
    reader: AbortHandle,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.reader.abort(); // which resets the call
    }
}

/// The outputs of a request, which are on their way. A failure that the server found in the request has its text alone:
/// in a stream it gives no more.
#[must_use = "it is a future"]
pub struct PendingOutputs {
    answer: oneshot::Receiver<Result<Outputs>>,
    stream: ModelStream,
}

impl Future for PendingOutputs {
    type Output = Result<Outputs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        Poll::Ready(answer.unwrap_or_else(|_| Err(self.stream.0.way.state().ended.clone().unwrap_or_else(closed))))
    }
}

/// The stream's way to the server and back.
struct Way {
    state: Mutex<State>,
    /// Something was answered, or nothing is any more.
    room: Notify,
}

#[derive(Default)]
struct State {
    /// How many requests there were.
    sent: u64,
    /// In the order of their requests.
    waiting: VecDeque<Asked>,
    /// Of their requests.
    bytes: usize,
    /// The id of the last that was answered.
    before: String,
    /// None when no more is to be sent.
    requests: Option<mpsc::UnboundedSender<Arc<ModelInferRequest>>>,
    ended: Option<Error>,
    /// It has ended, and all was answered before.
    is_whole: bool,
}

struct Asked {
    id: String,
    wanted: Vec<String>,
    bytes: usize,
    answer: oneshot::Sender<Result<Outputs>>,
}

impl Model {
    /// Begins a call with many requests; its deadline is the whole call's.
    pub fn stream(&self) -> Call<'static, ModelStream> {
        let model = self.clone();
        Call::new(move |options| async move {
            let (requests, messages) = mpsc::unbounded_channel();
            let state = State { requests: Some(requests), ..State::default() };
            let way = Arc::new(Way { state: Mutex::new(state), room: Notify::new() });
            let connection = model.0.client.0.connection.clone();
            let reader = tokio::spawn(way.clone().read(connection, messages, options)).abort_handle();
            Ok(ModelStream(Arc::new(Held { model, way, reader })))
        })
    }
}

impl ModelStream {
    /// Sends a request, and gives the future of its outputs. It waits only while very much is unanswered.
    pub async fn send(&self, request: impl Into<InferRequest>) -> Result<PendingOutputs> {
        let (mut wire, wanted) = request.into().into_wire(&self.0.model)?;
        let way = &self.0.way;
        loop {
            let room = way.room.notified();
            {
                let mut state = way.state();
                if let Some(ended) = &state.ended {
                    return Err(ended.clone());
                }
                let requests = state.requests.clone().ok_or_else(closed)?;
                if state.waiting.len() < MOST_COMMANDS && state.bytes < MOST_BYTES {
                    state.sent += 1;
                    if wire.id.is_empty() {
                        wire.id = state.sent.to_string(); // comes back with the answer
                    }
                    let (answer, outputs) = oneshot::channel();
                    let bytes = wire.encoded_len();
                    state.waiting.push_back(Asked { id: wire.id.clone(), wanted, bytes, answer });
                    state.bytes += bytes;
                    let _ = requests.send(Arc::new(wire)); // where it is not taken, the reader tells who waits
                    return Ok(PendingOutputs { answer: outputs, stream: self.clone() });
                }
            }
            room.await;
        }
    }

    /// Sends no more, and waits until all that was sent has been answered. It gives the failure by which the stream has
    /// ended before, if there was one.
    pub async fn close(&self) -> Result<()> {
        let way = &self.0.way;
        way.state().requests = None;
        loop {
            let room = way.room.notified();
            {
                let state = way.state();
                if let Some(ended) = &state.ended {
                    return if state.is_whole { Ok(()) } else { Err(ended.clone()) };
                }
            }
            room.await;
        }
    }
}

impl fmt::Debug for ModelStream {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "ModelStream({})", self.0.model.name())
    }
}

impl fmt::Debug for PendingOutputs {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("PendingOutputs")
    }
}

impl Way {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(
        self: Arc<Way>,
        connection: Arc<Connection>,
        messages: mpsc::UnboundedReceiver<Arc<ModelInferRequest>>,
        options: CallOptions,
    ) {
        let mut left = connection.left.subscribe();
        let ended = tokio::select! {
            ended = self.converse(&connection, messages, &options) => ended,
            _ = left.changed() => Err(match connection.is_closed() {
                true => crate::error::closed(),
                false => unavailable(format!("the server at {} does not answer", connection.address)),
            }),
        };
        let Err(failed) = ended;
        self.state().end(failed);
        self.room.notify_waiters();
    }

    /// All of the call, to its end.
    async fn converse(
        &self,
        connection: &Connection,
        messages: mpsc::UnboundedReceiver<Arc<ModelInferRequest>>,
        options: &CallOptions,
    ) -> Result<std::convert::Infallible> {
        let (method, messages) = (grpc_inference_service::MODEL_STREAM_INFER, UnboundedReceiverStream::new(messages));
        let token = connection.token();
        let mut answers = options.limit(connection.converse(method, messages, options, token)).await?;
        while let Some(answer) = connection.next(&mut answers, options).await? {
            self.state().take(answer)?;
            self.room.notify_waiters();
        }
        let mut state = self.state();
        state.is_whole = state.requests.is_none() && state.waiting.is_empty();
        let early = || unavailable(format!("the stream to {} has ended", connection.address));
        Err(if state.is_whole { closed() } else { early() })
    }
}

impl State {
    /// An error is what the stream must end with.
    fn take(&mut self, answer: ModelStreamInferResponse) -> Result<()> {
        let (said, answer) = (answer.error_message, answer.infer_response.unwrap_or_default());
        // A request that was refused before it was read has no id, and its failure neither.
        let is_its = |asked: &Asked| answer.id == asked.id || answer.id.is_empty() && !said.is_empty();
        let Some(asked) = self.waiting.front().is_some_and(is_its).then(|| self.waiting.pop_front()).flatten() else {
            if !answer.id.is_empty() && answer.id == self.before {
                return Ok(()); // it comes a second time
            }
            return Err(bad_server(format!("answered request {:?}, whose turn it is not", answer.id)));
        };
        self.bytes -= asked.bytes;
        self.before = asked.id;
        let outputs = match said.is_empty() {
            true => outputs_of(&asked.wanted, answer),
            false => Err(Error::new(no_code(), Status::Unknown, said)),
        };
        let _ = asked.answer.send(outputs); // or nobody waits for it
        Ok(())
    }

    /// Tells who waits.
    fn end(&mut self, failed: Error) {
        self.requests = None;
        for asked in self.waiting.drain(..) {
            let _ = asked.answer.send(Err(failed.clone()));
        }
        self.ended = Some(failed);
    }
}

/// Of a stream that has been answered all.
fn closed() -> Error {
    Error::new(no_code(), Status::Cancelled, "the stream is closed")
}
