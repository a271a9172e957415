# What the parts of tests/image/run share. Sourced, never run.

# Says what is about to be checked.
step() { printf '\n== %s\n' "$*" >&2; }

# What was checked holds.
pass() { printf '   ok  %s\n' "$*" >&2; }

# What was checked does not hold; ends the test.
fail() {
  printf '   FAILED  %s\n' "$*" >&2
  exit 1
}

# same WHAT EXPECTED FOUND: two texts have to be equal.
same() {
  [ "$2" = "$3" ] && pass "$1" && return
  diff -u --label expected <(printf '%s\n' "$2") --label found <(printf '%s\n' "$3") >&2 || :
  fail "$1"
}

# Debian's runc rather than crun, which fails where cgroup v1 and v2 are both mounted.
podman() { command podman --runtime runc "$@"; }

# run_in IMAGE [PODMAN OPTION…] -- [DECREE ARGUMENT…]: a container without a network, as no shell routine needs one.
run_in() {
  local image=$1 options=()
  shift
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  podman run --rm --network none --label "$label" --ulimit nofile=20000:20000 --ulimit nproc=1000:1000 "${options[@]}" "$image" "$@"
}

# Every path of a project but for .decree, with type, mode, owner, link target and content's hash.
fingerprint() {
  (
    cd "$1"
    find . -name .decree -prune -o -printf '%p %y %m %U:%G %l\n' | LC_ALL=C sort
    find . -name .decree -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  )
}

# What decree made of each spec: everything in summary.json that does not depend on time, and the hashes of all diffs.
outcome() {
  python3 - "$1" <<'PYTHON'
import hashlib, json, pathlib, sys

project = pathlib.Path(sys.argv[1])
for message in json.loads((project / ".decree/summary.json").read_text())["messages"]:
    run = project / message["run_dir"]
    print(message["spec"], message["routine"], message["verdict"], "kept" if message["kept"] else "reverted")
    print("  exit codes", [attempt["exit_code"] for attempt in message["attempts"]])
    for diff in sorted(run.rglob("changes.diff")):
        print(" ", hashlib.sha256(diff.read_bytes()).hexdigest(), diff.relative_to(run))
PYTHON
}
