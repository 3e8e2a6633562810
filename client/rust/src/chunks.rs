//! Data on its way, in chunks of 1 MiB.

use std::{fmt, iter, sync::Arc};

use bytes::Bytes;
use tokio_stream::Stream;

use crate::{
    Buffer, Error, Result, Status,
    call::CallOptions,
    connection::Connection,
    error::{bad_server, no_code},
    v1::{self, buffer_service, write_request::Part},
};

const CHUNK: usize = 1 << 20;
/// Memory for what is to come is made beforehand up to here; the rest when it comes, for a server may promise much.
const MOST_BEFOREHAND: usize = 1 << 30;

/// What Write is sent.
pub(crate) fn uploads(to: v1::BufferRef, data: Bytes) -> impl Stream<Item = Arc<v1::WriteRequest>> + Send + 'static {
    let header = Part::Header(v1::WriteHeader { buffer: Some(to), bytes: data.len() as u64 });
    let parts = (0..data.len()).step_by(CHUNK).map(move |at| Part::Chunk(data.slice(at..data.len().min(at + CHUNK))));
    tokio_stream::iter(iter::once(header).chain(parts).map(|part| Arc::new(v1::WriteRequest { part: Some(part) })))
}

/// A buffer's bytes as they come, of which one chunk is here at a time.
///
/// ```no_run
/// # async fn example(buffer: kiln::Buffer) -> kiln::Result<()> {
/// let mut chunks = buffer.chunks(0, buffer.bytes()).await?;
/// while let Some(chunk) = chunks.next().await? {
///     println!("{} bytes", chunk.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Chunks {
    buffer: Buffer,
    connection: Arc<Connection>,
    /// None where nothing is to come.
    answers: Option<tonic::Streaming<v1::ReadResponse>>,
    options: CallOptions,
    bytes: u64,
    taken: u64,
}

impl Chunks {
    pub(crate) async fn begin(buffer: Buffer, offset: u64, bytes: u64, options: CallOptions) -> Result<Chunks> {
        buffer.inside(offset, bytes)?;
        let connection = buffer.connection().clone();
        let request = v1::ReadRequest { buffer: Some(buffer.reference(offset)), bytes };
        let answers = match bytes {
            0 => None, // which would mean: to the end
            _ => Some(connection.downloads(buffer_service::READ, request, &options).await?),
        };
        Ok(Chunks { buffer, connection, answers, options, bytes, taken: 0 })
    }

    /// The next bytes; None behind the last. An error if they are not as many as were asked for.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(answers) = &mut self.answers else {
            return Ok(None);
        };
        let next = self.connection.next(answers, &self.options).await;
        let chunk = match next {
            Ok(Some(said)) if (said.chunk.len() as u64) <= self.bytes - self.taken => said.chunk,
            Ok(Some(_)) => return self.end(Err(bad_server(format!("sent more than the {} bytes", self.bytes)))),
            Ok(None) if self.taken == self.bytes => return self.end(Ok(None)),
            Ok(None) => {
                let message = format!("the server sent {} of {} bytes of {:?}", self.taken, self.bytes, self.buffer);
                return self.end(Err(Error::new(no_code(), Status::Internal, message)));
            }
            Err(failed) => return self.end(Err(failed)),
        };
        self.taken += chunk.len() as u64;
        Ok(Some(chunk))
    }

    fn end<T>(&mut self, how: T) -> T {
        self.answers = None;
        how
    }

    pub(crate) async fn all(mut self) -> Result<Bytes> {
        let bytes = self.bytes;
        let too_much = |_| {
            let message = format!("{bytes} bytes are more than there is memory: take them by chunks()");
            Error::new(no_code(), Status::ResourceExhausted, message)
        };
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut made: Vec<u8> = Vec::new();
        made.try_reserve_exact(most.min(MOST_BEFOREHAND)).map_err(too_much)?;
        while let Some(chunk) = self.next().await? {
            made.try_reserve(chunk.len()).map_err(too_much)?;
            made.extend_from_slice(&chunk);
        }
        Ok(made.into())
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Chunks({} of {} bytes)", self.taken, self.bytes)
    }
}
