use std::{fmt, sync::Arc, time::Duration};

use crate::v1;

/// gRPC's statuses.
pub use tonic::Code as Status;

/// What every fallible function gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure that the server found, or this crate. Programs read [`code`](Error::code) and [`status`](Error::status);
/// the text is for people.
///
/// ```
/// use kiln::{DType, Graph, v1::ErrorCode};
///
/// let graph = Graph::new();
/// graph.output(graph.param("x", DType::Float32, [4]) + graph.param("y", DType::Float32, [3]));
/// let error = graph.build().unwrap_err();
/// assert_eq!(error.code(), ErrorCode::ShapeMismatch);
/// ```
#[derive(Clone)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub code: i32,
    pub status: Status,
    pub message: String,
    pub said: v1::ErrorDetail,
    pub command: u64,
    pub source: Option<Arc<tonic::Status>>,
}

/// The protocol's code, compared with [`v1::ErrorCode`]. It is stable. A server that is newer than this crate may give
/// one without a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(i32);

impl Code {
    /// Nobody gave one, as when a connection is lost.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// As it travels.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl PartialEq<v1::ErrorCode> for Code {
    fn eq(&self, other: &v1::ErrorCode) -> bool {
        self.0 == i32::from(*other)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match v1::ErrorCode::try_from(self.0) {
            Ok(code) => to.write_str(code.as_str_name()),
            Err(_) => write!(to, "{}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

impl Error {
    pub(crate) fn new(code: v1::ErrorCode, status: Status, message: impl Into<String>) -> Error {
        Error(Box::new(Parts {
            code: code.into(),
            status,
            message: message.into(),
            said: v1::ErrorDetail::default(),
            command: 0,
            source: None,
        }))
    }

    /// The protocol's code.
    pub fn code(&self) -> Code {
        Code(self.0.code)
    }

    /// gRPC's status.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// For people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The index of the node at fault in the graph as sent.
    pub fn node(&self) -> Option<u32> {
        self.0.said.node
    }

    /// The node's op.
    pub fn op(&self) -> &str {
        &self.0.said.op
    }

    /// The node's tag; of a stream's command that failed, that of the first cause.
    pub fn tag(&self) -> &str {
        &self.0.said.tag
    }

    /// The compiler's pass that found the fault.
    pub fn pass(&self) -> &str {
        &self.0.said.pass
    }

    /// The slot of the argument at fault.
    pub fn slot(&self) -> Option<u32> {
        self.0.said.slot
    }

    /// The field of the request at fault.
    pub fn field(&self) -> &str {
        &self.0.said.field
    }

    /// The buffer at fault; 0 where none is.
    pub fn handle(&self) -> u64 {
        self.0.said.handle
    }

    /// The name of a limit that was met.
    pub fn limit(&self) -> &str {
        &self.0.said.limit
    }

    /// That limit's value.
    pub fn limit_value(&self) -> u64 {
        self.0.said.limit_value
    }

    /// How much of that limit is used.
    pub fn used(&self) -> u64 {
        self.0.said.used
    }

    /// How long the server asks to wait before another try; None where waiting does not help.
    pub fn retry_after(&self) -> Option<Duration> {
        let milliseconds = self.0.said.retry_after_ms;
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
    }

    /// In a stream, the number of the command that went wrong first; else 0.
    pub fn command(&self) -> u64 {
        self.0.command
    }

    pub(crate) fn at_node(mut self, node: usize, op: String, tag: &str) -> Error {
        self.0.said = v1::ErrorDetail { node: u32::try_from(node).ok(), op, tag: tag.into(), ..self.0.said };
        self
    }

    pub(crate) fn of_field(mut self, field: &str) -> Error {
        self.0.said.field = field.into();
        self
    }

    pub(crate) fn parts_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

pub(crate) fn no_code() -> v1::ErrorCode {
    v1::ErrorCode::Unspecified
}

pub(crate) fn bad_argument(message: impl Into<String>) -> Error {
    Error::new(v1::ErrorCode::BadArgument, Status::InvalidArgument, message)
}

pub(crate) fn unavailable(message: impl Into<String>) -> Error {
    Error::new(no_code(), Status::Unavailable, message)
}

/// Of what no server may say.
pub(crate) fn bad_server(what: impl fmt::Display) -> Error {
    Error::new(v1::ErrorCode::InternalFault, Status::Internal, format!("the server {what}"))
}

pub(crate) fn late() -> Error {
    Error::new(no_code(), Status::DeadlineExceeded, "the time is over")
}

pub(crate) fn closed() -> Error {
    Error::new(no_code(), Status::Cancelled, "the client is closed")
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code().is_none() {
            write!(to, "{:?}: {}", self.status(), self.message())?;
        } else {
            write!(to, "{}: {}", self.code(), self.message())?;
        }
        if let Some(node) = self.node() {
            write!(to, " (node {node}, {})", self.op())?;
        }
        if !self.tag().is_empty() {
            write!(to, " [{}]", self.tag())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Error({self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|status| status as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_well() {
        let error = Error::new(v1::ErrorCode::DtypeMismatch, Status::InvalidArgument, "int32 and float32");
        let error = error.at_node(2, "SUB".into(), "mine");
        assert_eq!(error.to_string(), "DTYPE_MISMATCH: int32 and float32 (node 2, SUB) [mine]");
        assert_eq!(unavailable("gone").to_string(), "Unavailable: gone");
        assert_eq!(Code(9999).to_string(), "9999");
    }
}
