# In the place of the shell of OpenSSH for Windows, which starts cmd.exe: Wine's, in the home of
# Wine's user. It is not Windows.
room=/var/lib/ullage-instance
built=$(dirname "$0")/../../ullage/bin
# Without UTF-8 Wine finds no file with another letter.
export LC_ALL=C.UTF-8 HOME=$room WINEPREFIX=$room/wine WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= DISPLAY=
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
home=$WINEPREFIX/drive_c/users/root
if [ ! -e $room/installed ]; then
    "$wine" reg add 'HKCU\Software\Wine' /v Version /d win10 /f >&2 || exit 1
    # Windows has this one; Wine 8.0 does not.
    cp "$built/bcryptprimitives.dll" "$WINEPREFIX/drive_c/windows/system32/" || exit 1
    touch $room/installed
fi
if [ -e $room/version ]; then
    "$wine" reg add 'HKCU\Software\Wine' /v Version /d "$(cat $room/version)" /f >&2 || exit 1
fi
cd "$home" || exit 1
case $SSH_ORIGINAL_COMMAND in
*sftp-server*)
    /usr/lib/openssh/sftp-server
    # A disk that damages what is written to it.
    [ ! -e $room/spoil ] || for file in ullage-*/ullage-agent.exe; do printf x >> "$file"; done
    ;;
*) exec "$wine" cmd /c "$SSH_ORIGINAL_COMMAND" ;;
esac
