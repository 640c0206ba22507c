# In the place of cmd.exe, in a guest that stands for a Windows: the few commands that ullage says,
# the agent for Windows by Wine. It is not Windows.
cd /var/lib/ullage-instance || exit 1
export HOME=$PWD WINEPREFIX=$PWD/wine WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= DISPLAY=
case $SSH_ORIGINAL_COMMAND in
hostname) exec hostname ;;
*sftp-server*) exec /usr/lib/openssh/sftp-server ;;
"ullage-agent.exe serve")
    # Windows has this one; Wine 8.0 does not.
    cp "$(dirname "$0")/../../ullage/bin/bcryptprimitives.dll" .
    exec "$(command -v wine64 || echo /usr/lib/wine/wine64)" ullage-agent.exe serve
    ;;
*)
    echo "'$SSH_ORIGINAL_COMMAND' is not recognized as an internal or external command" >&2
    exit 1
    ;;
esac
