#!/bin/bash
# s3_prepare_osd.sh FOLDER: with the monitor running, the identity and the empty store of the OSD, and the gateway's key.
set -euo pipefail
folder=$1
conf=$folder/ceph.conf
uuid=$(cat /proc/sys/kernel/random/uuid)
key=$(ceph-authtool --gen-print-key)
echo "{\"cephx_secret\":\"$key\"}" | ceph -c "$conf" osd new "$uuid" -i -
ceph-authtool --create-keyring "$folder/osd/keyring" -n osd.0 --add-key "$key"
ceph -c "$conf" auth get-or-create client.rgw mon 'allow rw' osd 'allow rwx' >> "$folder/keyring"
ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$uuid"
