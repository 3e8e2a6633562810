//! A server of HTTP/2 that says whatever a test wants, down to single bytes. It understands nothing: what a call is
//! answered is a function of its path and its message.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
};

use crate::{
    Client, Status, hash,
    v1::{self, SubmitRequest, SubmitResponse, submit_request::Command, submit_response::Event},
};

/// What one call is answered.
pub enum Reply {
    /// A message.
    Message(Vec<u8>),
    /// Several, and a good end.
    Messages(Vec<Vec<u8>>),
    /// A failure, with a code of the protocol's.
    Failure(Status, v1::ErrorCode),
    /// Bytes as they are, and trailers as they are.
    Raw(Vec<u8>, Vec<(&'static str, String)>),
    /// Bytes as they are, and then nothing more.
    Silence(Vec<u8>),
    /// The stream is reset.
    Reset,
}

/// What a stream's command is answered: answers, and perhaps its end.
#[derive(Default)]
pub struct Said(pub Vec<SubmitResponse>, pub Option<(Status, v1::ErrorCode)>);

type Answering = dyn Fn(&str, Bytes) -> Option<Reply> + Send + Sync;
type Submitting = dyn Fn(u64, &SubmitRequest) -> Said + Send + Sync;

pub struct Liar {
    pub address: String,
    /// Asked first; what it does not answer, is answered as a server would.
    answering: Mutex<Arc<Answering>>,
    submitting: Mutex<Arc<Submitting>>,
    /// In seconds.
    pub lease: AtomicU64,
    pub streams: AtomicU64,
    pub resets: AtomicU64,
    calls: Mutex<Vec<(String, HeaderMap)>>,
    pub freed: Mutex<Vec<u64>>,
}

pub fn message(message: impl Message) -> Option<Reply> {
    Some(Reply::Message(message.encode_to_vec()))
}

pub fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// The messages of a call that has many.
pub fn unframed(mut data: Bytes) -> Vec<Bytes> {
    let mut made = Vec::new();
    while !data.is_empty() {
        let head = data.split_to(5);
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        made.push(data.split_to(length));
    }
    made
}

pub fn event(command_id: u64, event: Event) -> SubmitResponse {
    SubmitResponse { command_id, event: Some(event), more: false }
}

pub fn welcome(answers_lost: u64) -> SubmitResponse {
    event(0, Event::Welcome(v1::SubmitWelcome { protocol: 1, answers_lost, ..Default::default() }))
}

/// Answers what asks for it.
pub fn honest(_: u64, request: &SubmitRequest) -> Said {
    match &request.command {
        Some(Command::Hello(_)) => Said(vec![welcome(0)], None),
        _ if request.answer => Said(vec![event(request.command_id, Event::Done(v1::CommandDone {}))], None),
        _ => Said::default(),
    }
}

impl Liar {
    pub async fn start() -> Arc<Liar> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let liar = Liar::at(listener.local_addr().unwrap().to_string());
        let shared = liar.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(connection(shared.clone(), tcp));
            }
        });
        liar
    }

    pub async fn start_at_path(path: &Path) -> Arc<Liar> {
        let listener = UnixListener::bind(path).unwrap();
        let liar = Liar::at(format!("unix:{}", path.display()));
        let shared = liar.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(connection(shared.clone(), socket));
            }
        });
        liar
    }

    fn at(address: String) -> Arc<Liar> {
        Arc::new(Liar {
            address,
            answering: Mutex::new(Arc::new(|_, _| None)),
            submitting: Mutex::new(Arc::new(honest)),
            lease: AtomicU64::new(60),
            streams: AtomicU64::default(),
            resets: AtomicU64::default(),
            calls: Mutex::default(),
            freed: Mutex::default(),
        })
    }

    pub async fn client(&self) -> Client {
        Client::builder().address(&self.address).timeout(super::FOR_EVER).connect().await.unwrap()
    }

    pub fn answers(&self, with: impl Fn(&str, Bytes) -> Option<Reply> + Send + Sync + 'static) {
        *self.answering.lock().unwrap() = Arc::new(with);
    }

    pub fn submits(&self, with: impl Fn(u64, &SubmitRequest) -> Said + Send + Sync + 'static) {
        *self.submitting.lock().unwrap() = Arc::new(with);
    }

    /// How many calls of a method have come.
    pub fn count(&self, method: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|(path, _)| path.ends_with(method)).count()
    }

    /// What the last call of a method carried.
    pub fn headers(&self, method: &str) -> HeaderMap {
        let calls = self.calls.lock().unwrap();
        calls.iter().rev().find(|(path, _)| path.ends_with(method)).unwrap().1.clone()
    }

    fn reply(&self, path: &str, data: Bytes) -> Reply {
        let answering = self.answering.lock().unwrap().clone();
        let made = answering(path, data.clone()).or_else(|| match path.rsplit('/').next()? {
            "List" => message(v1::ListDevicesResponse {
                protocol_min: 1,
                protocol_max: 1,
                features: vec!["sessions".into(), "submit".into()],
                ..Default::default()
            }),
            "Open" => {
                let lease_seconds = self.lease.load(Ordering::Relaxed) as u32;
                message(v1::OpenSessionResponse { token: vec![7; 16].into(), lease_seconds, ..Default::default() })
            }
            "Free" => {
                self.freed.lock().unwrap().extend(v1::FreeRequest::decode(data).unwrap().handle);
                message(v1::FreeResponse {})
            }
            "Renew" | "Close" => Some(Reply::Message(vec![])),
            _ => None,
        });
        made.unwrap_or(Reply::Failure(Status::Unimplemented, v1::ErrorCode::NotImplemented))
    }
}

