import { appendFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const input = (name) => process.env[`INPUT_${name.toUpperCase()}`] ?? "";
const library = pathToFileURL(join(process.env.ACTION_TEST_MODULES, "node_modules/@actions/artifact/lib/artifact.js"));
const { DefaultArtifactClient } = await import(library);

const hidden = input("include-hidden-files") === "true";
const root = input("path");
const files = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  .filter((path) => hidden || !path.slice(root.length).split("/").some((part) => part.startsWith(".")));
if (files.length === 0) throw new Error(`there are no files in ${root}`);

const { id } = await new DefaultArtifactClient().uploadArtifact(input("name"), files, root);
const run = `${process.env.GITHUB_SERVER_URL}/${process.env.GITHUB_REPOSITORY}/actions/runs/${process.env.GITHUB_RUN_ID}`;
appendFileSync(process.env.GITHUB_OUTPUT, `artifact-id=${id}\nartifact-url=${run}/artifacts/${id}\n`);
