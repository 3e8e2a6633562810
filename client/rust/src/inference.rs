//! The messages of the open inference protocol, by which served models are asked, and of each RPC a constant that
//! [`Client::call`](crate::Client::call) takes. What a field means stands in `proto/inference/`.

mod messages {
    #![allow(clippy::all, missing_docs, rustdoc::all)]
    include!(concat!(env!("OUT_DIR"), "/inference.rs"));
}

pub use messages::*;
