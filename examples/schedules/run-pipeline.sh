#!/usr/bin/env bash
# run-pipeline.sh LOCK OPTION ...: run `coterie pipeline run OPTION ...` unless the
# previous run is still in progress. LOCK is a file for flock.
#
# Exit codes are those of coterie: 0 success, 1 the log or the lake failed (the next run
# continues at the last commit), 2 usage error. A run that is skipped is a success.
set -uo pipefail

lock=$1
shift
busy=75 # EX_TEMPFAIL; coterie does not use it

flock --nonblock --conflict-exit-code "$busy" "$lock" coterie pipeline run "$@"
status=$?
if [ "$status" = "$busy" ]; then
  echo "skipped: the previous run still holds $lock"
  status=0
fi
exit "$status"
