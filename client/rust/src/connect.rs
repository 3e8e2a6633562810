use std::{env, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    Client, Error, Result, Status,
    call::CallOptions,
    connection::Connection,
    error::{no_code, unavailable},
    identity::{Credentials, Identity},
    session,
    v1::{self, ErrorCode, device_service},
};

/// The version of the protocol that this crate speaks.
pub(crate) const PROTOCOL: u32 = 1;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For the server behind a balancer, which is near it.
const DIRECT_TIMEOUT: Duration = Duration::from_secs(2);
const LEASE: Duration = Duration::from_secs(30);

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
    pub(crate) fn new() -> ClientBuilder {
        ClientBuilder {
            address: None,
            credentials: Credentials::default(),
            device: String::new(),
            lease: LEASE,
            timeout: CONNECT_TIMEOUT,
        }
    }

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
    pub async fn connect(mut self) -> Result<Client> {
        self.credentials = self.credentials.with_environment()?;
        let variable = || env::var("KILN_ADDR").ok().filter(|address| !address.is_empty());
        let address = self.address.take().or_else(variable).unwrap_or_else(|| "localhost:7437".into());
        let options = CallOptions::within(self.timeout);
        let (connection, said) = self.meet(address, true, &options).await?;
        if !said.address.is_empty()
            && said.address != connection.address
            && connection.identity.may_follow(&said.address)
            && let Ok(client) = self.directly(&said.address, &options).await
        {
            return Ok(client);
        }
        self.enter(connection, said, &options).await
    }

    /// Connects to the server behind a balancer, for what is made is in that server's memory. If it cannot be reached
    /// so, the balancer must keep us there.
    async fn directly(&self, address: &str, options: &CallOptions) -> Result<Client> {
        let half = options.left().map_or(DIRECT_TIMEOUT, |left| left / 2);
        let options = CallOptions::within(half.min(DIRECT_TIMEOUT));
        let (connection, said) = self.meet(address.into(), false, &options).await?;
        if said.address != address {
            let message = format!("another server is at {address}, which calls itself {:?}", said.address);
            return Err(unavailable(message));
        }
        self.enter(connection, said, &options).await
    }

    /// Waits for the server if it may come late, and hears what it is.
    async fn meet(
        &self,
        address: String,
        may_come: bool,
        options: &CallOptions,
    ) -> Result<(Connection, v1::ListDevicesResponse)> {
        let identity = Identity::new(&address, self.credentials.clone())?;
        let connection = Connection::new(address, identity, self.lease)?;
        let said = list(&connection, may_come, options).await?;
        let address = &connection.address;
        if said.protocol_min > PROTOCOL || said.protocol_max < PROTOCOL {
            let message = format!(
                "the server at {address} speaks protocol {} to {}, this crate {PROTOCOL}: take the crate of the \
                 server's release",
                said.protocol_min, said.protocol_max
            );
            return Err(Error::new(no_code(), Status::FailedPrecondition, message));
        }
        let devices: Vec<&str> = said.devices.iter().map(|row| row.name.as_str()).collect();
        if !self.device.is_empty() && !devices.contains(&self.device.as_str()) {
            let message = format!("the server at {address} has no device {}; it has {devices:?}", self.device);
            return Err(Error::new(ErrorCode::UnknownDevice, Status::NotFound, message));
        }
        Ok((connection, said))
    }

    /// Begins a session where the server has any.
    async fn enter(
        &self,
        connection: Connection,
        said: v1::ListDevicesResponse,
        options: &CallOptions,
    ) -> Result<Client> {
        if !self.lease.is_zero() && said.features.iter().any(|name| name == "sessions") {
            match session::open(&connection, self.lease, options).await {
                Err(failed) if failed.status() != Status::Unimplemented => return Err(failed),
                _ => {}
            }
        }
        Ok(Client::new(Arc::new(connection), self.device.clone(), self.lease, said))
    }
}

/// Waits until the server is there, and hears what it is.
async fn list(connection: &Connection, may_come: bool, options: &CallOptions) -> Result<v1::ListDevicesResponse> {
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
        let is_absent = failed.status() == Status::Unavailable && failed.code().is_none();
        if !may_come || !is_absent && failed.status() != Status::DeadlineExceeded {
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
