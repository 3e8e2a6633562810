//! Who a client says it is, and how it knows the server.

use std::{
    env, fs,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use tonic::transport::Endpoint;

use crate::{Result, error::bad_argument};

/// For how long a file is believed unchanged.
const BELIEVED: Duration = Duration::from_secs(1);

/// What [`ClientBuilder`](crate::ClientBuilder) was told of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub token: Option<String>,
    pub token_file: Option<String>,
    /// A file of PEM, or "system".
    pub authority: Option<String>,
    /// Files of PEM: a certificate, and its key.
    pub certificate: Option<(String, String)>,
    pub insecure_token: bool,
}

pub(crate) struct Identity {
    credentials: Credentials,
    known: Mutex<Known>,
}

struct Known {
    token: Option<String>,
    /// When the files were last looked at; None: they must be.
    looked: Option<Instant>,
    /// When the certificate's files were last written.
    certificates: [Option<SystemTime>; 2],
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

impl Credentials {
    /// Puts in what is left open: KILN_TOKEN, KILN_TOKEN_FILE, KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY.
    pub fn with_environment(mut self) -> Result<Credentials> {
        if self.token.is_none() && self.token_file.is_none() {
            (self.token, self.token_file) = (variable("KILN_TOKEN"), variable("KILN_TOKEN_FILE"));
        }
        if self.certificate.is_none() {
            self.certificate = match (variable("KILN_TLS_CERTIFICATE"), variable("KILN_TLS_KEY")) {
                (None, None) => None,
                (Some(certificate), Some(key)) => Some((certificate, key)),
                _ => return Err(bad_argument("KILN_TLS_CERTIFICATE and KILN_TLS_KEY go together")),
            };
        }
        self.authority = self.authority.or_else(|| variable("KILN_TLS_CA"));
        Ok(self)
    }

    fn encrypts(&self) -> bool {
        self.authority.is_some()
    }
}

/// An address without the words that gRPC may have before it.
fn plain(address: &str) -> &str {
    let schemes = ["dns:///", "dns:", "ipv4:", "ipv6:", "passthrough:///"];
    schemes.iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or(address)
}

/// Whether an address is this machine's, as it is written: what a name resolves to is the network's business.
fn stays_here(address: &str) -> bool {
    if address.starts_with("unix:") {
        return true;
    }
    let Some((host, _)) = plain(address).rsplit_once(':') else {
        return false;
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether it is a host and a port, which is what a server may tell to be its own address.
fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|digit| digit.is_ascii_digit());
    let is_part = |part: &str| {
        (1..=63).contains(&part.len()) && part.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split('.').all(is_part),
    };
    is_port && is_host
}

impl Identity {
    /// Whether a client may go to an address that a server has told it: one of host:port, and none where the token
    /// would be read on its way. That something else encrypts holds for the way that the user has chosen, and for no
    /// other.
    pub fn may_follow(&self, address: &str) -> bool {
        let is_readable = self.bearer().is_some() && !self.credentials.encrypts();
        is_host_and_port(address) && (!is_readable || stays_here(address))
    }

    /// Checks what is said of who is who.
    pub fn new(address: &str, credentials: Credentials) -> Result<Identity> {
        if credentials.certificate.is_some() && !credentials.encrypts() {
            let message = "a certificate is shown on an encrypted connection: give authority(…), too";
            return Err(bad_argument(message));
        }
        let has_token = credentials.token.is_some() || credentials.token_file.is_some();
        if has_token && !credentials.encrypts() && !credentials.insecure_token && !stays_here(address) {
            return Err(bad_argument(format!(
                "the token would travel to {address} where others can read it: give authority(…); or \
                 insecure_token(), where something else encrypts"
            )));
        }
        let token = match &credentials.token_file {
            Some(path) => Some(token_in(path).ok_or_else(|| bad_argument(format!("there is no token in {path}")))?),
            None => credentials.token.clone(),
        };
        let certificates = written(&credentials);
        let known = Mutex::new(Known { token, looked: Some(Instant::now()), certificates });
        Ok(Identity { credentials, known })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token as it is now.
    pub fn bearer(&self) -> Option<String> {
        self.known().token.clone()
    }

    /// Looks at the files, from time to time: true if a certificate was replaced, which a new connection shows. A token
    /// that is being changed, or is gone for a moment, leaves the one before.
    pub fn look(&self) -> bool {
        let mut known = self.known();
        if known.looked.is_some_and(|at| at.elapsed() < BELIEVED) {
            return false;
        }
        known.looked = Some(Instant::now());
        if let Some(token) = self.credentials.token_file.as_deref().and_then(token_in) {
            known.token = Some(token);
        }
        let certificates = written(&self.credentials);
        let is_new = certificates != known.certificates && certificates.iter().all(Option::is_some);
        if is_new {
            known.certificates = certificates;
        }
        is_new
    }

    /// Believes no file from before: the token was refused.
    pub fn doubt(&self) {
        self.known().looked = None;
    }

    /// Where to connect, and how.
    pub fn endpoint(&self, address: &str) -> Result<Endpoint> {
        let refused = |why: &dyn std::fmt::Display| bad_argument(format!("{address:?} is no address: {why}"));
        if address.starts_with("unix:") {
            return Endpoint::from_shared(address.to_string()).map_err(|why| refused(&why));
        }
        let place = plain(address);
        if place.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(refused(&"it is as \"host:port\" or \"unix:PATH\""));
        }
        let scheme = if self.credentials.encrypts() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{place}")).map_err(|why| refused(&why))?;
        self.encrypted(endpoint)
    }

