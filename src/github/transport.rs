//! The wire below octocrab.
//!
//! octocrab's own calls itself `octocrab`, and only adds another name to that. This one says who is asking, and follows
//! nothing by itself, so that the token goes to no other server.

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

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Prepares to ask the API at this address. Belongs into a runtime, and connects only when something is asked.
pub fn connect(base: &str, token: &ApiToken) -> Result<Octocrab> {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.enforce_http(false);
    let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
        Error::failed("cannot prepare for the network: there are no CA certificates here")
            .caused_by(error)
            .hint("Debian and its kin have them in the package ca-certificates")
    })?;
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    let client = Client::builder(TokioExecutor::new()).build::<_, OctoBody>(connector);
    let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| Error::project("the token has characters in it that no token has"))?;
    authorization.set_sensitive(true);
    let agent = HeaderValue::from_static(concat!("decree/", env!("CARGO_PKG_VERSION")));
    let headers = vec![(USER_AGENT, agent), (AUTHORIZATION, authorization)];
    let base = Uri::try_from(base)
        .map_err(|error| Error::project("GITHUB_API_URL is not the address of an API").caused_by(error))?;
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
