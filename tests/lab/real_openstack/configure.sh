#!/bin/bash
# All settings of the small cloud, written into its root in place of Debian's.
set -euo pipefail
E=$1/root/etc IP=10.99.0.2
grep -q controller $E/hosts 2>/dev/null || printf '127.0.0.1 localhost\n127.0.0.1 oslab\n%s controller\n' $IP > $E/hosts
auth() { cat <<A
auth_url = http://$IP:5000/v3
auth_type = password
project_domain_name = Default
user_domain_name = Default
region_name = RegionOne
project_name = service
username = $1
password = lab
A
}
kat() { echo "[keystone_authtoken]"; echo "www_authenticate_uri = http://$IP:5000/v3"; auth $1; echo "service_token_roles_required = true"; }
cat > $E/keystone/keystone.conf <<K
[DEFAULT]
log_dir = /var/log/keystone
[database]
connection = mysql+pymysql://lab:lab@127.0.0.1/keystone
[identity]
password_hash_rounds = 4
[token]
provider = fernet
[cache]
enabled = false
K
cat > $E/glance/glance-api.conf <<K
[DEFAULT]
bind_host = 0.0.0.0
workers = 1
log_file = /var/log/glance/glance-api.log
[database]
connection = mysql+pymysql://lab:lab@127.0.0.1/glance
[glance_store]
stores = file
default_store = file
filesystem_store_datadir = /var/lib/glance/images
[paste_deploy]
flavor = keystone
$(kat glance)
K
cat > $E/placement/placement.conf <<K
[DEFAULT]
log_dir = /var/log/placement
[placement_database]
connection = mysql+pymysql://lab:lab@127.0.0.1/placement
[api]
auth_strategy = keystone
$(kat placement)
K
cat > $E/nova/nova.conf <<K
[DEFAULT]
my_ip = $IP
host = oslab
transport_url = rabbit://guest:guest@127.0.0.1:5672/
enabled_apis = osapi_compute
osapi_compute_workers = 1
force_config_drive = true
log_dir = /var/log/nova
state_path = /var/lib/nova
instances_path = /var/lib/nova/instances
reserved_host_memory_mb = 512
compute_driver = libvirt.LibvirtDriver
vif_plugging_timeout = 120
rpc_response_timeout = 180
[api]
auth_strategy = keystone
[api_database]
connection = mysql+pymysql://lab:lab@127.0.0.1/nova_api
[database]
connection = mysql+pymysql://lab:lab@127.0.0.1/nova
[cache]
enabled = false
[conductor]
workers = 1
[scheduler]
workers = 1
$(kat nova)
[glance]
api_servers = http://$IP:9292
[placement]
$(auth placement)
[neutron]
$(auth neutron)
[oslo_concurrency]
lock_path = /run/lock/nova
[vnc]
enabled = false
[spice]
enabled = false
[libvirt]
virt_type = qemu
cpu_mode = none
inject_partition = -2
K
: > $E/nova/nova-compute.conf
cat > $E/neutron/neutron.conf <<K
[DEFAULT]
core_plugin = ml2
service_plugins = router
transport_url = rabbit://guest:guest@127.0.0.1:5672/
auth_strategy = keystone
api_workers = 1
rpc_workers = 1
rpc_state_report_workers = 0
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
send_events_interval = 1
dhcp_agent_notification = false
host = oslab
log_dir = /var/log/neutron
state_path = /var/lib/neutron
[database]
connection = mysql+pymysql://lab:lab@127.0.0.1/neutron
$(kat neutron)
[nova]
$(auth nova)
[oslo_concurrency]
lock_path = /run/lock/neutron
[agent]
root_helper = sudo /usr/bin/neutron-rootwrap /etc/neutron/rootwrap.conf
[experimental]
linuxbridge = true
K
cat > $E/neutron/plugins/ml2/ml2_conf.ini <<K
[ml2]
type_drivers = flat
tenant_network_types =
mechanism_drivers = linuxbridge
extension_drivers = port_security
[ml2_type_flat]
flat_networks = physnet1
K
cat > $E/neutron/plugins/ml2/linuxbridge_agent.ini <<K
[linux_bridge]
physical_interface_mappings = physnet1:prov0
[vxlan]
enable_vxlan = false
[securitygroup]
enable_security_group = false
firewall_driver = noop
K

cat > $E/libvirt/qemu.conf <<K
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
K