    #[cfg(feature = "tls")]
    fn encrypted(&self, endpoint: Endpoint) -> Result<Endpoint> {
        use tonic::transport::{Certificate, ClientTlsConfig, Identity};
        let Some(authority) = &self.credentials.authority else {
            return Ok(endpoint);
        };
        let read = |path: &str| fs::read(path).map_err(|why| bad_argument(format!("cannot read {path}: {why}")));
        let mut config = ClientTlsConfig::new();
        config = match authority.as_str() {
            "system" => config.with_native_roots(),
            path => config.ca_certificate(Certificate::from_pem(read(path)?)),
        };
        if let Some((certificate, key)) = &self.credentials.certificate {
            config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        endpoint.tls_config(config).map_err(|why| bad_argument(format!("no certificates to connect by: {why:?}")))
    }

    #[cfg(not(feature = "tls"))]
    fn encrypted(&self, endpoint: Endpoint) -> Result<Endpoint> {
        match self.credentials.encrypts() {
            true => Err(bad_argument("this program was built without encryption: the feature `tls`")),
            false => Ok(endpoint),
        }
    }
}

fn token_in(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|token| !token.is_empty())
}

fn written(credentials: &Credentials) -> [Option<SystemTime>; 2] {
    let when = |path: &String| fs::metadata(path).and_then(|about| about.modified()).ok();
    match &credentials.certificate {
        Some((certificate, key)) => [when(certificate), when(key)],
        None => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::ErrorCode;

    fn with_token() -> Credentials {
        Credentials { token: Some("secret".into()), ..Credentials::default() }
    }

    #[test]
    fn a_token_does_not_travel_in_the_open() {
        for (address, stays) in [
            ("localhost:1", true),
            ("127.0.0.1:1", true),
            ("127.1.2.3:1", true),
            ("[::1]:1", true),
            ("unix:/run/kiln", true),
            ("dns:///localhost:1", true),
            ("passthrough:///127.0.0.1:1", true),
            ("ipv6:[::1]:1", true),
            ("127.evil.example:1", false),
            ("localhost.example:1", false),
            ("10.0.0.1:1", false),
            ("dns:///host:1", false),
            ("[::2]:1", false),
            ("127.0.0.1.evil:1", false),
            ("192.0.2.1:1", false),
        ] {
            assert_eq!(Identity::new(address, with_token()).is_ok(), stays, "{address}");
            let waived = Credentials { insecure_token: true, ..with_token() };
            assert!(Identity::new(address, waived).is_ok(), "{address}");
        }
    }

    #[test]
    fn a_client_does_not_go_wherever_a_server_says() {
        let identity = |credentials| Identity::new("host:1", credentials).unwrap();
        let anyone = identity(Credentials::default());
        // That something else encrypts holds for where the user has sent the token.
        let readable = identity(Credentials { insecure_token: true, ..with_token() });
        let encrypted = identity(Credentials { authority: Some("system".into()), ..with_token() });
        for address in ["gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"] {
            let may = [&anyone, &encrypted, &readable].map(|one| one.may_follow(address));
            assert_eq!(may, [true, true, false], "{address}");
        }
        assert!(readable.may_follow("127.0.0.1:7437"));
        for address in [
            "",
            "host",
            ":1",
            "host:",
            "unix:/tmp/x",
            "xds:host:1",
            "dns:///host:1",
            "a..b:1",
            "a b:1",
            "ipv4:127.0.0.1:1,10.0.0.1:1",
            "127.0.0.1:1,10.0.0.1:1",
        ] {
            assert!(!anyone.may_follow(address), "{address}");
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        let made = [
            Credentials { certificate: Some(("a".into(), "b".into())), ..Credentials::default() },
            Credentials { token_file: Some("/none".into()), ..Credentials::default() },
            Credentials { authority: Some("/none".into()), ..Credentials::default() },
        ];
        for credentials in made {
            let failed = Identity::new("localhost:1", credentials).and_then(|made| made.endpoint("localhost:1"));
            assert_eq!(failed.err().unwrap().code(), ErrorCode::BadArgument);
        }
        for address in ["localhost", "a b:1", "localhost:port", "", ":"] {
            let identity = Identity::new(address, Credentials::default()).unwrap();
            assert_eq!(identity.endpoint(address).err().unwrap().code(), ErrorCode::BadArgument, "{address}");
        }
    }
}