/// A Compile that says the right hash, and this signature.
pub fn compiled(data: Bytes, signature: Option<v1::Signature>) -> Option<Reply> {
    let request = v1::CompileRequest::decode(data).unwrap();
    let graph_hash = hash(&request.graph.unwrap()).unwrap().to_vec().into();
    message(v1::CompileResponse { graph_hash, signature, ..Default::default() })
}

async fn connection(liar: Arc<Liar>, socket: impl AsyncRead + AsyncWrite + Unpin) {
    let Ok(mut http) = h2::server::handshake(socket).await else {
        return;
    };
    while let Some(Ok((request, respond))) = http.accept().await {
        tokio::spawn(call(liar.clone(), request, respond));
    }
}

async fn call(liar: Arc<Liar>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Option<()> {
    let (head, mut body) = request.into_parts();
    let path = head.uri.path().to_string();
    liar.calls.lock().unwrap().push((path.clone(), head.headers));
    let response = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    if path.ends_with("/Submit") {
        return stream(&liar, &mut body, respond.send_response(response, false).ok()?).await;
    }
    let mut data = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.ok()?;
        body.flow_control().release_capacity(part.len()).ok()?;
        data.extend_from_slice(&part);
    }
    // Of many messages each has its frame.
    let head = if path.ends_with("/ModelStreamInfer") { 0 } else { 5 };
    let reply = liar.reply(&path, Bytes::from(data).slice(head..));
    if let Reply::Reset = reply {
        respond.send_reset(h2::Reason::INTERNAL_ERROR);
        return Some(());
    }
    let mut to = respond.send_response(response, false).ok()?;
    let (bytes, trailers) = match reply {
        Reply::Message(message) => (framed(&message), good()),
        Reply::Messages(messages) => (messages.iter().flat_map(|message| framed(message)).collect(), good()),
        Reply::Failure(status, code) => (vec![], failure(status, code)),
        Reply::Raw(bytes, trailers) => (bytes, trailers),
        Reply::Silence(bytes) => {
            to.send_data(bytes.into(), false).ok()?;
            let _ = std::future::poll_fn(|context| to.poll_reset(context)).await;
            liar.resets.fetch_add(1, Ordering::Relaxed);
            return Some(());
        }
        Reply::Reset => unreachable!("it was"),
    };
    to.send_data(bytes.into(), false).ok()?;
    end(&mut to, trailers)
}

fn good() -> Vec<(&'static str, String)> {
    vec![("grpc-status", "0".into())]
}

pub fn failure(status: Status, code: v1::ErrorCode) -> Vec<(&'static str, String)> {
    let detail = v1::ErrorDetail { code: code.into(), ..Default::default() };
    let packed = crate::details::Packed {
        type_url: "type.googleapis.com/kiln.v1.ErrorDetail".into(),
        value: detail.encode_to_vec().into(),
    };
    let status_message = crate::details::RpcStatus { code: status as i32, message: "so".into(), details: vec![packed] };
    let details = tonic::metadata::MetadataValue::from_bytes(&status_message.encode_to_vec());
    let text = String::from_utf8(details.as_encoded_bytes().to_vec()).unwrap();
    vec![("grpc-status", (status as i32).to_string()), ("grpc-message", "so".into()), ("grpc-status-details-bin", text)]
}

fn end(to: &mut SendStream<Bytes>, trailers: Vec<(&'static str, String)>) -> Option<()> {
    let headers = trailers
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap()));
    to.send_trailers(headers.collect()).ok()
}

/// Reads commands, and says what there is to say to each.
async fn stream(liar: &Liar, body: &mut RecvStream, mut to: SendStream<Bytes>) -> Option<()> {
    let number = liar.streams.fetch_add(1, Ordering::Relaxed) + 1;
    let mut data = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.ok()?;
        body.flow_control().release_capacity(part.len()).ok()?;
        data.extend_from_slice(&part);
        while data.len() >= 5 {
            let length = u32::from_be_bytes([data[1], data[2], data[3], data[4]]) as usize;
            if data.len() < 5 + length {
                break;
            }
            let request = SubmitRequest::decode(&data[5..5 + length]).unwrap();
            data.drain(..5 + length);
            let submitting = liar.submitting.lock().unwrap().clone();
            let Said(answers, ends) = submitting(number, &request);
            for answer in answers {
                to.send_data(framed(&answer.encode_to_vec()).into(), false).ok()?;
            }
            if let Some((status, code)) = ends {
                let trailers = match code {
                    v1::ErrorCode::Unspecified => vec![("grpc-status", (status as i32).to_string())],
                    code => failure(status, code),
                };
                return end(&mut to, trailers);
            }
        }
    }
    end(&mut to, good())
}
