//! Databases by commands: a text file stands for one, `cp` for its programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use decree::ContentHash;
use decree::database::commands::{DatabaseCommands, Dump, check};
use decree::interrupt;
use decree::project::Config;
use serde_json::{Value, json};

/// Set for the process that carries out a scene: where.
const SCENE: &str = "DECREE_TEST_DATABASE_COMMANDS";

/// Not a test of its own: what a scene's process does. Ending what a command left behind is for a process of its own.
#[test]
fn scene() {
    let Some(dir) = std::env::var_os(SCENE) else { return };
    let dir = Path::new(&dir);
    interrupt::listen().unwrap();
    let config = Config::parse(&fs::read_to_string(dir.join("config.yml")).unwrap()).unwrap();
    let what: Vec<String> = serde_json::from_slice(&fs::read(dir.join("what")).unwrap()).unwrap();
    let act = || {
        let mut commands =
            DatabaseCommands::find(dir, &config, &what[1])?.supervisor(env!("CARGO_BIN_EXE_decree"));
        Ok(match what[0].as_str() {
            "save" => serde_json::to_value(commands.save(&dir.join("copy"))?).unwrap(),
            "fingerprint" => serde_json::to_value(commands.fingerprint_now(&dir.join("scratch"))?).unwrap(),
            _ => {
                let dump: Dump = serde_json::from_str(&what[2]).unwrap();
                commands.restore(&dir.join("copy"), &dump).map(|()| Value::Null)?
            }
        })
    };
    let result = act().unwrap_or_else(|error: decree::error::Error| {
        json!({
            "error": error.to_string(),
            "code": error.kind().exit_code(),
            "details": error.detail_lines(),
            "hint": error.hint_text(),
        })
    });
    fs::write(dir.join("result"), serde_json::to_vec(&result).unwrap()).unwrap();
}

struct Scene(tempfile::TempDir);

impl Scene {
    fn new(database: &str) -> Scene {
        let scene = Scene(tempfile::tempdir().unwrap());
        scene.config(database);
        fs::write(scene.path("db"), "one\n").unwrap();
        scene
    }

    fn config(&self, database: &str) {
        fs::write(self.path("config.yml"), format!("databases:\n  main:\n{database}")).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, what: &[&str]) -> std::process::Child {
        fs::write(self.path("what"), serde_json::to_vec(what).unwrap()).unwrap();
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "database::commands::scene", "--test-threads=1"])
            .env(SCENE, self.0.path())
            .env("A_PASSWORD", "hunter2-hunter2")
            .env("GITHUB_TOKEN", "a-token-of-ours")
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn run(&self, what: &[&str]) -> Value {
        assert!(self.start(what).wait().unwrap().success());
        self.result()
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("result")).unwrap()).unwrap()
    }

    #[track_caller]
    fn save(&self) -> Dump {
        let result = self.run(&["save", "main"]);
        serde_json::from_value(result.clone()).unwrap_or_else(|_| panic!("{result}"))
    }

    fn restore(&self, dump: &Dump) -> Value {
        self.run(&["restore", "main", &serde_json::to_string(dump).unwrap()])
    }

    fn fingerprint(&self) -> Value {
        self.run(&["fingerprint", "main"])
    }
}

const COPY: &str = "    save: cp db \"$DECREE_FILE\"\n    restore: cp \"$DECREE_FILE\" db\n";

#[test]
fn a_database_is_saved_and_restored_by_its_commands() {
    let scene = Scene::new(COPY);
    let dump = scene.save();
    let hash = ContentHash::of(b"one\n");
    assert_eq!(dump, Dump { bytes: 4, sha256: hash, fingerprint: Some(hash) });
    assert_eq!(fs::read(scene.path("copy")).unwrap(), b"one\n");
    check(&scene.path("copy"), &dump).unwrap();
    assert_eq!(scene.fingerprint(), json!(hash));
    fs::write(scene.path("db"), "two\n").unwrap();
    assert_ne!(scene.fingerprint(), json!(hash));
    assert_eq!(scene.restore(&dump), Value::Null);
    assert_eq!(fs::read(scene.path("db")).unwrap(), b"one\n");
    assert_eq!(scene.fingerprint(), json!(hash));
    assert_eq!(fs::read_dir(scene.path("scratch")).unwrap().count(), 0);
}

#[test]
fn a_fingerprint_of_its_own_reports_what_is_in_it() {
    let scene = Scene::new(
        "    save: '{ date +%N; cat db; } > \"$DECREE_FILE\"'\n    restore: tail -n +2 \"$DECREE_FILE\" > db\n    \
         fingerprint: sha256sum < db\n",
    );
    let dump = scene.save();
    assert_ne!(dump.fingerprint, Some(dump.sha256));
    assert_eq!(scene.fingerprint(), json!(dump.fingerprint));
    fs::write(scene.path("db"), "two\n").unwrap();
    assert_ne!(scene.fingerprint(), json!(dump.fingerprint));
    assert_eq!(scene.restore(&dump), Value::Null);
    assert_eq!(scene.fingerprint(), json!(dump.fingerprint));
}

/// Then it is unknown which of the two the file holds.
#[test]
fn a_database_that_changes_while_it_is_saved_has_no_fingerprint() {
    let scene = Scene::new(
        "    save: cp db \"$DECREE_FILE\"; echo more >> db\n    restore: 'false'\n    fingerprint: sha256sum < db\n",
    );
    assert_eq!(scene.save().fingerprint, None);
}

