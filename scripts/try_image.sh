#!/bin/sh
# try_image.sh: runs the Dockerfile's steps where there is no Docker, in a Debian 13 that debootstrap makes in
# build/image; then, as a user without rights, without network, and able to write in /tmp alone, what compose.yaml and
# the guides run in the image. By root on Linux, with debootstrap, unshare and a network; MIRROR names another one of
# Debian's.
set -eu
cd "$(dirname "$0")/.."
stages=$PWD/build/image

# inside STAGE USER FOLDER MOUNTS COMMAND: runs a shell's command in a stage, with mounts of its own.
inside() {
    unshare --mount --pid --fork ${apart:+--net} sh -euc "$4; mount -t proc proc '$1/proc'; mount --rbind /dev '$1/dev'
        exec chroot --userspec=$2 '$1' env -i PATH='$path' HOME=/tmp ${PIP_CERT:+PIP_CERT=/tmp/certificates.pem} \
            ${PIP_INDEX_URL:+PIP_INDEX_URL='$PIP_INDEX_URL'} PYTHONDONTWRITEBYTECODE=1 sh -euc \"\$0\"" "cd '$3'; $5"
}

# copied FROM TO OPTIONS...: copies a folder's files by tar, which takes lists of them.
copied() {
    from=$1 to=$2
    shift 2
    mkdir -p "$to"
    tar --create --directory "$from" "$@" | tar --extract --directory "$to"
}

mkdir -p "$stages"
[ -d "$stages/debian" ] || debootstrap --variant=minbase trixie "$stages/debian" ${MIRROR:+"$MIRROR"} >/dev/null
stage= apart=
sed -e ':a' -e '/\\$/N' -e 's/ *\\\n */ /' -e 'ta' -e '/^#/d' Dockerfile >"$stages/steps"
while read -r step words; do
    echo "$step $words" | cut -c1-120
    case $step in
        FROM)
            stage=$stages/${words##* } folder=/ user=0:0 path=/usr/sbin:/usr/bin:/sbin:/bin
            [ "${words% AS *}" != "$words" ] || stage=$stages/last
            rm -rf "$stage" && cp -a "$stages/debian" "$stage" && cp -L /etc/resolv.conf "$stage/etc/resolv.conf"
            [ -z "${PIP_CERT:-}" ] || cp -L "$PIP_CERT" "$stage/tmp/certificates.pem"
            ;;
        WORKDIR) folder=$words && mkdir -p "$stage$folder" ;;
        ENV) path=$(echo "$words" | sed -n "s|^PATH=\([^ ]*\).*|\1|p") ;;
        USER) user=$words ;;
        COPY)
            set -- $words
            case $1 in
                --from=*) copied "$stages/${1#--from=}$2" "$stage$3" . ;;
                .) sed -n 's/^!//p' .dockerignore | xargs git ls-files >"$stages/context" &&
                    copied . "$stage$folder" --files-from "$stages/context" ;;
                *) copied "$1" "$stage$folder/$2" . ;;
            esac
            ;;
        RUN)
            inside "$stage" $user $folder : "$words" </dev/null >"$stages/log" 2>&1 || { tail "$stages/log" && exit 1; }
            ;;
        ENTRYPOINT | CMD) ;;
        *) [ -z "$step" ] || { echo "what is $step?" >&2 && exit 1; } ;;
    esac
done <"$stages/steps"

apart=yes
# run COMMAND: in the image, as compose.yaml runs it.
run() {
    echo "run: $1"
    inside "$stage" $user $folder "mount --bind '$stage' '$stage'; mount -o remount,bind,ro '$stage'
        mount -t tmpfs tmpfs '$stage/tmp'; mount --bind examples/three_sites '$stage/data'" "$1" </dev/null
}
run 'fhe-auc demo --json' | tail -1 | cut -c1-60
run 'fhe-auc evaluate north.csv south.csv west.csv --plot /tmp/forest.png'
run 'fhe-auc report north.csv south.csv west.csv --out /tmp/report && ls /tmp/report'
run '! touch /data/file 2>/dev/null; ! touch /usr/file 2>/dev/null; test "$(id -u)" = 10001'
run 'python3 -c "import botocore, paramiko, tuf, webdav4"'
pages="docs/guide/keys.md docs/guide/operations.md docs/guide/hospital.md"
for command in $(grep -oh '[`/]fhe-auc [a-z][a-z-]*' $pages | cut -d ' ' -f 2 | sort -u); do
    run "fhe-auc $command --help >/dev/null"
done
du -sh "$stages/debian" "$stage"
