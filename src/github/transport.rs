//! One HTTP request to one server.
//!
//! Sends decree's user agent and the token, and follows no redirect, so that the token goes to no other server.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::error::{Error, Result};

/// The time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest response that is read. A page of a hundred comments of full length stays below it.
const MAX_RESPONSE: usize = 64 << 20;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

pub struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The address of the API, without a trailing slash.
    pub base: String,
    headers: HeaderMap,
}

impl Transport {
    /// Prepares requests to the API at `base`. Connects only with the first one.
    pub fn new(base: String, authorization: HeaderValue) -> Result<Transport> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
            Error::failed("cannot set up TLS: no CA certificates found")
                .caused_by(error)
                .hint("on Debian and Ubuntu install the package ca-certificates")
        })?;
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
        let headers = HeaderMap::from_iter([
            (USER_AGENT, HeaderValue::from_static(concat!("decree/", env!("CARGO_PKG_VERSION")))),
            (ACCEPT, HeaderValue::from_static("application/json")),
            (AUTHORIZATION, authorization),
        ]);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Transport { client, base, headers })
    }

    /// Sends one request, with `body` as JSON, and reads the whole response. Needs a tokio runtime.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<String>, AnyError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let (head, body) = self.client.request(request.body(Full::from(body))?).await?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE).collect().await?.to_bytes();
        Ok(Response::from_parts(head, String::from_utf8_lossy(&body).into_owned()))
    }
}
