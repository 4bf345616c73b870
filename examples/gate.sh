#!/usr/bin/env bash
# A gate for a pipeline: stop unless the policy in RUN is shown to be within the limit.
#   examples/gate.sh RUN 0.02
set -uo pipefail
elbert evaluate "$1" --max-bias "$2"
case $? in
  0) echo "within the limit: go on" ;;
  1) echo "beyond the limit: stop"; exit 1 ;;
  3) echo "undetermined: evaluate with more episodes"; exit 1 ;;
  *) echo "the evaluation itself failed"; exit 2 ;;
esac
