use crate::{
    Buffer, Call, Client, Reduction,
    error::bad_argument,
    v1::{self, Method, collective_service as calls},
};

/// What several devices do with one tensor together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// Gives the root's tensor to all.
    Broadcast,
    /// Gives each its part of the root's tensor.
    Scatter,
    /// Puts everyone's part, one after the other, at the root.
    Gather,
    /// Combines all tensors at the root.
    Reduce,
    /// Puts everyone's part, one after the other, at all.
    AllGather,
    /// Gives each its part of all tensors combined.
    ReduceScatter,
    /// Combines all tensors at all; outputs may be the inputs.
    AllReduce,
}

type Rpc = Method<v1::CollectiveRequest, v1::CollectiveResponse>;

impl CollectiveKind {
    /// Its call; whether the first output, or the first input, is whole; and whether it reduces.
    fn row(self) -> (Rpc, bool, bool) {
        match self {
            CollectiveKind::Broadcast => (calls::BROADCAST, false, false),
            CollectiveKind::Scatter => (calls::SCATTER, false, false),
            CollectiveKind::Gather => (calls::GATHER, true, false),
            CollectiveKind::Reduce => (calls::REDUCE, true, true),
            CollectiveKind::AllGather => (calls::ALL_GATHER, true, false),
            CollectiveKind::ReduceScatter => (calls::REDUCE_SCATTER, false, true),
            CollectiveKind::AllReduce => (calls::ALL_REDUCE, true, true),
        }
    }
}

/// Buffers stand in the order of their ranks, one a device. `proto/kiln/v1/collective_service.proto` says what goes
/// where.
#[derive(Clone, Debug, Default)]
pub struct Collective {
    /// What each gives.
    pub inputs: Vec<Buffer>,
    /// Where each receives.
    pub outputs: Vec<Buffer>,
    /// The elements of the whole tensor, which is cut into parts as flat as can be; None: those of the first output, or
    /// of the first input if the outputs are its parts.
    pub count: Option<u64>,
    /// Of those that reduce.
    pub how: Reduction,
    /// The root's rank.
    pub root: u32,
    /// Combine in the order of the ranks.
    pub deterministic: bool,
}

impl Client {
    /// Does a collective.
    ///
    /// ```no_run
    /// # async fn example(client: kiln::Client, a: kiln::Buffer, b: kiln::Buffer) -> kiln::Result<()> {
    /// use kiln::{Collective, CollectiveKind::AllReduce};
    ///
    /// let both = vec![a, b];
    /// client.collective(AllReduce, Collective { inputs: both.clone(), outputs: both, ..Default::default() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collective(&self, kind: CollectiveKind, what: Collective) -> Call<'static, v1::CollectiveResponse> {
        let client = self.clone();
        Call::new(move |options| async move {
            let (method, output_is_whole, reduces) = kind.row();
            let (Some(first), Some(last)) = (what.inputs.first(), what.outputs.first()) else {
                return Err(bad_argument("a collective of no buffers"));
            };
            let dtype = first.dtype().ok_or_else(|| bad_argument("a collective of buffers without a type"))?;
            let whole = if output_is_whole { last } else { first };
            let references = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.reference(0)).collect();
            let request = v1::CollectiveRequest {
                input: references(&what.inputs),
                output: references(&what.outputs),
                dtype: dtype.wire(),
                count: what.count.unwrap_or(whole.bytes() / dtype.size() as u64),
                op: if reduces { what.how.op().into() } else { 0 },
                root: what.root,
                deterministic_order: what.deterministic,
            };
            client.0.connection.unary(method, request, &options).await
        })
    }
}
