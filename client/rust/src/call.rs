use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use tokio::time::Instant;

use crate::{Result, Status, error::late};

pub(crate) type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A call that is made when it is awaited. The server is told of its deadline; a future that is dropped cancels it
/// there.
///
/// ```no_run
/// # async fn example(program: kiln::Program, x: kiln::Array) -> kiln::Result<()> {
/// use std::time::Duration;
///
/// let results = program.run([x]).timeout(Duration::from_millis(200)).await?;
/// # Ok(())
/// # }
/// ```
///
/// `tokio::spawn` and its like want a future: `program.run([x]).into_future()`.
#[must_use = "a call is made when it is awaited"]
pub struct Call<'a, T> {
    timeout: Option<Duration>,
    options: CallOptions,
    make: Box<dyn FnOnce(CallOptions) -> Doing<'a, T> + Send + 'a>,
}

/// Until when, and as a part of which trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallOptions {
    pub deadline: Option<Instant>,
    pub traceparent: Option<String>,
}

impl<'a, T> Call<'a, T> {
    pub(crate) fn new<F>(make: impl FnOnce(CallOptions) -> F + Send + 'a) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'a,
    {
        Call { timeout: None, options: CallOptions::default(), make: Box::new(|options| Box::pin(make(options))) }
    }

    /// How long it may take, from when it is awaited; then it ends with [`Status::DeadlineExceeded`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Until when it must have ended.
    pub fn deadline(mut self, deadline: std::time::Instant) -> Self {
        self.options.deadline = Some(deadline.into());
        self
    }

    /// Puts it into a trace, as the W3C has it ("00-…-…-01").
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.options.traceparent = Some(traceparent.into());
        self
    }
}

impl<'a, T: 'a> IntoFuture for Call<'a, T> {
    type Output = Result<T>;
    type IntoFuture = Doing<'a, T>;

    fn into_future(self) -> Doing<'a, T> {
        let Call { timeout, mut options, make } = self;
        let soon = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        options.deadline = options.deadline.into_iter().chain(soon).min();
        make(options)
    }
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Call").field("options", &self.options).finish_non_exhaustive()
    }
}

impl CallOptions {
    pub fn within(timeout: Duration) -> CallOptions {
        CallOptions { deadline: Instant::now().checked_add(timeout), traceparent: None }
    }

    /// What something has become, or that the time is over.
    pub async fn limit<T>(&self, doing: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(deadline) = self.deadline else {
            return doing.await;
        };
        match tokio::time::timeout_at(deadline, doing).await {
            // What the transport ends at that moment has ended by its deadline, too.
            Ok(Err(error)) if error.status() == Status::Cancelled && Instant::now() >= deadline => Err(late()),
            Ok(done) => done,
            Err(_) => Err(late()),
        }
    }

    /// What is left; None without a deadline.
    pub fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}
