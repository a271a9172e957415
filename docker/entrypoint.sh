#!/bin/sh
# Starts decree as the owner of the project, so that files it writes on a bind mount belong to that user.
#
# Started as root, it switches to the owner of the project directory (-C, else the current directory, by default /repo); if root
# owns it, it stays root. Started as another user (--user), it stays that user. The environment is passed on unchanged, except
# for a HOME that is not writable or is the project. Every step is an exec, so that signals from tini reach decree itself.
set -eu

project=.
before=
for argument; do
  [ "$before" = -C ] && project=$argument
  case $argument in
    --) break ;;
    -C?*) project=${argument#-C} project=${project#=} ;;
  esac
  before=$argument
done
[ -d "$project" ] || project=. # decree reports the error

if [ "$(id -u)" = 0 ]; then
  uid=$(stat -c %u -- "$project")
  gid=$(stat -c %g -- "$project")
  if [ "$uid" != 0 ]; then
    if ! setpriv --reuid "$uid" --regid "$gid" --clear-groups true 2>/dev/null; then
      echo "decree: cannot switch to $uid:$gid, the owner of $project, without the capabilities SETUID and SETGID; start the container with --user $uid:$gid" >&2
      exit 1
    fi
    # Some tools (ssh, Node's os.userInfo) fail for a user without a name.
    if [ -w /etc/passwd ] && ! getent passwd "$uid" >/dev/null; then
      echo "decree:x:$uid:$gid::/tmp/home-$uid:/bin/bash" >>/etc/passwd
    fi
    # Root owns a new volume.
    if [ -d "${DECREE_STORE:-}" ] && [ -z "$(ls -A "$DECREE_STORE")" ]; then
      chown "$uid:$gid" "$DECREE_STORE" || : # decree reports the error if it cannot write there
    fi
    exec setpriv --reuid "$uid" --regid "$gid" --clear-groups "$0" "$@"
  fi
fi

# podman sets the home of an unknown user to the working directory, and decree refuses to work on a home directory.
if [ ! -w "${HOME:-/nowhere}" ] || [ "$HOME" -ef "$project" ]; then
  home=/tmp/home-$(id -u)
  mkdir -m 700 "$home" 2>/dev/null || :
  [ ! -w "$home" ] || export HOME="$home"
fi
exec /usr/local/bin/decree "$@"
