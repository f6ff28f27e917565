#!/usr/bin/env bash
# Compares the list of tools in this checkout with the one of a protected branch of origin. Exits as `custody diff`
# does: 0, 1 where what was asked for is there, anything else where it could not be compared. What it needs comes in
# the environment (see action.yml); nothing of it is ever a part of a command.
set -euo pipefail

refuse() {
  printf 'authority-diff: %s\n' "$1" >&2
  exit 125
}

[ -n "${FILE:-}" ] || refuse 'no file is named'
[ -n "${BASELINE:-}" ] || refuse 'no baseline is named: outside of a pull request, name a protected branch (`baseline`)'
command -v -- "${CUSTODY:-custody}" >/dev/null || refuse 'there is no custody: build or install it in a step before'
flags=()
for flag in INCREASE REVIEW; do
  name="FAIL_ON_$flag"
  case "${!name:-true}" in
    true) flags+=("--fail-on-${flag,,}") ;;
    false) ;;
    *) refuse "$name is true or false" ;;
  esac
done

folder="$(mktemp -d)"
trap 'rm -rf -- "$folder"' EXIT
# The branch's own commit, whatever this checkout has of it.
git fetch --quiet --no-tags --depth=1 origin "refs/heads/$BASELINE" || refuse 'the baseline cannot be fetched from origin'
# A list that was never there is not one without authority.
git cat-file -e "FETCH_HEAD:./$FILE" 2>/dev/null || refuse "the baseline has no $FILE: check it in there first, reviewed"
git show "FETCH_HEAD:./$FILE" > "$folder/before.json"

code=0
"${CUSTODY:-custody}" diff "${flags[@]}" --output "$folder/diff.txt" -- "$folder/before.json" "$FILE" || code=$?
if [ -s "$folder/diff.txt" ]; then
  cat -- "$folder/diff.txt"
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    # Indented, it is text: names in it are the tools' own.
    { printf '### Authority of tool arguments\n\n'; sed 's/^/    /' -- "$folder/diff.txt"; printf '\n'; } >> "$GITHUB_STEP_SUMMARY"
  fi
fi
exit "$code"
