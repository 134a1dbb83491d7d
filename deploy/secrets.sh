#!/bin/sh
# Makes the secrets of deploy/compose.yaml once; existing ones stay. Their directory should be private (mode 700), the
# files are readable for the containers' user.
set -eu
cd "$(dirname "$0")/secrets"
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
[ -s secret-key ] || random >secret-key
[ -s database-password ] || random >database-password
[ -s database-url ] || echo "postgresql://faultline:$(cat database-password)@database:5432/faultline" >database-url
chmod 644 secret-key database-password database-url
