//! How messages become bytes: a message that is sent may be sent again, so it is shared; bytes in it are not copied but
//! into the frames of HTTP/2, and what comes shares the memory in which it came.

use std::{marker::PhantomData, sync::Arc};

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

pub(crate) struct Shared<Q, A>(PhantomData<fn(Q) -> A>);

impl<Q, A> Default for Shared<Q, A> {
    fn default() -> Self {
        Shared(PhantomData)
    }
}

impl<Q, A> Codec for Shared<Q, A>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    type Encode = Arc<Q>;
    type Decode = A;
    type Encoder = Shared<Q, A>;
    type Decoder = Shared<Q, A>;

    fn encoder(&mut self) -> Self::Encoder {
        Shared::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Shared::default()
    }
}

impl<Q: Message, A> Encoder for Shared<Q, A> {
    type Item = Arc<Q>;
    type Error = Status;

    fn encode(&mut self, message: Arc<Q>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(message.encoded_len());
        message.encode(to).map_err(|why| Status::internal(why.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(1 << 10, 32 << 10)
    }
}

impl<Q, A: Message + Default> Decoder for Shared<Q, A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        A::decode(from).map(Some).map_err(|why| Status::internal(format!("what came cannot be read: {why}")))
    }
}
