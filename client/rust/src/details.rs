//! How a failure is read from what a server says: a google.rpc.Status, in which the protocol's ErrorDetail is packed.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::{
    Error, Status,
    error::{late, no_code},
    v1,
};

/// Where `guard.rs` puts the details of a failure, as they came.
pub(crate) const DETAILS: &str = "kiln-status-details";

impl Error {
    /// Of a stream's command, with what went wrong first.
    pub(crate) fn of_command(said: &v1::CommandFailed, command: u64) -> Error {
        let mut made = match RpcStatus::decode(said.status.clone()) {
            Ok(status) => {
                let mut made = Error::new(no_code(), Status::from_i32(status.code), status.message.clone());
                made.read_details(status);
                made
            }
            Err(why) => Error::new(no_code(), Status::Internal, format!("a failure that cannot be read: {why}")),
        };
        made.parts_mut().command = if said.cause_command_id == 0 { command } else { said.cause_command_id };
        if !said.tag.is_empty() {
            made.parts_mut().said.tag = said.tag.clone();
        }
        made
    }

    fn read_details(&mut self, status: RpcStatus) {
        let ours = status.details.iter().filter(|one| one.type_url.ends_with("/kiln.v1.ErrorDetail"));
        if let Some(said) = ours.flat_map(|one| v1::ErrorDetail::decode(one.value.clone())).next() {
            let parts = self.parts_mut();
            parts.code = said.code;
            parts.said = said;
        }
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Error {
        if has_cause::<tonic::TimeoutExpired>(&status) {
            return late();
        }
        // What has a source was not said by a server: it is the connection that failed.
        let lost = std::error::Error::source(&status).is_some();
        let code = if lost { Status::Unavailable } else { status.code() };
        let mut made = Error::new(no_code(), code, status.message());
        if lost {
            made.parts_mut().message = format!("the connection failed: {}", causes(&status));
        }
        let packed = status.metadata().get(DETAILS).and_then(|value| base64(value.as_bytes()));
        if let Some(said) = packed.and_then(|bytes| RpcStatus::decode(Bytes::from(bytes)).ok()) {
            made.read_details(said);
        }
        made.parts_mut().source = Some(Arc::new(status));
        made
    }
}

/// Whether an error is of a type, or one of those that caused it.
fn has_cause<E: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.into_iter().any(|error| error.is::<E>())
}

/// The innermost causes, which say more than "transport error".
fn causes(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = cause.source();
    }
    texts.join(": ")
}

/// Reads base64, with padding or without; None for what is none.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|letter| *letter != b'=').map_or(0, |at| at + 1);
    let (mut made, mut bits, mut count) = (Vec::with_capacity(end * 3 / 4), 0u32, 0);
    for letter in &text[..end] {
        let digit = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            made.push((bits >> count) as u8);
        }
    }
    Some(made)
}

/// google.rpc.Status, and what is packed in it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Packed>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packed {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_and_without_padding() {
        for (text, wanted) in [("a2lsbg==", "kiln"), ("a2lsbg", "kiln"), ("a2lsbnM", "kilns"), ("", "")] {
            assert_eq!(base64(text.as_bytes()).unwrap(), wanted.as_bytes());
        }
        assert_eq!(base64(b"a2ls bg"), None);
        assert_eq!(base64("=".repeat(9).as_bytes()), Some(vec![]));
    }
}
