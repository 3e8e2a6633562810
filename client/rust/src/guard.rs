//! The channel below all calls. It takes the details of a failure out of what a server says before tonic reads them,
//! which panics at what is no base64; `details.rs` reads them.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::{body::Body, transport::Channel};
use tower_service::Service;

use crate::details::DETAILS;

#[derive(Clone)]
pub(crate) struct Guard(pub Channel);

impl Service<http::Request<Body>> for Guard {
    type Response = http::Response<GuardedBody>;
    type Error = tonic::transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answered = self.0.call(request);
        Box::pin(async {
            let mut response = answered.await?;
            hide(response.headers_mut());
            Ok(response.map(GuardedBody))
        })
    }
}

fn hide(headers: &mut HeaderMap) {
    if let Some(details) = headers.remove("grpc-status-details-bin") {
        headers.insert(DETAILS, details);
    }
}

/// A body whose trailers are gone through, too.
pub(crate) struct GuardedBody(Body);

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let polled = Pin::new(&mut self.0).poll_frame(context);
        polled.map_ok(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                hide(trailers);
            }
            frame
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
