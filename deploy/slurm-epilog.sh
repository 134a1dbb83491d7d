#!/bin/sh
# EpilogSlurmctld: sends a job's logs to Faultline, in the background, so that no job waits for it.
# /etc/faultline/client.env sets FAULTLINE_URL and FAULTLINE_TOKEN_FILE (mode 600, of the user that slurmctld runs as).
set -eu
. /etc/faultline/client.env
export FAULTLINE_URL FAULTLINE_TOKEN_FILE

logs="${FAULTLINE_LOGS:-/shared/logs}/$SLURM_JOB_ID"
[ -d "$logs" ] || exit 0

if [ "${SLURM_JOB_EXIT_CODE2:-${SLURM_JOB_EXIT_CODE:-0}}" = "0" ] || [ "${SLURM_JOB_EXIT_CODE2:-}" = "0:0" ]; then
    outcome=succeeded
else
    outcome=failed
fi

setsid nohup python3 /opt/faultline/faultline.pyz upload "$logs" \
    --job "${SLURM_JOB_NAME:-job}" --slug "$SLURM_JOB_ID" --attempt "${SLURM_RESTART_COUNT:-0}" \
    --nodes "${SLURM_JOB_NODELIST:-}" --outcome "$outcome" --diagnose --quiet \
    >>/var/log/faultline-epilog.log 2>&1 </dev/null &
