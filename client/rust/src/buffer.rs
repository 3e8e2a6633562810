use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    Array, Call, Client, DType, Error, Result, Status,
    call::CallOptions,
    chunks::{Chunks, uploads},
    client::Inner,
    connection::Connection,
    dtype::{byte_count, shape_of, wire_shape},
    error::{bad_argument, bad_server},
    v1::{self, ErrorCode, allocate_request::Size, buffer_service},
};

/// Memory on a device. Copies of it are the same memory, which is given back when the last of them is dropped, behind
/// all that was sent before; or by [`free`](Buffer::free).
///
/// ```no_run
/// # async fn example(client: kiln::Client) -> kiln::Result<()> {
/// let buffer = client.upload(vec![1.0f32, 2.0, 3.0]).await?;
/// assert_eq!(buffer.read().await?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Buffer(Arc<Memory>);

pub(crate) struct Memory {
    client: Arc<Inner>,
    pub handle: u64,
    freed: AtomicBool,
    dtype: Option<DType>,
    shape: Vec<usize>,
    bytes: u64,
    device: String,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !*self.freed.get_mut() {
            self.client.give_back(self.handle);
        }
    }
}

impl Buffer {
    pub(crate) fn new(
        client: &Client,
        handle: u64,
        dtype: Option<DType>,
        shape: Vec<usize>,
        bytes: u64,
        device: String,
    ) -> Buffer {
        let client = client.0.clone();
        Buffer(Arc::new(Memory { client, handle, freed: AtomicBool::new(false), dtype, shape, bytes, device }))
    }

    /// What the server made; an error if its size is not that of its array.
    pub(crate) fn of_wire(client: &Client, said: v1::BufferDescription) -> Result<Buffer> {
        let dtype = DType::of_wire(said.dtype);
        let shape = shape_of(&said.shape);
        let wanted = match (dtype, &shape) {
            (Some(dtype), Some(shape)) => byte_count(dtype, shape).map(|bytes| bytes as u64),
            (None, Some(_)) => Some(said.bytes),
            (_, None) => None,
        };
        match shape.filter(|_| wanted == Some(said.bytes)) {
            Some(shape) => Ok(Buffer::new(client, said.handle, dtype, shape, said.bytes, said.device)),
            None => Err(bad_server(format!(
                "says that a buffer has {} bytes of dtype {} and shape {:?}",
                said.bytes, said.dtype, said.shape
            ))),
        }
    }

    /// The server's name for it.
    pub fn handle(&self) -> u64 {
        self.0.handle
    }

    /// What it holds; None where that is not known.
    pub fn dtype(&self) -> Option<DType> {
        self.0.dtype
    }

    /// Its array's.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Where it is, by name; empty: on the server's first device.
    pub fn device(&self) -> &str {
        &self.0.device
    }

    pub(crate) fn is(&self, handle: u64) -> bool {
        self.0.handle == handle
    }

    pub(crate) fn reference(&self, offset: u64) -> v1::BufferRef {
        v1::BufferRef { handle: self.0.handle, offset }
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0.client.connection
    }

    /// Says that it is freed; false if it was already.
    pub(crate) fn let_go(&self) -> bool {
        !self.0.freed.swap(true, Ordering::Relaxed)
    }

    /// It is not, after all.
    pub(crate) fn keep(&self) {
        self.0.freed.store(false, Ordering::Relaxed);
    }

    pub(crate) fn inside(&self, offset: u64, bytes: u64) -> Result<()> {
        let end = offset.checked_add(bytes);
        if end.is_some_and(|end| end <= self.0.bytes) {
            return Ok(());
        }
        let message = format!("{bytes} bytes from {offset} on of a buffer of {}", self.0.bytes);
        Err(Error::new(ErrorCode::OutOfBounds, Status::OutOfRange, message))
    }

    /// Puts bytes at an offset, in chunks: any number of them.
    pub fn write(&self, offset: u64, data: impl Into<Bytes>) -> Call<'static, ()> {
        let (buffer, data) = (self.clone(), data.into());
        Call::new(move |options| async move {
            buffer.inside(offset, data.len() as u64)?;
            let messages = uploads(buffer.reference(offset), data);
            buffer.connection().uploads(buffer_service::WRITE, messages, &options).await?;
            Ok(())
        })
    }

    /// Brings the buffer's array here; of a buffer without a type, its bytes as uint8.
    pub fn read(&self) -> Call<'static, Array> {
        let buffer = self.clone();
        Call::new(move |options| async move { buffer.read_within(options).await })
    }

    pub(crate) async fn read_within(&self, options: CallOptions) -> Result<Array> {
        self.array(Chunks::begin(self.clone(), 0, self.bytes(), options).await?.all().await?)
    }

    /// What it holds, of bytes that came.
    pub(crate) fn array(&self, data: Bytes) -> Result<Array> {
        let (dtype, shape) =
            self.dtype().map_or((DType::Uint8, vec![data.len()]), |dtype| (dtype, self.shape().to_vec()));
        Array::new(dtype, shape, data)
    }

    /// The bytes from an offset on.
    pub fn read_bytes(&self, offset: u64, bytes: u64) -> Call<'static, Bytes> {
        let buffer = self.clone();
        Call::new(move |options| async move { Chunks::begin(buffer, offset, bytes, options).await?.all().await })
    }

    /// The bytes from an offset on, chunk by chunk as they come: for what is larger than memory.
    pub fn chunks(&self, offset: u64, bytes: u64) -> Call<'static, Chunks> {
        let buffer = self.clone();
        Call::new(move |options| Chunks::begin(buffer, offset, bytes, options))
    }

    /// Repeats a pattern of 1, 2, 4 or 8 bytes all over it.
    pub fn fill(&self, pattern: impl Into<Bytes>) -> Call<'static, ()> {
        let (buffer, pattern) = (self.clone(), pattern.into());
        Call::new(move |options| async move {
            let request = v1::FillRequest { buffer: Some(buffer.reference(0)), bytes: 0, pattern };
            buffer.connection().unary(buffer_service::FILL, request, &options).await?;
            Ok(())
        })
    }

    /// Copies the whole of another buffer to the beginning of this.
    pub fn copy_from(&self, source: &Buffer) -> Call<'static, ()> {
        let (buffer, source) = (self.clone(), source.clone());
        Call::new(move |options| async move {
            let (from, to) = (Some(source.reference(0)), Some(buffer.reference(0)));
            let request = v1::CopyRequest { from, to, bytes: source.bytes(), ..v1::CopyRequest::default() };
            buffer.connection().unary(buffer_service::COPY, request, &options).await?;
            Ok(())
        })
    }

    /// Gives it back now. What runs may still use it. Twice is once, but after a failure it can be tried again.
    pub fn free(&self) -> Call<'static, ()> {
        let buffer = self.clone();
        Call::new(move |options| async move {
            if !buffer.let_go() {
                return Ok(());
            }
            let request = v1::FreeRequest { handle: vec![buffer.handle()] };
            let freed = buffer.connection().unary(buffer_service::FREE, request, &options).await;
            freed.map(drop).inspect_err(|_| buffer.keep())
        })
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(dtype) => write!(to, "Buffer({} of {dtype} {:?})", self.handle(), self.shape()),
            None => write!(to, "Buffer({} of {} bytes)", self.handle(), self.bytes()),
        }
    }
}

