//! The messages of the protocol, and of each RPC a constant that [`Client::call`](crate::Client::call) takes. What a
//! field means stands in `proto/kiln/v1/`.

use std::marker::PhantomData;

/// An RPC: its path, the message that asks, and the one that answers.
pub struct Method<Q, A, Kind = Unary> {
    pub(crate) path: &'static str,
    types: PhantomData<fn(Q) -> (A, Kind)>,
}

impl<Q, A, Kind> Clone for Method<Q, A, Kind> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A, Kind> Copy for Method<Q, A, Kind> {}

impl<Q, A, Kind> Method<Q, A, Kind> {
    pub(crate) const fn new(path: &'static str) -> Self {
        Method { path, types: PhantomData }
    }

    /// As it travels: `/kiln.v1.DeviceService/List`.
    pub fn path(&self) -> &'static str {
        self.path
    }
}

/// One question, one answer.
pub enum Unary {}
/// One question, many answers.
pub enum Downloads {}
/// Many questions, one answer.
pub enum Uploads {}
/// Many questions and many answers.
pub enum Converses {}

mod messages {
    #![allow(clippy::all, missing_docs, rustdoc::all)]
    include!(concat!(env!("OUT_DIR"), "/kiln.v1.rs"));
}

pub use messages::*;
