//! The HTTP transport below octocrab.
//!
//! octocrab's own transport always sends `octocrab` as its user agent and follows redirects. This one sends decree's and follows
//! none, so that the token goes to no other server.

use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use octocrab::service::middleware::base_uri::BaseUriLayer;
use octocrab::service::middleware::extra_headers::ExtraHeadersLayer;
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};

use super::names::ApiToken;
use crate::error::{Error, Result};

/// The time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Builds a client for the API at `base`. Needs a tokio runtime; connects only with the first request.
pub fn connect(base: &str, token: &ApiToken) -> Result<Octocrab> {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.enforce_http(false);
    let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
        Error::failed("cannot set up TLS: no CA certificates found")
            .caused_by(error)
            .hint("on Debian and Ubuntu install the package ca-certificates")
    })?;
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    let client = Client::builder(TokioExecutor::new()).build::<_, OctoBody>(connector);
    let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| Error::project("the token contains characters that no token has"))?;
    authorization.set_sensitive(true);
    let agent = HeaderValue::from_static(concat!("decree/", env!("CARGO_PKG_VERSION")));
    let headers = vec![(USER_AGENT, agent), (AUTHORIZATION, authorization)];
    let base = Uri::try_from(base)
        .map_err(|error| Error::project("GITHUB_API_URL is not the URL of an API").caused_by(error))?;
    match OctocrabBuilder::new_empty()
        .with_service(client)
        .with_layer(&BaseUriLayer::new(base))
        .with_layer(&ExtraHeadersLayer::new(Arc::new(headers)))
        .with_auth(AuthState::None)
        .build()
    {
        Ok(octocrab) => Ok(octocrab),
    }
}