#[test]
fn a_save_that_did_not_save_is_an_error_and_leaves_nothing() {
    for (save, expected) in [
        ("'echo half > \"$DECREE_FILE\"; exit 3'", "databases.main.save failed: exit code 3"),
        ("'false | cat > \"$DECREE_FILE\"'", "databases.main.save failed: exit code 1"),
        ("'true'", "databases.main.save succeeded, but it wrote no file"),
        ("': > \"$DECREE_FILE\"'", "databases.main.save succeeded, but the file that it wrote is empty"),
        (
            "mkdir -p \"$DECREE_FILE/x\"",
            "databases.main.save succeeded, but what it wrote is not a regular file",
        ),
        (
            "ln -s db \"$DECREE_FILE\"",
            "databases.main.save succeeded, but what it wrote is not a regular file",
        ),
        ("kill -9 $$", "databases.main.save failed: killed by SIGKILL"),
    ] {
        let scene = Scene::new(&format!("    save: {save}\n    restore: 'true'\n"));
        let result = scene.run(&["save", "main"]);
        assert_eq!(result["error"], expected, "{save}");
        assert_eq!(result["code"], 1);
        assert!(result["hint"].is_string());
        assert!(scene.path("copy").symlink_metadata().is_err(), "{save}");
        assert_eq!(fs::read(scene.path("db")).unwrap(), b"one\n");
    }
    for (fingerprint, expected) in [
        ("cat nowhere | sha256sum", "databases.main.fingerprint failed: exit code 1"),
        ("'true'", "databases.main.fingerprint succeeded, but it printed nothing"),
        ("head -c 100000 /dev/zero", "databases.main.fingerprint succeeded, but it printed too much"),
    ] {
        let scene = Scene::new(&format!("{COPY}    fingerprint: {fingerprint}\n"));
        assert_eq!(scene.run(&["save", "main"])["error"], expected, "{fingerprint}");
        assert_eq!(scene.fingerprint()["error"], expected);
        assert!(!scene.path("copy").exists());
    }
}

#[test]
fn what_a_failing_command_said_is_reported_without_secrets_and_without_colours() {
    let script = r#"
      seq 50
      printf '\033[31mcannot log in with %s\033[0m\n' "$A_PASSWORD" >&2
      echo "::error::token ${GITHUB_TOKEN:-none}, $DECREE_DATABASE, $(pwd)"
      exit 2
"#;
    let scene = Scene::new(&format!("    save: |{script}    restore: 'true'\n"));
    let result = scene.run(&["save", "main"]);
    let details: Vec<&str> =
        result["details"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(details.len(), 10);
    assert_eq!(details[8], "cannot log in with ***");
    let root = scene.0.path().display();
    assert_eq!(details[9], format!(":\u{200b}:error::token none, main, {root}"));
}

#[test]
fn nothing_is_overwritten_and_nothing_damaged_is_handed_to_a_command() {
    let scene = Scene::new(COPY);
    let dump = scene.save();
    let again = scene.run(&["save", "main"]);
    assert!(again["error"].as_str().unwrap().ends_with("/copy exists already"), "{again}");
    fs::write(scene.path("db"), "two\n").unwrap();
    for damage in ["ONE\n", ""] {
        fs::write(scene.path("copy"), damage).unwrap();
        assert_eq!(check(&scene.path("copy"), &dump).unwrap_err().kind().exit_code(), 4);
        assert_eq!(scene.restore(&dump)["code"], 4);
    }
    fs::remove_file(scene.path("copy")).unwrap();
    assert_eq!(scene.restore(&dump)["code"], 4);
    assert_eq!(fs::read(scene.path("db")).unwrap(), b"two\n");
}

#[test]
fn a_restore_that_fails_says_what_that_may_mean() {
    let scene = Scene::new("    save: cp db \"$DECREE_FILE\"\n    restore: echo no such table; exit 1\n");
    let dump = scene.save();
    let result = scene.restore(&dump);
    assert_eq!(result["error"], "databases.main.restore failed: exit code 1");
    assert_eq!(result["details"][0], "no such table");
    assert_eq!(result["details"][1], "the database may be restored only in part");
}

#[test]
fn a_database_that_the_config_does_not_have_is_reported() {
    let scene = Scene::new(COPY);
    let result = scene.run(&["save", "mian"]);
    assert_eq!(result["error"], "there is no database 'mian' in .decree/config.yml");
    assert_eq!((&result["code"], &result["hint"]), (&json!(3), &json!("did you mean 'main'?")));
}

#[test]
fn a_command_that_takes_too_long_or_is_not_wanted_any_more_is_ended_with_all_it_started() {
    let scene = Scene::new(
        "    save: 'echo half > \"$DECREE_FILE\"; sleep 600 & sleep 600'\n    restore: 'true'\n    timeout: 1s\n",
    );
    let result = scene.run(&["save", "main"]);
    assert_eq!(result["error"], "databases.main.save failed: timed out after 1.0s");
    assert!(!scene.path("copy").exists());

    scene.config("    save: 'echo half > \"$DECREE_FILE\"; sleep 600'\n    restore: 'true'\n");
    let mut child = scene.start(&["save", "main"]);
    let since = Instant::now();
    while !scene.path("copy").exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "the command does not begin");
        sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    child.wait().unwrap();
    let result = scene.result();
    assert_eq!((&result["error"], &result["code"]), (&json!("interrupted"), &json!(143)));
    assert!(!scene.path("copy").exists());
}