impl Client {
    /// Makes a buffer of zeros, without a type.
    pub fn allocate(&self, bytes: u64) -> Call<'static, Buffer> {
        let client = self.clone();
        Call::new(move |options| async move {
            let device = client.0.device.clone();
            let request = v1::AllocateRequest { device, size: Some(Size::Bytes(bytes)) };
            client.allocated(request, bytes, &options).await
        })
    }

    /// Makes a buffer with an array of zeros.
    pub fn zeros(&self, dtype: DType, shape: impl Into<Vec<usize>>) -> Call<'static, Buffer> {
        self.zeros_on(&self.0.device, dtype, shape)
    }

    /// Makes a buffer with an array of zeros, on a device of that name.
    pub fn zeros_on(&self, device: &str, dtype: DType, shape: impl Into<Vec<usize>>) -> Call<'static, Buffer> {
        let (client, device, shape) = (self.clone(), device.to_string(), shape.into());
        Call::new(move |options| async move { client.make(device, dtype, &shape, &options).await })
    }

    async fn make(&self, device: String, dtype: DType, shape: &[usize], options: &CallOptions) -> Result<Buffer> {
        let bytes = byte_count(dtype, shape).ok_or_else(|| no_array(dtype, shape))?;
        let of = v1::TensorType { dtype: dtype.wire(), shape: wire_shape(shape) };
        self.allocated(v1::AllocateRequest { device, size: Some(Size::Type(of)) }, bytes as u64, options).await
    }

    async fn allocated(&self, request: v1::AllocateRequest, bytes: u64, options: &CallOptions) -> Result<Buffer> {
        let said = self.0.connection.unary(buffer_service::ALLOCATE, request, options).await?;
        let made = said.buffer.ok_or_else(|| bad_server("made a buffer and does not say which"))?;
        if made.bytes != bytes {
            return Err(bad_server(format!("made a buffer of {} bytes, not {bytes}", made.bytes)));
        }
        Buffer::of_wire(self, made)
    }

    /// Makes a buffer with an array.
    pub fn upload(&self, array: impl Into<Array>) -> Call<'static, Buffer> {
        self.upload_to(&self.0.device, array)
    }

    /// Makes a buffer with an array, on a device of that name.
    pub fn upload_to(&self, device: &str, array: impl Into<Array>) -> Call<'static, Buffer> {
        let (client, device, array) = (self.clone(), device.to_string(), array.into());
        Call::new(move |options| async move { client.uploaded(device, array, &options).await })
    }

    pub(crate) async fn uploaded(&self, device: String, array: Array, options: &CallOptions) -> Result<Buffer> {
        let made = self.make(device, array.dtype(), array.shape(), options).await?;
        if !array.is_empty() {
            let messages = uploads(made.reference(0), array.data().clone());
            self.0.connection.uploads(buffer_service::WRITE, messages, options).await?;
        }
        Ok(made)
    }
}

pub(crate) fn no_array(dtype: DType, shape: &[usize]) -> Error {
    bad_argument(format!("no array has {dtype} and shape {shape:?}"))
}

/// Frees what nobody has any more, for as long as there is a client.
pub(crate) async fn give_back(connection: Arc<Connection>, mut handles: mpsc::UnboundedReceiver<u64>) {
    const MOST: usize = 256;
    let mut handle = Vec::new();
    while handles.recv_many(&mut handle, MOST).await > 0 {
        let all = v1::FreeRequest { handle: std::mem::take(&mut handle) };
        let freed = connection.unary(buffer_service::FREE, all.clone(), &CallOptions::default()).await;
        if freed.is_err_and(|failed| failed.status() == Status::NotFound) && all.handle.len() > 1 {
            // One of them is gone already, so none was freed.
            for one in all.handle {
                let request = v1::FreeRequest { handle: vec![one] };
                let _ = connection.unary(buffer_service::FREE, request, &CallOptions::default()).await;
            }
        }
    }
}
