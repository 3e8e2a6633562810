use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Argument, Array, Buffer, Client, DType, Error, Program, Result, Status,
    buffer::no_array,
    connection::{Connection, Session},
    dtype::{byte_count, shape_of, wire_shape},
    error::{bad_argument, bad_server, closed},
    link::Link,
    program::Bound,
    retries::random,
    v1::{self, ErrorCode, signature, submit_request::Command},
};

/// A written piece: as much as makes no other command wait long.
const PIECE: usize = 256 << 10;
/// A server that had a program a moment ago has it still; for one that was not used for longer, the graph goes along.
const KNOWN: Duration = Duration::from_secs(10);

/// Takes commands without waiting for them: any number in one round trip. They take effect in the order in which they
/// are awaited. What they make has a name at once, so that the next command can use it; buffers are the client's like
/// any others. What a command waits for is room, which there is but where very much is under way.
///
/// A command that fails poisons what it would have made or written: what uses that is told the first failure.
/// [`fence`](Stream::fence) tells the first failure of a command whose answer nobody waits for, and forgets it. Calls
/// that are no commands know nothing of what is under way: fence first.
///
/// A connection that is lost is made again for as long as the lease lasts, and what may not have arrived is sent again;
/// each command runs once.
///
/// ```no_run
/// # async fn example(client: kiln::Client, program: kiln::Program) -> kiln::Result<()> {
/// let stream = client.stream()?;
/// let mut value = stream.upload(vec![0.0f32; 4]).await?;
/// for _ in 0..3 {
///     value = stream.run(&program, [&value]).await?.remove(0);
/// }
/// let array = stream.read(&value).await?.await?; // only here it waits for the server
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stream {
    client: Client,
    commands: Arc<Commands>,
}

/// What a client's stream has of its own.
pub(crate) struct Commands {
    link: Arc<Link>,
    /// From anywhere on, so that another client's handle is none of ours.
    names: AtomicU64,
    /// By hash: until when the server is taken to have a program.
    known: Mutex<HashMap<Bytes, Instant>>,
}

impl Commands {
    fn begin(connection: Arc<Connection>, session: Session, before: Option<&Commands>) -> Arc<Commands> {
        let link = Link::begin(connection, session, before.map(|before| &*before.link));
        let names = AtomicU64::new((1 << 62) + (random() >> 3));
        Arc::new(Commands { link, names, known: Mutex::default() })
    }

    pub fn give_back(&self, handle: u64) -> bool {
        self.link.give_back(handle)
    }

    pub async fn close(&self) {
        self.link.close().await;
    }

    #[cfg(test)]
    pub fn link(&self) -> &Link {
        &self.link
    }
}

impl Client {
    /// The client's stream of commands. It is begun when it is first asked for, and anew when it has ended.
    pub fn stream(&self) -> Result<Stream> {
        let session = self.0.connection.session().clone();
        let Some(session) = session.filter(|_| self.has("submit")) else {
            let message = "the server has no streams of commands under a session";
            return Err(Error::new(ErrorCode::NotImplemented, Status::Unimplemented, message));
        };
        if self.0.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        let mut held = self.0.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let commands = match &*held {
            Some(commands) if commands.link.state().ended.is_none() => commands.clone(),
            before => Commands::begin(self.0.connection.clone(), session, before.as_deref()),
        };
        *held = Some(commands.clone());
        Ok(Stream { client: self.clone(), commands })
    }

    #[cfg(test)]
    pub(crate) fn commands(&self) -> Arc<Commands> {
        self.stream().unwrap().commands
    }
}

impl Stream {
    fn link(&self) -> &Link {
        &self.commands.link
    }

    fn buffer(&self, dtype: Option<DType>, shape: Vec<usize>, bytes: u64) -> Buffer {
        let name = self.commands.names.fetch_add(1, Ordering::Relaxed) | 1 << 62;
        Buffer::new(&self.client, name, dtype, shape, bytes, self.client.0.device.clone())
    }

