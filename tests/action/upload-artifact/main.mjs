// Speaks to the artifact service as the real action does: create, put the archive, finalise.
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const input = (name) => process.env[`INPUT_${name.toUpperCase()}`] ?? "";
const { ACTIONS_RESULTS_URL, ACTIONS_RUNTIME_TOKEN, GITHUB_OUTPUT, GITHUB_REPOSITORY, GITHUB_RUN_ID, GITHUB_SERVER_URL } = process.env;
const name = input("name");
const root = input("path");
if (name === "" || /["<>:|*?\r\n\\/]/.test(name)) throw new Error(`an artifact takes no such name: ${name}`);

const files = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
  .filter((path) => input("include-hidden-files") === "true" || !path.split("/").some((part) => part.startsWith(".")));
const forbidden = files.find((path) => /["<>:|*?\r\n\\]/.test(path));
if (forbidden) throw new Error(`an artifact takes no such file: ${forbidden}`);
if (files.length === 0) throw new Error(`there are no files in ${root}`);
const archive = join(mkdtempSync(join(tmpdir(), "artifact-")), "artifact.zip");
execFileSync("python3", ["-m", "zipfile", "-c", archive, ...readdirSync(root)], { cwd: root });

async function call(method, body) {
  const answer = await fetch(new URL(`twirp/github.actions.results.api.v1.ArtifactService/${method}`, ACTIONS_RESULTS_URL), {
    method: "POST",
    headers: { authorization: `Bearer ${ACTIONS_RUNTIME_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method}: ${answer.status}`);
  return answer.json();
}

const claims = JSON.parse(Buffer.from(ACTIONS_RUNTIME_TOKEN.split(".")[1], "base64url"));
const [run, job] = claims.scp.split(" ").find((scope) => scope.startsWith("Actions.Results:")).split(":").slice(1);
const artifact = { workflow_run_backend_id: run, workflow_job_run_backend_id: job, name };
const { signedUploadUrl } = await call("CreateArtifact", { ...artifact, version: 4 });
const content = readFileSync(archive);
for (const [operation, body] of [["appendBlock", content], ["blocklist", ""]]) {
  const answer = await fetch(`${signedUploadUrl}&comp=${operation}`, { method: "PUT", body });
  if (!answer.ok) throw new Error(`${operation}: ${answer.status} ${await answer.text()}`);
}
const { artifactId } = await call("FinalizeArtifact", { ...artifact, size: String(content.length) });
const page = `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}/actions/runs/${GITHUB_RUN_ID}/artifacts/${artifactId}`;
appendFileSync(GITHUB_OUTPUT, `artifact-id=${artifactId}\nartifact-url=${page}\n`);
