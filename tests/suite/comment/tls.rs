//! The same over TLS: a proxy with a certificate of the test's own CA stands before the server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::fixture::{MARKER, Stage};
use super::server::{Server, ServerFault};
use crate::harness::skip::works;
use crate::harness::temp_dir;

/// One attempt more than decree makes.
const EVERY_ATTEMPT: usize = 6;
/// What decree reads of a response, and more.
const TOO_LARGE: usize = 65 << 20;

const EXTENSIONS: &str = "[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost, IP:127.0.0.1
[elsewhere]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:elsewhere.example.org
";

const PROXY: &str = r#"
import select, socket, ssl, sys, threading

certificate, key, target = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)

def serve(client):
    with client, socket.create_connection(("127.0.0.1", target)) as server:
        try:
            client = context.wrap_socket(client, server_side=True)
            while True:
                ready = [client] if client.pending() else select.select([client, server], [], [])[0]
                for source in ready:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    (server if source is client else client).sendall(data)
        except OSError:
            pass
        finally:
            client.close()

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"#;

/// A CA, certificates from it for this server and for one elsewhere, and a CA that has nothing to do with it.
struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    /// `None`, and a recorded skip, if the tools to make them are missing.
    #[track_caller]
    fn new() -> Option<Certificates> {
        let tools = works(Command::new("openssl").arg("version"), "openssl does not work")
            && works(Command::new("python3").args(["-c", "import ssl"]), "python3 has no TLS");
        if !tools {
            return None;
        }
        let certificates = Certificates { dir: temp_dir() };
        fs::write(certificates.path("extensions"), EXTENSIONS).unwrap();
        certificates.make("ca", "ca", None);
        certificates.make("other-ca", "ca", None);
        certificates.make("server", "server", Some("ca"));
        certificates.make("elsewhere", "elsewhere", Some("ca"));
        Some(certificates)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn make(&self, name: &str, extensions: &str, signer: Option<&str>) {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        command.args(["-days", "2", "-config", "extensions", "-extensions", extensions]);
        command.args(["-subj", &format!("/CN=decree test {name}")]);
        command.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
        if let Some(signer) = signer {
            command.args(["-CA", &format!("{signer}.pem"), "-CAkey", &format!("{signer}.key")]);
        }
        let output = command.current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A TLS proxy before a server; ends with the test.
struct Proxy {
    process: Child,
    port: u16,
}

impl Proxy {
    fn before(server: &Server, certificates: &Certificates, name: &str) -> Proxy {
        let target = server.url.rsplit(':').next().unwrap();
        let mut process = Command::new("python3")
            .args(["-c", PROXY])
            .args([certificates.path(&format!("{name}.pem")), certificates.path(&format!("{name}.key"))])
            .arg(target)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Proxy { process, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A stage whose server is reached through the proxy, and trusted through this CA.
fn stage(certificates: &Certificates, ca: &str) -> (Stage, Proxy) {
    let mut stage = Stage::github();
    let proxy = Proxy::before(&stage.server, certificates, "server");
    trust(&mut stage, &certificates.path(ca));
    stage.set("GITHUB_API_URL", &format!("https://localhost:{}", proxy.port));
    (stage, proxy)
}

fn trust(stage: &mut Stage, ca: &Path) {
    stage.set("SSL_CERT_FILE", &ca.display().to_string());
}

/// CMT-01, CMT-12.
#[test]
fn a_server_is_trusted_through_its_ca_and_not_without() {
    let Some(certificates) = Certificates::new() else { return };
    let (mut stage, proxy) = stage(&certificates, "ca.pem");
    stage.comment_on_spec("one", &[]).ok();
    stage.set("GITHUB_API_URL", &format!("https://127.0.0.1:{}", proxy.port));
    stage.comment_on_spec("two", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 1);
    assert!(bodies[0].starts_with(MARKER) && bodies[0].contains("| two |"), "{}", bodies[0]);
    let before = stage.server.state().requests.len();
    trust(&mut stage, &certificates.path("other-ca.pem"));
    stage.comment_on_spec("three", &[]).fails(1).mentions(&[
        "cannot list the comments of octo/repo#7",
        "invalid peer certificate: UnknownIssuer",
        "hint: ",
        "SSL_CERT_FILE",
    ]);
    assert_eq!(stage.server.state().requests.len(), before, "the token was sent");
}

/// CMT-12.
#[test]
fn a_certificate_for_another_name_is_not_accepted() {
    let Some(certificates) = Certificates::new() else { return };
    let (mut stage, _proxy) = stage(&certificates, "ca.pem");
    let proxy = Proxy::before(&stage.server, &certificates, "elsewhere");
    stage.set("GITHUB_API_URL", &format!("https://localhost:{}", proxy.port));
    stage.comment(&[]).fails(1).mentions(&["invalid peer certificate", "not valid for name \"localhost\""]);
    assert_eq!(stage.server.state().requests.len(), 0);
}

/// CMT-13.
#[test]
fn a_redirect_to_another_host_is_not_followed() {
    let Some(certificates) = Certificates::new() else { return };
    let (stage, _proxy) = stage(&certificates, "ca.pem");
    let other = Server::github();
    let other_proxy = Proxy::before(&other, &certificates, "server");
    for away in [format!("https://127.0.0.1:{}", other_proxy.port), other.url.clone()] {
        stage.server.state().away = away;
        stage.comment(&["--repo", "octo/away"]).fails(1).mentions(&["301"]);
    }
    assert_eq!(stage.server.count("GET"), 2);
    assert!(other.state().requests.is_empty(), "{:?}", other.state().requests);
}

/// CMT-12.
#[test]
fn a_response_that_ends_early_or_never_is_an_error() {
    let Some(certificates) = Certificates::new() else { return };
    for (fault, words) in
        [(ServerFault::Truncated, ""), (ServerFault::Large(TOO_LARGE), "length limit exceeded")]
    {
        let (stage, _proxy) = stage(&certificates, "ca.pem");
        for _ in 0..EVERY_ATTEMPT {
            stage.server.fault("GET", fault.clone());
        }
        let start = Instant::now();
        let output = stage.comment(&[]).fails(1);
        output.mentions(&["cannot list the comments of octo/repo#7", words, "hint: check GITHUB_API_URL"]);
        assert_eq!((stage.server.count("GET"), stage.server.count("POST")), (5, 0));
        assert!(start.elapsed() < Duration::from_secs(100), "it waited for more");
    }
}

/// CMT-10.
#[test]
fn after_one_response_that_ends_early_the_request_is_sent_again() {
    let Some(certificates) = Certificates::new() else { return };
    let (stage, _proxy) = stage(&certificates, "ca.pem");
    stage.server.fault("GET", ServerFault::Truncated);
    stage.comment(&[]).ok();
    assert_eq!((stage.server.bodies().len(), stage.server.count("GET")), (1, 2));
}
