use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prost::Message;
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle};

use crate::{
    Call, ClientBuilder, Result,
    buffer::give_back,
    call::CallOptions,
    connection::Connection,
    session,
    stream::Commands,
    v1::{self, Downloads, Method, Unary},
};

/// How long what is under way has to end when a client is closed.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

/// A connection to one kilnd. Copies of it are the same client, and may be used by many tasks. When the last of them,
/// of its programs and of its buffers is gone, it is closed in the background; [`close`](Client::close) waits for that.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub connection: Arc<Connection>,
    pub device: String,
    pub commands: Mutex<Option<Arc<Commands>>>,
    features: BTreeSet<String>,
    pub devices: Vec<String>,
    version: String,
    /// Handles of buffers that nobody has any more.
    gone: mpsc::UnboundedSender<u64>,
    keeper: JoinHandle<()>,
    runtime: Handle,
    pub closed: AtomicBool,
}

impl Client {
    /// Connects to the kilnd at an address, "host:port" or "unix:PATH", with the credentials of the environment.
    ///
    /// ```no_run
    /// use kiln::{Client, DType::Float32, Graph};
    ///
    /// # async fn example() -> kiln::Result<()> {
    /// let client = Client::connect("localhost:7437").await?;
    /// let graph = Graph::new();
    /// graph.output(graph.param("x", Float32, [4]) * 2 + 1);
    /// let program = client.compile(&graph).await?;
    /// let results = program.run([vec![1.0f32, 2.0, 3.0, 4.0]]).await?;
    /// assert_eq!(results[0].values::<f32>()?.as_ref(), [3.0, 5.0, 7.0, 9.0]);
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(address: impl Into<String>) -> Result<Client> {
        Client::builder().address(address).connect().await
    }

    /// Connects with what the builder is told.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    pub(crate) fn new(
        connection: Arc<Connection>,
        device: String,
        lease: Duration,
        said: v1::ListDevicesResponse,
    ) -> Client {
        let (gone, handles) = mpsc::unbounded_channel();
        tokio::spawn(give_back(connection.clone(), handles));
        Client(Arc::new(Inner {
            keeper: tokio::spawn(session::keep(connection.clone(), lease)),
            connection,
            device,
            commands: Mutex::default(),
            features: said.features.into_iter().collect(),
            devices: said.devices.into_iter().map(|row| row.name).collect(),
            version: said.server_version,
            gone,
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
        }))
    }

    /// The server's address: the one that was given, or the server's own behind a balancer.
    pub fn address(&self) -> &str {
        &self.0.connection.address
    }

    /// What the server can do, by the names of docs/protocol.md.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        self.0.features.iter().map(String::as_str)
    }

    /// Whether the server can do it.
    pub fn has(&self, feature: &str) -> bool {
        self.0.features.contains(feature)
    }

    /// The names of the server's devices.
    pub fn devices(&self) -> &[String] {
        &self.0.devices
    }

    /// For people: what a server can do, [`features`](Client::features) says.
    pub fn server_version(&self) -> &str {
        &self.0.version
    }

    /// Makes any call of the protocol, with the client's credentials, session, retries and errors.
    ///
    /// ```no_run
    /// # async fn example(client: kiln::Client) -> kiln::Result<()> {
    /// use kiln::v1::{TraceRequest, debug_service};
    ///
    /// let traces = client.call(debug_service::TRACE, TraceRequest::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<Q, A>(&self, method: Method<Q, A, Unary>, request: Q) -> Call<'static, A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let connection = self.0.connection.clone();
        Call::new(move |options| async move { connection.unary(method, request, &options).await })
    }

    /// Makes any call of the protocol that has many answers.
    pub fn listen<Q, A>(&self, method: Method<Q, A, Downloads>, request: Q) -> Call<'static, Answers<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let connection = self.0.connection.clone();
        Call::new(move |options| async move {
            let answers = connection.downloads(method, request, &options).await?;
            Ok(Answers { connection, answers, options })
        })
    }

    /// Ends the session, with all that was made under it, and the connection; what is under way in its stream has some
    /// seconds to end. Twice is once.
    pub async fn close(&self) {
        if self.0.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let commands = self.0.commands.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(commands) = commands {
            commands.close().await;
        }
        self.0.keeper.abort();
        session::close(&self.0.connection, FAREWELL).await;
        self.0.connection.close();
    }
}

impl Inner {
    /// Nobody has a buffer any more: it is freed when what was sent before has ended.
    pub fn give_back(&self, handle: u64) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !commands.is_some_and(|commands| commands.give_back(handle)) {
            let _ = self.gone.send(handle);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.keeper.abort();
        let commands = self.commands.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let connection = self.connection.clone();
        self.runtime.spawn(async move {
            if let Some(commands) = commands {
                commands.close().await;
            }
            session::close(&connection, FAREWELL).await;
            connection.close();
        });
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Client({})", self.0.connection.address)
    }
}

/// The answers of a call, as they come.
pub struct Answers<A> {
    connection: Arc<Connection>,
    answers: tonic::Streaming<A>,
    options: CallOptions,
}

impl<A> Answers<A> {
    /// The next; None behind the last. That another is waited for can be given up.
    pub async fn next(&mut self) -> Result<Option<A>> {
        self.connection.next(&mut self.answers, &self.options).await
    }
}

impl<A> fmt::Debug for Answers<A> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Answers")
    }
}
