//! A connection, and what all calls on it have in common: who asks, under which session, what is tried again, and
//! errors.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use tokio::sync::{Notify, watch};
use tokio_stream::Stream;
use tonic::{
    Streaming,
    client::Grpc,
    metadata::{AsciiMetadataValue, MetadataValue},
    transport::{Channel, Endpoint},
};

use crate::{
    Error, Result, Status,
    call::CallOptions,
    codec::Shared,
    error::{bad_argument, closed},
    guard::Guard,
    identity::Identity,
    infer::SEQUENCE_ID,
    inference::ModelInferRequest,
    retries::Retries,
    v1::{Converses, Downloads, ErrorCode, Method, Unary, Uploads},
};

const SESSION_HEADER: &str = "kiln-session-bin";
/// What a server may say at once: of answers without graphs, texts and models' arrays, and of those with. Other arrays
/// of more come in chunks.
const MOST_ANSWER: usize = 16 << 20;
const MOST_LARGE: usize = 256 << 20;
const LARGE: [&str; 4] = [
    "/inference.GRPCInferenceService/",
    "/kiln.v1.DebugService/",
    "/kiln.v1.KernelService/Compile",
    "/kiln.v1.KernelService/Gradient",
];
/// A connection on which calls wait, and nothing comes for so long, is asked whether it is alive.
const LEAST_SILENCE: Duration = Duration::from_secs(20);
/// gRPC servers take pings amiss that come oftener than each 5 minutes for nothing.
const MOST_SILENCE: Duration = Duration::from_secs(310);
const PONG: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    pub address: String,
    pub identity: Identity,
    silence: Duration,
    /// None when the client is closed.
    channel: Mutex<Option<Channel>>,
    session: Mutex<Option<Session>>,
    retries: Retries,
    /// The session is perhaps gone: look now.
    pub hastened: Notify,
    /// How often the connection was left because the server was silent, or closed.
    pub left: watch::Sender<u64>,
}

/// Under which what is made is the client's.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub token: Bytes,
    pub lease: Duration,
}

impl Connection {
    /// Does not connect yet; the first call does.
    pub fn new(address: String, identity: Identity, lease: Duration) -> Result<Connection> {
        // Longer than a session is silent, whose renewals are answered: a connection in order is asked nothing.
        let silence = if lease.is_zero() { MOST_SILENCE } else { (lease / 2).clamp(LEAST_SILENCE, MOST_SILENCE) };
        let channel = dialed(identity.endpoint(&address)?, silence);
        Ok(Connection {
            address,
            identity,
            silence,
            channel: Mutex::new(Some(channel)),
            session: Mutex::default(),
            retries: Retries::default(),
            hastened: Notify::new(),
            left: watch::Sender::new(0),
        })
    }

    pub fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn token(&self) -> Option<Bytes> {
        self.session().as_ref().map(|session| session.token.clone())
    }

    fn channel(&self) -> MutexGuard<'_, Option<Channel>> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses further calls, and hangs up when those under way have ended; streams end now.
    pub fn close(&self) {
        *self.channel() = None;
        self.left.send_modify(|times| *times += 1);
    }

    pub fn is_closed(&self) -> bool {
        self.channel().is_none()
    }

    /// Dials anew for the calls that follow, and lets streams know: the peer is silent.
    pub fn leave(&self) -> Result<()> {
        self.redial()?;
        self.left.send_modify(|times| *times += 1);
        Ok(())
    }

    fn redial(&self) -> Result<()> {
        let channel = dialed(self.identity.endpoint(&self.address)?, self.silence);
        if let Some(held) = self.channel().as_mut() {
            *held = channel;
        }
        Ok(())
    }

    /// The token that a call shows which begins now.
    pub fn bearer(&self) -> Result<Option<String>> {
        if self.identity.look() {
            self.redial()?; // by the new certificate
        }
        Ok(self.identity.bearer())
    }

    /// The same, of files that are read now: for who was refused the one before.
    pub fn newest_bearer(&self) -> Result<Option<String>> {
        self.identity.doubt();
        self.bearer()
    }

    async fn ready(&self, path: &str) -> Result<Grpc<Guard>> {
        self.bearer()?;
        let channel = self.channel().clone().ok_or_else(closed)?;
        let is_large = LARGE.iter().any(|large| path.starts_with(large));
        let most = if is_large { MOST_LARGE } else { MOST_ANSWER };
        let mut grpc = Grpc::new(Guard(channel)).max_decoding_message_size(most);
        grpc.ready().await.map_err(|why| Error::from(tonic::Status::from_error(why.into())))?;
        Ok(grpc)
    }

