//! The way of a stream's commands to the server. It numbers commands, keeps each until an answer confirms it, and when
//! the connection is lost sends what is kept once more on the next; the server runs each number once. The same when the
//! caller's token counts no more and the token's file has another. Else it ends, as it does with its session, or when
//! the server has not been there for as long as a lease.
//!
//! Two tasks: one reads answers and reconnects, and of each connection one writes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    Error, Result, Status,
    answers::{Asked, State},
    call::CallOptions,
    client::FAREWELL,
    connect::PROTOCOL,
    connection::{Connection, Session},
    error::{closed, unavailable},
    v1::{self, ErrorCode, SubmitRequest, kernel_service, submit_request::Command, submit_response::Event},
};

/// What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it.
pub(crate) const MOST_COMMANDS: usize = 1024;
pub(crate) const MOST_BYTES: usize = 16 << 20;
/// Between two attempts to reconnect: at first, and at most.
const AGAIN: Duration = Duration::from_millis(50);
const MOST_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Link {
    connection: Arc<Connection>,
    token: Bytes,
    state: Mutex<State>,
    /// There is something to send, or no more to come.
    work: Notify,
    /// Something was confirmed, or nothing is any more.
    room: Notify,
    ended: Notify,
    reader: Mutex<Option<AbortHandle>>,
}

