//! The PostgreSQL recipe of the config template and of docs/checkpoints.md, against a real server on a socket in a temporary directory.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::skip::{Lack, skip, works};
use crate::harness::{CommandOutput, run_command, temp_dir};
use crate::pipeline::pipeline_project::PipelineProject;
use crate::revert::{NOBODY, is_root};

/// Fills a database with what a dump has to hold: rows that look like comments and like the key of a dump, large objects,
/// settings and rights of the database itself.
const FILL: &str = "
CREATE TABLE t(id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, '--x' || i FROM generate_series(1, 100) i;
INSERT INTO t VALUES (101, '\\restrict abc'), (102, E'line\\n\\\\.\\n');
CREATE TABLE gone(x int); INSERT INTO gone VALUES (1);
CREATE SCHEMA s; CREATE VIEW s.v AS SELECT count(*) FROM t; CREATE SEQUENCE sq START 5;
SELECT lo_from_bytea(0, 'blob');
ALTER DATABASE app SET work_mem = '8MB'; REVOKE CONNECT ON DATABASE app FROM PUBLIC;
";

/// Changes it in every way.
const SPOIL: &str = "
DROP TABLE gone; CREATE TABLE new(x int); INSERT INTO new VALUES (7);
UPDATE t SET v = 'changed' WHERE id < 50; DELETE FROM t WHERE id = 77; SELECT nextval('sq');
CREATE SCHEMA other; CREATE TABLE other.x(i int); DROP VIEW s.v;
ALTER TABLE t ADD COLUMN extra int; GRANT CONNECT ON DATABASE app TO PUBLIC; ALTER DATABASE app RESET work_mem;
";

/// A server that ends with it.
struct Server {
    dir: tempfile::TempDir,
    programs: PathBuf,
}

impl Server {
    /// `None` if it is not installed or refuses this user, which is the reason for a skip.
    fn start() -> Option<Server> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin"));
        let Some(programs) = programs.filter(|dir| dir.join("postgres").exists()).max() else {
            skip(Lack::Tool("postgresql"));
            return None;
        };
        if !is_root()
            && !works(Command::new("id").arg("-un"), "PostgreSQL starts only for a user with a name")
        {
            return None;
        }
        let server = Server { dir: temp_dir(), programs };
        if is_root() {
            chown(server.dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let (data, socket) = (server.data(), server.dir.path().display().to_string());
        server.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"]).ok();
        let options = format!("-F -c listen_addresses= -k {socket}");
        let log = format!("{socket}/log");
        server.run("pg_ctl", &["-D", &data, "-w", "-l", &log, "-o", &options, "start"]).ok();
        server.run("createdb", &["app"]).ok();
        Some(server)
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn variables(&self) -> Vec<(&str, String)> {
        let path = format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap());
        let socket = self.dir.path().display().to_string();
        vec![
            ("PATH", path),
            ("PGHOST", socket),
            ("PGUSER", "postgres".to_owned()),
            ("LC_ALL", "C".to_owned()),
        ]
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.dir.path()).env_clear().envs(self.variables()).stdin(Stdio::null());
        // The server refuses to run as root.
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> CommandOutput {
        // The server would hold a pipe open.
        let output = self.dir.path().join("output");
        let file = fs::File::create(&output).unwrap();
        let mut command = self.command(program);
        let status = command.args(args).stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        let out = fs::read(&output).unwrap();
        let err = String::from_utf8_lossy(&out).into_owned();
        CommandOutput { code: status.code().unwrap_or(-1), out, err }
    }

    fn sql(&self, text: &str) -> CommandOutput {
        self.run("psql", &["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text, "app"]).ok()
    }

    /// Everything in the database, without the random key of each dump.
    fn content(&self) -> String {
        let dump = self.run("pg_dump", &["--create", "app"]).ok().text();
        let is_key = |line: &&str| line.starts_with("\\restrict ") || line.starts_with("\\unrestrict ");
        dump.lines().filter(|line| !is_key(line)).map(|line| format!("{line}\n")).collect()
    }

    fn decree(&self, project: &PipelineProject, args: &[&str]) -> CommandOutput {
        run_command(project.command().args(args).envs(self.variables()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "stop"]);
    }
}

fn text_of(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The recipe of the template, which is a comment there.
fn of_template() -> String {
    let text = text_of("templates/config.yml");
    let lines = text.lines().skip_while(|line| *line != "#  main:").map_while(|line| line.strip_prefix('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The recipe of the documentation.
fn of_docs() -> String {
    let text = text_of("docs/checkpoints.md");
    let (_, after) = text.split_once("\ndatabases:\n").unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

fn commands(recipe: &str) -> Vec<String> {
    let config = decree::project::Config::parse(&format!("databases:\n{recipe}")).unwrap();
    let main = &config.databases["main"];
    [&main.save, &main.restore, &main.fingerprint].map(Clone::clone).into()
}

/// DBS-06.
#[test]
fn the_postgresql_recipe_restores_everything_and_nothing_else_stays() {
    assert_eq!(commands(&of_template()), commands(&of_docs()));
    let Some(server) = Server::start() else { return };
    server.sql(FILL);
    let project = PipelineProject::new();
    project.config(&format!("databases:\n{}", of_template()));
    let create =
        ["checkpoint", "create", "--type", "database_savepoint", "--scope", "main", "--format", "json"];
    let created =
        |output: CommandOutput| -> serde_json::Value { serde_json::from_slice(&output.ok().out).unwrap() };
    let answer = created(server.decree(&project, &create));
    let id = answer["checkpoint"]["id"].as_str().unwrap();
    let again = created(server.decree(&project, &create));
    assert_eq!(answer["pre_mutation_state"], again["pre_mutation_state"], "the content is the same");
    server.decree(&project, &["rollback", id]).ok().mentions(&["every database matches"]);
    let before = server.content();
    server.sql(SPOIL);
    let spoiled = server.content();
    assert_ne!(spoiled, before);
    // A program that is connected does not keep the database from being restored.
    let mut other =
        server.command("psql").arg("app").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let back = server.decree(&project, &["rollback", id, "--format", "json"]);
    let back = created(back);
    assert_eq!(server.content(), before);
    assert_eq!(back["verification"]["match"], true);
    let present = back["saved_present_as"].as_str().unwrap();
    server.decree(&project, &["rollback", present]).ok().mentions(&["rolled back 1 database"]);
    assert_eq!(server.content(), spoiled, "a rollback can be rolled back");
    drop(other.stdin.take());
    other.wait().unwrap();
    // What the documentation says of a restore that failed after the drop.
    server.run("dropdb", &["--force", "app"]).ok();
    server.run("createdb", &["app"]).ok();
    server.decree(&project, &["rollback", id]).ok();
    assert_eq!(server.content(), before);
}
