#!/bin/bash
# s3_prepare.sh FOLDER MON_PORT S3_PORT: the configuration, keys and empty monitor of a Ceph cluster of one monitor, one OSD in
# memory and one S3 gateway, all on 127.0.0.1. Starts nothing: s3_server.h does, and ends it.
set -euo pipefail
folder=$1 mon_port=$2 s3_port=$3
conf=$folder/ceph.conf
mkdir -p "$folder"/{mon,osd,log}
fsid=$(cat /proc/sys/kernel/random/uuid)
# cephx stays on: with authentication "none" the gateway hangs for minutes. tcp_nodelay: 12 times as many small GETs.
cat > "$conf" <<CONF
[global]
fsid = $fsid
mon_host = v2:127.0.0.1:$mon_port/0
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv4 = true
ms_bind_ipv6 = false
auth_allow_insecure_global_id_reclaim = false
run_dir = $folder
admin_socket = $folder/\$cluster-\$name.asok
pid_file = $folder/\$name.pid
log_file = $folder/log/\$name.log
mon_cluster_log_file = $folder/log/cluster.log
keyring = $folder/keyring
mon_allow_pool_size_one = true
mon_data_avail_crit = 1
mon_data_avail_warn = 2
mon_warn_on_pool_no_redundancy = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_max_pg_per_osd = 1000
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_class_load_list = *
osd_class_default_list = *
debug_ms = 0
[mon.a]
mon_data = $folder/mon
mon_initial_members = a
[osd.0]
osd_data = $folder/osd
keyring = $folder/osd/keyring
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:$s3_port tcp_nodelay=1
rgw_data = $folder/rgw
rgw_thread_pool_size = 32
rgw_relaxed_s3_bucket_names = true
rgw_dns_name = localhost
rgw_enable_usage_log = false
rgw_enable_ops_log = false
CONF
ceph-authtool --create-keyring "$folder/keyring" --gen-key -n mon. --cap mon 'allow *'
ceph-authtool "$folder/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
monmaptool --create --clobber --addv a "[v2:127.0.0.1:$mon_port]" --fsid "$fsid" "$folder/monmap"
ceph-mon -c "$conf" --mkfs -i a --monmap "$folder/monmap" --keyring "$folder/keyring"