    /// What a call carries, besides who asks under which session.
    fn request<T>(
        &self,
        path: &str,
        message: T,
        options: &CallOptions,
        token: Option<Bytes>,
    ) -> Result<tonic::Request<T>> {
        let mut request = tonic::Request::new(message);
        let metadata = request.metadata_mut();
        if let Some(secret) = self.identity.bearer() {
            let mut value = text(&format!("Bearer {secret}"), "the token")?;
            value.set_sensitive(true);
            metadata.insert("authorization", value);
        }
        if let Some(token) = token.filter(|_| !path.starts_with("/kiln.v1.SessionService/")) {
            metadata.insert_bin(SESSION_HEADER, MetadataValue::from_bytes(&token));
        }
        if let Some(trace) = &options.traceparent {
            metadata.insert("traceparent", text(trace, "traceparent")?);
        }
        if let Some(left) = options.left() {
            request.set_timeout(left);
        }
        Ok(request)
    }

    /// Makes one call with one answer, and perhaps again.
    pub async fn unary<Q, A>(&self, method: Method<Q, A, Unary>, message: Q, options: &CallOptions) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let message = Arc::new(message);
        self.retries.earn();
        let calls = async {
            let mut attempt = 1;
            loop {
                let failed = match self.once(method, message.clone(), options).await {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                };
                if is_step(&*message) {
                    return Err(failed);
                }
                match self.retries.wait(method.path, &failed, attempt, options.left()) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(failed),
                }
                attempt += 1;
            }
        };
        options.limit(calls).await
    }

    async fn once<Q, A>(&self, method: Method<Q, A, Unary>, message: Arc<Q>, options: &CallOptions) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(method.path).await?;
        let request = self.request(method.path, message, options, self.token())?;
        let answer = grpc.unary(request, path(method.path), Shared::<Q, A>::default()).await;
        answer.map(tonic::Response::into_inner).map_err(|status| self.heed(status))
    }

    /// Makes a call with many answers, which `next` gives.
    pub async fn downloads<Q, A>(
        &self,
        method: Method<Q, A, Downloads>,
        message: Q,
        options: &CallOptions,
    ) -> Result<Streaming<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let call = async {
            let mut grpc = self.ready(method.path).await?;
            let request = self.request(method.path, Arc::new(message), options, self.token())?;
            let answers = grpc.server_streaming(request, path(method.path), Shared::<Q, A>::default()).await;
            answers.map(tonic::Response::into_inner).map_err(|status| self.heed(status))
        };
        options.limit(call).await
    }

    /// The next answer; None behind the last.
    pub async fn next<A>(&self, answers: &mut Streaming<A>, options: &CallOptions) -> Result<Option<A>> {
        options.limit(async { answers.message().await.map_err(|status| self.heed(status)) }).await
    }

    /// Sends messages, and gives the answer.
    pub async fn uploads<Q, A>(
        &self,
        method: Method<Q, A, Uploads>,
        messages: impl Stream<Item = Arc<Q>> + Send + 'static,
        options: &CallOptions,
    ) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let call = async {
            let mut grpc = self.ready(method.path).await?;
            let request = self.request(method.path, messages, options, self.token())?;
            let answer = grpc.client_streaming(request, path(method.path), Shared::<Q, A>::default()).await;
            answer.map(tonic::Response::into_inner).map_err(|status| self.heed(status))
        };
        options.limit(call).await
    }

    /// Begins a stream in both directions, under a session's token if there is one.
    pub async fn converse<Q, A>(
        &self,
        method: Method<Q, A, Converses>,
        messages: impl Stream<Item = Arc<Q>> + Send + 'static,
        options: &CallOptions,
        token: Option<Bytes>,
    ) -> Result<Streaming<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(method.path).await?;
        let request = self.request(method.path, messages, options, token)?;
        let answers = grpc.streaming(request, path(method.path), Shared::<Q, A>::default()).await;
        answers.map(tonic::Response::into_inner).map_err(|status| self.heed(status))
    }

    /// Lets the session know if it is gone.
    fn heed(&self, status: tonic::Status) -> Error {
        let failed = Error::from(status);
        let is_gone = failed.field() == SESSION_HEADER && failed.status() == Status::NotFound;
        if is_gone || failed.code() == ErrorCode::SessionExpired {
            self.hastened.notify_one();
        }
        failed
    }
}

/// Whether a request is a step of a sequence, which is never made again: it may have moved on.
fn is_step(message: &dyn Any) -> bool {
    let asked = message.downcast_ref::<ModelInferRequest>();
    asked.is_some_and(|asked| asked.parameters.contains_key(SEQUENCE_ID))
}

fn dialed(endpoint: Endpoint, silence: Duration) -> Channel {
    endpoint
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(silence)
        .keep_alive_timeout(PONG)
        .http2_max_header_list_size(64 << 10)
        // Room for a few chunks on the way.
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(16 << 20)
        .connect_lazy()
}

fn path(path: &'static str) -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static(path)
}

fn text(value: &str, what: &str) -> Result<AsciiMetadataValue> {
    let refused = |_| bad_argument(format!("{what} has characters, as a line's end, that no header may have"));
    AsciiMetadataValue::try_from(value).map_err(refused)
}