    /// Makes a buffer with an array of zeros.
    pub async fn zeros(&self, dtype: DType, shape: impl Into<Vec<usize>>) -> Result<Buffer> {
        let shape = shape.into();
        let bytes = byte_count(dtype, &shape).ok_or_else(|| no_array(dtype, &shape))?;
        let of = v1::TensorType { dtype: dtype.wire(), shape: wire_shape(&shape) };
        let made = self.buffer(Some(dtype), shape, bytes as u64);
        let (handle, device) = (made.handle(), made.device().to_string());
        let command = v1::AllocateCommand { handle, device, r#type: Some(of), ..v1::AllocateCommand::default() };
        self.link().send(Command::Allocate(command), "").await?;
        Ok(made)
    }

    /// Makes a buffer with an array.
    pub async fn upload(&self, array: impl Into<Array>) -> Result<Buffer> {
        let array = array.into();
        let made = self.zeros(array.dtype(), array.shape()).await?;
        self.write(&made, 0, array.data().clone()).await?;
        Ok(made)
    }

    /// Puts bytes at an offset, in pieces.
    pub async fn write(&self, to: &Buffer, offset: u64, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        to.inside(offset, data.len() as u64)?;
        for at in (0..data.len()).step_by(PIECE) {
            let piece = data.slice(at..data.len().min(at + PIECE));
            let write = v1::WriteCommand { buffer: Some(to.reference(offset + at as u64)), data: piece };
            self.link().send(Command::Write(write), "").await?;
        }
        Ok(())
    }

    /// Asks for a buffer's array; what it gives is to be awaited once more.
    pub async fn read(&self, from: &Buffer) -> Result<Pending> {
        let command = v1::ReadCommand { buffer: Some(from.reference(0)), bytes: from.bytes() };
        let answer = self.link().ask(Command::Read(command), from.bytes()).await?;
        Ok(Pending { answer, buffer: from.clone() })
    }

    /// Runs a program, and gives its results as buffers.
    pub async fn run<A: Into<Argument>>(
        &self,
        program: &Program,
        given: impl IntoIterator<Item = A>,
    ) -> Result<Vec<Buffer>> {
        self.run_tagged("", program, given).await
    }

    /// Runs a program. The tag comes back with its failure.
    pub async fn run_tagged<A: Into<Argument>>(
        &self,
        tag: &str,
        program: &Program,
        given: impl IntoIterator<Item = A>,
    ) -> Result<Vec<Buffer>> {
        let bound = program.bind(given.into_iter().map(Into::into).collect())?;
        if program.0.is_sharded {
            return Err(bad_argument("a program for several devices: call it by Client::call"));
        }
        let (mut results, mut result_handle) = (Vec::new(), Vec::new());
        for row in &program.signature().results {
            let (made, name) = self.result(program, &bound, row)?;
            results.push(made);
            result_handle.push(name);
        }
        let mut request = program.request(&bound);
        if !self.is_known(program) {
            request.graph = Some(program.graph().clone());
        }
        let command = v1::ExecuteCommand { request: Some(request), result_handle };
        self.link().send(Command::Execute(command), tag).await?;
        Ok(results)
    }

    /// What a result will be, and its name: new memory, or the parameter that it is after its update.
    fn result(&self, program: &Program, bound: &Bound, row: &signature::Result) -> Result<(Buffer, u64)> {
        if !row.symbolic.is_empty() {
            return Err(bad_argument("a result's size depends on a variable: Program::run_keep gives it"));
        }
        let Some(aliases) = row.aliases else {
            let (dtype, shape) = (DType::of_wire(row.dtype), shape_of(&row.shape));
            let bytes = dtype.zip(shape.as_ref()).and_then(|(dtype, shape)| byte_count(dtype, shape));
            return match shape.filter(|_| bytes.map(|bytes| bytes as u64) == Some(row.bytes)) {
                Some(shape) => {
                    let made = self.buffer(dtype, shape, row.bytes);
                    let name = made.handle();
                    Ok((made, name))
                }
                None => Err(bad_server(format!("says that {} bytes are of shape {:?}", row.bytes, row.shape))),
            };
        };
        let parameter = program.signature().parameters.get(aliases as usize);
        let parameter = parameter.ok_or_else(|| bad_server(format!("says that a result is parameter {aliases}")))?;
        match bound.get(&parameter.slot).and_then(Argument::buffer) {
            Some(own) => Ok((own.clone(), 0)),
            None => Err(bad_argument(format!("parameter {:?} is updated in place: give a buffer", parameter.name))),
        }
    }

    fn is_known(&self, program: &Program) -> bool {
        let now = Instant::now();
        let mut known = self.commands.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, until| *until > now);
        let is_known = known.contains_key(&program.0.hash);
        if !is_known {
            known.insert(program.0.hash.clone(), now + KNOWN);
        }
        is_known
    }

    /// Gives a buffer back. What was sent before still has its memory. To drop it does the same.
    pub async fn free(&self, buffer: &Buffer) -> Result<()> {
        if !buffer.let_go() {
            return Ok(());
        }
        let command = Command::Free(v1::FreeCommand { handle: vec![buffer.handle()] });
        self.link().send(command, "").await.inspect_err(|_| buffer.keep())
    }

    /// Waits until all before it has ended, and tells the first failure that nobody was told.
    pub async fn fence(&self) -> Result<()> {
        let asked = self.link().ask(Command::Fence(v1::FenceCommand {}), 0).await;
        let fenced = match asked {
            Ok(answer) => answer.await.unwrap_or_else(|_| Err(closed())).map(drop),
            Err(ended) => Err(ended),
        };
        self.link().take_failure().map_or(fenced, Err)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Stream of {:?}", self.client)
    }
}

/// An array that is on its way.
#[derive(Debug)]
#[must_use = "it is to be awaited"]
pub struct Pending {
    answer: oneshot::Receiver<Result<Bytes>>,
    buffer: Buffer,
}

impl Future for Pending {
    type Output = Result<Array>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Array>> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        Poll::Ready(answer.unwrap_or_else(|_| Err(closed())).and_then(|data| self.buffer.array(data)))
    }
}
