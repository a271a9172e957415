#!/bin/sh
# Starts decree as the owner of the project, so that what it writes on a bind mount belongs to whoever mounted it.
#
# Started as root, it becomes the owner of the directory that decree is to work in (-C, else the current one, /repo by default);
# if that is root's, it stays root. Started as anybody else (--user), it stays that. The environment is handed on as it is, but for
# a HOME that cannot be written to or is the project. Everything is an exec: the signals that tini hands on reach decree itself.
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
[ -d "$project" ] || project=. # decree tells what is wrong with it

if [ "$(id -u)" = 0 ]; then
  uid=$(stat -c %u -- "$project")
  gid=$(stat -c %g -- "$project")
  if [ "$uid" != 0 ]; then
    if ! setpriv --reuid "$uid" --regid "$gid" --clear-groups true 2>/dev/null; then
      echo "decree: cannot become $uid:$gid, who owns $project, without the capabilities SETUID and SETGID; start the container with --user $uid:$gid" >&2
      exit 1
    fi
    # Some tools (ssh, Node's os.userInfo) give up on a user without a name.
    if [ -w /etc/passwd ] && ! getent passwd "$uid" >/dev/null; then
      echo "decree:x:$uid:$gid::/tmp/home-$uid:/bin/bash" >>/etc/passwd
    fi
    # A new volume is root's.
    if [ -d "${DECREE_STORE:-}" ] && [ -z "$(ls -A "$DECREE_STORE")" ]; then
      chown "$uid:$gid" "$DECREE_STORE" || : # decree tells if it cannot write there
    fi
    exec setpriv --reuid "$uid" --regid "$gid" --clear-groups "$0" "$@"
  fi
fi

# podman makes the working directory the home of a user it does not know; decree does not work on a home.
if [ ! -w "${HOME:-/nowhere}" ] || [ "$HOME" -ef "$project" ]; then
  home=/tmp/home-$(id -u)
  mkdir -m 700 "$home" 2>/dev/null || :
  [ ! -w "$home" ] || export HOME="$home"
fi
exec /usr/local/bin/decree "$@"
