#!/bin/bash
# ec2-api before the cloud: EC2's API on port 8788, for clients that speak nothing else.
set -e
mkdir -p /etc/ec2api /var/lib/ec2api /run/lock/ec2api
cat > /etc/ec2api/ec2api.conf <<K
[DEFAULT]
my_ip = 10.99.0.2
transport_url = rabbit://guest:guest@127.0.0.1:5672/
api_paste_config = /etc/ec2api/api-paste.ini
keystone_ec2_tokens_url = http://10.99.0.2:5000/v3/ec2tokens
disable_ec2_classic = false
ec2api_workers = 1
default_flavor = lab
ec2_timestamp_expiry = 3600
log_file = /var/log/ec2api.log
[database]
connection = mysql+pymysql://lab:lab@127.0.0.1/ec2api
[keystone_authtoken]
auth_url = http://10.99.0.2:5000/v3
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = ec2
password = lab
region_name = RegionOne
[oslo_concurrency]
lock_path = /run/lock/ec2api
K
# The wheel carries no paste file; this one is of its own class names.
cat > /etc/ec2api/api-paste.ini <<'K'
[composite:ec2api]
use = egg:Paste#urlmap
/: ec2api_pipe
[composite:ec2api_pipe]
use = call:ec2api.api.auth:pipeline_factory
keystone = faultwrap logrequest ec2keystoneauth cloudrequest ec2executor
[filter:faultwrap]
paste.filter_factory = ec2api.api:FaultWrapper.factory
[filter:logrequest]
paste.filter_factory = ec2api.api:RequestLogging.factory
[filter:ec2keystoneauth]
paste.filter_factory = ec2api.api:EC2KeystoneAuth.factory
[filter:cloudrequest]
paste.filter_factory = ec2api.api:Requestify.factory
[app:ec2executor]
paste.app_factory = ec2api.api:Executor.factory
K
/opt/ec2/bin/ec2-api-manage --config-file /etc/ec2api/ec2api.conf db_sync
setsid /opt/ec2/bin/python /lab/ec2.py --config-file /etc/ec2api/ec2api.conf \
  >>/var/log/lab/ec2.out 2>&1 </dev/null &
for _ in $(seq 200); do
    (exec 3<>/dev/tcp/127.0.0.1/8788) 2>/dev/null && exit 0
    sleep 0.3
done
exit 1