impl Link {
    /// `before` is the one that has ended. Under one session commands are numbered on, for the server passes over those
    /// whose numbers it had.
    pub fn begin(connection: Arc<Connection>, session: Session, before: Option<&Link>) -> Arc<Link> {
        let mut state = State::default();
        if let Some(before) = before.filter(|before| before.token == session.token) {
            let mut old = before.state();
            (state.last, state.seen, state.failure) = (old.last, old.last, old.failure.take());
        }
        let link = Arc::new(Link {
            connection,
            token: session.token,
            state: Mutex::new(state),
            work: Notify::new(),
            room: Notify::new(),
            ended: Notify::new(),
            reader: Mutex::default(),
        });
        let reader = tokio::spawn(link.clone().read()).abort_handle();
        *link.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
        link
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command whose answer nobody waits for. It waits itself while as much is unconfirmed as may be.
    pub async fn send(&self, command: Command, tag: &str) -> Result<()> {
        self.enter(command, tag, None).await
    }

    /// Sends a command, and gives what will have its answer, of at most so many bytes.
    pub async fn ask(&self, command: Command, room: u64) -> Result<oneshot::Receiver<Result<Bytes>>> {
        let (answer, receiver) = oneshot::channel();
        self.enter(command, "", Some(Asked::new(room, answer))).await?;
        Ok(receiver)
    }

    async fn enter(&self, command: Command, tag: &str, asked: Option<Asked>) -> Result<()> {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state();
                if let Some(ended) = &state.ended {
                    return Err(ended.clone());
                }
                if state.closing {
                    return Err(closed());
                }
                if state.kept.len() < MOST_COMMANDS && state.bytes < MOST_BYTES {
                    self.put(&mut state, command, tag, asked);
                    return Ok(());
                }
            }
            room.await;
        }
    }

    /// Numbers a command and keeps it for the writer.
    fn put(&self, state: &mut State, command: Command, tag: &str, asked: Option<Asked>) {
        state.last += 1;
        let mut request = SubmitRequest {
            command_id: state.last,
            tag: tag.into(),
            acknowledged: state.seen,
            command: Some(command),
            answer: asked.is_some(),
        };
        let size = request.encoded_len();
        state.unasked = (state.unasked.0 + 1, state.unasked.1 + size);
        if request.answer || 4 * state.unasked.0 > MOST_COMMANDS || 4 * state.unasked.1 > MOST_BYTES {
            request.answer = true;
            state.unasked = (0, 0);
        }
        if let Some(asked) = asked {
            state.asked.insert(state.last, asked);
        }
        state.kept.push_back((Arc::new(request), size));
        state.bytes += size;
        self.work.notify_waiters();
    }

    /// Frees what nobody has any more, behind all that was sent; false if the stream has ended.
    pub fn give_back(&self, handle: u64) -> bool {
        let mut state = self.state();
        if state.ended.is_some() || state.closing {
            return false;
        }
        self.put(&mut state, Command::Free(v1::FreeCommand { handle: vec![handle] }), "", None);
        true
    }

    /// The first failure of a command that nobody waited for, once; those after it are forgotten.
    pub fn take_failure(&self) -> Option<Error> {
        self.state().failure.take()
    }

    /// Ends the stream when all that was sent has ended, which a fence tells, or soon.
    pub async fn close(&self) {
        let ended = self.ended.notified();
        {
            let mut state = self.state();
            if state.ended.is_some() {
                return;
            }
            if !state.kept.is_empty() && !state.closing {
                let (answer, _) = oneshot::channel();
                self.put(&mut state, Command::Fence(v1::FenceCommand {}), "", Some(Asked::new(0, answer)));
            }
            state.closing = true;
        }
        self.work.notify_waiters();
        let _ = timeout(FAREWELL, ended).await;
        self.end(closed());
    }

    // -- what comes in

    async fn read(self: Arc<Link>) {
        // Since when nothing has gone on.
        let mut lost: Option<Instant> = None;
        let (mut seen, mut pause) = (self.state().seen, AGAIN);
        loop {
            let (mut welcomed, mut shown) = (None, None);
            let Err(failed) = self.converse(&mut welcomed, &mut shown).await;
            let lease = self.connection.session().as_ref().map_or(Duration::ZERO, |session| session.lease);
            let now = self.state().seen;
            let stood = welcomed.is_some_and(|at: Instant| at.elapsed() > lease / 3);
            if lost.is_none() || stood || now > seen {
                (lost, seen, pause) = (Some(Instant::now()), now, AGAIN);
            }
            if self.is_done() {
                return self.end(closed());
            }
            let goes_on = may_pass(&failed) || self.is_known_anew(&failed, &shown);
            if !goes_on || lost.is_some_and(|lost| lost.elapsed() > lease) {
                return self.end(failed);
            }
            sleep(pause).await;
            pause = MOST_AGAIN.min(pause * 2);
        }
    }

    fn is_done(&self) -> bool {
        let state = self.state();
        state.closing && state.kept.is_empty()
    }

    /// Whether it ended for a token that counts no more, in place of which there is another by now.
    fn is_known_anew(&self, failed: &Error, shown: &Option<String>) -> bool {
        failed.code() == ErrorCode::NotAuthenticated && self.connection.newest_bearer().is_ok_and(|now| now != *shown)
    }

    /// All of one connection, to its failure; `shown` is the token by which it was begun.
    async fn converse(
        self: &Arc<Link>,
        welcomed: &mut Option<Instant>,
        shown: &mut Option<String>,
    ) -> Result<std::convert::Infallible> {
        let mut left = self.connection.left.subscribe();
        let (sender, receiver) = mpsc::channel(16);
        let number = self.state().connected();
        let writer = tokio::spawn(self.clone().write(number, sender));
        let talk = async {
            *shown = self.connection.bearer()?;
            let (messages, options) = (ReceiverStream::new(receiver), CallOptions::default());
            let token = Some(self.token.clone());
            let mut answers = self.connection.converse(kernel_service::SUBMIT, messages, &options, token).await?;
            loop {
                let Some(answer) = self.connection.next(&mut answers, &options).await? else {
                    return Err(unavailable(format!("the stream to {} has ended", self.connection.address)));
                };
                if matches!(answer.event, Some(Event::Welcome(_))) {
                    *welcomed = Some(Instant::now());
                }
                self.state().take(answer, &self.connection.address)?;
                self.room.notify_waiters();
            }
        };
        let ended = tokio::select! {
            ended = talk => ended,
            _ = left.changed() => {
                *welcomed = None; // it has not stood: nobody is there
                Err(unavailable(format!("the server at {} does not answer", self.connection.address)))
            }
        };
        self.state().connection = None;
        writer.abort();
        ended
    }

    /// Sends the hello and then all that there is, until the connection is another or there is no more to come.
    async fn write(self: Arc<Link>, number: u64, to: mpsc::Sender<Arc<SubmitRequest>>) {
        let hello =
            v1::SubmitHello { protocol_min: PROTOCOL, protocol_max: PROTOCOL, session_token: self.token.clone() };
        let acknowledged = self.state().seen;
        let first = SubmitRequest { acknowledged, command: Some(Command::Hello(hello)), ..SubmitRequest::default() };
        let mut next = Some(Arc::new(first));
        while let Some(request) = next {
            if to.send(request).await.is_err() {
                return; // the reader learns why
            }
            next = self.next(number).await;
        }
    }

    async fn next(&self, number: u64) -> Option<Arc<SubmitRequest>> {
        loop {
            let work = self.work.notified();
            {
                let mut state = self.state();
                if state.connection != Some(number) || state.ended.is_some() {
                    return None;
                }
                let at = state.unsent;
                if let Some((request, _)) = state.kept.get(at).cloned() {
                    state.unsent += 1;
                    return Some(request);
                }
                if state.closing {
                    return None;
                }
            }
            work.await;
        }
    }

    /// Tells who waits. Where nobody does, the next fence under this session tells that commands may be lost.
    fn end(&self, failed: Error) {
        if !self.state().end(failed) {
            return;
        }
        self.work.notify_waiters();
        self.room.notify_waiters();
        self.ended.notify_waiters();
        if let Some(reader) = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reader.abort();
        }
    }
}

/// A stream that ended so may be taken up again: nobody has said why, so it is the connection that was lost.
fn may_pass(failed: &Error) -> bool {
    let passing =
        matches!(failed.status(), Status::Unavailable | Status::Internal | Status::Unknown | Status::Cancelled);
    failed.code().is_none() && passing
}
