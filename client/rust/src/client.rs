use std::{
    collections::BTreeSet,
    env, fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prost::Message;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    Call, Error, Result, Status,
    buffer::give_back,
    call::CallOptions,
    connection::Connection,
    error::{no_code, unavailable},
    identity::{Credentials, Identity},
    session,
    stream::Commands,
    v1::{self, Downloads, ErrorCode, Method, Unary, device_service},
};

/// The version of the protocol that this crate speaks.
pub(crate) const PROTOCOL: u32 = 1;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(30);
/// How long what is under way has to end when a client is closed.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

/// A connection to one kilnd. Copies of it are the same client, and may be used by many tasks. When the last of them, of
/// its programs and of its buffers is gone, it is closed in the background; [`close`](Client::close) waits for that.
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

/// How to connect.
///
/// ```no_run
/// # async fn example() -> kiln::Result<()> {
/// let client = kiln::Client::builder()
///     .address("kiln.example:7437")
///     .authority("ca.pem")
///     .token_file("/run/secrets/kiln")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientBuilder {
    address: Option<String>,
    credentials: Credentials,
    device: String,
    lease: Duration,
    timeout: Duration,
}

impl ClientBuilder {
    /// Where kilnd is: "host:port", or "unix:PATH". Else where KILN_ADDR says, or on this machine.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Says who asks, by a secret that is sent with every call. Else KILN_TOKEN.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credentials.token = Some(token.into());
        self
    }

    /// Names a file that has the token, and is read again when it changes. Else KILN_TOKEN_FILE.
    pub fn token_file(mut self, path: impl Into<String>) -> Self {
        self.credentials.token_file = Some(path.into());
        self
    }

    /// Encrypts, and trusts who signs with a certificate of this file of PEM; "system": whom the system trusts. Else
    /// KILN_TLS_CA.
    pub fn authority(mut self, path: impl Into<String>) -> Self {
        self.credentials.authority = Some(path.into());
        self
    }

    /// Shows the server a certificate of the client's: files of PEM, read again when they change. Else
    /// KILN_TLS_CERTIFICATE and KILN_TLS_KEY.
    pub fn certificate(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.credentials.certificate = Some((certificate.into(), key.into()));
        self
    }

    /// Lets a token travel to another machine without encryption, where something else encrypts.
    pub fn insecure_token(mut self) -> Self {
        self.credentials.insecure_token = true;
        self
    }

    /// Where graphs are compiled and buffers are; else on the server's first device.
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = name.into();
        self
    }

    /// How long the server keeps what this client has made when it hears nothing more of it; 30 s otherwise. With zero
    /// what it makes belongs to nobody, and stays until it is freed.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long to wait for the server; 10 s otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects, within a runtime of tokio's.
    pub async fn connect(self) -> Result<Client> {
        let credentials = self.credentials.with_environment()?;
        let variable = || env::var("KILN_ADDR").ok().filter(|address| !address.is_empty());
        let address = self.address.or_else(variable).unwrap_or_else(|| "localhost:7437".into());
        let identity = Identity::new(&address, credentials)?;
        let connection = Arc::new(Connection::new(address, identity, self.lease)?);
        let options = CallOptions::within(self.timeout);
        let said = list(&connection, &options).await?;
        let address = &connection.address;
        if said.protocol_min > PROTOCOL || said.protocol_max < PROTOCOL {
            let message = format!(
                "the server at {address} speaks protocol {} to {}, this crate {PROTOCOL}: take the crate of the \
                 server's release",
                said.protocol_min, said.protocol_max
            );
            return Err(Error::new(no_code(), Status::FailedPrecondition, message));
        }
        let devices: Vec<String> = said.devices.into_iter().map(|row| row.name).collect();
        if !self.device.is_empty() && !devices.contains(&self.device) {
            let message = format!("the server at {address} has no device {}; it has {devices:?}", self.device);
            return Err(Error::new(ErrorCode::UnknownDevice, Status::NotFound, message));
        }
        let features: BTreeSet<String> = said.features.into_iter().collect();
        if !self.lease.is_zero() && features.contains("sessions") {
            match session::open(&connection, self.lease, &options).await {
                Err(failed) if failed.status() != Status::Unimplemented => return Err(failed),
                _ => {}
            }
        }
        let (gone, handles) = mpsc::unbounded_channel();
        tokio::spawn(give_back(connection.clone(), handles));
        let inner = Inner {
            keeper: tokio::spawn(session::keep(connection.clone(), self.lease)),
            connection,
            device: self.device,
            commands: Mutex::default(),
            features,
            devices,
            version: said.server_version,
            gone,
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
        };
        Ok(Client(Arc::new(inner)))
    }
}

/// Waits until the server is there, and hears what it is.
async fn list(connection: &Connection, options: &CallOptions) -> Result<v1::ListDevicesResponse> {
    let mut pause = Duration::from_millis(50);
    loop {
        let failed = match connection.unary(device_service::LIST, v1::ListDevicesRequest {}, options).await {
            Ok(said) => return Ok(said),
            Err(failed) => failed,
        };
        let address = &connection.address;
        if is_unsafe(&failed) {
            return Err(unavailable(format!("no safe connection to {address}: {}", failed.message())));
        }
        let may_come = failed.status() == Status::Unavailable && failed.code().is_none();
        if !may_come && failed.status() != Status::DeadlineExceeded {
            return Err(failed);
        }
        if options.deadline.is_some_and(|deadline| Instant::now() + pause >= deadline) {
            let why = failed.message();
            return Err(unavailable(format!("no server answers at {address} ({why}): is kilnd running there?")));
        }
        sleep(pause).await;
        pause = Duration::from_secs(1).min(pause * 2);
    }
}

/// Whether both sides speak, and cannot agree on how to encrypt: waiting does not help.
fn is_unsafe(failed: &Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(failed);
    while let Some(error) = next {
        if error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData) {
            return true;
        }
        next = error.source();
    }
    false
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
        ClientBuilder {
            address: None,
            credentials: Credentials::default(),
            device: String::new(),
            lease: LEASE,
            timeout: CONNECT_TIMEOUT,
        }
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
